"""Frames between clients and brokers: one frame carries one request or one response.

The layout is in proto/client.proto: a length, the length of the envelope, the envelope, and after it the record
batches as they are, outside of protobuf. Encoders return whole frames, length included, as buffers to be written one
after the other; decoders take the bytes after the length, as a FrameReader cuts them. Batches are never copied:
decoded ones are slices of the frame, which must not change any more, and are writable if the frame is.

Decoding is total: it returns a value or raises InvalidArgumentError, whatever the bytes are. A request with a readable
id that cannot be carried out, such as one of an unknown kind, is decoded to an error in its place, so that one bad
request does not end the connection. Unknown fields are ignored: the other side may be newer.
"""

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

from google.protobuf.message import DecodeError

from flotilla.codec.client import backup as backup_messages
from flotilla.codec.client import cluster as cluster_messages
from flotilla.codec.client import messages as client_messages
from flotilla.codec.client import queue as queue_messages
from flotilla.codec.client import schedules as schedule_messages
from flotilla.codec.client import security as security_messages
from flotilla.codec.client import stream as stream_messages
from flotilla.codec.client import transactions as transaction_messages
from flotilla.codec.client.rows import Buffer, Row
from flotilla.codec.generated import client_pb2
from flotilla.types.errors import ALL_ERRORS, FlotillaError, InvalidArgumentError, NotLeaderError, UnknownError
from flotilla.types.ids import Index
from flotilla.types.limits import CLIENT_FRAME_BYTES_MAX, REQUEST_ENVELOPE_BYTES_MAX
from flotilla.types.operations import Authenticate, Challenge, Hello, Reply, Request, Welcome

PROTOCOL_VERSION_MIN = 1
PROTOCOL_VERSION_MAX = 1

#: The id of an error that answers no single request. Requests count from 1.
NO_CORRELATION = 0

#: Up to this size a copy of the attachment is cheaper than a buffer of its own.
COPY_BYTES_MAX = 4096
#: Longer error texts are cut.
ERROR_CHARS_MAX = 2048
RETRY_AFTER_MS_MAX = 3_600_000

#: The pieces of one frame, to be written in order.
Buffers: TypeAlias = list[Buffer]
Incoming: TypeAlias = Request | Hello | Authenticate | FlotillaError
Answer: TypeAlias = Reply | Welcome | Challenge | FlotillaError

#: Length of the rest of the frame, length of the envelope.
_LENGTHS = struct.Struct(">II")
_ENVELOPE_LENGTH = struct.Struct(">I")
_ENVELOPE_START = _ENVELOPE_LENGTH.size

_FAMILIES = (
    client_messages,
    cluster_messages,
    queue_messages,
    transaction_messages,
    stream_messages,
    schedule_messages,
    security_messages,
    backup_messages,
)
REQUEST_ROWS: tuple[Row, ...] = sum([family.REQUEST_ROWS for family in _FAMILIES], ())
REPLY_ROWS: tuple[Row, ...] = sum([family.REPLY_ROWS for family in _FAMILIES], ())
_REQUEST_WRITERS = {row.kind: row for row in REQUEST_ROWS}
_REQUEST_READERS: dict[str | None, Row] = {row.field: row for row in REQUEST_ROWS}
_REPLY_WRITERS = {row.kind: row for row in REPLY_ROWS}
_REPLY_READERS: dict[str | None, Row] = {row.field: row for row in REPLY_ROWS}
_ERRORS = {error.row.code: error for error in ALL_ERRORS}


def encode_request(correlation_id: int, request: Request | Hello | Authenticate, metadata_index: Index = 0) -> Buffers:
    """One frame. Raises InvalidArgumentError for a value that does not fit the contract or the limits."""
    envelope = client_pb2.Request(correlation_id=correlation_id, metadata_index=metadata_index)
    return _encode(envelope, _REQUEST_WRITERS[type(request)], request, REQUEST_ENVELOPE_BYTES_MAX)


def decode_request(frame: Buffer) -> tuple[int, Incoming, Index]:
    """The correlation id, the request or the error to answer it with, and the metadata index that it needs.

    Raises InvalidArgumentError when the id cannot be read: the other side speaks another protocol.
    """
    data, attachment = _split(frame, REQUEST_ENVELOPE_BYTES_MAX)
    try:
        envelope = client_pb2.Request.FromString(data)
    except DecodeError as error:
        raise InvalidArgumentError("the envelope of a request is malformed") from error
    row = _REQUEST_READERS.get(envelope.WhichOneof("body"))
    if row is None:
        return envelope.correlation_id, InvalidArgumentError("the kind of the request is unknown"), 0
    if attachment and not row.has_attachment:
        return envelope.correlation_id, _unexpected(row), 0
    try:
        return envelope.correlation_id, row.read(getattr(envelope, row.field), attachment), envelope.metadata_index
    except InvalidArgumentError as error:
        return envelope.correlation_id, error, 0


