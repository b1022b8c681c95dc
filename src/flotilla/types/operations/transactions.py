"""Operations on transactions: stage in partitions, decide once, ask for the outcome.

Batches are staged in their partitions, invisible to readers, and so are acks of messages. One decision, at the leader
of the metadata, counts for all of them; after it every partition makes its part visible, or drops it. Every request
can be repeated.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Final

from flotilla.types.access import ALL, CONSUME, DESCRIBE, OPERATE, PRODUCE, TAKE_PART, Resource
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import LeaseRange, MessageResult
from flotilla.types.operations.request import CONTROLLER, PARTITION_LEADER, READ, REPEATABLE, Done, Reply, Request
from flotilla.types.slotted import slotted

#: As `begun_ms` of a commit: it is behind every horizon.
ALREADY_DECIDED: Final = 1


def _topics(partitions: list[tuple[str, int]]) -> Sequence[Resource]:
    """Without partitions it may be a transaction of any topics."""
    return [Resource(topic) for topic in dict.fromkeys(topic for topic, _ in partitions)] or [Resource(ALL)]


@slotted
class Staged(Reply):
    #: Records of the transaction that are staged in the partition now.
    count: int
    #: When the first of them was staged, by the clock of the cluster. The smallest one of all partitions goes into the
    #: commit.
    begun_ms: int
    #: The topic of the partition, which goes into the commit; 0: a node of an earlier version.
    topic_id: int = 0


@slotted
class Stage(Request[Staged], to=PARTITION_LEADER, effect=REPEATABLE, needs=PRODUCE):
    """Stages a batch of a transaction. Its producer and sequence name it: repeated, it is stored once."""

    topic: str
    partition: int
    transaction_id: str
    batch: bytes | bytearray | memoryview
    #: Refuses a later topic of the same name with TOPIC_REPLACED; 0: any.
    topic_id: int = 0
    #: How long after its first stage an undecided transaction is aborted; 0: as the topic says.
    timeout_ms: int = 0
    #: Not empty: the transaction is aborted when the connection of this member is lost before the decision.
    member: str = ""


@slotted
class StageSettlement(Request[Staged], to=PARTITION_LEADER, effect=REPEATABLE, needs=CONSUME):
    """Stages the acks of leased messages of a queue group: settled if the transaction commits, released if it aborts.

    All of them or none: LEASE_EXPIRED when one lease is lost. Until the decision no member gets the messages, and no
    lease has to be renewed.
    """

    topic: str
    partition: int
    group: str
    transaction_id: str
    leases: list[LeaseRange]
    #: Of the topic in which they were leased, as in Settle.
    topic_id: int = 0
    #: As of Stage.
    timeout_ms: int = 0
    member: str = ""
    #: Of messages in `leases`, as in Settle: kept when the transaction commits.
    results: list[MessageResult] = field(default_factory=list)


@slotted
class TransactionDecided(Reply):
    """Decided as the request asked, now or before."""

    #: Nothing was committed now, because the application had committed this version, or a newer one, before.
    is_repeated: bool = False


@slotted
class CommitTransaction(Request[TransactionDecided], to=CONTROLLER, effect=REPEATABLE, needs=TAKE_PART):
    """Decides for the named partitions: what is staged there becomes visible. Other partitions drop their part.

    An application numbers its commits: a version that it has committed before is not committed again.

    With members, it has nothing staged itself and decides about them: all are committed, or none is. What failed
    attempts staged under other ids has no part in it.
    """

    transaction_id: str
    #: Topic and number of every partition in which something is staged.
    partitions: list[tuple[str, int]] = field(default_factory=list)
    #: Empty: the transaction has no version.
    application_id: str = ""
    version: int = 0
    #: The id of each, and where it has something staged, as places in `partitions`.
    members: list[tuple[str, list[int]]] = field(default_factory=list)
    #: The smallest `begun_ms` of all stages; 0 if nothing is staged. Behind the horizon of decisions the commit is
    #: refused with FORGOTTEN. ALREADY_DECIDED: only a decision that was made before is wanted.
    begun_ms: int = 0
    #: Whose application it is: the broker that took the request says so for users; empty: anybody's.
    owner: str = ""
    #: Of each of `partitions`, the topic in which it was staged: a later topic of the same name is refused with
    #: TOPIC_REPLACED, and nothing is decided. 0, or a list that is empty: any.
    topic_ids: list[int] = field(default_factory=list)

    @property
    def resources(self) -> Sequence[Resource]:
        return _topics(self.partitions)


@slotted
class AbortTransaction(Request[TransactionDecided], to=CONTROLLER, effect=REPEATABLE, needs=TAKE_PART):
    """Drops everything that is staged. Refused when the transaction was committed before."""

    transaction_id: str
    partitions: list[tuple[str, int]] = field(default_factory=list)
    #: As for a commit; 0: not known.
    begun_ms: int = 0

    @property
    def resources(self) -> Sequence[Resource]:
        return _topics(self.partitions)


@slotted
class StagedBatch:
    """A batch of a transaction that is visible now."""

    #: As it was staged.
    producer_id: int
    producer_sequence: int
    #: Of its first record.
    base_offset: Offset


@slotted
class TransactionShown(Reply):
    #: False: what was staged here was dropped, or is not decided yet.
    is_shown: bool
    batches: list[StagedBatch] = field(default_factory=list)
    #: Of a transaction that has not ended here: when its first part was staged. 0: it has ended.
    begun_ms: int = 0
    #: The topic of the partition, which goes into the commit; 0: a node of an earlier version, or it has ended.
    topic_id: int = 0


@slotted
class TransactionOutcome(Request[TransactionShown], to=PARTITION_LEADER, effect=READ, needs=DESCRIBE):
    """The outcome of a transaction in one partition. Waits up to wait_ms for it.

    With wait_ms 0 the answer about a transaction that is not over says when it began.
    """

    topic: str
    partition: int
    transaction_id: str
    wait_ms: int = 0


@slotted
class AwaitedTransaction:
    """A committed transaction that partitions have not shown yet."""

    transaction_id: str
    #: Empty: it has no version.
    application_id: str
    version: int
    decided_at_ms: int
    #: Topic and number of the partitions that it waits for.
    partitions: list[tuple[str, int]]


@slotted
class TransactionList(Reply):
    #: Those that wait for partitions, the oldest first.
    awaited: list[AwaitedTransaction]
    #: With those that the limit left out.
    awaited_count: int
    #: Decisions about transactions that are over.
    remembered_count: int
    #: Decisions about transactions that began at this time or before may be forgotten.
    forgotten_ms: int
    application_count: int
    #: Applications whose versions are forgotten.
    idle_application_count: int


@slotted
class ListTransactions(Request[TransactionList], to=CONTROLLER, effect=READ, needs=OPERATE):
    """What the cluster remembers of decided transactions."""

    #: Of `awaited`.
    limit: int = 1_000


@slotted
class OpenTransaction:
    """A transaction that has not ended in a partition."""

    transaction_id: str
    begun_ms: int
    timeout_ms: int
    record_count: int
    #: Messages whose acknowledgement is staged.
    ack_count: int


@slotted
class OpenTransactionList(Reply):
    transactions: list[OpenTransaction]


@slotted
class ListOpenTransactions(Request[OpenTransactionList], to=PARTITION_LEADER, effect=READ, needs=DESCRIBE):
    """The transactions that have something staged in a partition, the oldest first."""

    topic: str
    partition: int


@slotted
class ForgetTransaction(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """Forgets one thing, by an operator's decision: a committed transaction's partitions, or an application.

    The partitions that the transaction waits for drop their parts if they come back. The application counts as new:
    every version of it can be committed again. NOT_FOUND: nothing waits under that id, or no such application is known.
    """

    #: One of the two is empty.
    transaction_id: str = ""
    application_id: str = ""
