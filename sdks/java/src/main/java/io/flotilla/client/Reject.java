package io.flotilla.client;

/** Thrown by a handler: the message can never succeed, and becomes a dead letter at once. */
public final class Reject extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** The reason is kept with the dead letter. */
  public Reject(String reason) {
    super(reason);
  }
}
