package io.flotilla.client;

/** Thrown by a handler: deliver the message again, to any member. It does not count as an attempt. */
public final class Release extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Before it is delivered again. */
  final long delayMs;

  /** At once. */
  public Release() {
    this(0);
  }

  /** After this delay. */
  public Release(long delayMs) {
    this.delayMs = ProducerRecord.least(0, delayMs, "delayMs");
  }
}
