package io.flotilla.client;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;

/**
 * A message under a lease: {@link #ack}, {@link #nack}, {@link #release} or {@link #reject} settles it. The first outcome
 * counts: settling it again changes nothing.
 *
 * <p>The consumer renews the lease until then. {@code close} fails the attempt of a message that is not settled, so a
 * block that throws does not lose it:
 *
 * <pre>{@code
 * try (var message = queue.next()) {
 *   handle(message.text());
 *   message.ack();
 * }
 * }</pre>
 */
public final class QueueMessage extends Message implements AutoCloseable {
  private enum State { UNSETTLED, SETTLED, LOST }

  private final QueueConsumer consumer;
  private final AtomicReference<State> state;

  QueueMessage(QueueConsumer consumer, io.flotilla.v1.Message source) {
    super(consumer.topic(), source);
    this.consumer = consumer;
    this.state = new AtomicReference<>(source.getLease().isEmpty() ? State.SETTLED : State.UNSETTLED);
  }

  /** How often it has been delivered, this time included; 1 at first. */
  public int attempt() {
    return source().getAttempt();
  }

  /** Whether it was settled or lost, or needs none of that. */
  public boolean isSettled() {
    return state.get() != State.UNSETTLED;
  }

  /** Acknowledges it: the group does not get it again. Returns when that is on disk at a majority of replicas. */
  public void ack() {
    Calls.wait(ackAsync());
  }

  /** The same with a result, up to 64 KiB, for callers that wait for it ({@link Client#result}). */
  public void ack(byte[] result) {
    Calls.wait(consumer.settle(this, Outcome.ACKED, result));
  }

  /** Acknowledges it without waiting. */
  public CompletableFuture<Void> ackAsync() {
    return consumer.settle(this, Outcome.ACKED, null);
  }

  /** Fails the attempt: it is delivered again after the group's backoff, or is a dead letter after the last attempt. */
  public void nack(String reason) {
    Calls.wait(consumer.settle(this, Outcome.failed(reason, Outcome.BY_BACKOFF), null));
  }

  /** The same with a delay of your own. */
  public void nack(String reason, long delayMs) {
    Calls.wait(consumer.settle(
        this, Outcome.failed(reason, ProducerRecord.least(0, delayMs, "delayMs")), null));
  }

  /** Gives it back: it is delivered again at once, and that does not count as an attempt. */
  public void release() {
    release(0);
  }

  /** The same after a delay. */
  public void release(long delayMs) {
    Calls.wait(consumer.settle(this, Outcome.released(delayMs), null));
  }

  /** Makes it a dead letter at once. */
  public void reject(String reason) {
    Calls.wait(consumer.settle(this, Outcome.rejected(reason), null));
  }

  /** Extends the lease: the new duration counts from now. Renewals go on after it. */
  public void extend(int visibilityMs) {
    consumer.extend(this, ProducerRecord.least(1, visibilityMs, "visibilityMs"));
  }

  /** Acknowledges it and produces a record in one transaction: both happen, or neither. */
  public Receipt then(String topic, ProducerRecord record) {
    try (Transaction transaction = consumer.client().transaction()) {
      transaction.ack(this);
      transaction.produce(topic, record);
      transaction.commit();
      return transaction.receipts().get(0);
    }
  }

  /** Fails the attempt unless the message is settled; does not wait for the answer. */
  @Override
  public void close() {
    if (!isSettled()) {
      consumer.settle(this, Outcome.failed("closed without being settled", Outcome.BY_BACKOFF), null);
    }
  }

  // What the consumer uses.

  QueueConsumer consumer() {
    return consumer;
  }

  String lease() {
    return source().getLease();
  }

  /** False: it was settled before. Throws LEASE_EXPIRED for a message that is lost. */
  boolean beginSettling() {
    if (state.get() == State.LOST) {
      throw expired();
    }
    return state.compareAndSet(State.UNSETTLED, State.SETTLED);
  }

  FlotillaException expired() {
    return new FlotillaException(
        ErrorCode.LEASE_EXPIRED, this + ": another member has it, or it was settled before; nothing was done");
  }

  /** Nothing was done: it may be settled again. */
  void settlingFailed() {
    state.set(State.UNSETTLED);
  }

  void lost() {
    state.set(State.LOST);
  }
}
