"""The queries of a partition, and the values that it answers with."""

from dataclasses import dataclass

from flotilla.types.ids import Index, Offset


@dataclass(frozen=True, slots=True)
class DescribePartition:
    """A PartitionFacts."""


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A PositionFound."""

    group: str


@dataclass(frozen=True, slots=True)
class ListPositions:
    """Group name to Position, in the order of names."""


@dataclass(frozen=True, slots=True)
class ListGroups:
    """Group name to "queue" or "offset", in the order of names."""


@dataclass(frozen=True, slots=True)
class StateHash:
    """A hexadecimal digest, equal on all replicas that applied the same entries."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    log_start: Offset
    next_offset: Offset
    #: The newest time of any record; 0 while there is none.
    max_time_ms: int
    #: Since the partition was created, trimmed ones included.
    batches_total: int
    bytes_total: int


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a group: the next offset that it will read."""

    offset: Offset
    committed_at_ms: int
    metadata: bytes = b""


@dataclass(frozen=True, slots=True)
class PositionFound:
    #: None: the group never committed.
    position: Position | None
    #: The newest entry that the answer knows.
    as_of: Index
