"""Recovery of a data directory: the last checkpoint, the journal after it, and the files they name.

Blocks up to the last checkpoint give bodies only, found by (index, term): those of entries that the checkpoint
lists and no segment holds yet. Later blocks are replayed one by one. A body that is lost or fails its checksum
leaves a damaged entry whose index and term are known; in a doubtful block the entry is doubtful too. Content that makes
no sense although its checksum is right raises CorruptionError. Nothing is written here: a crash during recovery changes
nothing, and `store.py` makes the recovered state durable again before it is used.
"""

import struct
from collections.abc import Callable
from struct import Struct

from flotilla.codec.log import decode_configuration
from flotilla.raft.messages import CONFIG, Configuration, Entry
from flotilla.storage.block import BlockImage, head_of, records_of
from flotilla.storage.checkpoint import GroupState, checkpoint_keep_from
from flotilla.storage.damage.repairs import RepairedEntry
from flotilla.storage.framing import (
    CHECKPOINT_GROUP,
    CHECKPOINT_NODE,
    CREATE,
    ENTRY,
    FRAME_BYTES,
    HARD_STATE,
    PAIR,
    REMOVE,
    REPAIRED,
    RESET,
    SNAPSHOT_TAKEN,
    START,
    TRIPLE,
    TRUNCATE,
    Frame,
    decode_meta,
    parse_hard_state,
    seal,
    seal_absent,
)
from flotilla.storage.group_log import SegmentedLog
from flotilla.storage.snapshots import SnapshotFile
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import GroupId, Index

#: The front of a RESET record: group, file number, log index, log term.
RESET_FRONT = Struct("<QQQQ")
GROUP_FRONT = Struct("<Q")


class Body:
    """An intact body in the journal, with its head."""

    __slots__ = ("data", "frame", "head")

    def __init__(self, frame: Frame, head: bytes, data: memoryview) -> None:
        self.frame = frame
        self.head = head
        self.data = data


