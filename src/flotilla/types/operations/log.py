"""Operations on the log of a partition: produce, fetch, find an offset, trim, commit and read a group's position.

A batch is bytes in the batch format (codec/batch) and is never taken apart on the way.
"""

from dataclasses import field
from struct import Struct
from typing import Final

from flotilla.types.access import CONSUME, DESCRIBE, MANAGE, PRODUCE
from flotilla.types.ids import Index, Offset
from flotilla.types.operations.request import ONCE, PARTITION_LEADER, READ, REPEATABLE, Effect, Reply, Request
from flotilla.types.slotted import slotted

#: Positions for ListOffsets that are not times.
EARLIEST: Final = -2
LATEST: Final = -1

#: producer_id in the header of a batch (codec/batch/header.py).
_PRODUCER_ID: Final = Struct("<48xQ")


@slotted
class Produced(Reply):
    base_offset: Offset
    #: The batch had been stored before; base_offset is where.
    duplicate: bool = False
    #: Nothing was stored now: records with these idempotency keys are there already. Position in the batch and
    #: offset of each; the rest of the batch may be sent again without them, under the same sequence.
    known: list[tuple[int, Offset]] = field(default_factory=list)


@slotted
class Produce(Request[Produced], to=PARTITION_LEADER, needs=PRODUCE):
    """Appends one batch to one partition; answered when a majority has it on disk."""

    topic: str
    partition: int
    batch: bytes | bytearray | memoryview
    #: Of the topic that the partition was chosen in: a later one of its name refuses with TOPIC_REPLACED; 0: any.
    topic_id: int = 0
    #: How many partitions the producer knows: a topic that has more refuses with TOPIC_GROWN; 0: it does not matter.
    partition_count: int = 0
    #: Whose producer it is: the broker that took the request says so for users; empty: anybody's.
    owner: str = ""

    @property
    def effect(self) -> Effect:
        """A broker recognises a batch that its producer numbered."""
        is_numbered = len(self.batch) >= _PRODUCER_ID.size and _PRODUCER_ID.unpack_from(self.batch)[0] != 0
        return REPEATABLE if is_numbered else ONCE


@slotted
class Fetched(Reply):
    """`batches` may begin before the offset asked for: the reader skips. Records below next_offset are committed."""

    batches: list[bytes | memoryview]
    log_start: Offset
    next_offset: Offset
    #: With a filter: where to go on, since records before that do not match or are in `batches`; 0: without one.
    reached: Offset = 0


@slotted
class Fetch(Request[Fetched], to=PARTITION_LEADER, effect=READ, retries_not_found=True, needs=CONSUME):
    """Stored batches from the one that holds `offset` on. Waits up to wait_ms for the first byte (a long poll)."""

    topic: str
    partition: int
    offset: Offset
    max_bytes: int
    wait_ms: int = 0
    #: Any replica may answer, with what it knows to be committed. REPLICA_BEHIND: this one cannot now.
    is_any_replica: bool = False
    #: The reply shows every record acknowledged before this request: the leader confirms first how far that is.
    is_linearizable: bool = False
    #: Refuses a later topic of the same name with TOPIC_REPLACED; 0: any.
    topic_id: int = 0
    #: Send only records of these types, and that have all of these headers (types/filters.py); empty: all records. The
    #: wait is for the first that matches.
    types: list[str] = field(default_factory=list)
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    #: As well: only records with this key, and that have this text in key, headers or payload. None, empty: any.
    key: bytes | None = None
    contains: str = ""


@slotted
class OffsetFound(Reply):
    """-1: no record is that young."""

    offset: Offset


@slotted
class ListOffsets(Request[OffsetFound], to=PARTITION_LEADER, effect=READ, retries_not_found=True, needs=DESCRIBE):
    """The offset of the first record at or after a time, or EARLIEST, or LATEST (the next to be written)."""

    topic: str
    partition: int
    timestamp_ms: int
    #: As in Fetch.
    topic_id: int = 0


@slotted
class PartitionTrimmed(Reply):
    """Where the log begins now; after the offset of the request if it began there already."""

    log_start: Offset


@slotted
class TrimPartition(Request[PartitionTrimmed], to=PARTITION_LEADER, effect=REPEATABLE, needs=MANAGE):
    """Removes every message below an offset, needed by a group or not. Raises OffsetOutOfRangeError past the end."""

    topic: str
    partition: int
    offset: Offset
    #: As in Settle.
    topic_id: int = 0


@slotted
class OffsetCommitted(Reply):
    """The group's position now; ahead of the request if it was there already. -1: it never committed."""

    offset: Offset
    #: The entry of the partition's log as of which this is so, for later commits; 0: the broker does not say.
    as_of: Index = 0


@slotted
class CommitOffset(Request[OffsetCommitted], to=PARTITION_LEADER, needs=CONSUME):
    """Sets a group's position: the next offset it will read. It never moves back without `reset`."""

    group: str
    topic: str
    partition: int
    offset: Offset
    reset: bool = False
    #: The epoch under which a member of a stream group owns the partition. 0: no member commits.
    epoch: int = 0
    #: As in Fetch.
    topic_id: int = 0
    #: From the last answer about the group's position in this partition: a group that was deleted since, and perhaps
    #: made anew, is not moved, and the answer is STALE_GENERATION. 0: it is not checked.
    as_of: Index = 0

    @property
    def effect(self) -> Effect:
        """A reset that is repeated could undo a commit that followed it."""
        return ONCE if self.reset else REPEATABLE


@slotted
class ReadOffset(Request[OffsetCommitted], to=PARTITION_LEADER, effect=READ, needs=DESCRIBE):
    group: str
    topic: str
    partition: int
    #: As in Fetch.
    topic_id: int = 0
    #: For a group that never committed here the answer is the offset -1, with its `as_of`, instead of NOT_FOUND.
    is_optional: bool = False