def encode_response(correlation_id: int, answer: Answer, metadata_index: Index = 0) -> Buffers:
    """One frame. Raises InvalidArgumentError for a value that does not fit the contract or the limits."""
    envelope = client_pb2.Response(correlation_id=correlation_id, metadata_index=metadata_index)
    if isinstance(answer, FlotillaError):
        _write_error(envelope.error, answer)
        return _assemble(envelope.SerializeToString(), ())
    return _encode(envelope, _REPLY_WRITERS[type(answer)], answer, CLIENT_FRAME_BYTES_MAX)


def decode_response(frame: Buffer) -> tuple[int, Answer, Index]:
    """The correlation id, the answer, and its metadata index; 0: as before on this connection.

    An error of the broker is returned, not raised.
    An unknown kind of answer or error code is decoded to an UnknownError.
    Raises InvalidArgumentError for bytes that no broker sends.
    """
    data, attachment = _split(frame, CLIENT_FRAME_BYTES_MAX)
    try:
        envelope = client_pb2.Response.FromString(data)
    except DecodeError as error:
        raise InvalidArgumentError("the envelope of a response is malformed") from error
    body = envelope.WhichOneof("body")
    row = _REPLY_READERS.get(body)
    if row is not None:
        if attachment and not row.has_attachment:
            raise _unexpected(row)
        return envelope.correlation_id, row.read(getattr(envelope, row.field), attachment), envelope.metadata_index
    if body == "error":
        return envelope.correlation_id, _read_error(envelope.error), envelope.metadata_index
    return envelope.correlation_id, UnknownError("the kind of the answer is unknown"), envelope.metadata_index


def _encode(envelope: Any, row: Row, value: Any, envelope_bytes_max: int) -> Buffers:
    body = getattr(envelope, row.field)
    body.SetInParent()
    try:
        attachment = row.write(body, value)
        data: bytes = envelope.SerializeToString()
    except InvalidArgumentError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{row.kind.__name__} cannot be sent: {error}") from error
    if len(data) > envelope_bytes_max:
        raise InvalidArgumentError(f"an envelope of {len(data)} bytes is over the limit of {envelope_bytes_max}")
    return _assemble(data, attachment)


def _assemble(envelope: bytes, attachment: Sequence[Buffer]) -> Buffers:
    envelope_bytes = len(envelope)
    if not attachment:
        return [_LENGTHS.pack(_ENVELOPE_START + envelope_bytes, envelope_bytes) + envelope]
    attached = sum([len(piece) for piece in attachment])
    size = _ENVELOPE_START + envelope_bytes + attached
    if size > CLIENT_FRAME_BYTES_MAX:
        raise InvalidArgumentError(f"a frame of {size} bytes is over the limit of {CLIENT_FRAME_BYTES_MAX}")
    head = _LENGTHS.pack(size, envelope_bytes) + envelope
    if attached <= COPY_BYTES_MAX:
        return [b"".join((head, *attachment))]
    return [head, *attachment]


def _split(frame: Buffer, envelope_bytes_max: int) -> tuple[bytes, memoryview]:
    """The envelope, and the attachment after it."""
    frame_bytes = len(frame)
    if not _ENVELOPE_START <= frame_bytes <= CLIENT_FRAME_BYTES_MAX:
        raise InvalidArgumentError(f"no frame has {frame_bytes} bytes")
    size: int = _ENVELOPE_LENGTH.unpack_from(frame)[0]
    if size > envelope_bytes_max:
        raise InvalidArgumentError(f"an envelope of {size} bytes is over the limit of {envelope_bytes_max}")
    end = _ENVELOPE_START + size
    if end > frame_bytes:
        raise InvalidArgumentError("the envelope of a frame is longer than the frame")
    view = memoryview(frame)
    return bytes(view[_ENVELOPE_START:end]), view[end:]


def _unexpected(row: Row) -> InvalidArgumentError:
    return InvalidArgumentError(f"nothing may follow the envelope of {row.field}")


def _write_error(body: client_pb2.Error, error: FlotillaError) -> None:
    body.code = error.row.code
    # An error may quote text that is not UTF-8, such as the name of a file.
    body.message = str(error)[:ERROR_CHARS_MAX].encode(errors="backslashreplace").decode()
    body.retry_after_ms = min(error.retry_after_ms, RETRY_AFTER_MS_MAX)
    if isinstance(error, NotLeaderError):
        body.leader = error.address


def _read_error(body: client_pb2.Error) -> FlotillaError:
    kind = _ERRORS.get(body.code)
    if kind is None:
        error: FlotillaError = UnknownError(f"error {body.code}: {body.message}")
    elif kind is NotLeaderError:
        error = NotLeaderError(address=body.leader)
        # The broker's text names the node, whose number is not sent.
        error.args = (body.message,)
    else:
        error = kind(body.message)
    error.retry_after_ms = body.retry_after_ms
    return error
