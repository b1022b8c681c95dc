package io.flotilla.client;

import java.util.function.BiConsumer;

/** Options of a worker. The setters change these options and return them. */
public final class WorkerOptions {
  int concurrency = 16;
  long drainMs = 30_000;
  boolean isVirtual = true;
  QueueOptions queue = new QueueOptions();
  BiConsumer<QueueMessage, Throwable> onError = (message, error) -> {};
  BiConsumer<QueueMessage, Throwable> onReject = (message, error) -> {};

  /** Handlers that run at a time; 16. */
  public WorkerOptions concurrency(int concurrency) {
    this.concurrency = ProducerRecord.least(1, concurrency, "concurrency");
    return this;
  }

  /** How long a stop waits for running handlers; 30 s. */
  public WorkerOptions drainMs(long drainMs) {
    this.drainMs = ProducerRecord.least(0, drainMs, "drainMs");
    return this;
  }

  /** Runs handlers on threads of a pool, also where the JVM has virtual threads (from Java 21 on). */
  public WorkerOptions platformThreads() {
    this.isVirtual = false;
    return this;
  }

  /** The options of its consumer. */
  public WorkerOptions queue(QueueOptions queue) {
    this.queue = queue;
    return this;
  }

  /** Called when a handler has failed, with the message and the exception. */
  public WorkerOptions onError(BiConsumer<QueueMessage, Throwable> onError) {
    this.onError = onError;
    return this;
  }

  /** Called when a handler has thrown {@link Reject}. */
  public WorkerOptions onReject(BiConsumer<QueueMessage, Throwable> onReject) {
    this.onReject = onReject;
    return this;
  }
}
