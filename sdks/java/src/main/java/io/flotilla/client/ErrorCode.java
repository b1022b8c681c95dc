package io.flotilla.client;

import java.util.HashMap;
import java.util.Map;

/**
 * The errors of Flotilla, under the names and numbers that every client and endpoint uses.
 *
 * <p>Codes from 32 on are raised by clients and never sent by a broker.
 */
public enum ErrorCode {
  /** Another replica leads. Nodes find the leader themselves, so gRPC clients do not get it. */
  NOT_LEADER(1, true),
  /** A limit on proposals, reads or bytes is reached; nothing was done. */
  OVERLOADED(2, true),
  /** Leadership was lost while waiting; it may or may not have happened. */
  OUTCOME_UNKNOWN(3, true),
  /** The membership change is not possible now, or invalid. */
  CONFIGURATION_CHANGE(4, false),
  /** The request is invalid; nothing was done. */
  INVALID_ARGUMENT(5, false),
  /** No quorum, still recovering, or shutting down. */
  UNAVAILABLE(6, true),
  /** Stored bytes fail their checksum; they are repaired from other replicas or reported, never served. */
  CORRUPTION(7, false),
  /** The disk is full; writing resumes when there is room again. */
  DISK_FULL(8, true),
  /** The disk refused a write or a sync. */
  STORAGE_FAILED(9, true),
  /** No topic, broker or group of that name. */
  NOT_FOUND(10, false),
  /** The name is taken. */
  ALREADY_EXISTS(11, false),
  /** A producer's batch does not follow the one before it; nothing was stored. */
  SEQUENCE_GAP(12, false),
  /** A newer epoch of the same producer has taken over. */
  PRODUCER_FENCED(13, false),
  /** Too old to tell whether the batch was stored before; nothing was stored now. */
  OUT_OF_WINDOW(14, false),
  /** Before the first offset of the log, or after its end. */
  OFFSET_OUT_OF_RANGE(15, false),
  /** Another consumer holds the message, it is settled already, or its topic was deleted; nothing was done. */
  LEASE_EXPIRED(16, false),
  /** The group has another mode, for example it is a queue group. */
  GROUP_MODE(17, false),
  /** The transaction was decided the other way, or has ended; nothing was done. */
  TRANSACTION_ENDED(18, false),
  /** Another member of the group owns the partition now; nothing was done. */
  STALE_GENERATION(19, false),
  /** This replica lags or is cut off; another one, or the leader, can answer. */
  REPLICA_BEHIND(20, true),
  /** The group has members, which must leave first; nothing was done. */
  GROUP_IN_USE(21, false),
  /** Too old to tell how it ended: that is forgotten; nothing was done. */
  FORGOTTEN(22, false),
  /** The topic was deleted and created again, and the request is about the old one; nothing was done. */
  TOPIC_REPLACED(23, false),
  /**
   * The topic has more partitions than the producer knows; nothing was stored. Clients describe the topic anew and
   * send again.
   */
  TOPIC_GROWN(24, true),
  /** The caller may not do this; nothing was done. */
  PERMISSION_DENIED(25, false),
  /** The caller did not say who it is, or could not prove it; nothing was done. */
  UNAUTHENTICATED(26, false),
  /** The quota of the user or of the namespace is used up; nothing was done. */
  QUOTA_EXCEEDED(27, false),
  /** No answer in time, and nothing was done; the cause says why. */
  DEADLINE(32, true),
  /** The client was closed, or was opened by another process; nothing was done. */
  CONNECTION_CLOSED(33, false),
  /** The producer's buffer is full of unanswered records; the record was not accepted. */
  BUFFER_FULL(34, true),
  /** This version does not offer it. */
  UNSUPPORTED(35, false),
  /** The message whose result is awaited was not done; state and reason say why. */
  MESSAGE_FAILED(36, false),
  /** A code or answer that the client does not know, because the broker is newer; never sent. */
  UNKNOWN(0, false);

  private static final Map<String, ErrorCode> BY_NAME = new HashMap<>();

  static {
    for (ErrorCode code : values()) {
      BY_NAME.put(code.name(), code);
    }
  }

  private final int number;
  private final boolean retryable;

  ErrorCode(int number, boolean retryable) {
    this.number = number;
    this.retryable = retryable;
  }

  /** The number in the protocol, which never changes. */
  public int number() {
    return number;
  }

  /** Whether the same call can succeed later without any other change. */
  public boolean isRetryable() {
    return retryable;
  }

  /** The error of this name; UNKNOWN for one of a newer broker. */
  static ErrorCode named(String name) {
    return BY_NAME.getOrDefault(name, UNKNOWN);
  }
}
