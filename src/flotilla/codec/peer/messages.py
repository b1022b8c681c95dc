"""Each message between replicas, into and out of the envelope of a frame (proto/peer.proto).

One pair of functions per message, and one table of them. A writer adds a message to the columns of an `Outgoing`
frame; a reader takes a run of one kind (cells of a packed array, or protobuf messages) and adds the messages to an
`Incoming` one. `frames` adds the order and the checksum. Readers raise InvalidArgumentError for everything that no
writer makes.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

from flotilla.codec.generated import peer_pb2
from flotilla.codec.log import decode_configuration, encode_configuration
from flotilla.raft.configuration import decode_configuration as decode_entry
from flotilla.raft.messages import (
    CONFIG,
    DATA,
    NOOP,
    Append,
    AppendReply,
    CommitNews,
    Entry,
    Heartbeat,
    HeartbeatReply,
    Message,
    Proposal,
    Quiesce,
    ReadReply,
    ReadRequest,
    RepairReply,
    RepairRequest,
    SnapshotChunk,
    SnapshotMeta,
    SnapshotReply,
    TimeoutNow,
    VerifyReply,
    VerifyRequest,
    VoteReply,
    VoteRequest,
)
from flotilla.types.errors import CorruptionError, InvalidArgumentError
from flotilla.types.ids import NO_NODE, GroupId, NodeId
from flotilla.types.limits import ENTRY_BYTES_MAX, SNAPSHOT_BYTES_MAX, SNAPSHOT_CHUNK_BYTES_MAX

Buffer: TypeAlias = bytes | memoryview

#: Up to this size a body is copied: that is cheaper than a view, and frees the frame.
COPY_BYTES_MAX = 4096

ENTRY_KINDS = (DATA, NOOP, CONFIG)


def check_configuration(body: Buffer) -> None:
    """Raises InvalidArgumentError: such an entry, once appended, would cut off its group."""
    try:
        decode_entry(body)
    except CorruptionError as error:
        raise InvalidArgumentError(str(error)) from error


_ENTRY_WIDTH = 4


class Outgoing:
    """A frame being written."""

    __slots__ = ("bodies", "columns")

    def __init__(self) -> None:
        #: Fields of the envelope by name: cells of packed arrays, or protobuf messages.
        self.columns: defaultdict[str, Any] = defaultdict(list)
        self.bodies: list[Buffer] = []

    def add_entries(self, entries: list[Entry]) -> None:
        cells = self.columns["entries"]
        bodies = self.bodies
        for entry in entries:
            data = entry.data
            cells += (entry.index, entry.term, entry.kind, len(data))
            bodies.append(data)


class Incoming:
    """A frame being read: sender and target, the messages so far, and the unused entries and bodies."""

    __slots__ = ("_data", "_data_end", "_entries", "_entries_end", "messages", "sender", "target")

    def __init__(self, sender: NodeId, target: NodeId, entries: list[int], data: Buffer, bodies_start: int) -> None:
        if sender == NO_NODE or target == NO_NODE:
            raise InvalidArgumentError("a frame has no sender or target")
        self.sender = sender
        self.target = target
        self.messages: list[tuple[GroupId, Message]] = []
        self._entries = entries
        self._entries_end = 0
        #: The whole frame, and how far its bodies are used; they begin at bodies_start.
        self._data = data
        self._data_end = bodies_start

    def take_entries(self, count: int) -> list[Entry]:
        start = self._entries_end
        end = start + count * _ENTRY_WIDTH
        if end > len(self._entries):
            raise InvalidArgumentError("a frame announces more entries than it holds")
        self._entries_end = end
        cells = iter(self._entries[start:end])
        take_body = self.take_body
        entries: list[Entry] = []
        for index, term, kind, size in zip(cells, cells, cells, cells, strict=True):
            if kind not in ENTRY_KINDS:
                raise InvalidArgumentError(f"there is no entry of kind {kind}")
            if size > ENTRY_BYTES_MAX:
                raise InvalidArgumentError(f"an entry of {size} bytes is over the limit of {ENTRY_BYTES_MAX}")
            body = take_body(size)
            if kind == CONFIG:
                check_configuration(body)
            entries.append(Entry(index, term, kind, body))
        return entries

    def take_body(self, size: int) -> Buffer:
        start = self._data_end
        end = start + size
        if end > len(self._data):
            raise InvalidArgumentError("a body of a frame is cut short")
        self._data_end = end
        if size > COPY_BYTES_MAX:
            return memoryview(self._data)[start:end]
        return bytes(self._data[start:end])

    def finish(self) -> list[tuple[GroupId, Message]]:
        """All messages. Raises InvalidArgumentError if entries or bodies are left."""
        if self._entries_end != len(self._entries):
            raise InvalidArgumentError("a frame holds more entries than its messages")
        if self._data_end != len(self._data):
            raise InvalidArgumentError("a frame holds more bytes than its messages")
        return self.messages


# Frequent kinds: rows of fixed width.


def _read_rows(kind: Callable[..., Message], width: int) -> Callable[[Incoming, list[int]], None]:
    """A reader of rows that are the group and then the fields of a message, in order."""

    def read(frame: Incoming, words: list[int]) -> None:
        if len(words) == width:
            frame.messages.append((words[0], kind(frame.sender, frame.target, *words[1:])))
            return
        # Column by column: a loop over the rows takes one and a half times as long.
        columns = [words[place::width] for place in range(1, width)]
        made = map(kind, repeat(frame.sender), repeat(frame.target), *columns)
        frame.messages += zip(words[::width], made, strict=True)

    return read


def _write_heartbeat(frame: Outgoing, group: GroupId, message: Heartbeat) -> None:
    frame.columns["heartbeats"] += (group, message.term, message.commit, message.read_id)


def _write_heartbeat_reply(frame: Outgoing, group: GroupId, message: HeartbeatReply) -> None:
    frame.columns["heartbeat_replies"] += (group, message.term, message.read_id)


def _write_commit_news(frame: Outgoing, group: GroupId, message: CommitNews) -> None:
    frame.columns["commit_news"] += (group, message.term, message.commit)


def _write_quiesce(frame: Outgoing, group: GroupId, message: Quiesce) -> None:
    frame.columns["quiesces"] += (group, message.term, message.commit)


def _write_append(frame: Outgoing, group: GroupId, message: Append) -> None:
    entries = message.entries
    frame.columns["appends"] += (
        group,
        message.term,
        message.prev_index,
        message.prev_term,
        message.commit,
        len(entries),
    )
    if entries:
        frame.add_entries(entries)


def _read_appends(frame: Incoming, words: list[int]) -> None:
    sender, target, messages = frame.sender, frame.target, frame.messages
    cells = iter(words)
    for group, term, prev_index, prev_term, commit, count in zip(*[cells] * 6, strict=True):
        entries = frame.take_entries(count)
        messages.append((group, Append(sender, target, term, prev_index, prev_term, commit, entries)))


def _write_append_reply(frame: Outgoing, group: GroupId, message: AppendReply) -> None:
    frame.columns["append_replies"] += (
        group,
        message.term,
        message.index,
        int(message.accepted),
        message.hint_index,
        message.hint_term,
    )


def _read_append_replies(frame: Incoming, words: list[int]) -> None:
    sender, target, messages = frame.sender, frame.target, frame.messages
    cells = iter(words)
    for group, term, index, accepted, hint_index, hint_term in zip(*[cells] * 6, strict=True):
        if accepted > 1:
            raise InvalidArgumentError(f"accepted is 0 or 1, not {accepted}")
        messages.append((group, AppendReply(sender, target, term, index, accepted == 1, hint_index, hint_term)))


# Rare kinds: protobuf messages, which can gain fields.


def _write_vote_request(frame: Outgoing, group: GroupId, message: VoteRequest) -> None:
    frame.columns["vote_requests"].append(
        peer_pb2.VoteRequest(
            group=group,
            term=message.term,
            last_index=message.last_index,
            last_term=message.last_term,
            pre=message.pre,
            transfer=message.transfer,
        )
    )


def _read_vote_requests(frame: Incoming, rows: list[peer_pb2.VoteRequest]) -> None:
    for row in rows:
        message = VoteRequest(
            frame.sender, frame.target, row.term, row.last_index, row.last_term, row.pre, row.transfer
        )
        frame.messages.append((row.group, message))


def _write_vote_reply(frame: Outgoing, group: GroupId, message: VoteReply) -> None:
    frame.columns["vote_replies"].append(
        peer_pb2.VoteReply(group=group, term=message.term, granted=message.granted, pre=message.pre)
    )


def _read_vote_replies(frame: Incoming, rows: list[peer_pb2.VoteReply]) -> None:
    for row in rows:
        frame.messages.append((row.group, VoteReply(frame.sender, frame.target, row.term, row.granted, row.pre)))


def _write_snapshot_chunk(frame: Outgoing, group: GroupId, message: SnapshotChunk) -> None:
    meta = message.meta
    frame.columns["snapshot_chunks"].append(
        peer_pb2.SnapshotChunk(
            group=group,
            term=message.term,
            index=meta.index,
            index_term=meta.term,
            log_index=meta.log_index,
            log_term=meta.log_term,
            configuration=encode_configuration(meta.configuration),
            snapshot_size_bytes=meta.size_bytes,
            offset=message.offset,
            size_bytes=len(message.data),
        )
    )
    frame.bodies.append(message.data)


def _read_snapshot_chunks(frame: Incoming, rows: list[peer_pb2.SnapshotChunk]) -> None:
    for row in rows:
        size, whole = row.size_bytes, row.snapshot_size_bytes
        if size > SNAPSHOT_CHUNK_BYTES_MAX:
            raise InvalidArgumentError(f"a piece of {size} bytes is over the limit of {SNAPSHOT_CHUNK_BYTES_MAX}")
        if whole > SNAPSHOT_BYTES_MAX:
            raise InvalidArgumentError(f"a snapshot of {whole} bytes is over the limit of {SNAPSHOT_BYTES_MAX}")
        if row.offset + size > whole:
            raise InvalidArgumentError("a piece of a snapshot is outside of it")
        configuration = decode_configuration(row.configuration)
        meta = SnapshotMeta(row.index, row.index_term, row.log_index, row.log_term, configuration, whole)
        data = frame.take_body(size)
        message = SnapshotChunk(frame.sender, frame.target, row.term, meta, row.offset, data)
        frame.messages.append((row.group, message))


def _write_snapshot_reply(frame: Outgoing, group: GroupId, message: SnapshotReply) -> None:
    frame.columns["snapshot_replies"].append(
        peer_pb2.SnapshotReply(group=group, term=message.term, index=message.index, offset=message.offset)
    )


def _read_snapshot_replies(frame: Incoming, rows: list[peer_pb2.SnapshotReply]) -> None:
    for row in rows:
        frame.messages.append((row.group, SnapshotReply(frame.sender, frame.target, row.term, row.index, row.offset)))


def _write_timeout_now(frame: Outgoing, group: GroupId, message: TimeoutNow) -> None:
    frame.columns["timeouts_now"].append(peer_pb2.TimeoutNow(group=group, term=message.term, reason=message.reason))


def _read_timeouts_now(frame: Incoming, rows: list[peer_pb2.TimeoutNow]) -> None:
    for row in rows:
        frame.messages.append((row.group, TimeoutNow(frame.sender, frame.target, row.term, row.reason)))


def _write_verify_request(frame: Outgoing, group: GroupId, message: VerifyRequest) -> None:
    frame.columns["verify_requests"].append(
        peer_pb2.VerifyRequest(
            group=group,
            term=message.term,
            index=message.index,
            index_term=message.index_term,
            verify_id=message.verify_id,
        )
    )


def _read_verify_requests(frame: Incoming, rows: list[peer_pb2.VerifyRequest]) -> None:
    for row in rows:
        request = VerifyRequest(frame.sender, frame.target, row.term, row.index, row.index_term, row.verify_id)
        frame.messages.append((row.group, request))


def _write_verify_reply(frame: Outgoing, group: GroupId, message: VerifyReply) -> None:
    frame.columns["verify_replies"].append(
        peer_pb2.VerifyReply(
            group=group,
            term=message.term,
            verify_id=message.verify_id,
            holds=message.holds,
            last_index=message.last_index,
        )
    )


def _read_verify_replies(frame: Incoming, rows: list[peer_pb2.VerifyReply]) -> None:
    for row in rows:
        reply = VerifyReply(frame.sender, frame.target, row.term, row.verify_id, row.holds, row.last_index)
        frame.messages.append((row.group, reply))


def _write_proposal(frame: Outgoing, group: GroupId, message: Proposal) -> None:
    frame.columns["proposals"].append(peer_pb2.Proposal(group=group, term=message.term, data=bytes(message.data)))


def _read_proposals(frame: Incoming, rows: list[peer_pb2.Proposal]) -> None:
    for row in rows:
        frame.messages.append((row.group, Proposal(frame.sender, frame.target, row.term, row.data)))


def _write_read_request(frame: Outgoing, group: GroupId, message: ReadRequest) -> None:
    frame.columns["read_requests"].append(peer_pb2.ReadRequest(group=group, term=message.term, read_id=message.read_id))


def _read_read_requests(frame: Incoming, rows: list[peer_pb2.ReadRequest]) -> None:
    for row in rows:
        frame.messages.append((row.group, ReadRequest(frame.sender, frame.target, row.term, row.read_id)))


def _write_read_reply(frame: Outgoing, group: GroupId, message: ReadReply) -> None:
    frame.columns["read_replies"].append(
        peer_pb2.ReadReply(group=group, term=message.term, read_id=message.read_id, index=message.index)
    )


def _read_read_replies(frame: Incoming, rows: list[peer_pb2.ReadReply]) -> None:
    for row in rows:
        if row.index < -1:
            raise InvalidArgumentError(f"there is no index {row.index}")
        frame.messages.append((row.group, ReadReply(frame.sender, frame.target, row.term, row.read_id, row.index)))


def _write_repair_request(frame: Outgoing, group: GroupId, message: RepairRequest) -> None:
    frame.columns["repair_requests"].append(
        peer_pb2.RepairRequest(group=group, term=message.term, low=message.low, high=message.high)
    )


def _read_repair_requests(frame: Incoming, rows: list[peer_pb2.RepairRequest]) -> None:
    for row in rows:
        frame.messages.append((row.group, RepairRequest(frame.sender, frame.target, row.term, row.low, row.high)))


def _write_repair_reply(frame: Outgoing, group: GroupId, message: RepairReply) -> None:
    frame.columns["repair_replies"].append(
        peer_pb2.RepairReply(
            group=group,
            term=message.term,
            low=message.low,
            entry_count=len(message.entries),
            absent=message.absent,
            compacted=message.compacted,
        )
    )
    if message.entries:
        frame.add_entries(message.entries)


def _read_repair_replies(frame: Incoming, rows: list[peer_pb2.RepairReply]) -> None:
    for row in rows:
        entries = frame.take_entries(row.entry_count)
        message = RepairReply(frame.sender, frame.target, row.term, row.low, entries, row.absent, row.compacted)
        frame.messages.append((row.group, message))


class MessageCodec(NamedTuple):
    """How one kind of message travels."""

    #: The field of the envelope that holds it.
    field: str
    #: Cells of that field for one message; a protobuf message is one.
    width: int
    write: Callable[[Outgoing, GroupId, Any], None]
    read: Callable[[Incoming, list[Any]], None]

    @property
    def number(self) -> int:
        """The number of the field, which names the kind in the runs of a frame."""
        return peer_pb2.Frame.DESCRIPTOR.fields_by_name[self.field].number


CODECS: dict[type[Message], MessageCodec] = {
    Heartbeat: MessageCodec("heartbeats", 4, _write_heartbeat, _read_rows(Heartbeat, 4)),
    HeartbeatReply: MessageCodec("heartbeat_replies", 3, _write_heartbeat_reply, _read_rows(HeartbeatReply, 3)),
    CommitNews: MessageCodec("commit_news", 3, _write_commit_news, _read_rows(CommitNews, 3)),
    Quiesce: MessageCodec("quiesces", 3, _write_quiesce, _read_rows(Quiesce, 3)),
    Append: MessageCodec("appends", 6, _write_append, _read_appends),
    AppendReply: MessageCodec("append_replies", 6, _write_append_reply, _read_append_replies),
    VoteRequest: MessageCodec("vote_requests", 1, _write_vote_request, _read_vote_requests),
    VoteReply: MessageCodec("vote_replies", 1, _write_vote_reply, _read_vote_replies),
    SnapshotChunk: MessageCodec("snapshot_chunks", 1, _write_snapshot_chunk, _read_snapshot_chunks),
    SnapshotReply: MessageCodec("snapshot_replies", 1, _write_snapshot_reply, _read_snapshot_replies),
    TimeoutNow: MessageCodec("timeouts_now", 1, _write_timeout_now, _read_timeouts_now),
    VerifyRequest: MessageCodec("verify_requests", 1, _write_verify_request, _read_verify_requests),
    VerifyReply: MessageCodec("verify_replies", 1, _write_verify_reply, _read_verify_replies),
    Proposal: MessageCodec("proposals", 1, _write_proposal, _read_proposals),
    ReadRequest: MessageCodec("read_requests", 1, _write_read_request, _read_read_requests),
    ReadReply: MessageCodec("read_replies", 1, _write_read_reply, _read_read_replies),
    RepairRequest: MessageCodec("repair_requests", 1, _write_repair_request, _read_repair_requests),
    RepairReply: MessageCodec("repair_replies", 1, _write_repair_reply, _read_repair_replies),
}
