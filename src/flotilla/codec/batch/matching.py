"""Which records of a batch a filter takes, without decoding those that cannot match.

Most stretches of a log hold nothing for a filter: one search through the headers of all their records shows that, and
takes far less time than reading each.
"""

from flotilla.codec.batch.columns import BinaryColumn
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.filters import MessageFilter
from flotilla.types.tasks import TASK_TYPE_HEADER

_TYPE_NAME = TASK_TYPE_HEADER.encode()


def matching(view: BatchView, wanted: MessageFilter, first: int, end: int) -> list[bool]:
    """One value for each of the records [first, end) of the batch. Raises InvalidArgumentError if it is malformed."""
    columns = view.columns
    if columns.header_offsets is None or columns.header_names is None or columns.header_values is None:
        return [wanted.matches(())] * (end - first)
    low: int = columns.header_offsets[first]
    high: int = columns.header_offsets[end]
    names, values = _bytes_of(columns.header_names, low, high), _bytes_of(columns.header_values, low, high)
    if not _may_match(wanted, names, values):
        return [False] * (end - first)
    return [wanted.matches(view.headers(position)) for position in range(first, end)]


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
