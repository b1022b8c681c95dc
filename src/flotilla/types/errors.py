"""The table of errors that a caller can meet.

    FlotillaError
    |- NotLeaderError           another replica leads; `leader` says which, if known
    |- OverloadedError          a bound on proposals or bytes is reached; nothing was done
    |- OutcomeUnknownError      leadership was lost while waiting; it may or may not have happened
    |- ConfigurationChangeError the membership change is not possible now or not well formed
    |- InvalidArgumentError     the request is malformed or out of bounds; nothing was done
    |- UnavailableError         no quorum, still recovering, or shutting down
    |- CorruptionError          stored bytes fail their checksum; they are never served as data
    |- DiskFullError            no room; goes on by itself when there is room again
    |- StorageFailedError       the disk refused a write or a sync
    |- NotFoundError            no topic, broker or group of that name
    |- AlreadyExistsError       the name is taken
    |- SequenceGapError         a producer's batch does not follow the one before it; nothing was stored
    |- ProducerFencedError      a newer epoch of the same producer has taken over
    |- OutOfWindowError         too old to tell whether the batch was stored before; nothing was stored now
    |- OffsetOutOfRangeError    outside the log of the partition
    |- LeaseExpiredError        another consumer has the message, or it is settled already; nothing was done
    |- GroupModeError           the group is used in another way: a queue group is no stream group
    |- TransactionEndedError    the transaction was decided the other way, or is over; nothing was done
    |- StaleGenerationError     the partition belongs to another member of the group by now; nothing was done
    |- ReplicaBehindError       this replica lags or is cut off; another one, or the leader, can answer
    |- GroupInUseError          the group has members, which must leave first; nothing was done
    |- ForgottenError           too old to tell how it ended: that is forgotten; nothing was done
    |- TopicReplacedError       the topic was deleted and created again, and the request is about the old one
    |- TopicGrownError          the topic has more partitions than the producer knows; nothing was stored
    |- PermissionDeniedError    the caller may not do this; nothing was done
    |- UnauthenticatedError     the caller did not say who it is, or could not prove it; nothing was done
    |- QuotaExceededError       the quota of the user or of the namespace is used up; nothing was done
    |- DeadlineError            no answer in time, and nothing was done (client)
    |- ConnectionClosedError    the client was closed, or belongs to another process; nothing was done (client)
    |- BufferFullError          a producer holds as many records as it may (client)
    |- UnsupportedError         this version does not offer it (client)
    |- MessageFailedError       the message whose result is awaited was not done; `state` and `reason` say why (client)
    `- UnknownError             an error or a reply of a newer version that this one does not know

InvalidArgumentError is a ValueError as well, UnavailableError a ConnectionError, NotFoundError a LookupError and
DeadlineError a TimeoutError. WrongTypeError, for a payload that is not bytes, is an InvalidArgumentError and a
TypeError.

The code is protocol and never changes; the name may. `retryable` says whether the same call can
succeed later without a repair. HTTP and gRPC statuses stand here so that no endpoint invents its
own.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from flotilla.types.ids import NO_NODE, GroupId, Index, NodeId


class ErrorCode(NamedTuple):
    """One row of the error table."""

    code: int
    name: str
    retryable: bool
    http_status: int
    grpc_status: str


NOT_LEADER = ErrorCode(1, "NOT_LEADER", True, 421, "UNAVAILABLE")
OVERLOADED = ErrorCode(2, "OVERLOADED", True, 429, "RESOURCE_EXHAUSTED")
OUTCOME_UNKNOWN = ErrorCode(3, "OUTCOME_UNKNOWN", True, 503, "UNAVAILABLE")
CONFIGURATION_CHANGE = ErrorCode(4, "CONFIGURATION_CHANGE", False, 409, "FAILED_PRECONDITION")
INVALID_ARGUMENT = ErrorCode(5, "INVALID_ARGUMENT", False, 400, "INVALID_ARGUMENT")
UNAVAILABLE = ErrorCode(6, "UNAVAILABLE", True, 503, "UNAVAILABLE")
CORRUPTION = ErrorCode(7, "CORRUPTION", False, 500, "DATA_LOSS")
DISK_FULL = ErrorCode(8, "DISK_FULL", True, 507, "RESOURCE_EXHAUSTED")
STORAGE_FAILED = ErrorCode(9, "STORAGE_FAILED", True, 500, "INTERNAL")
NOT_FOUND = ErrorCode(10, "NOT_FOUND", False, 404, "NOT_FOUND")
ALREADY_EXISTS = ErrorCode(11, "ALREADY_EXISTS", False, 409, "ALREADY_EXISTS")
SEQUENCE_GAP = ErrorCode(12, "SEQUENCE_GAP", False, 409, "FAILED_PRECONDITION")
PRODUCER_FENCED = ErrorCode(13, "PRODUCER_FENCED", False, 409, "FAILED_PRECONDITION")
OUT_OF_WINDOW = ErrorCode(14, "OUT_OF_WINDOW", False, 409, "FAILED_PRECONDITION")
OFFSET_OUT_OF_RANGE = ErrorCode(15, "OFFSET_OUT_OF_RANGE", False, 416, "OUT_OF_RANGE")
LEASE_EXPIRED = ErrorCode(16, "LEASE_EXPIRED", False, 409, "FAILED_PRECONDITION")
GROUP_MODE = ErrorCode(17, "GROUP_MODE", False, 409, "FAILED_PRECONDITION")
TRANSACTION_ENDED = ErrorCode(18, "TRANSACTION_ENDED", False, 409, "ABORTED")
STALE_GENERATION = ErrorCode(19, "STALE_GENERATION", False, 409, "FAILED_PRECONDITION")
REPLICA_BEHIND = ErrorCode(20, "REPLICA_BEHIND", True, 503, "UNAVAILABLE")
GROUP_IN_USE = ErrorCode(21, "GROUP_IN_USE", False, 409, "FAILED_PRECONDITION")
FORGOTTEN = ErrorCode(22, "FORGOTTEN", False, 410, "FAILED_PRECONDITION")
TOPIC_REPLACED = ErrorCode(23, "TOPIC_REPLACED", False, 409, "FAILED_PRECONDITION")
TOPIC_GROWN = ErrorCode(24, "TOPIC_GROWN", True, 409, "ABORTED")
PERMISSION_DENIED = ErrorCode(25, "PERMISSION_DENIED", False, 403, "PERMISSION_DENIED")
UNAUTHENTICATED = ErrorCode(26, "UNAUTHENTICATED", False, 401, "UNAUTHENTICATED")
QUOTA_EXCEEDED = ErrorCode(27, "QUOTA_EXCEEDED", False, 429, "RESOURCE_EXHAUSTED")
#: From 32 on: raised by client libraries, never by a broker.
DEADLINE = ErrorCode(32, "DEADLINE", True, 504, "DEADLINE_EXCEEDED")
CONNECTION_CLOSED = ErrorCode(33, "CONNECTION_CLOSED", False, 503, "CANCELLED")
BUFFER_FULL = ErrorCode(34, "BUFFER_FULL", True, 429, "RESOURCE_EXHAUSTED")
UNSUPPORTED = ErrorCode(35, "UNSUPPORTED", False, 501, "UNIMPLEMENTED")
MESSAGE_FAILED = ErrorCode(36, "MESSAGE_FAILED", False, 409, "FAILED_PRECONDITION")
#: Never sent: stands for a code that is not in this table. Not retryable, because its meaning is unknown.
UNKNOWN = ErrorCode(0, "UNKNOWN", False, 500, "UNKNOWN")


class FlotillaError(Exception):
    """The base of all typed errors."""

    row: ClassVar[ErrorCode]
    #: When to try again; 0: the caller chooses.
    retry_after_ms: int = 0

    @property
    def code(self) -> str:
        return self.row.name

    @property
    def retryable(self) -> bool:
        return self.row.retryable


class NotLeaderError(FlotillaError):
    row = NOT_LEADER

    def __init__(self, leader: NodeId = NO_NODE, address: str = "") -> None:
        super().__init__(f"the leader is node {leader}" if leader else "no leader is known")
        self.leader = leader
        #: Where the leader listens to clients; empty if that is not known.
        self.address = address


class OverloadedError(FlotillaError):
    row = OVERLOADED


class OutcomeUnknownError(FlotillaError):
    row = OUTCOME_UNKNOWN


class ConfigurationChangeError(FlotillaError):
    row = CONFIGURATION_CHANGE


class InvalidArgumentError(FlotillaError, ValueError):
    row = INVALID_ARGUMENT


class WrongTypeError(InvalidArgumentError, TypeError):
    """An argument of a wrong type; raised by the client, where a broker would answer InvalidArgumentError."""


class UnknownEntryError(InvalidArgumentError):
    """An entry of a log is of a kind that this version does not know."""


class UnavailableError(FlotillaError, ConnectionError):
    row = UNAVAILABLE


class CorruptionError(FlotillaError):
    """Stored bytes of `group` in [low, high) are damaged. Empty range: the whole file is unreadable."""

    row = CORRUPTION

    def __init__(self, message: str, group: GroupId = 0, low: Index = 0, high: Index = 0) -> None:
        super().__init__(message)
        self.group = group
        self.low = low
        self.high = high


class DiskFullError(FlotillaError):
    row = DISK_FULL


class StorageFailedError(FlotillaError):
    row = STORAGE_FAILED


class NotLoadedError(StorageFailedError):
    """That part of the group's log is not in memory. It is being loaded from disk; the reader tries again then.

    The reader has read nothing, and a caller that raises this has changed nothing.
    """

    def __init__(self, group: GroupId = 0) -> None:
        super().__init__(f"group {group}: the log is being read from disk")
        self.group = group


class NotFoundError(FlotillaError, LookupError):
    row = NOT_FOUND


class AlreadyExistsError(FlotillaError):
    row = ALREADY_EXISTS


class SequenceGapError(FlotillaError):
    row = SEQUENCE_GAP


class ProducerFencedError(FlotillaError):
    row = PRODUCER_FENCED


class OutOfWindowError(FlotillaError):
    row = OUT_OF_WINDOW


class OffsetOutOfRangeError(FlotillaError):
    row = OFFSET_OUT_OF_RANGE


class LeaseExpiredError(FlotillaError):
    row = LEASE_EXPIRED


class GroupModeError(FlotillaError):
    row = GROUP_MODE


class TransactionEndedError(FlotillaError):
    row = TRANSACTION_ENDED


class StaleGenerationError(FlotillaError):
    row = STALE_GENERATION


class ReplicaBehindError(FlotillaError):
    row = REPLICA_BEHIND


class GroupInUseError(FlotillaError):
    row = GROUP_IN_USE


class ForgottenError(FlotillaError):
    row = FORGOTTEN


class TopicReplacedError(FlotillaError):
    row = TOPIC_REPLACED


class TopicGrownError(FlotillaError):
    row = TOPIC_GROWN


class PermissionDeniedError(FlotillaError):
    row = PERMISSION_DENIED


class UnauthenticatedError(FlotillaError):
    row = UNAUTHENTICATED


class QuotaExceededError(FlotillaError):
    row = QUOTA_EXCEEDED


class DeadlineError(FlotillaError, TimeoutError):
    row = DEADLINE


class ConnectionClosedError(FlotillaError):
    row = CONNECTION_CLOSED


class BufferFullError(FlotillaError):
    row = BUFFER_FULL


class UnsupportedError(FlotillaError):
    row = UNSUPPORTED


class MessageFailedError(FlotillaError):
    """A message ended without being done: it died, expired, was dropped or cancelled, or the group began after it."""

    row = MESSAGE_FAILED

    def __init__(self, message: str, state: str = "", reason: str = "", attempts: int = 0) -> None:
        super().__init__(message)
        #: A final delivery state: "dead", "expired", "dropped", "cancelled", "settled".
        self.state = state
        #: Of the last failure.
        self.reason = reason
        self.attempts = attempts


class UnknownError(FlotillaError):
    row = UNKNOWN


ALL_ERRORS: tuple[type[FlotillaError], ...] = tuple(FlotillaError.__subclasses__())

#: Names in a text for people; the rest is counted.
_NAMED_MAX = 3


def some_names(names: Sequence[str]) -> str:
    if len(names) > _NAMED_MAX:
        return f"{', '.join(names[:_NAMED_MAX])} and {len(names) - _NAMED_MAX} more"
    return ", ".join(names)


def later_version_needed(noun: str, needed: int, version: int) -> ConfigurationChangeError:
    """Of something that earlier programs in the cluster would not know."""
    return ConfigurationChangeError(
        f"{noun} needs cluster version {needed}, and the cluster is at {version}; see `flotilla cluster upgrade`"
    )


def group_in_use(group: str, members: Sequence[str]) -> GroupInUseError:
    count = "one live member" if len(members) == 1 else f"{len(members)} live members"
    return GroupInUseError(f"group {group!r} has {count}, to leave first: {some_names(members)}")
