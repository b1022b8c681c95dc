"""The check of a batch on its way in, before it is proposed: complete, total and bounded.

Whatever the bytes are, the result is a batch that every replica can cut and every client can decode, or
InvalidArgumentError. A compressed batch is opened, within the limits and the ratio: otherwise a batch that no reader
can open could be stored. Memory is bounded by the decompressed size and by the counts of records and headers, whose
offsets are read as numbers, one column at a time. Time grows with them, or with their sort when they are out of order.
"""

from itertools import pairwise
from operator import sub

from flotilla.codec.batch.columns import Buffer, Columns, checked_offsets
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import PRIORITY_MAX, TIME_MS_MAX
from flotilla.types.records import DEFAULT_LIMITS, PAYLOAD_SETTING, RecordLimits


def validate(buffer: Buffer, limits: RecordLimits = DEFAULT_LIMITS) -> BatchView:
    """The opened batch, if a topic with these limits may store it. Raises InvalidArgumentError."""
    if len(buffer) > limits.batch_bytes_max:
        raise InvalidArgumentError(f"a batch of {len(buffer)} bytes is above {limits.batch_bytes_max}")
    view = BatchView(buffer, body_bytes_max=limits.batch_bytes_max)
    if view.header.count > limits.record_count_max:
        raise InvalidArgumentError(f"a batch of {view.header.count} records is above {limits.record_count_max}")
    if view.header.flags:
        raise InvalidArgumentError("only a transaction's decision marks a batch as committed")
    columns = view.columns
    directory = columns.directory
    if directory.priority > PRIORITY_MAX:
        raise InvalidArgumentError(f"priority {directory.priority} is above {PRIORITY_MAX}")
    if not 0 <= directory.deliver_at_ms <= TIME_MS_MAX:
        raise _no_time("deliver_at_ms")
    if not 0 <= directory.ttl_ms <= TIME_MS_MAX:
        raise _no_time("ttl_ms")
    _check_timestamps(view)
    columns.payloads.check("a payload", limits.payload_bytes_max, PAYLOAD_SETTING)
    if directory.columns:
        _check_optional(columns, limits)
    return view


def _no_time(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{what} is not within 0 to {TIME_MS_MAX}")


def _check_timestamps(view: BatchView) -> None:
    """Checks that the header has the times of the records: the time index of the log relies on them."""
    header = view.header
    first_ms = least_ms = most_ms = header.first_time_ms
    if view.columns.timestamps is not None:
        times: list[int] = view.columns.timestamps.tolist()
        first_ms, least_ms, most_ms = times[0], min(times), max(times)
    if header.first_time_ms != first_ms or header.max_time_ms != most_ms:
        raise InvalidArgumentError("the times in the batch header are not those of its records")
    if least_ms < 0 or most_ms > TIME_MS_MAX:
        raise _no_time("timestamp_ms")


def _check_optional(columns: Columns, limits: RecordLimits) -> None:
    if columns.ttls is not None and (min(columns.ttls) < 0 or max(columns.ttls) > TIME_MS_MAX):
        raise _no_time("ttl_ms")
    if columns.keys is not None:
        columns.keys.check("a key", limits.key_bytes_max)
    if columns.idempotency_keys is not None:
        columns.idempotency_keys.check("an idempotency key", limits.idempotency_key_bytes_max)
    if columns.header_offsets is not None:
        _check_headers(columns, checked_offsets(columns.header_offsets), limits)


def _check_headers(columns: Columns, pairs: list[int], limits: RecordLimits) -> None:
    assert columns.header_names is not None
    assert columns.header_values is not None
    names = columns.header_names
    if max(map(sub, pairs[1:], pairs)) > limits.header_count_max:
        raise InvalidArgumentError(f"a record has more than {limits.header_count_max} headers")
    name_offsets = checked_offsets(names.offsets)
    value_offsets = checked_offsets(columns.header_values.offsets)
    # The size of all headers bounds each record's, and is mostly below the limit.
    if name_offsets[-1] + value_offsets[-1] > limits.header_bytes_max:
        ends = [name_offsets[pair] + value_offsets[pair] for pair in pairs]
        if max(map(sub, ends[1:], ends)) > limits.header_bytes_max:
            raise InvalidArgumentError(f"a record has more than {limits.header_bytes_max} bytes of headers")
    data = bytes(names.data)
    if not data.isascii():
        _check_names(data, name_offsets)


def _check_names(data: bytes, offsets: list[int]) -> None:
    try:
        for start, end in pairwise(offsets):
            data[start:end].decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"a header name is not UTF-8: {error}") from error
