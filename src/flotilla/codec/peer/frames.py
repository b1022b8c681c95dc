"""Frames between nodes: one frame carries many groups' messages for one peer.

The layout is in proto/peer.proto: checksum, envelope, then the bodies of entries and snapshot pieces outside of
protobuf. Frequent kinds (heartbeats, appends, their replies) travel as rows in packed arrays, the rare ones as protobuf
messages. Runs in the envelope record their order, so a frame decodes to the messages it was made of. Sender and target
are given once per frame and are the same for all its messages. The two kinds that are sent alone under little load
need no envelope (`short_frames`).

Decoding is total: it returns messages or raises InvalidArgumentError, whatever the bytes are. The checksum detects
damage, and a frame with a valid checksum and inconsistent numbers is refused as well. Allocation is bounded by the
length of the input; large bodies are slices of it.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from flotilla.codec.checksum import crc32c
from flotilla.codec.generated import peer_pb2
from flotilla.codec.peer.bounds import check_cells, check_row
from flotilla.codec.peer.messages import CODECS, COPY_BYTES_MAX, Buffer, Incoming, Outgoing
from flotilla.codec.peer.short_frames import decode_short, encode_short
from flotilla.raft.messages import Append, Message, Proposal, RepairReply, SnapshotChunk
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NO_NODE, GroupId, NodeId
from flotilla.types.limits import ENTRY_BYTES_MAX, PEER_FRAME_BYTES_MAX

PROTOCOL_VERSION = 1

#: Room for everything but bodies. It bounds the objects that a faulty peer can make this node allocate.
ENVELOPE_BYTES_MAX = PEER_FRAME_BYTES_MAX - ENTRY_BYTES_MAX

#: The most that a message, an entry and a member of a configuration add to an envelope.
_MESSAGE_BYTES_MAX = 112
_ENTRY_BYTES_MAX = 32
_MEMBER_BYTES_MAX = 10

_PREFIX = struct.Struct(">II")
_CHECKSUM = struct.Struct(">I")
_LENGTH = struct.Struct(">I")
_NO_ENVELOPE = _LENGTH.pack(0)

_WRITERS = {kind: (codec.number, codec.write) for kind, codec in CODECS.items()}
_READERS = {codec.number: (codec.field, codec.width, codec.read) for codec in CODECS.values()}


def encode_frame(messages: Sequence[tuple[GroupId, Message]]) -> list[Buffer]:
    """One frame, as buffers to be written in order. Large bodies are not copied.

    All messages have the same sender and the same target. The caller keeps their summed
    `framed_bytes_max` within PEER_FRAME_BYTES_MAX; a frame over the limit raises InvalidArgumentError.
    """
    group, first = messages[0]
    sender = first.sender
    target = first.to
    assert sender != NO_NODE
    assert target != NO_NODE
    short = encode_short(group, first) if len(messages) == 1 else None
    if short is not None:
        rest = _NO_ENVELOPE + short
        return [_CHECKSUM.pack(crc32c(rest)) + rest]
    outgoing = Outgoing()
    runs = _write_runs(outgoing, messages, sender, target)
    envelope = peer_pb2.Frame(
        version=PROTOCOL_VERSION, sender=sender, target=target, runs=runs, **outgoing.columns
    ).SerializeToString()
    return _assemble(envelope, outgoing.bodies)


def _write_runs(
    outgoing: Outgoing, messages: Sequence[tuple[GroupId, Message]], sender: NodeId, target: NodeId
) -> list[int]:
    """Passes every message to the writer of its kind; returns the runs that record their order."""
    runs: list[int] = []
    last_number = 0
    for group, message in messages:
        assert message.sender == sender
        assert message.to == target
        number, write = _WRITERS[type(message)]
        write(outgoing, group, message)
        if number == last_number:
            runs[-1] += 1
        else:
            runs += (number, 1)
            last_number = number
    return runs


def framed_bytes_max(message: Message) -> int:
    """The most that a message adds to a frame; the sender fills frames by it."""
    size = _MESSAGE_BYTES_MAX
    if isinstance(message, Append | RepairReply):
        for entry in message.entries:
            size += _ENTRY_BYTES_MAX + len(entry.data)
    elif isinstance(message, SnapshotChunk):
        configuration = message.meta.configuration
        for nodes in (
            configuration.voters,
            configuration.outgoing,
            configuration.learners,
            configuration.learners_next,
        ):
            size += _MEMBER_BYTES_MAX * (1 + len(nodes))
        size += len(message.data)
    elif isinstance(message, Proposal):
        size += len(message.data)
    return size


def decode_frame(data: Buffer | bytearray) -> list[tuple[GroupId, Message]]:
    """The messages of a frame, in order. Raises InvalidArgumentError for anything that is not one whole frame.

    Large bodies are slices of `data`, which must not change any more.
    """
    size = len(data)
    if not _PREFIX.size <= size <= PEER_FRAME_BYTES_MAX:
        raise InvalidArgumentError(f"no frame has {size} bytes")
    # A small frame is copied once at most; the large parts of a large one are not copied.
    data = bytes(data) if size <= COPY_BYTES_MAX else memoryview(data)
    checksum, envelope_size = _PREFIX.unpack_from(data)
    if crc32c(data[_CHECKSUM.size :]) != checksum:
        raise InvalidArgumentError("the checksum of a frame is wrong")
    if envelope_size == 0:
        return [decode_short(data, _PREFIX.size)]
    envelope_end = _PREFIX.size + envelope_size
    if envelope_end > size or envelope_size > ENVELOPE_BYTES_MAX:
        raise InvalidArgumentError("the envelope of a frame is too long")
    try:
        envelope = peer_pb2.Frame.FromString(bytes(data[_PREFIX.size : envelope_end]))
    except DecodeError as error:
        raise InvalidArgumentError("the envelope of a frame is malformed") from error
    if envelope.version != PROTOCOL_VERSION:
        raise InvalidArgumentError(f"protocol version {envelope.version} is not supported")
    check_cells((envelope.sender, envelope.target))
    incoming = Incoming(envelope.sender, envelope.target, _field(envelope, "entries"), data, envelope_end)
    _read_runs(envelope, incoming)
    return incoming.finish()


def _assemble(envelope: bytes, bodies: list[Buffer]) -> list[Buffer]:
    """Prefix, envelope and bodies; small neighbours are joined into one buffer."""
    if len(envelope) > ENVELOPE_BYTES_MAX:
        raise InvalidArgumentError(f"an envelope of {len(envelope)} bytes is over the limit of {ENVELOPE_BYTES_MAX}")
    if not bodies:
        rest = _LENGTH.pack(len(envelope)) + envelope
        return [_CHECKSUM.pack(crc32c(rest)) + rest]
    buffers: list[Buffer] = []
    small: list[Buffer] = [_LENGTH.pack(len(envelope)), envelope]
    for body in bodies:
        if len(body) <= COPY_BYTES_MAX:
            small.append(body)
            continue
        if small:
            buffers.append(b"".join(small))
            small = []
        buffers.append(body)
    if small:
        buffers.append(b"".join(small))
    checksum = 0
    size = _CHECKSUM.size
    for buffer in buffers:
        checksum = crc32c(buffer, checksum)
        size += len(buffer)
    if size > PEER_FRAME_BYTES_MAX:
        raise InvalidArgumentError(f"a frame of {size} bytes is over the limit of {PEER_FRAME_BYTES_MAX}")
    buffers[0] = _CHECKSUM.pack(checksum) + buffers[0]
    return buffers


def _reader(number: int) -> tuple[str, int, Callable[[Incoming, list[Any]], None]]:
    found = _READERS.get(number)
    if found is None:
        raise InvalidArgumentError(f"field {number} of a frame holds no messages")
    return found


def _field(envelope: peer_pb2.Frame, name: str) -> list[Any]:
    """The cells of a field: numbers, or messages of their own. Raises InvalidArgumentError for one out of bounds."""
    # Slices: copying a repeated field to a list is faster than iterating over it.
    cells: list[Any] = getattr(envelope, name)[:]
    if cells and isinstance(cells[0], int):
        check_cells(cells)
    else:
        for row in cells:
            check_row(row)
    return cells


def _read_runs(envelope: peer_pb2.Frame, incoming: Incoming) -> None:
    """Passes every run of messages to the reader of its kind, in order."""
    runs = envelope.runs[:]
    if not runs or len(runs) % 2:
        raise InvalidArgumentError("the runs of a frame are no pairs")
    #: Of each kind: the cells of its field, and how many of them have been read.
    fields: dict[int, tuple[list[Any], int]] = {}
    numbers = iter(runs)
    for number, count in zip(numbers, numbers, strict=True):
        name, width, read = _reader(number)
        cells, start = fields.get(number) or (_field(envelope, name), 0)
        end = start + count * width
        if not start < end <= len(cells):
            raise InvalidArgumentError("a frame announces other messages than it holds")
        fields[number] = (cells, end)
        read(incoming, cells[start:end])
    for cells, end in fields.values():
        if end != len(cells):
            raise InvalidArgumentError("a frame holds more messages than it announces")
