"""Which records of a batch a filter takes, without making records.

Most stretches of a log hold nothing for a filter: one search through the headers of all their records shows that. Where
it does not, the headers of the whole stretch are cut at once, which takes a third of reading each record.
"""

from itertools import pairwise

from flotilla.codec.batch.columns import BinaryColumn
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.filters import MessageFilter
from flotilla.types.tasks import TASK_TYPE_HEADER

_TYPE_NAME = TASK_TYPE_HEADER.encode()


def matching(view: BatchView, wanted: MessageFilter, first: int, end: int) -> list[bool]:
    """One value for each of the records [first, end) of the batch. Raises InvalidArgumentError if it is malformed."""
    found = _by_headers(view, wanted, first, end)
    if wanted.key is not None:
        found = [is_match and view.key(place) == wanted.key for place, is_match in enumerate(found, first)]
    if wanted.contains and any(found):
        payloads = _items_of(view.columns.payloads, _bytes_of(view.columns.payloads, first, end), first, end)
        for place, payload in enumerate(payloads):
            at = first + place
            found[place] = found[place] and wanted.is_text_in(payload, view.key(at), view.headers(at))
    return found


def _by_headers(view: BatchView, wanted: MessageFilter, first: int, end: int) -> list[bool]:
    if not wanted.types and not wanted.headers:
        return [True] * (end - first)
    columns = view.columns
    if columns.header_offsets is None or columns.header_names is None or columns.header_values is None:
        return [wanted.matches(())] * (end - first)
    borders: list[int] = columns.header_offsets[first : end + 1].tolist()
    low, high = borders[0], borders[-1]
    names, values = _bytes_of(columns.header_names, low, high), _bytes_of(columns.header_values, low, high)
    if not _may_match(wanted, names, values):
        return [False] * (end - first)
    pairs = list(
        zip(
            _items_of(columns.header_names, names, low, high),
            _items_of(columns.header_values, values, low, high),
            strict=True,
        )
    )
    headers = [(name.encode(), value) for name, value in wanted.headers]
    found: list[bool] = []
    for start, stop in pairwise(borders):
        own = pairs[start - low : stop - low]
        is_match = True
        for pair in headers:
            if pair not in own:
                is_match = False
                break
        found.append(is_match and (not wanted.types or _type_of(own) in wanted.types))
    return found


def _type_of(pairs: list[tuple[bytes, bytes]]) -> str:
    for name, value in pairs:
        if name == _TYPE_NAME:
            return value.decode("utf-8", "replace")
    return ""


def _may_match(wanted: MessageFilter, names: bytes, values: bytes) -> bool:
    if any(name.encode() not in names or value not in values for name, value in wanted.headers):
        return False
    # A type that is no UTF-8 is read with replacement characters, which its bytes do not have.
    return not wanted.types or any(
        not kind or "\ufffd" in kind or (_TYPE_NAME in names and kind.encode() in values) for kind in wanted.types
    )


def _bytes_of(column: BinaryColumn, low: int, high: int) -> bytes:
    """The items [low, high) side by side."""
    if not 0 <= low <= high < len(column.offsets):
        raise InvalidArgumentError("an offset points outside of its column")
    return bytes(column.data[column.offsets[low] : column.offsets[high]])


def _items_of(column: BinaryColumn, data: bytes, low: int, high: int) -> list[bytes]:
    """The items [low, high), from their bytes."""
    offsets: list[int] = column.offsets[low : high + 1].tolist()
    base = offsets[0]
    return [data[start - base : end - base] for start, end in pairwise(offsets)]