class Replay:
    """Builds the logs of all groups from a chain of blocks."""

    __slots__ = ("_bodies", "_entries_max", "_make_log", "_repairs", "_salt", "keep_from", "logs")

    def __init__(
        self, make_log: Callable[[GroupId, Configuration], SegmentedLog], salt: int, journal_bytes: int
    ) -> None:
        """`salt`: of the heads in the logs. `journal_bytes`: the size of the files that hold their tails."""
        self._make_log = make_log
        self._entries_max = journal_bytes // FRAME_BYTES
        self._salt = salt
        self.logs: dict[GroupId, SegmentedLog] = {}
        #: The oldest journal file that the logs still need.
        self.keep_from = 0
        self._bodies: dict[GroupId, dict[Index, Body]] = {}
        self._repairs: dict[GroupId, dict[Index, Body]] = {}

    def run(self, chain: list[BlockImage], proven: int) -> None:
        """`proven`: blocks up to this sequence were durable; damage in a later one is doubtful.

        Raises CorruptionError.
        """
        last_checkpoint = max(at for at, image in enumerate(chain) if image.is_checkpoint)
        for image in chain[: last_checkpoint + 1]:
            _read(image, self._gather)
        _read(chain[last_checkpoint], self._restore)
        self._bodies.clear()
        self._repairs.clear()
        for image in chain[last_checkpoint + 1 :]:
            _read(image, self._apply)
        if chain[-1].sequence > proven:
            self._doubt(chain[-1])

    def _doubt(self, image: BlockImage) -> None:
        """What the last block lost may never have been acknowledged.

        A lost configuration is no such case: the members that it names might have to be asked as well.
        """
        for tag, _, frame, body in records_of(image):
            if tag == ENTRY and frame is not None and body is None and frame.kind != CONFIG:
                log = self.logs.get(frame.group)
                if log is not None and log.damaged.at(frame.index) is not None:
                    log.doubtful.add(frame.index, frame.index + 1)

    def _gather(self, image: BlockImage) -> None:
        for tag, payload, frame, body in records_of(image):
            if frame is not None:
                if body is not None:
                    known = self._bodies if tag == ENTRY else self._repairs
                    head = head_of(image, payload, frame, body, self._salt)
                    known.setdefault(frame.group, {})[frame.index] = Body(frame, head, body)
            elif tag in (CREATE, REMOVE):
                # A group with this id begins or ends here: bodies of an earlier group do not belong to it.
                (group,) = GROUP_FRONT.unpack_from(payload)
                self._bodies.pop(group, None)
                self._repairs.pop(group, None)

    def _restore(self, image: BlockImage) -> None:
        for tag, payload, _, _ in records_of(image):
            if tag == CHECKPOINT_NODE:
                self.keep_from = checkpoint_keep_from(image)
            elif tag == CHECKPOINT_GROUP:
                state = GroupState(payload)
                log = self._make_log(state.group, state.configuration)
                state.restore(log)
                self._restore_tail(log, state)
                self.logs[state.group] = log

    def _restore_tail(self, log: SegmentedLog, state: GroupState) -> None:
        _require(state.last_index - state.durable_index <= self._entries_max, "a tail is longer than the journal")
        bodies = self._bodies.get(log.group, {})
        repairs = self._repairs.get(log.group, {})
        for index in range(state.durable_index + 1, state.last_index + 1):
            term = log.terms.term(index)
            body = bodies.get(index)
            if body is not None and body.frame.term == term:
                log.tail.append(_entry(body.frame, body.data), body.head, body.frame.span)
            else:
                log.tail.append(Entry(index, term, 0, b""), seal_absent(log.group, index, term, self._salt), None)
                log.mark_damaged(index, index + 1)
        log.repair_in_memory(
            [
                _repaired(body.frame, body.data, self._salt)
                for index, body in repairs.items()
                if log.base < index and log.contains(index, body.frame.term)
            ]
        )

    def _apply(self, image: BlockImage) -> None:
        for tag, payload, frame, body in records_of(image):
            if frame is not None:
                head = b"" if body is None else head_of(image, payload, frame, body, self._salt)
                self._apply_entry(tag, head, frame, body)
            elif tag == HARD_STATE:
                group, hard_state = parse_hard_state(payload)
                self.logs[group].hard_state = hard_state
            elif tag == TRUNCATE:
                group, first_dropped = PAIR.unpack_from(payload)
                _require(first_dropped > self.logs[group].base, "a truncation before the start of a log")
                self.logs[group].truncate_in_memory(first_dropped)
            elif tag == START:
                group, first_index, _ = TRIPLE.unpack_from(payload)
                _require(self.logs[group].is_start(first_index), "the start of a log outside of it")
                self.logs[group].move_start_in_memory(first_index)
            elif tag == CREATE:
                (group,) = GROUP_FRONT.unpack_from(payload)
                self.logs[group] = self._make_log(group, decode_configuration(payload[GROUP_FRONT.size :]))
            elif tag == REMOVE:
                (group,) = GROUP_FRONT.unpack_from(payload)
                del self.logs[group]
            elif tag == SNAPSHOT_TAKEN:
                group, number = PAIR.unpack_from(payload)
                meta, _ = decode_meta(payload, PAIR.size)
                self.logs[group].take_snapshot_in_memory(SnapshotFile(group, number, meta))
            elif tag == RESET:
                group, number, log_index, log_term = RESET_FRONT.unpack_from(payload)
                meta, _ = decode_meta(payload, RESET_FRONT.size)
                self.logs[group].reset_in_memory(SnapshotFile(group, number, meta), log_index, log_term)
            else:
                _require(tag in (CHECKPOINT_NODE, CHECKPOINT_GROUP), f"a record of kind {tag}")

    def _apply_entry(self, tag: int, head: bytes, frame: Frame, body: memoryview | None) -> None:
        log = self.logs[frame.group]
        if tag == REPAIRED:
            _require(log.contains(frame.index, frame.term), "a repaired entry that the log does not have")
            if body is not None:
                log.repair_in_memory([_repaired(frame, body, self._salt)])
            return
        is_next = frame.index == log.last_index() + 1 and frame.term >= log.terms.last_term
        _require(is_next, f"entry {frame.index} of group {frame.group} does not follow the one before")
        if body is not None:
            log.append_in_memory(_entry(frame, body), head, frame.span)
        else:
            absent = seal_absent(frame.group, frame.index, frame.term, self._salt, frame.span)
            # A placeholder without a kind: a lost configuration must not be listed.
            log.append_in_memory(Entry(frame.index, frame.term, 0, b""), absent, frame.span)
            log.mark_damaged(frame.index, frame.index + 1)


def _read(image: BlockImage, step: Callable[[BlockImage], None]) -> None:
    """Raises CorruptionError for content that makes no sense."""
    try:
        step(image)
    except (struct.error, LookupError, ArithmeticError, ValueError, InvalidArgumentError) as error:
        raise image.senseless(error) from error


def _require(is_sound: bool, otherwise: str) -> None:
    if not is_sound:
        raise ValueError(otherwise)


def _entry(frame: Frame, body: memoryview) -> Entry:
    # A configuration outlives the tail; it must not keep a whole journal file in memory.
    return Entry(frame.index, frame.term, frame.kind, bytes(body) if frame.kind == CONFIG else body)


def _repaired(frame: Frame, body: memoryview, salt: int) -> RepairedEntry:
    entry = _entry(frame, body)
    return RepairedEntry(entry, seal(ENTRY, frame.group, entry, frame.span, salt), frame.span)
