package io.flotilla.client;

import java.nio.charset.StandardCharsets;

/**
 * How a lease ends.
 *
 * @param kind ack, fail, release or reject
 * @param reason of a failure, for people
 * @param delayMs before the next delivery
 */
record Outcome(Kind kind, String reason, long delayMs) {
  /** The group's own delay. */
  static final long BY_BACKOFF = -1;

  private static final int REASON_BYTES_MAX = 1 << 10;

  enum Kind {
    ACK,
    FAIL,
    RELEASE,
    REJECT
  }

  static final Outcome ACKED = new Outcome(Kind.ACK, "", BY_BACKOFF);

  static Outcome failed(String reason, long delayMs) {
    return new Outcome(Kind.FAIL, cut(reason), delayMs);
  }

  static Outcome released(long delayMs) {
    return new Outcome(Kind.RELEASE, "", ProducerRecord.least(0, delayMs, "delayMs"));
  }

  static Outcome rejected(String reason) {
    return new Outcome(Kind.REJECT, cut(reason), BY_BACKOFF);
  }

  /** The outcome of a message whose handler threw this. */
  static Outcome of(Throwable error) {
    if (error instanceof Reject) {
      return rejected(error.getMessage());
    }
    if (error instanceof Retry retry) {
      return failed(retry.getMessage(), retry.delayMs);
    }
    if (error instanceof Release release) {
      return released(release.delayMs);
    }
    if (error instanceof InterruptedException) {
      return released(0);
    }
    return failed(error.getClass().getSimpleName() + ": " + error.getMessage(), BY_BACKOFF);
  }

  private static String cut(String reason) {
    String found = reason == null ? "" : reason;
    while (found.getBytes(StandardCharsets.UTF_8).length > REASON_BYTES_MAX) {
      found = found.substring(0, Math.min(found.length() * 3 / 4, REASON_BYTES_MAX));
    }
    return found;
  }
}
