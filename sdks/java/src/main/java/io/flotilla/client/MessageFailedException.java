package io.flotilla.client;

/** The message whose result is awaited was not done: it failed for the last time, expired or was cancelled. */
public final class MessageFailedException extends FlotillaException {
  private static final long serialVersionUID = 1L;

  /** How it ended. */
  private final String state;
  /** Of its last failure. */
  private final String reason;
  /** How often it was delivered. */
  private final int attempts;

  MessageFailedException(String message, String state, String reason, int attempts) {
    super(ErrorCode.MESSAGE_FAILED, message);
    this.state = state;
    this.reason = reason;
    this.attempts = attempts;
  }

  /** How it ended: dead, dropped, expired, cancelled or settled. */
  public String state() {
    return state;
  }

  /** The reason of its last failure. */
  public String reason() {
    return reason;
  }

  /** How often it was delivered. */
  public int attempts() {
    return attempts;
  }
}
