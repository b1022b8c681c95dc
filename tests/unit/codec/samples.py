"""Values of every kind, made from the types of their fields: the same ones in every run and in every version.

Each kind gets one value with everything empty or zero and three with something in every field. A field that is added
with a default leaves the bytes of older samples as they are only if it is empty: recorded frames then show it.
"""

import types
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

COUNT = 4


def samples(kind: type) -> Iterator[Any]:
    for number in range(COUNT):
        yield _made(kind, "", number, number)


def _made(hint: Any, name: str, number: int, salt: int) -> Any:
    """A value of a type; `number` 0 is the emptiest. `salt` makes neighbours differ."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _made(typing.get_args(hint)[0], name, number, salt)
    if origin is list:
        (inner,) = typing.get_args(hint)
        return [_made(inner, name, number, salt + place) for place in range(number)]
    if origin is tuple:
        return tuple(_made(inner, name, number, salt + place) for place, inner in enumerate(typing.get_args(hint)))
    if origin is dict:
        key, item = typing.get_args(hint)
        # One entry: the order of a map's entries is not a matter of the contract.
        return {_made(key, name, number, salt): _made(item, name, number, salt)} if number else {}
    if hint is bool:
        return number % 2 == 1
    if hint is int:
        return _integer(name, number, salt)
    if hint is str:
        return f"{name}-{salt}\u00e9" if number else ""
    if hint in (bytes, bytearray, memoryview):
        return f"{name} {salt}".encode() * number * number
    return _made_struct(hint, number, salt)


def _integer(name: str, number: int, salt: int) -> int:
    if name == "end":
        # Of a range, behind its `first`.
        return _integer("first", number, salt) + 1 + number
    return salt * 7 ** (number * 3) + len(name) * number


def _made_struct(kind: Any, number: int, salt: int) -> Any:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    return kind(*[_made(hints[name], name, number, salt + place) for place, name in enumerate(names)])


def filled(message: Any, number: int) -> Any:
    """A protobuf message with something in every field, like the values above."""
    for place, field in enumerate(message.DESCRIPTOR.fields):
        if number:
            _fill(message, field, number, number + place)
    return message


def _fill(message: Any, field: Any, number: int, salt: int) -> None:
    target = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, item = field.message_type.fields
        if item.message_type is None:
            target[_scalar(key, number, salt)] = _scalar(item, number, salt)
    elif field.is_repeated:
        for offset in range(number):
            if field.message_type is not None:
                filled(target.add(), number)
            else:
                target.append(_scalar(field, number, salt + offset))
    elif field.message_type is not None:
        filled(target, number)
    elif field.containing_oneof is None or field.containing_oneof.fields[0] is field:
        setattr(message, field.name, _scalar(field, number, salt))


def _scalar(field: Any, number: int, salt: int) -> Any:
    if field.enum_type is not None:
        values = field.enum_type.values
        return values[number % len(values)].number
    kinds = {field.TYPE_STRING: str, field.TYPE_BYTES: bytes, field.TYPE_BOOL: bool}
    return _made(kinds.get(field.type, int), field.name, number, salt)
