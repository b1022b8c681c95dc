package io.flotilla.client;

/**
 * The error of a call; {@link #code} says which.
 *
 * <p>A call has three outcomes. It returns: it is done. It throws {@link ErrorCode#OUTCOME_UNKNOWN}: it may or may not
 * be done. It throws anything else: it is certainly not done.
 */
public class FlotillaException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Which error it is. */
  private final ErrorCode code;
  /** What the broker asks for; 0: nothing. */
  private final long retryAfterMs;

  /** An error that the application makes itself, as in its tests. */
  public FlotillaException(ErrorCode code, String message) {
    this(code, message, 0, null);
  }

  FlotillaException(ErrorCode code, String message, long retryAfterMs, Throwable cause) {
    super(message, cause);
    this.code = code;
    this.retryAfterMs = retryAfterMs;
  }

  /** Which error it is. */
  public ErrorCode code() {
    return code;
  }

  /** Whether the same call can succeed later without any other change. */
  public boolean isRetryable() {
    return code.isRetryable();
  }

  /** How long the broker asks to wait before another attempt; 0: it says nothing. */
  public long retryAfterMs() {
    return retryAfterMs;
  }

  /** The same error with the stack trace of the calling thread. */
  FlotillaException here() {
    return new FlotillaException(code, getMessage(), retryAfterMs, this);
  }

  @Override
  public String toString() {
    return "FlotillaException: " + code + ": " + getMessage();
  }

  static FlotillaException invalid(String message) {
    return new FlotillaException(ErrorCode.INVALID_ARGUMENT, message);
  }

  static FlotillaException closed(String what) {
    return new FlotillaException(ErrorCode.CONNECTION_CLOSED, what + " is closed");
  }
}
