"""Values into and out of protobuf messages by the names of their fields: what is called the same is copied.

A field's type and its place in the message decide how: numbers, flags, texts and bytes as they are, lists and maps as
a whole, dataclasses and named tuples by their own fields, tuples by the order of the message's fields. What differs is
declared: another name, a `Part` of its own, or None for a field that does not travel. A field that the message does
not have is an error when the functions are made. Everything is put together once, into a pair of functions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

from flotilla.types.errors import InvalidArgumentError

#: A field of a message, or a message: protobuf's descriptors have no types of their own.
Descriptor: TypeAlias = Any


class Part(NamedTuple):
    """How one field travels: `write` puts its value into the message of the whole, `read` makes it out of that."""

    write: Callable[[Any, Any], None]
    read: Callable[[Any], Any]
    #: The field of the message, where the value is put into it as it is.
    scalar: str = ""


#: What differs from the derived fields, by name.
Declared: TypeAlias = Mapping[str, Part | str | None]


class Fields(NamedTuple):
    """How a whole value travels."""

    #: Takes the message and the value.
    write: Callable[[Any, Any], None]
    read: Callable[[Any], Any]


def fields_of(kind: Any, message: Descriptor, **declared: Part | str | None) -> Fields:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    assert declared.keys() <= set(names), f"{kind.__name__} has no field {sorted(declared.keys() - set(names))}"
    parts: dict[str, Part] = {}
    for name in names:
        part = declared.get(name, name)
        if part is not None:
            parts[name] = _part(kind, hints[name], message, part)
    # Most fields are scalars, and are written without a call of ours for each.
    scalars = [(name, part.scalar) for name, part in parts.items() if part.scalar]
    puts = [(name, part.write) for name, part in parts.items() if not part.scalar]
    gets = [part.read for part in parts.values()]

    def write(body: Any, value: Any) -> None:
        for name, target in scalars:
            setattr(body, target, getattr(value, name))
        for name, put in puts:
            put(body, getattr(value, name))

    def read(body: Any) -> Any:
        return kind(*[get(body) for get in gets])

    def read_some(body: Any) -> Any:
        return kind(**{name: get(body) for name, get in zip(parts, gets, strict=True)})

    return Fields(write, read if len(parts) == len(names) else read_some)


def one(name: str, inner: Fields) -> Part:
    """A value in a message of its own."""
    return Part(
        lambda body, value: inner.write(getattr(body, name), value), lambda body: inner.read(getattr(body, name))
    )


def many(name: str, inner: Fields) -> Part:
    """A list of values, each in a message of its own."""

    def write(body: Any, values: Sequence[Any]) -> None:
        add = getattr(body, name).add
        for value in values:
            inner.write(add(), value)

    return Part(write, lambda body: [inner.read(each) for each in getattr(body, name)])


def columns(kind: Any, complaint: str, *names: str) -> Part:
    """A list of values as numbers side by side, which protobuf packs: one list for each of their fields."""
    of_field = [attrgetter(name) for name in kind.__match_args__]

    def write(body: Any, values: Sequence[Any]) -> None:
        for name, get in zip(names, of_field, strict=True):
            getattr(body, name).extend(map(get, values))

    def read(body: Any) -> list[Any]:
        numbers = [getattr(body, name)[:] for name in names]
        if len({len(column) for column in numbers}) != 1:
            raise InvalidArgumentError(f"{complaint} are not equally many")
        return [kind(*row) for row in zip(*numbers, strict=True)]

    return Part(write, read)


def _part(kind: Any, hint: Any, message: Descriptor, declared: Part | str) -> Part:
    if isinstance(declared, Part):
        return declared
    field = message.fields_by_name.get(declared)
    assert field is not None, f"{message.name} has no field {declared} for {kind.__name__}"
    name: str = field.name
    if field.message_type is None:
        if field.is_repeated:
            return Part(lambda body, values: getattr(body, name).extend(values), lambda body: getattr(body, name)[:])
        return Part(lambda body, value: setattr(body, name, value), attrgetter(name), name)
    if field.message_type.GetOptions().map_entry:
        return Part(lambda body, entries: getattr(body, name).update(entries), lambda body: dict(getattr(body, name)))
    if field.is_repeated:
        return many(name, _struct(get_args(hint)[0], field.message_type))
    return one(name, _struct(hint, field.message_type))


def _struct(hint: Any, message: Descriptor) -> Fields:
    if get_origin(hint) is not tuple:
        return fields_of(hint, message)
    parts = [
        _part(tuple, inner, message, field.name) for inner, field in zip(get_args(hint), message.fields, strict=True)
    ]
    return Fields(partial(_write_tuple, parts), lambda body: tuple([part.read(body) for part in parts]))


def _write_tuple(parts: Sequence[Part], body: Any, values: Sequence[Any]) -> None:
    for part, value in zip(parts, values, strict=True):
        part.write(body, value)
