package io.flotilla.client;

/** Thrown by a handler: deliver the message again. It counts as an attempt. */
public final class Retry extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Before it is delivered again; by default the group's backoff. */
  final long delayMs;

  /** After the group's backoff. */
  public Retry(String reason) {
    super(reason);
    this.delayMs = Outcome.BY_BACKOFF;
  }

  /** After this delay. */
  public Retry(String reason, long delayMs) {
    super(reason);
    this.delayMs = ProducerRecord.least(0, delayMs, "delayMs");
  }
}
