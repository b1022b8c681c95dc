/**
 * The errors that a caller can meet: one class for each code of the protocol, as in `docs/reference/errors.md`.
 *
 * The code is protocol and never changes. `retryable` says whether the same call can succeed later without a repair.
 */

export class FlotillaError extends Error {
  /** The name of the code, such as `NOT_LEADER`. */
  readonly code: string;
  readonly retryable: boolean;
  /** When to try again; 0: the caller chooses. */
  retryAfterMs = 0;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    const row = ROWS.get(new.target)!;
    this.code = row[1];
    this.retryable = row[2];
    this.name = new.target.name;
  }
}

/** Another replica leads; `address` says where it listens to clients, if that is known. */
export class NotLeaderError extends FlotillaError {
  address = "";
}
/** A bound on proposals or bytes is reached; nothing was done. */
export class OverloadedError extends FlotillaError {}
/** It may or may not have happened. */
export class OutcomeUnknownError extends FlotillaError {}
export class ConfigurationChangeError extends FlotillaError {}
/** The request is malformed or out of bounds; nothing was done. */
export class InvalidArgumentError extends FlotillaError {}
/** No quorum, still recovering, shutting down, or out of reach. */
export class UnavailableError extends FlotillaError {}
/** Stored bytes fail their checksum. */
export class CorruptionError extends FlotillaError {}
export class DiskFullError extends FlotillaError {}
export class StorageFailedError extends FlotillaError {}
/** No topic, broker or group of that name. */
export class NotFoundError extends FlotillaError {}
export class AlreadyExistsError extends FlotillaError {}
export class SequenceGapError extends FlotillaError {}
export class ProducerFencedError extends FlotillaError {}
export class OutOfWindowError extends FlotillaError {}
export class OffsetOutOfRangeError extends FlotillaError {}
/** Another consumer has the message, or it is settled already; nothing was done. */
export class LeaseExpiredError extends FlotillaError {}
export class GroupModeError extends FlotillaError {}
export class TransactionEndedError extends FlotillaError {}
/** The partition belongs to another member of the group by now; nothing was done. */
export class StaleGenerationError extends FlotillaError {}
export class ReplicaBehindError extends FlotillaError {}
export class GroupInUseError extends FlotillaError {}
export class ForgottenError extends FlotillaError {}
/** The topic was deleted and created again, and the request is about the old one. */
export class TopicReplacedError extends FlotillaError {}
export class TopicGrownError extends FlotillaError {}
export class PermissionDeniedError extends FlotillaError {}
export class UnauthenticatedError extends FlotillaError {}
/** The quota of the user or of the namespace is used up; nothing was done. */
export class QuotaExceededError extends FlotillaError {}
/** No answer in time, and nothing was done. */
export class DeadlineError extends FlotillaError {}
/** The client or the consumer was closed; nothing was done. */
export class ConnectionClosedError extends FlotillaError {}
/** A producer holds as many records as it may. */
export class BufferFullError extends FlotillaError {}
/** This version does not offer it. */
export class UnsupportedError extends FlotillaError {}
/** The message whose result is awaited was not done; `state` and `reason` say why. */
export class MessageFailedError extends FlotillaError {
  state = "";
  reason = "";
  attempts = 0;
}
/** An error or a reply of a newer version that this one does not know. */
export class UnknownError extends FlotillaError {}

type ErrorClass = new (message: string, options?: ErrorOptions) => FlotillaError;

/** Number, name, and whether a retry can help. */
const TABLE: [number, string, boolean, ErrorClass][] = [
  [0, "UNKNOWN", false, UnknownError],
  [1, "NOT_LEADER", true, NotLeaderError],
  [2, "OVERLOADED", true, OverloadedError],
  [3, "OUTCOME_UNKNOWN", true, OutcomeUnknownError],
  [4, "CONFIGURATION_CHANGE", false, ConfigurationChangeError],
  [5, "INVALID_ARGUMENT", false, InvalidArgumentError],
  [6, "UNAVAILABLE", true, UnavailableError],
  [7, "CORRUPTION", false, CorruptionError],
  [8, "DISK_FULL", true, DiskFullError],
  [9, "STORAGE_FAILED", true, StorageFailedError],
  [10, "NOT_FOUND", false, NotFoundError],
  [11, "ALREADY_EXISTS", false, AlreadyExistsError],
  [12, "SEQUENCE_GAP", false, SequenceGapError],
  [13, "PRODUCER_FENCED", false, ProducerFencedError],
  [14, "OUT_OF_WINDOW", false, OutOfWindowError],
  [15, "OFFSET_OUT_OF_RANGE", false, OffsetOutOfRangeError],
  [16, "LEASE_EXPIRED", false, LeaseExpiredError],
  [17, "GROUP_MODE", false, GroupModeError],
  [18, "TRANSACTION_ENDED", false, TransactionEndedError],
  [19, "STALE_GENERATION", false, StaleGenerationError],
  [20, "REPLICA_BEHIND", true, ReplicaBehindError],
  [21, "GROUP_IN_USE", false, GroupInUseError],
  [22, "FORGOTTEN", false, ForgottenError],
  [23, "TOPIC_REPLACED", false, TopicReplacedError],
  [24, "TOPIC_GROWN", true, TopicGrownError],
  [25, "PERMISSION_DENIED", false, PermissionDeniedError],
  [26, "UNAUTHENTICATED", false, UnauthenticatedError],
  [27, "QUOTA_EXCEEDED", false, QuotaExceededError],
  [32, "DEADLINE", true, DeadlineError],
  [33, "CONNECTION_CLOSED", false, ConnectionClosedError],
  [34, "BUFFER_FULL", true, BufferFullError],
  [35, "UNSUPPORTED", false, UnsupportedError],
  [36, "MESSAGE_FAILED", false, MessageFailedError],
];
const ROWS = new Map<unknown, (typeof TABLE)[number]>(TABLE.map((row) => [row[3], row]));
const BY_NUMBER = new Map(TABLE.map((row) => [row[0], row]));

/** The error table, for comparison with that of the brokers. */
export const ERROR_TABLE = TABLE.map(([number, code, retryable]) => ({ number, code, retryable }));

/** The error that a broker has answered with. */
export function errorOf(body: { code: number; message: string; leader: string; retryAfterMs: number }): FlotillaError {
  const row = BY_NUMBER.get(body.code);
  const error = row ? new row[3](body.message) : new UnknownError(`error ${body.code}: ${body.message}`);
  error.retryAfterMs = body.retryAfterMs;
  if (error instanceof NotLeaderError) error.address = body.leader;
  return error;
}
