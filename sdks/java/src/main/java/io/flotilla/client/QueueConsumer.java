package io.flotilla.client;

import io.flotilla.v1.ExtendRequest;
import io.flotilla.v1.FlotillaGrpc;
import io.flotilla.v1.LeaveQueueRequest;
import io.flotilla.v1.PollReply;
import io.flotilla.v1.PollRequest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A member of a queue group; made by {@link Client#queue}. Its members share the messages of the topic.
 *
 * <p>Each message is leased to one member until it is settled, and delivered again if it is not. Leases are renewed in
 * the background while the application works. Any number of threads may use one consumer; each message goes to one of
 * them.
 */
public final class QueueConsumer implements Iterable<QueueMessage>, AutoCloseable {
  /** How long a broker waits for messages before it answers that there are none. */
  private static final long LONG_POLL_MS = 5_000;
  /** A broker returns no more at a time. */
  private static final int POLL_MESSAGES_MAX = 1_024;

  private final Client client;
  private final Calls calls;
  private final String topic;
  private final String group;
  private final String member;
  private final QueueOptions options;
  private final long timeoutMs;
  private final PollRequest template;
  private final Settlements settlements;
  private final LeaseRenewal renewal;
  /** Leased and not handed out; guarded by itself, which is also held by the thread that polls for others. */
  private final Deque<QueueMessage> ready = new ArrayDeque<>();
  private volatile CompletableFuture<PollReply> polling;
  private volatile boolean isStopped;
  /** Held while it is closed: a second call returns when the first one is done. */
  private final Object closing = new Object();
  private boolean isClosed;

  QueueConsumer(Client client, String topic, String group, QueueOptions options) {
    if (group.isEmpty()) {
      throw FlotillaException.invalid("a queue is read by a group");
    }
    if (options.isOrderedByKey && !(options.types.isEmpty() && options.headers.isEmpty())) {
      throw FlotillaException.invalid("a consumer has a filter or orders by key, not both");
    }
    this.client = client;
    this.calls = client.calls();
    this.topic = topic;
    this.group = group;
    this.member = client.name() + "-" + UUID.randomUUID();
    this.options = options;
    this.timeoutMs = options.timeoutMs > 0 ? options.timeoutMs : client.timeoutMs();
    this.settlements = new Settlements(calls, topic, group, timeoutMs);
    this.renewal = new LeaseRenewal(calls, topic, group, member, options.leaseMsMax);
    this.template =
        PollRequest.newBuilder()
            .setTopic(topic)
            .setGroup(group)
            .setMember(member)
            .addAllPartitions(options.partitions)
            .setVisibilityMs(options.visibilityMs)
            .setAutoAck(options.isAutoAck)
            .setOrderedByKey(options.isOrderedByKey)
            .setStart(options.start.message())
            .addAllTypes(options.types)
            .addAllHeaders(options.headers)
            .build();
  }

  /** The topic that it reads. */
  public String topic() {
    return topic;
  }

  /** The group that it is a member of. */
  public String group() {
    return group;
  }

  /** The name of this consumer in the group. */
  public String member() {
    return member;
  }

  /** Up to {@code maxMessages} messages; waits up to {@code waitMs} for the first one. Empty: there was none. */
  public List<QueueMessage> poll(int maxMessages, long waitMs) {
    ProducerRecord.least(1, maxMessages, "maxMessages");
    long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
    synchronized (ready) {
      if (ready.isEmpty()) {
        fetch(Math.min(maxMessages, POLL_MESSAGES_MAX), deadlineNs);
      }
      List<QueueMessage> taken = new ArrayList<>();
      while (taken.size() < maxMessages && !ready.isEmpty()) {
        taken.add(ready.poll());
      }
      return taken;
    }
  }

  /** The next message, however long that takes. Throws CONNECTION_CLOSED when the consumer is closed. */
  public QueueMessage next() {
    synchronized (ready) {
      while (ready.isEmpty()) {
        fetch(Math.min(options.prefetch, POLL_MESSAGES_MAX), System.nanoTime() + TimeUnit.SECONDS.toNanos(60));
        if (isStopped) {
          throw FlotillaException.closed("the consumer");
        }
      }
      return ready.poll();
    }
  }

  /** Messages without an end, as {@link #next}. */
  @Override
  public Iterator<QueueMessage> iterator() {
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return !isStopped;
      }

      @Override
      public QueueMessage next() {
        return QueueConsumer.this.next();
      }
    };
  }

  /** Acknowledges messages together. Throws LEASE_EXPIRED if one of them was lost; the others are done. */
  public void ack(Collection<QueueMessage> messages) {
    settleAll(messages, Outcome.ACKED);
  }

  /** Fails attempts together. */
  public void nack(Collection<QueueMessage> messages, String reason) {
    settleAll(messages, Outcome.failed(reason, Outcome.BY_BACKOFF));
  }

  /** Gives messages back together. */
  public void release(Collection<QueueMessage> messages) {
    settleAll(messages, Outcome.released(0));
  }

  /** Waits until everything that was settled before has its answer. */
  public void flush() {
    Calls.wait(settlements.all());
  }

  /**
   * Leaves the group: what was settled is sent, up to the time limit, and everything else is given back at once, which
   * does not count as an attempt.
   */
  @Override
  public void close() {
    stopPolling();
    synchronized (closing) {
      synchronized (ready) {
        if (isClosed) {
          return;
        }
        isClosed = true;
        ready.clear();
      }
      try {
        leave();
      } finally {
        client.forget(this);
      }
    }
  }

  private void leave() {
    try {
      settlements.all().get(timeoutMs, TimeUnit.MILLISECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    } catch (ExecutionException | TimeoutException late) {
      // The brokers have not answered: the leases expire by themselves.
    }
    renewal.close();
    LeaveQueueRequest leaving =
        LeaveQueueRequest.newBuilder().setTopic(topic).setGroup(group).setMember(member).build();
    try {
      calls.call(FlotillaGrpc.getLeaveQueueMethod(), leaving, Effect.REPEATABLE, timeoutMs);
    } catch (FlotillaException error) {
      if (error.code() != ErrorCode.NOT_FOUND) {
        throw error;
      }
    }
  }

  // What messages and workers use.

  Client client() {
    return client;
  }

  /** Has polls return at once, also the one in flight, whose messages are given back by the broker. */
  void stopPolling() {
    isStopped = true;
    CompletableFuture<PollReply> call = polling;
    if (call != null) {
      call.cancel(true);
    }
  }

  CompletableFuture<Void> settle(QueueMessage message, Outcome outcome, byte[] result) {
    CompletableFuture<Void> done = settlements.add(message, outcome, result);
    done.whenComplete((nothing, error) -> {
      if (message.isSettled()) {
        renewal.remove(message);
      }
    });
    return done;
  }

  /** A transaction has taken over the lease. */
  void takenOver(QueueMessage message) {
    renewal.remove(message);
  }

  void extend(QueueMessage message, int visibilityMs) {
    if (message.isSettled()) {
      throw message.expired();
    }
    ExtendRequest request =
        ExtendRequest.newBuilder()
            .setTopic(topic)
            .setGroup(group)
            .setMember(member)
            .addLeases(message.lease())
            .setVisibilityMs(visibilityMs)
            .build();
    calls.call(FlotillaGrpc.getExtendMethod(), request, Effect.REPEATABLE, timeoutMs);
    renewal.extended(message, visibilityMs);
  }

  private void settleAll(Collection<QueueMessage> messages, Outcome outcome) {
    List<CompletableFuture<Void>> sent = messages.stream().map(each -> settle(each, outcome, null)).toList();
    CompletableFuture.allOf(sent.toArray(new CompletableFuture<?>[0])).exceptionally(error -> null).join();
    sent.forEach(Calls::wait);
  }

  /** Fills {@code ready}; returns without a message at the deadline, or when polling is stopped. */
  private void fetch(int maxMessages, long deadlineNs) {
    while (!isStopped) {
      long leftMs = Math.max(TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime()), 0);
      long waitMs = Math.min(leftMs, LONG_POLL_MS);
      PollRequest request = template.toBuilder().setMaxMessages(maxMessages).setWaitMs((int) waitMs).build();
      polling = calls.start(FlotillaGrpc.getPollMethod(), request, Effect.READ, timeoutMs, waitMs);
      if (isStopped) {
        polling.cancel(true);
      }
      PollReply reply = await(polling);
      if (reply == null) {
        return;
      }
      List<QueueMessage> messages =
          reply.getMessagesList().stream().map(each -> new QueueMessage(this, each)).toList();
      if (!messages.isEmpty()) {
        renewal.add(messages, reply.getVisibilityMs());
        ready.addAll(messages);
        return;
      }
      if (leftMs == 0) {
        return;
      }
      pause(Math.min(reply.getRetryAfterMs(), leftMs));
    }
    if (isClosed) {
      throw FlotillaException.closed("the consumer");
    }
  }

  /** None: polling was stopped. */
  private PollReply await(CompletableFuture<PollReply> call) {
    try {
      return call.get();
    } catch (java.util.concurrent.CancellationException stopped) {
      return null;
    } catch (InterruptedException interrupted) {
      call.cancel(true);
      Thread.currentThread().interrupt();
      throw new FlotillaException(ErrorCode.CONNECTION_CLOSED, "interrupted while waiting for messages");
    } catch (ExecutionException error) {
      throw Calls.errorOf(error).here();
    } finally {
      polling = null;
    }
  }

  /** A rate limit held messages back: asking earlier is of no use. */
  private void pause(long delayMs) {
    if (delayMs > 0) {
      try {
        ready.wait(delayMs);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new FlotillaException(ErrorCode.CONNECTION_CLOSED, "interrupted while waiting for messages");
      }
    }
  }
}
