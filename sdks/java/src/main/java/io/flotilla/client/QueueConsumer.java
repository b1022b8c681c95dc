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
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

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
  /** The same for messages that are acknowledged on delivery: to cancel such a poll may lose some, so it is waited for. */
  private static final long AUTO_ACK_POLL_MS = 1_000;
  private static final long NEXT_MS = 60_000;
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
  /** Guards the fields below; not held while a broker is asked. */
  private final ReentrantLock lock = new ReentrantLock();
  /** A poll has ended, or polling is stopped. */
  private final Condition news = lock.newCondition();
  /** Leased and not handed out. */
  private final Deque<QueueMessage> ready = new ArrayDeque<>();
  /** The poll in flight, by one thread for all. */
  private CompletableFuture<PollReply> polling;
  private volatile boolean isStopped;
  private boolean isClosed;
  /** Held while it is closed: a second call returns when the first one is done. */
  private final Object closing = new Object();

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
    return take(maxMessages, maxMessages, waitMs);
  }

  /** The next message, however long that takes. Throws CONNECTION_CLOSED when the consumer is closed. */
  public QueueMessage next() {
    while (true) {
      List<QueueMessage> taken = take(1, options.prefetch, NEXT_MS);
      if (!taken.isEmpty()) {
        return taken.get(0);
      }
      if (isStopped) {
        throw FlotillaException.closed("the consumer");
      }
    }
  }

  /** Messages without an end, as {@link #next}. */
  @Override
  public Iterator<QueueMessage> iterator() {
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return !isOver();
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
   * does not count as an attempt. Messages that are acknowledged on delivery cannot be given back: an iteration gets what
   * the brokers have sent before it ends.
   */
  @Override
  public void close() {
    stopPolling();
    synchronized (closing) {
      lock.lock();
      try {
        if (isClosed) {
          return;
        }
        isClosed = true;
        if (!options.isAutoAck) {
          ready.clear();
        }
      } finally {
        lock.unlock();
      }
      try {
        leave();
        awaitPoll();
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

  /**
   * Has polls return at once, also the one in flight, whose messages are given back by the broker. With messages that are
   * acknowledged on delivery it goes on, because nobody would get them.
   */
  void stopPolling() {
    lock.lock();
    try {
      isStopped = true;
      if (polling != null && !options.isAutoAck) {
        polling.cancel(true);
      }
      news.signalAll();
    } finally {
      lock.unlock();
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

  /**
   * Up to {@code max} messages, after {@code waitMs} at the latest. One thread that finds none asks for {@code asked} of
   * them, and the others wait for what it gets.
   */
  private List<QueueMessage> take(int max, int asked, long waitMs) {
    long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
    lock.lock();
    try {
      while (ready.isEmpty() && !isOver()) {
        long leftNs = Math.max(deadlineNs - System.nanoTime(), 0);
        boolean isTimeOver = leftNs == 0;
        if (polling == null && !isStopped) {
          ask(Math.min(asked, POLL_MESSAGES_MAX), leftNs);
        } else if (!isTimeOver) {
          news.awaitNanos(leftNs);
        }
        if (isTimeOver) {
          break;
        }
      }
      if (ready.isEmpty() && isClosed) {
        throw FlotillaException.closed("the consumer");
      }
      List<QueueMessage> taken = new ArrayList<>();
      while (taken.size() < max && !ready.isEmpty()) {
        taken.add(ready.poll());
      }
      return taken;
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new FlotillaException(ErrorCode.CONNECTION_CLOSED, "interrupted while waiting for messages");
    } finally {
      lock.unlock();
    }
  }

  /** No message comes any more. */
  private boolean isOver() {
    lock.lock();
    try {
      return isStopped && ready.isEmpty() && (polling == null || !options.isAutoAck);
    } finally {
      lock.unlock();
    }
  }

  /** One poll, without the lock; what it brings is ready. */
  private void ask(int maxMessages, long leftNs) throws InterruptedException {
    long leftMs = TimeUnit.NANOSECONDS.toMillis(leftNs);
    long waitMs = Math.min(leftMs, options.isAutoAck ? AUTO_ACK_POLL_MS : LONG_POLL_MS);
    PollRequest request = template.toBuilder().setMaxMessages(maxMessages).setWaitMs((int) waitMs).build();
    CompletableFuture<PollReply> call =
        calls.start(FlotillaGrpc.getPollMethod(), request, Effect.READ, timeoutMs, waitMs);
    polling = call;
    PollReply reply;
    lock.unlock();
    try {
      reply = await(call);
    } finally {
      lock.lock();
      polling = null;
      news.signalAll();
    }
    if (reply == null || (isStopped && !options.isAutoAck)) {
      return;
    }
    List<QueueMessage> messages = reply.getMessagesList().stream().map(each -> new QueueMessage(this, each)).toList();
    if (!messages.isEmpty()) {
      renewal.add(messages, reply.getVisibilityMs());
      ready.addAll(messages);
      return;
    }
    // A rate limit held messages back: asking earlier is of no use.
    long pauseNs = Math.min(TimeUnit.MILLISECONDS.toNanos(reply.getRetryAfterMs()), leftNs);
    while (pauseNs > 0 && !isStopped) {
      pauseNs = news.awaitNanos(pauseNs);
    }
  }

  /** None: polling was stopped. */
  private static PollReply await(CompletableFuture<PollReply> call) throws InterruptedException {
    try {
      return call.get();
    } catch (java.util.concurrent.CancellationException stopped) {
      return null;
    } catch (InterruptedException interrupted) {
      call.cancel(true);
      throw interrupted;
    } catch (ExecutionException error) {
      throw Calls.errorOf(error).here();
    }
  }

  /** The brokers answer a poll when its consumer has left: whoever waits for it gets what it brings. */
  private void awaitPoll() {
    lock.lock();
    try {
      long leftNs = TimeUnit.MILLISECONDS.toNanos(2 * AUTO_ACK_POLL_MS);
      while (polling != null && leftNs > 0) {
        leftNs = news.awaitNanos(leftNs);
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    } finally {
      lock.unlock();
    }
  }
}
