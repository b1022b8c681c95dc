package io.flotilla.client;

import java.util.List;

/**
 * A message that failed for the last time in a group.
 *
 * @param partition its partition in the dead-letter topic
 * @param offset its offset there
 * @param payload its bytes
 * @param key its key; null: none
 * @param headers as in the original message
 * @param topic its origin
 * @param originPartition its partition there
 * @param originOffset its offset there
 * @param reason the error of the last attempt
 * @param attempts how often it was delivered
 * @param diedMs when it died, in milliseconds since 1970
 * @param redriven how often it was redriven before
 */
public record DeadLetter(
    int partition, long offset, byte[] payload, byte[] key, List<Header> headers, String topic, int originPartition,
    long originOffset, String reason, int attempts, long diedMs, int redriven) {

  static DeadLetter of(io.flotilla.v1.DeadLetter letter) {
    return new DeadLetter(
        letter.getPartition(), letter.getOffset(), letter.getPayload().toByteArray(),
        letter.hasKey() ? letter.getKey().toByteArray() : null, Message.headersOf(letter.getHeadersList()),
        letter.getTopic(), letter.getOriginPartition(), letter.getOriginOffset(), letter.getReason(),
        letter.getAttempts(), letter.getDiedMs(), letter.getRedriven());
  }
}
