"""The history of a chaos run: every call of its clients with its outcome, and what all replicas hold at the end.

Times are seconds of one monotonic clock, taken before a call and after its answer. An answer that came before another
call began must be visible to that call; the rules rest on nothing else.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

#: Outcomes of a call: done; done or not; certainly not done.
OK: Final = "ok"
UNKNOWN: Final = "unknown"
REFUSED: Final = "refused"


class Place(NamedTuple):
    """One partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(slots=True)
class Send:
    """One record of a producer. `number` counts the records of this producer in this partition, in order."""

    producer: str
    number: int
    place: Place
    payload: str
    began: float
    ended: float
    outcome: str
    offset: int = -1


@dataclass(slots=True)
class Read:
    """A linearizable fetch at one replica: the payloads from `first` on, and the end that the replica named."""

    node: int
    place: Place
    began: float
    first: int
    payloads: list[str]
    end: int


@dataclass(slots=True)
class EndRead:
    """The offset of the next record, as the leader names it."""

    place: Place
    began: float
    offset: int


@dataclass(slots=True)
class Delivery:
    """A message that a member of the queue group got from a poll that began at `asked`."""

    member: str
    place: Place
    offset: int
    payload: str
    asked: float


@dataclass(slots=True)
class Ack:
    member: str
    place: Place
    offset: int
    began: float
    ended: float
    outcome: str


@dataclass(slots=True)
class OffsetCommit:
    place: Place
    offset: int
    ended: float
    outcome: str


@dataclass(slots=True)
class OffsetRead:
    """The committed offset of the group; 0: none."""

    place: Place
    offset: int
    began: float


@dataclass(slots=True)
class TransactionEnd:
    """A transaction with its records. OK: committed; REFUSED: aborted, or never decided and so aborted."""

    name: str
    records: list[tuple[Place, str]]
    outcome: str


@dataclass(slots=True)
class StreamDelivery:
    place: Place
    offset: int
    payload: str


@dataclass(slots=True)
class ReplicaLog:
    """Everything that one replica holds at the end."""

    node: int
    place: Place
    #: The offset of its first record.
    start: int
    payloads: list[str]


@dataclass(slots=True)
class History:
    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    end_reads: list[EndRead] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    commits: list[OffsetCommit] = field(default_factory=list)
    offset_reads: list[OffsetRead] = field(default_factory=list)
    transactions: list[TransactionEnd] = field(default_factory=list)
    stream: list[StreamDelivery] = field(default_factory=list)
    #: The committed offsets of the stream group at the end.
    stream_commits: dict[Place, int] = field(default_factory=dict)
    #: The topic whose records the queue group must have got.
    queue_topic: str = ""
    replicas: list[ReplicaLog] = field(default_factory=list)
    #: How many replicas each topic asks for.
    replication: dict[str, int] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Writes what clients saw, a line for each call, to be searched when a rule was broken."""
        seen = (
            *(self.sends, self.reads, self.end_reads, self.deliveries, self.acks, self.commits, self.offset_reads),
            *(self.transactions, self.stream),
        )
        with path.open("w") as file:
            for call in [call for calls in seen for call in calls]:
                file.write(json.dumps({"call": type(call).__name__, **asdict(call)}) + "\n")

    def logs(self) -> dict[Place, list[str]]:
        """The longest log of each partition; that all replicas agree is a rule of its own."""
        found: dict[Place, list[str]] = {}
        for replica in sorted(self.replicas, key=lambda each: each.start):
            if replica.start + len(replica.payloads) > len(found.setdefault(replica.place, [])):
                found[replica.place] = [""] * replica.start + replica.payloads
        return found

    def sizes(self) -> dict[str, int]:
        """How much was judged, for the report."""
        return {
            "produces acknowledged": sum(send.outcome == OK for send in self.sends),
            "produces unknown": sum(send.outcome == UNKNOWN for send in self.sends),
            "produces refused": sum(send.outcome == REFUSED for send in self.sends),
            "acks": sum(ack.outcome == OK for ack in self.acks),
            "linearizable reads": len(self.reads),
            "reads of the end": len(self.end_reads),
            "offsets committed": sum(commit.outcome == OK for commit in self.commits),
            "transactions committed": sum(each.outcome == OK for each in self.transactions),
            "stream deliveries": len(self.stream),
            "replicas compared": len(self.replicas),
        }
