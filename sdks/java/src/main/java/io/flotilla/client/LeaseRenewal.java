package io.flotilla.client;

import io.flotilla.v1.ExtendRequest;
import io.flotilla.v1.FlotillaGrpc;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/**
 * The renewal of a consumer's leases, at half of their duration, up to a limit.
 *
 * <p>A message that the application has dropped without settling it is not renewed, so another member gets it.
 *
 * <p>A node presents the leases that it has passed on to new leaders. When the connection to it ends, it may have died,
 * so all leases are renewed at once: another node presents them then.
 */
final class LeaseRenewal {
  private static final int LEASES_MAX = 1_000;
  private static final long RETRY_MS = 500;
  private static final int VISIBILITY_MS_DEFAULT = 30_000;

  private static final class Lease {
    private final WeakReference<QueueMessage> message;
    private final long untilMs;
    private long renewMs;

    Lease(QueueMessage message, long renewMs, long untilMs) {
      this.message = new WeakReference<>(message);
      this.renewMs = renewMs;
      this.untilMs = untilMs;
    }
  }

  private final Calls calls;
  private final ExtendRequest template;
  private final long leaseMsMax;
  private final Map<String, Lease> leases = new HashMap<>();
  private int visibilityMs = VISIBILITY_MS_DEFAULT;
  private ScheduledFuture<?> timer;
  private final Runnable connectionLost = this::renewAll;

  LeaseRenewal(Calls calls, String topic, String group, String member, long leaseMsMax) {
    this.calls = calls;
    this.leaseMsMax = leaseMsMax;
    this.template = ExtendRequest.newBuilder().setTopic(topic).setGroup(group).setMember(member).build();
    calls.channels().watch(connectionLost);
  }

  /** Takes in messages whose leases last {@code visibilityMs} from now. */
  synchronized void add(List<QueueMessage> messages, int visibilityMs) {
    if (visibilityMs > 0 && visibilityMs != this.visibilityMs || timer == null) {
      this.visibilityMs = visibilityMs > 0 ? visibilityMs : this.visibilityMs;
      stopTimer();
      long everyMs = Math.max(this.visibilityMs / 8, 10);
      timer = calls.timers().scheduleWithFixedDelay(this::renew, everyMs, everyMs, TimeUnit.MILLISECONDS);
    }
    long now = nowMs();
    for (QueueMessage message : messages) {
      if (!message.isSettled()) {
        leases.put(message.lease(), new Lease(message, now + this.visibilityMs / 2, now + leaseMsMax));
      }
    }
  }

  synchronized void remove(QueueMessage message) {
    leases.remove(message.lease());
  }

  /** A lease was extended by the application for this long. */
  synchronized void extended(QueueMessage message, int visibilityMs) {
    Lease lease = leases.get(message.lease());
    if (lease != null) {
      lease.renewMs = nowMs() + visibilityMs / 2;
    }
  }

  synchronized void close() {
    calls.channels().unwatch(connectionLost);
    leases.clear();
    stopTimer();
  }

  private void stopTimer() {
    if (timer != null) {
      timer.cancel(false);
      timer = null;
    }
  }

  private synchronized void renewAll() {
    if (timer != null) {
      long now = nowMs();
      leases.values().forEach(lease -> lease.renewMs = Math.min(lease.renewMs, now));
      calls.timers().execute(this::renew);
    }
  }

  private void renew() {
    List<String> due = new ArrayList<>();
    int durationMs;
    synchronized (this) {
      long now = nowMs();
      leases.values().removeIf(lease -> lease.message.get() == null || now >= lease.untilMs);
      for (Map.Entry<String, Lease> entry : leases.entrySet()) {
        if (entry.getValue().renewMs <= now) {
          entry.getValue().renewMs = now + visibilityMs / 2;
          due.add(entry.getKey());
        }
      }
      durationMs = visibilityMs;
    }
    for (int first = 0; first < due.size(); first += LEASES_MAX) {
      send(due.subList(first, Math.min(first + LEASES_MAX, due.size())), durationMs);
    }
  }

  private void send(List<String> due, int durationMs) {
    ExtendRequest request = template.toBuilder().addAllLeases(due).setVisibilityMs(durationMs).build();
    calls.start(FlotillaGrpc.getExtendMethod(), request, Effect.REPEATABLE, Math.max(durationMs, RETRY_MS))
        .whenComplete((reply, error) -> {
          if (error == null) {
            lose(reply.getExpiredList());
          } else if (Calls.errorOf(error).code() == ErrorCode.LEASE_EXPIRED) {
            lose(due);
          } else {
            hasten(due);
          }
        });
  }

  private synchronized void lose(List<String> expired) {
    for (String lease : expired) {
      Lease lost = leases.remove(lease);
      QueueMessage message = lost == null ? null : lost.message.get();
      if (message != null) {
        message.lost();
      }
    }
  }

  private synchronized void hasten(List<String> due) {
    for (String name : due) {
      Lease lease = leases.get(name);
      if (lease != null) {
        lease.renewMs = Math.min(lease.renewMs, nowMs() + RETRY_MS);
      }
    }
  }

  private static long nowMs() {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
  }
}
