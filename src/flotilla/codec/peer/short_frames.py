"""The short form of a frame: one append of one small entry, or the answer to it.

Under little load nearly every frame between nodes is one of these two, and their envelopes would be most of their
cost. So they have a layout of fixed width in the place of the envelope, whose length is 0:

    kind u8 | sender, target, group, term u64 | the fields of the message, u64 each | the body of the entry

Everything is big-endian. The meaning is that of the long form, which any message can take.
"""

import struct

from flotilla.codec.peer.bounds import check_cells
from flotilla.codec.peer.messages import COPY_BYTES_MAX, ENTRY_KINDS, Buffer, check_configuration
from flotilla.raft.messages import CONFIG, Append, AppendReply, Entry, Message
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NO_NODE, GroupId

_APPEND = 1
_APPEND_REPLY = 2
#: After the group and the term: prev_index, prev_term, commit; index, term and kind of the entry.
_APPEND_LAYOUT = struct.Struct(">B10Q")
#: After the group and the term: index, accepted, hint_index, hint_term.
_REPLY_LAYOUT = struct.Struct(">B8Q")


def encode_short(group: GroupId, message: Message) -> bytes | None:
    """The message in its short form; None if it has none."""
    kind = type(message)
    if kind is Append:
        return _encode_append(group, message)  # type: ignore[arg-type]
    if kind is AppendReply:
        return _encode_append_reply(group, message)  # type: ignore[arg-type]
    return None


def _encode_append(group: GroupId, message: Append) -> bytes | None:
    entries = message.entries
    if len(entries) != 1:
        return None
    entry = entries[0]
    data = entry.data
    if len(data) > COPY_BYTES_MAX:
        return None
    head = _APPEND_LAYOUT.pack(
        _APPEND,
        message.sender,
        message.to,
        group,
        message.term,
        message.prev_index,
        message.prev_term,
        message.commit,
        entry.index,
        entry.term,
        entry.kind,
    )
    return b"".join((head, data))


def _encode_append_reply(group: GroupId, message: AppendReply) -> bytes:
    return _REPLY_LAYOUT.pack(
        _APPEND_REPLY,
        message.sender,
        message.to,
        group,
        message.term,
        message.index,
        message.accepted,
        message.hint_index,
        message.hint_term,
    )


def decode_short(data: Buffer, start: int) -> tuple[GroupId, Message]:
    """The message whose short form begins at `start` and ends with the data."""
    size = len(data) - start
    kind = data[start] if size else 0
    if kind == _APPEND and _APPEND_LAYOUT.size <= size <= _APPEND_LAYOUT.size + COPY_BYTES_MAX:
        return _decode_append(data, start)
    if kind == _APPEND_REPLY and size == _REPLY_LAYOUT.size:
        return _decode_append_reply(data, start)
    raise InvalidArgumentError(f"a frame without an envelope is of kind {kind} and has {size} bytes")


def _decode_append(data: Buffer, start: int) -> tuple[GroupId, Append]:
    cells = _APPEND_LAYOUT.unpack_from(data, start)
    check_cells(cells)
    _, sender, target, group, term, prev_index, prev_term, commit, index, entry_term, kind = cells
    if sender == NO_NODE or target == NO_NODE:
        raise InvalidArgumentError("a frame has no sender or target")
    if kind not in ENTRY_KINDS:
        raise InvalidArgumentError(f"there is no entry of kind {kind}")
    body = bytes(data[start + _APPEND_LAYOUT.size :])
    if kind == CONFIG:
        check_configuration(body)
    entry = Entry(index, entry_term, kind, body)
    return group, Append(sender, target, term, prev_index, prev_term, commit, [entry])


def _decode_append_reply(data: Buffer, start: int) -> tuple[GroupId, AppendReply]:
    cells = _REPLY_LAYOUT.unpack_from(data, start)
    check_cells(cells)
    _, sender, target, group, term, index, accepted, hint_index, hint_term = cells
    if sender == NO_NODE or target == NO_NODE:
        raise InvalidArgumentError("a frame has no sender or target")
    if accepted > 1:
        raise InvalidArgumentError(f"accepted is 0 or 1, not {accepted}")
    return group, AppendReply(sender, target, term, index, accepted == 1, hint_index, hint_term)
