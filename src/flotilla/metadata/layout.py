"""Layouts of values as bytes, derived from annotations: a class declares its fields once, for writing and reading.

    int                        unsigned LEB128
    bool                       1 or 0
    str                        length in bytes, UTF-8
    int | str                  0 and the int, or 1 and the str
    bytes                      length, bytes
    tuple[X, ...]              count, items
    tuple[X, Y]                X, Y
    X | None                   X, whose first field is an int that is never 0; or 0
    dataclass or NamedTuple    its fields in the order of the class

So the order and the types of fields are the format: changing them needs a new version of it. The tests compare
recorded bytes. Reading raises InvalidArgumentError for malformed bytes, and nothing else.
"""

from collections.abc import Callable, Collection, Mapping
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

from flotilla.metadata.binary import Reader, Writer


class Layout(NamedTuple):
    write: Callable[[Writer, Any], None]
    read: Callable[[Reader], Any]


#: Layouts by annotation, where they do not follow from it.
Special: TypeAlias = Mapping[Any, Layout]


def _write_number_or_text(writer: Writer, value: int | str) -> None:
    writer.integer(1 if isinstance(value, str) else 0)
    if isinstance(value, str):
        writer.text(value)
    else:
        writer.integer(value)


def _read_number_or_text(reader: Reader) -> int | str:
    return reader.text() if reader.integer() else reader.integer()


_PLAIN: Final[Special] = {
    int: Layout(Writer.integer, Reader.integer),
    bool: Layout(Writer.integer, lambda reader: bool(reader.integer())),
    str: Layout(Writer.text, Reader.text),
    int | str: Layout(_write_number_or_text, _read_number_or_text),
    bytes: Layout(Writer.raw, Reader.raw),
}


def layout_of(annotation: Any, special: Special = _PLAIN) -> Layout:
    """The layout of a type of the table above. `special` takes precedence, also for the parts of the type."""
    known = special.get(annotation) or _PLAIN.get(annotation)
    if known is not None:
        return known
    parts = get_args(annotation)
    if get_origin(annotation) is tuple:
        if parts[-1] is Ellipsis:
            return _sequence(layout_of(parts[0], special))
        return _row([layout_of(part, special) for part in parts])
    if parts and parts[-1] is NoneType:
        return _optional(layout_of(parts[0], special))
    fields = fields_of(annotation, special=special)
    return Layout(fields.write, lambda reader: annotation(*fields.read(reader)))


def fields_of(kind: type, *, without: Collection[str] = (), special: Special = _PLAIN) -> Layout:
    """The fields of a class but those in `without`. Reads a list of their values, in the order of the class."""
    layouts = {name: layout_of(each, special) for name, each in get_type_hints(kind).items() if name not in without}
    writers = [(name, layout.write) for name, layout in layouts.items()]
    readers = [layout.read for layout in layouts.values()]

    def write(writer: Writer, value: Any) -> None:
        for name, write_field in writers:
            write_field(writer, getattr(value, name))

    return Layout(write, lambda reader: [read_field(reader) for read_field in readers])


def _sequence(item: Layout) -> Layout:
    write_item, read_item = item

    def write(writer: Writer, values: tuple[Any, ...]) -> None:
        writer.integer(len(values))
        for value in values:
            write_item(writer, value)

    return Layout(write, lambda reader: tuple([read_item(reader) for _ in range(reader.count())]))


def _row(parts: list[Layout]) -> Layout:
    def write(writer: Writer, values: tuple[Any, ...]) -> None:
        for part, value in zip(parts, values, strict=True):
            part.write(writer, value)

    return Layout(write, lambda reader: tuple([part.read(reader) for part in parts]))


def _optional(item: Layout) -> Layout:
    def write(writer: Writer, value: Any) -> None:
        if value is None:
            writer.integer(0)
        else:
            item.write(writer, value)

    return Layout(write, lambda reader: None if reader.skip_zero() else item.read(reader))
