"""Refuses frames with numbers that nothing counts up to.

A node that adopted the last possible term could stand in no later election, and neither could the others after it.
"""

from collections.abc import Iterable

from google.protobuf.message import Message

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NUMBER_MAX


def check_cells(cells: Iterable[int]) -> None:
    """Raises InvalidArgumentError."""
    if max(cells, default=0) > NUMBER_MAX:
        raise InvalidArgumentError(f"a number of a frame is over {NUMBER_MAX}")


def check_row(row: Message) -> None:
    """The same for a message of the envelope, with the messages inside it. Raises InvalidArgumentError."""
    for field, value in row.ListFields():
        values = value if field.is_repeated else (value,)
        if field.message_type is not None:
            for inner in values:
                check_row(inner)
        elif field.cpp_type == field.CPPTYPE_UINT64:
            check_cells(values)
