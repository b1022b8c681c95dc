"""Arguments and results of tasks as JSON and back, guided by the annotations of the function.

    None, bool, int, float, str, list, dict     as they are
    tuple, set, frozenset                       arrays
    datetime, date, time, UUID, Decimal, Enum   texts (an Enum: its value)
    timedelta                                   seconds
    bytes                                       base64
    dataclass                                   an object of its fields

Without an annotation an argument arrives as JSON has it. An argument that does not fit its annotation is refused where
it is sent, and again where it arrives. A result is read by the annotation of what the function returns.
"""

import inspect
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from flotilla.types.errors import InvalidArgumentError, WrongTypeError

_PLAIN: Final = (str, int, float, bool, NoneType)
#: How a text becomes a value.
_FROM_TEXT: Final[dict[type, Callable[[str], object]]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    UUID: UUID,
    Decimal: Decimal,
    bytes: partial(b64decode, validate=True),
}


class Signature:
    """The parameters of a task's function."""

    def __init__(self, function: Callable[..., object]) -> None:
        """Raises InvalidArgumentError for a function whose arguments cannot be named."""
        self._signature = inspect.signature(function)
        name = getattr(function, "__qualname__", repr(function))
        for parameter in self._signature.parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise InvalidArgumentError(f"the argument {parameter.name} of task {name} has no name in a message")
        try:
            self._hints = get_type_hints(function)
        except (NameError, TypeError):
            # Annotations of names that exist for type checkers alone.
            self._hints = {}

    def encode(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bytes:
        """The payload of a message. Raises TypeError as a call would, and WrongTypeError."""
        bound = self._signature.bind(*args, **kwargs)
        named: dict[str, object] = {}
        for name, value in bound.arguments.items():
            if self._signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        plain = {name: to_json(value, name) for name, value in named.items()}
        self._read(plain)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    def takes(self, count: int) -> bool:
        """Whether so many arguments without names are a call."""
        try:
            self._signature.bind(*[None] * count)
        except TypeError:
            return False
        return True

    def decode(self, payload: bytes) -> dict[str, Any]:
        """The arguments by name. Raises InvalidArgumentError."""
        try:
            plain = json.loads(payload) if payload else {}
        except ValueError as error:
            raise InvalidArgumentError(f"the payload is not JSON: {error}") from None
        if not isinstance(plain, dict):
            raise InvalidArgumentError("the payload is not an object of arguments")
        try:
            self._signature.bind(**plain)
        except TypeError as error:
            raise InvalidArgumentError(str(error)) from None
        return self._read(plain)

    def encode_result(self, value: object) -> bytes:
        """Raises WrongTypeError, or ValueError for a number that JSON does not have."""
        return json.dumps(to_json(value, "result"), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    def decode_result(self, payload: bytes) -> Any:
        """What the function returned; None for an empty result. Raises InvalidArgumentError."""
        if not payload:
            return None
        try:
            plain = json.loads(payload)
        except ValueError as error:
            raise InvalidArgumentError(f"the result is not JSON: {error}") from None
        return from_json(plain, self._hints.get("return", Any), "result")

    def _read(self, plain: dict[str, Any]) -> dict[str, Any]:
        return {name: from_json(value, self._hints.get(name, Any), name) for name, value in plain.items()}


def to_json(value: object, where: str) -> Any:
    """Raises WrongTypeError."""
    if isinstance(value, Enum):
        return to_json(value.value, where)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise WrongTypeError(f"{where}: the keys of an object are texts")
        return {key: to_json(each, f"{where}.{key}") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each, f"{where}[{place}]") for place, each in enumerate(value)]
    if isinstance(value, set | frozenset):
        return sorted([to_json(each, where) for each in value], key=repr)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_json(getattr(value, each.name), f"{where}.{each.name}") for each in fields(value)}
    raise WrongTypeError(f"{where}: a {type(value).__name__} cannot be sent as JSON")


def from_json(value: Any, hint: Any, where: str) -> Any:
    """Raises WrongTypeError."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _any_of(value, parts, where)
    if origin is Literal:
        if value in parts:
            return value
        raise _unfit(value, hint, where)
    kind = origin or hint
    if kind in (list, tuple, set, frozenset):
        return _items(value, kind, parts, where)
    if kind is dict:
        if not isinstance(value, dict):
            raise _unfit(value, hint, where)
        inner = parts[1] if len(parts) == 2 else Any
        return {key: from_json(each, inner, f"{where}.{key}") for key, each in value.items()}
    return _single(value, hint, where) if isinstance(hint, type) or hint is None else value


def _any_of(value: Any, parts: tuple[Any, ...], where: str) -> Any:
    for part in parts:
        try:
            return from_json(value, part, where)
        except WrongTypeError:
            continue
    raise _unfit(value, Union[parts], where)  # noqa: UP007 - made of a tuple.


def _items(value: Any, kind: Any, parts: tuple[Any, ...], where: str) -> Any:
    if not isinstance(value, list):
        raise _unfit(value, kind, where)
    if kind is tuple and parts and parts[-1] is not Ellipsis:
        if len(parts) != len(value):
            raise _unfit(value, kind, where)
        hints = list(parts)
    else:
        hints = [parts[0] if parts else Any] * len(value)
    return kind([from_json(each, hint, f"{where}[{place}]") for place, (each, hint) in enumerate(zip(value, hints))])  # noqa: B905 - equally long.


def _single(value: Any, hint: Any, where: str) -> Any:
    if hint is None or hint is NoneType:
        is_fit = value is None
    elif hint in (int, float, str, bool):
        allowed = (int, float) if hint is float else (hint,)
        is_fit = isinstance(value, allowed) and (hint is bool or not isinstance(value, bool))
        value = float(value) if hint is float and is_fit else value
    else:
        return _made(value, hint, where)
    if not is_fit:
        raise _unfit(value, hint, where)
    return value


def _made(value: Any, hint: Any, where: str) -> Any:
    """A value of a class that JSON does not have."""
    try:
        if hint in _FROM_TEXT and isinstance(value, str):
            return _FROM_TEXT[hint](value)
        if hint is timedelta and isinstance(value, int | float):
            return timedelta(seconds=value)
        if issubclass(hint, Enum):
            return hint(value)
        if is_dataclass(hint) and isinstance(value, dict):
            hints = get_type_hints(hint)
            made = {name: from_json(each, hints.get(name, Any), f"{where}.{name}") for name, each in value.items()}
            kind: Any = hint
            return kind(**made)
    except WrongTypeError:
        raise
    except (TypeError, ValueError, ArithmeticError):
        raise _unfit(value, hint, where) from None
    if hint in _FROM_TEXT or hint is timedelta or is_dataclass(hint):
        raise _unfit(value, hint, where)
    # A class of which nothing is known here: the function gets what JSON has.
    return value


def _unfit(value: Any, hint: Any, where: str) -> WrongTypeError:
    expected = getattr(hint, "__name__", None) if isinstance(hint, type) else None
    shown = json.dumps(value, ensure_ascii=True)[:60]
    return WrongTypeError(f"{where}: {shown} is no {expected or str(hint).replace('typing.', '')}")
