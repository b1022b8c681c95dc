"""What can be asked of a partition, and the values it answers with."""

from dataclasses import dataclass

from flotilla.types.ids import Offset


@dataclass(frozen=True, slots=True)
class DescribePartition:
    """A PartitionFacts."""


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """The Position of one group, or None when it never committed."""

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
    #: Since the partition was made, whether trimmed or not.
    batches_total: int
    bytes_total: int


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group stands: the next offset that it will read."""

    offset: Offset
    committed_at_ms: int
    metadata: bytes = b""
