package io.flotilla.client;

/**
 * Handles one message of a {@link Worker}.
 *
 * <p>When it returns, the message is acknowledged, unless it has settled it itself, as by {@code message.ack(result)}.
 * When it throws, the attempt failed, with the exception as the reason; {@link Reject}, {@link Retry} and {@link
 * Release} choose another outcome.
 */
@FunctionalInterface
public interface Handler {
  /**
   * Works on the message.
   *
   * @throws Exception the attempt has failed
   */
  void handle(QueueMessage message) throws Exception;
}
