"""Checkpoints: the state of each group as a journal record, with everything but the bodies of entries.

A checkpoint is at the end of a block and describes the state after it: hard state, base, terms, valid files,
the last index durable in them, and damaged and doubtful entries. With it and the journal files from `keep_from` on,
nothing older is needed. Layout of a group: fixed numbers, seven counts, then the lists.
"""

from itertools import pairwise
from struct import Struct

from flotilla.codec.log import decode_configuration, encode_configuration
from flotilla.raft.messages import CONFIG, Configuration, Entry, HardState
from flotilla.storage.block import BlockImage, records_of
from flotilla.storage.damage.ranges import IndexRanges
from flotilla.storage.framing import CHECKPOINT_GROUP, CHECKPOINT_NODE, PAIR, TRIPLE, decode_meta, encode_meta, record
from flotilla.storage.group_log import SegmentedLog
from flotilla.storage.in_memory.tail import Tail
from flotilla.storage.in_memory.term_runs import TermRuns
from flotilla.storage.ports import Buffer
from flotilla.storage.segment import Segment
from flotilla.storage.segment_index import SparseIndex
from flotilla.storage.snapshots import SnapshotFile
from flotilla.types.ids import NUMBER_MAX, GroupId, Index, Term

_FIXED = Struct("<QQQQQQIIIIIII")
_KEEP_FROM = Struct("<Q")
_ENTRY = Struct("<QQI")


def node_record(keep_from: int) -> bytes:
    """The first record of a checkpoint: records of all existing groups follow."""
    return record(CHECKPOINT_NODE, _KEEP_FROM.pack(keep_from))


def checkpoint_keep_from(image: BlockImage) -> int:
    """The oldest journal file that the checkpoint in a block needs. Raises CorruptionError if it names none."""
    for tag, payload, _, _ in records_of(image):
        if tag == CHECKPOINT_NODE and len(payload) == _KEEP_FROM.size:
            (keep_from,) = _KEEP_FROM.unpack(payload)
            if keep_from <= image.file_number:
                return int(keep_from)
    raise image.senseless("its checkpoint names no file to begin with")


def group_record(log: SegmentedLog) -> bytes:
    configuration = encode_configuration(log.configuration)
    runs = log.terms.runs()
    damaged, doubtful = log.lost_ranges(), log.doubtful.as_list()
    hard_state = log.hard_state
    fixed = _FIXED.pack(
        log.group,
        hard_state.term,
        hard_state.vote,
        hard_state.commit,
        log.durable_index,
        log.last_index(),
        len(configuration),
        len(runs),
        len(damaged),
        len(doubtful),
        len(log.segments),
        len(log.snapshots),
        len(log.configuration_entries),
    )
    parts = [fixed, configuration]
    parts += [PAIR.pack(first, term) for first, term in runs]
    parts += [PAIR.pack(low, high) for low, high in (*damaged, *doubtful)]
    parts += [TRIPLE.pack(segment.first_index, segment.last_index, segment.number) for segment in log.segments]
    for snapshot in log.snapshots:
        meta = encode_meta(snapshot.meta)
        parts += (PAIR.pack(snapshot.number, len(meta)), meta)
    for entry in log.configuration_entries:
        parts += (_ENTRY.pack(entry.index, entry.term, len(entry.data)), bytes(entry.data))
    return record(CHECKPOINT_GROUP, b"".join(parts))


class GroupState:
    """A parsed group record. Raises ValueError, or what parsing raises, for one that makes no sense."""

    __slots__ = (
        "configuration",
        "configuration_entries",
        "damaged",
        "doubtful",
        "durable_index",
        "group",
        "hard_state",
        "last_index",
        "runs",
        "segments",
        "snapshots",
    )

    def __init__(self, payload: Buffer) -> None:
        fixed = _FIXED.unpack_from(payload)
        self.group: GroupId = fixed[0]
        self.hard_state = HardState(fixed[1], fixed[2], fixed[3])
        self.durable_index: Index = fixed[4]
        self.last_index: Index = fixed[5]
        configuration_bytes, runs, damaged, doubtful, segments, snapshots, entries = fixed[6:]
        at = _FIXED.size
        self.configuration: Configuration = decode_configuration(bytes(payload[at : at + configuration_bytes]))
        at += configuration_bytes
        self.runs, at = _pairs(payload, at, runs)
        self.damaged, at = _pairs(payload, at, damaged)
        self.doubtful, at = _pairs(payload, at, doubtful)
        self.segments: list[tuple[Index, Index, int]] = list(
            TRIPLE.iter_unpack(payload[at : at + TRIPLE.size * segments])
        )
        at += TRIPLE.size * segments
        self.snapshots: list[SnapshotFile] = []
        for _ in range(snapshots):
            number, _ = PAIR.unpack_from(payload, at)
            meta, at = decode_meta(payload, at + PAIR.size)
            self.snapshots.append(SnapshotFile(self.group, number, meta))
        self.configuration_entries: list[Entry] = []
        for _ in range(entries):
            index, term, length = _ENTRY.unpack_from(payload, at)
            at += _ENTRY.size
            self.configuration_entries.append(Entry(index, term, CONFIG, bytes(payload[at : at + length])))
            at += length
        if at != len(payload):
            raise ValueError(f"group {self.group} takes {at} of {len(payload)} bytes")
        self._check()

    def _check(self) -> None:
        """The log must be without gaps: segments up to the durable index, then the tail."""
        if not self.runs or not self.base <= self.durable_index <= self.last_index <= NUMBER_MAX:
            raise ValueError(f"the log of group {self.group} ends before it begins")
        if any(low[0] >= high[0] or low[1] >= high[1] for low, high in pairwise(self.runs)) or self.runs[-1][0] > max(
            self.base, self.last_index
        ):
            raise ValueError(f"the terms of group {self.group} are {self.runs}")
        covered = self.base
        previous = 0
        for first, last, _ in self.segments:
            if not previous < first <= last or (last > self.base and first > covered + 1):
                raise ValueError(f"the segments of group {self.group} do not follow each other")
            previous, covered = last, max(covered, last)
        if covered != self.durable_index:
            raise ValueError(f"the segments of group {self.group} end at {covered}, and not at {self.durable_index}")

    @property
    def base(self) -> Index:
        return self.runs[0][0]

    def restore(self, log: SegmentedLog) -> None:
        """Sets the state of a new log. The tail is empty: its bodies come from journal blocks."""
        base_index, base_term = self.runs[0]
        log.hard_state = self.hard_state
        log.base = base_index
        log.terms = TermRuns(base_index, base_term)
        for first, term in self.runs[1:]:
            log.terms.append(first, term)
        log.damaged = IndexRanges(self.damaged)
        log.doubtful = IndexRanges(self.doubtful)
        log.snapshots = self.snapshots
        log.configuration_entries = self.configuration_entries
        log.tail = Tail(self.durable_index + 1)
        log.segments = []
        for first, last_index, number in self.segments:
            segment = Segment(self.group, number, SparseIndex(first), log.salt.of_segment(number))
            segment.last_index = last_index
            log.segments.append(segment)


def _pairs(payload: Buffer, at: int, count: int) -> tuple[list[tuple[Index, Term]], int]:
    end = at + PAIR.size * count
    return list(PAIR.iter_unpack(payload[at:end])), end
