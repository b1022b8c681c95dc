"""Requests and answers between a client and a broker in one process: handed over as they are, without bytes.

The codec is more than bytes: it refuses numbers and texts that the contract has no room for, and the two sides share
nothing afterwards. So a value passes as it is only if its kind is frequent, the broker and the client leave it alone,
and everything in it is ordinary: ASCII, in range and not large. Any other value goes through its frame and comes out
exactly as it would over a socket, or is refused with the same error.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from flotilla.codec.client.frames import (
    NO_CORRELATION,
    Answer,
    Buffers,
    Incoming,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from flotilla.types.ids import Index
from flotilla.types.limits import ENTRY_BYTES_MAX, REASON_BYTES_MAX
from flotilla.types.operations import Fetched, Hello, Produce, Produced, Request
from flotilla.types.operations.queue import Extend, LeaseRange, Poll, Polled, Pushed, Settle, Settled

#: Answers in the order in which the broker gave them, each with the id of its request and its metadata index.
Answers: TypeAlias = list[tuple[int, Answer, Index]]

_U32_MAX = 2**32 - 1
_U63_MAX = 2**63 - 1
#: Above these a request may not fit an envelope.
_COUNT_MAX = 256
_NAME_CHARS_MAX = 256
_LENGTH_BYTES = 4


def hand_over_request(request: Request | Hello) -> Incoming:
    """What the broker gets. Raises InvalidArgumentError where `encode_request` does."""
    is_ordinary = _ORDINARY.get(type(request))
    if is_ordinary is not None and is_ordinary(request):
        return request
    return decode_request(_joined(encode_request(NO_CORRELATION + 1, request)))[1]


def hand_over_answer(answer: Answer) -> Answer:
    """What the client gets. Raises InvalidArgumentError where `encode_response` does.

    An error always passes through its frame: the broker may keep the instance, and raising it would change it.
    """
    if type(answer) in _DIRECT_ANSWERS and size_of(answer) <= ENTRY_BYTES_MAX:
        return answer
    return decode_response(_joined(encode_response(NO_CORRELATION + 1, answer)))[1]


def size_of(value: object) -> int:
    """Bytes of the record batches in a request or an answer; the rest is small."""
    measure = _SIZES.get(type(value))
    return 0 if measure is None else measure(value)


def _joined(frame: Buffers) -> memoryview:
    """As a FrameReader cuts it."""
    return memoryview(bytearray().join(frame))[_LENGTH_BYTES:]


def _is_ordinary_produce(request: Produce) -> bool:
    # A batch that cannot be written to is copied by the broker, which stamps its own.
    batch = request.batch
    return (
        type(batch) is bytes
        and len(batch) <= ENTRY_BYTES_MAX
        and _is_ordinary_name(request.topic)
        and 0 <= request.partition <= _U32_MAX
        and 0 <= request.topic_id <= _U63_MAX
        and 0 <= request.partition_count <= _U32_MAX
    )


def _is_ordinary_poll(request: Poll) -> bool:
    return (
        _is_ordinary_name(request.topic)
        and _is_ordinary_name(request.group)
        and _is_ordinary_name(request.member)
        and len(request.partitions) <= _COUNT_MAX
        and 0 <= min(request.partitions, default=0) <= max(request.partitions, default=0) <= _U32_MAX
        and 0 <= request.max_messages <= _U32_MAX
        and 0 <= request.max_bytes <= _U32_MAX
        and 0 <= request.visibility_ms <= _U32_MAX
        and 0 <= request.wait_ms <= _U32_MAX
        and abs(request.start.kind) <= _COUNT_MAX
        and abs(request.start.value) <= _U63_MAX
        and 0 <= request.topic_id <= _U63_MAX
        and _are_ordinary_names(request.types)
        and not request.headers
    )


def _is_ordinary_settle(request: Settle) -> bool:
    return (
        _is_ordinary_name(request.topic)
        and _is_ordinary_name(request.group)
        and 0 <= request.partition <= _U32_MAX
        and 0 <= request.kind <= _U32_MAX
        and abs(request.delay_ms) <= _U63_MAX
        and 0 <= request.topic_id <= _U63_MAX
        and request.reason.isascii()
        and len(request.reason) <= REASON_BYTES_MAX
        and _are_ordinary_names(request.members)
        and _are_ordinary_ranges(request.leases)
    )


def _is_ordinary_extend(request: Extend) -> bool:
    return (
        _is_ordinary_name(request.topic)
        and _is_ordinary_name(request.group)
        and _is_ordinary_name(request.member)
        and 0 <= request.partition <= _U32_MAX
        and 0 <= request.visibility_ms <= _U32_MAX
        and 0 <= request.topic_id <= _U63_MAX
        and _are_ordinary_ranges(request.leases)
    )


def _is_ordinary_name(name: str) -> bool:
    return name.isascii() and len(name) <= _NAME_CHARS_MAX


def _are_ordinary_names(names: list[str]) -> bool:
    return not names or (len(names) <= _COUNT_MAX and all(map(_is_ordinary_name, names)))


def _are_ordinary_ranges(leases: list[LeaseRange]) -> bool:
    return len(leases) <= _COUNT_MAX and all(
        0 <= lease_id <= _U63_MAX and 0 <= first < end <= _U63_MAX for lease_id, first, end in leases
    )


_ORDINARY: dict[type, Callable[[Any], bool]] = {
    Produce: _is_ordinary_produce,
    Poll: _is_ordinary_poll,
    Settle: _is_ordinary_settle,
    Extend: _is_ordinary_extend,
}
_DIRECT_ANSWERS = frozenset((Produced, Fetched, Polled, Pushed, Settled))


def _deliveries_size(answer: Polled | Pushed) -> int:
    return sum([len(delivery.batch) for delivery in answer.deliveries])


_SIZES: dict[type, Callable[[Any], int]] = {
    Produce: lambda request: len(request.batch),
    Fetched: lambda answer: sum(map(len, answer.batches)),
    Polled: _deliveries_size,
    Pushed: _deliveries_size,
}
