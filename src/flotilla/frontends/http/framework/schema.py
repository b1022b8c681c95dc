"""Strict reading of JSON, checked against the schemas that the OpenAPI document shows.

A schema is a plain dict in the words of JSON Schema, of which a dozen are understood here. `Checker` compiles one
into functions when the routes are made, and refuses a word that it does not understand. It fills in `default` for
missing fields. A violation is INVALID_ARGUMENT and names the place and what is expected there. Strings are proper
Unicode, numbers are finite, and no object names a field twice.
"""

import json
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from math import inf
from typing import Any, Final, NoReturn, TypeAlias

from flotilla.types.errors import InvalidArgumentError

Schema: TypeAlias = Mapping[str, Any]
#: Returns the value with its defaults. Raises _ViolationError.
_Check: TypeAlias = Callable[[Any], Any]

#: Words that constrain a value, and after them those that only describe it.
_WORDS: Final = frozenset((
    "type", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "items", "minItems", "maxItems",
    "properties", "required", "additionalProperties", "maxProperties",
    "description", "default", "example", "title", "format", "contentEncoding",
))  # fmt: skip
#: How much of a wrong value an error quotes.
_SHOWN_CHARS_MAX: Final = 60
#: Only JSON text with one of these can make a string that is not Unicode.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}", re.ASCII)


def read_json(body: bytes) -> Any:
    """The value of a body. Raises InvalidArgumentError."""
    try:
        value = _DECODER.decode(body.decode())
        if _SURROGATE.search(body) is not None:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("the body has half of a surrogate pair, which is no character") from None
    except RecursionError:
        raise InvalidArgumentError("the body is nested too deeply") from None
    except ValueError as error:
        raise InvalidArgumentError(f"the body is not JSON: {error}") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"an object names the field {_short(next(n for n in names if names.count(n) > 1))} twice")
    return found


#: Made once: `json.loads` with an option makes one for every call.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_object)


class _ViolationError(Exception):
    """Gathers its place while it is raised through the schema; is caught in this module."""

    def __init__(self, expected: str) -> None:
        self.expected = expected
        self.where = ""


class Checker:
    """One compiled schema, of a body or a parameter."""

    __slots__ = ("_check", "_kind", "_where")

    def __init__(self, schema: Schema, where: str) -> None:
        """`where` is what a violation calls the value."""
        self._check = _compiled(schema)
        self._kind = schema.get("type")
        self._where = where

    def check(self, value: Any) -> Any:
        """The value with its defaults filled in. Raises InvalidArgumentError."""
        try:
            return self._check(value)
        except _ViolationError as error:
            raise InvalidArgumentError(f"{self._where}{error.where} {error.expected}") from None

    def parse(self, text: str) -> Any:
        """A parameter of a path or a query, which is text whatever it means. Raises InvalidArgumentError."""
        value: Any = text
        if self._kind == "integer" and _INTEGER.fullmatch(text) is not None:
            value = int(text)
        elif self._kind == "boolean":
            value = {"true": True, "false": False}.get(text, text)
        elif self._kind == "array":
            value = text.split(",")
        return self.check(value)


def _fail(expected: str, value: Any) -> NoReturn:
    shown = json.dumps(value, ensure_ascii=True)
    if len(shown) > _SHOWN_CHARS_MAX:
        shown = f"{shown[:_SHOWN_CHARS_MAX]}..."
    raise _ViolationError(f"{expected}, not {shown}")


def _short(name: str) -> str:
    return name[:_SHOWN_CHARS_MAX]


def _compiled(schema: Schema) -> _Check:
    assert schema.keys() <= _WORDS, f"{sorted(schema.keys() - _WORDS)} is not understood"
    check = _COMPILERS[schema.get("type")](schema)
    allowed = schema.get("enum")
    if allowed is None:
        return check

    def check_enum(value: Any) -> Any:
        if value not in allowed:
            _fail(f"is one of {', '.join(map(str, allowed))}", value)
        return check(value)

    return check_enum


def _compile_object(schema: Schema) -> _Check:
    checks = {name: _compiled(inner) for name, inner in schema.get("properties", {}).items()}
    others: Schema | bool = schema.get("additionalProperties", True)
    check_other = None if others is False else _compiled(others if isinstance(others, Mapping) else {})
    required: tuple[str, ...] = tuple(schema.get("required", ()))
    defaults = {name: inner["default"] for name, inner in schema.get("properties", {}).items() if "default" in inner}
    count_max = schema.get("maxProperties", inf)

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            _fail("is an object", value)
        if len(value) > count_max:
            raise _ViolationError(f"has at most {count_max} fields, not {len(value)}")
        found = defaults.copy()
        for name, item in value.items():
            check_item = checks.get(name, check_other)
            if check_item is None:
                raise _ViolationError(f"has no field {_short(name)}{_meant(name, checks)}")
            try:
                found[name] = check_item(item)
            except _ViolationError as error:
                error.where = f".{_short(name)}{error.where}"
                raise
        for name in required:
            if name not in found:
                raise _ViolationError(f"needs the field {name}")
        return found

    return check


def _meant(name: str, names: Mapping[str, _Check]) -> str:
    near = get_close_matches(_short(name), names, 1)
    return f"; did you mean {near[0]}?" if near else f"; it has {', '.join(names)}"


def _compile_array(schema: Schema) -> _Check:
    check_item = _compiled(schema["items"])
    low, high = schema.get("minItems", 0), schema.get("maxItems", inf)

    def check(value: Any) -> list[Any]:
        if not isinstance(value, list):
            _fail("is a list", value)
        if not low <= len(value) <= high:
            raise _ViolationError(f"has {low} to {high} items, not {len(value)}")
        found = []
        try:
            for item in value:
                found.append(check_item(item))
        except _ViolationError as error:
            error.where = f"[{len(found)}]{error.where}"
            raise
        return found

    return check


def _compile_string(schema: Schema) -> _Check:
    low, high = schema.get("minLength", 0), schema.get("maxLength", inf)
    pattern = schema.get("pattern")
    search = None if pattern is None else re.compile(pattern, re.ASCII).search

    def check(value: Any) -> str:
        if not isinstance(value, str):
            _fail("is a text", value)
        if not low <= len(value) <= high:
            raise _ViolationError(f"has {low} to {high} characters, not {len(value)}")
        if search is not None and search(value) is None:
            _fail(f"matches {pattern}", value)
        return value

    return check


def _compile_integer(schema: Schema) -> _Check:
    low, high = schema.get("minimum", -inf), schema.get("maximum", inf)

    def check(value: Any) -> int:
        # A bool is an int in Python, but not in JSON.
        if not isinstance(value, int) or isinstance(value, bool):
            _fail("is an integer", value)
        if not low <= value <= high:
            _fail(f"is between {low} and {high}", value)
        return value

    return check


def _check_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        _fail("is true or false", value)
    return value


_COMPILERS: Final[dict[str | None, Callable[[Schema], _Check]]] = {
    "object": _compile_object,
    "array": _compile_array,
    "string": _compile_string,
    "integer": _compile_integer,
    "boolean": lambda schema: _check_boolean,
    None: lambda schema: lambda value: value,
}
