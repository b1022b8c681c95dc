"""What can be asked of a broker about transactions, and what it answers.

Batches are staged in their partitions, where nobody sees them, and so are acks of messages. One decision, at the
leader of the metadata, stands for all of them; after that every partition shows its part, or drops it. Every request
can be repeated.
"""

from dataclasses import dataclass, field

from flotilla.types.ids import Offset
from flotilla.types.operations.log import Reply, Request
from flotilla.types.operations.queue import LeaseRange


@dataclass(slots=True)
class Stage(Request):
    """Stores a batch that belongs to a transaction. Its producer and sequence name it: repeated, it is stored once."""

    topic: str
    partition: int
    transaction_id: str
    batch: bytes | bytearray | memoryview


@dataclass(slots=True)
class StageSettlement(Request):
    """Acknowledges leased messages of a queue group with a transaction: done when it commits, given back when not.

    All of them or none: LEASE_EXPIRED when one is not its holder's any more. Until the decision nobody gets them,
    and no lease has to be renewed.
    """

    topic: str
    partition: int
    group: str
    transaction_id: str
    held: list[LeaseRange]


@dataclass(slots=True)
class Staged(Reply):
    #: Records of the transaction that wait in the partition now.
    count: int


@dataclass(slots=True)
class CommitTransaction(Request):
    """Decides for all partitions that are named: what is staged there will be seen. Others drop what they have.

    An application numbers its commits: a version that it has committed before is not committed again.

    With members it has nothing staged itself, but is the decision about them: all are committed, or none is. What
    was staged under other ids, by attempts that came to nothing, has no part in it.
    """

    transaction_id: str
    #: Topic and number of every partition in which something is staged.
    partitions: list[tuple[str, int]] = field(default_factory=list)
    #: Empty: the transaction stands for itself, and has no version.
    application_id: str = ""
    version: int = 0
    #: Id of each, and where it has something staged, as places in `partitions`.
    members: list[tuple[str, list[int]]] = field(default_factory=list)


@dataclass(slots=True)
class AbortTransaction(Request):
    """Nothing of it will ever be seen. Refused when it was committed before."""

    transaction_id: str
    partitions: list[tuple[str, int]] = field(default_factory=list)


@dataclass(slots=True)
class TransactionDecided(Reply):
    """As it was asked for, now or before."""

    #: Nothing was committed now, because the application had committed this version, or a newer one, before.
    is_repeated: bool = False


@dataclass(slots=True)
class TransactionOutcome(Request):
    """What became of a transaction in one partition. Waits up to wait_ms for its end there."""

    topic: str
    partition: int
    transaction_id: str
    wait_ms: int = 0


@dataclass(slots=True)
class StagedBatch:
    """A batch of a transaction that is seen now."""

    #: As it was staged.
    producer_id: int
    producer_sequence: int
    #: Of its first record.
    base_offset: Offset


@dataclass(slots=True)
class TransactionShown(Reply):
    #: False: what was staged here was dropped.
    is_shown: bool
    batches: list[StagedBatch] = field(default_factory=list)
