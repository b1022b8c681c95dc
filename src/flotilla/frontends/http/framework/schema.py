"""JSON as it comes in: read strictly, and held against the very schemas that the OpenAPI document shows.

A schema is a plain dict in the words of JSON Schema, of which a dozen are understood here; one with a word that is
not is refused when the routes are made. What a client left out is filled in from `default`. A violation says where
it is and what was expected there, and is INVALID_ARGUMENT. Strings are proper Unicode, numbers are finite.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeAlias

from flotilla.types.errors import InvalidArgumentError

Schema: TypeAlias = Mapping[str, Any]

#: Words that say nothing about what is allowed.
_NOTES: Final = frozenset(("description", "default", "example", "title", "format", "contentEncoding"))
_WORDS: Final = frozenset(
    (
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "maxItems",
        "minItems",
        "enum",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "pattern",
        "maxProperties",
    )
)
#: How much of a wrong value a message repeats.
_SHOWN_CHARS_MAX: Final = 60
#: Only with these in it can JSON text make a string that is no Unicode.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(body: bytes) -> Any:
    """The value of a body. Raises InvalidArgumentError."""
    try:
        value = _DECODER.decode(body.decode())
        if _SURROGATE.search(body) is not None:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("the body holds half of a surrogate pair, which is no character") from None
    except RecursionError:
        raise InvalidArgumentError("the body is nested too deeply") from None
    except ValueError as error:
        raise InvalidArgumentError(f"the body is not JSON: {error}") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


#: Made once: `json.loads` with an option makes one for every call.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def check_schema(schema: Schema) -> None:
    """Whether it is understood here, all the way down. For tables at the start, not for requests."""
    assert schema.keys() <= _WORDS | _NOTES, f"{sorted(schema.keys() - _WORDS - _NOTES)} is not understood"
    for inner in schema.get("properties", {}).values():
        check_schema(inner)
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), Mapping):
            check_schema(schema[word])


def checked(schema: Schema, value: Any, where: str) -> Any:
    """The value with its defaults filled in. Raises InvalidArgumentError."""
    kind = schema.get("type")
    if kind is not None:
        _CHECKS[kind](schema, value, where)
    if "enum" in schema and value not in schema["enum"]:
        _fail(where, f"is one of {', '.join(map(str, schema['enum']))}", value)
    if kind == "object":
        return _checked_object(schema, value, where)
    if kind == "array":
        inner = schema["items"]
        return [checked(inner, item, f"{where}[{place}]") for place, item in enumerate(value)]
    return value


def parsed(schema: Schema, text: str, where: str) -> Any:
    """A parameter of a path or a query, which is text whatever it means. Raises InvalidArgumentError."""
    kind = schema.get("type")
    if kind == "integer":
        if _INTEGER.fullmatch(text) is None:
            _fail(where, "is an integer", text)
        return checked(schema, int(text), where)
    if kind == "boolean":
        if text not in ("true", "false"):
            _fail(where, "is true or false", text)
        return text == "true"
    if kind == "array":
        return checked(schema, text.split(","), where)
    return checked(schema, text, where)


_INTEGER: Final = re.compile(r"-?[0-9]{1,20}", re.ASCII)


def _fail(where: str, expected: str, value: Any) -> NoReturn:
    shown = json.dumps(value, ensure_ascii=True)
    if len(shown) > _SHOWN_CHARS_MAX:
        shown = f"{shown[:_SHOWN_CHARS_MAX]}..."
    raise InvalidArgumentError(f"{where} {expected}, not {shown}")


def _checked_object(schema: Schema, value: dict[str, Any], where: str) -> dict[str, Any]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    others: Schema | bool = schema.get("additionalProperties", True)
    found: dict[str, Any] = {}
    for name, item in value.items():
        inner = properties.get(name)
        if inner is None:
            if others is False:
                raise InvalidArgumentError(f"{where} has no field {_name(name)}; it has {', '.join(properties)}")
            inner = others if isinstance(others, Mapping) else {}
        found[name] = checked(inner, item, f"{where}.{_name(name)}")
    for name in schema.get("required", ()):
        if name not in found:
            raise InvalidArgumentError(f"{where} needs the field {name}")
    for name, inner in properties.items():
        if name not in found and "default" in inner:
            found[name] = inner["default"]
    return found


def _name(name: str) -> str:
    return name[:_SHOWN_CHARS_MAX]


def _check_object(schema: Schema, value: Any, where: str) -> None:
    if not isinstance(value, dict):
        _fail(where, "is an object", value)
    if len(value) > schema.get("maxProperties", len(value)):
        raise InvalidArgumentError(f"{where} has at most {schema['maxProperties']} fields, not {len(value)}")


def _check_array(schema: Schema, value: Any, where: str) -> None:
    if not isinstance(value, list):
        _fail(where, "is a list", value)
    low, high = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if not low <= len(value) <= high:
        raise InvalidArgumentError(f"{where} has {low} to {high} items, not {len(value)}")


def _check_string(schema: Schema, value: Any, where: str) -> None:
    if not isinstance(value, str):
        _fail(where, "is a text", value)
    low, high = schema.get("minLength", 0), schema.get("maxLength", len(value))
    if not low <= len(value) <= high:
        raise InvalidArgumentError(f"{where} has {low} to {high} characters, not {len(value)}")
    if "pattern" in schema and _compiled(schema["pattern"]).search(value) is None:
        _fail(where, f"matches {schema['pattern']}", value)


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _check_integer(schema: Schema, value: Any, where: str) -> None:
    # A bool is an int to Python and a mistake to everybody else.
    if not isinstance(value, int) or isinstance(value, bool):
        _fail(where, "is an integer", value)
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        _fail(where, f"is between {schema.get('minimum', 'any')} and {schema.get('maximum', 'any')}", value)


def _check_boolean(_: Schema, value: Any, where: str) -> None:
    if not isinstance(value, bool):
        _fail(where, "is true or false", value)


_CHECKS: Final[dict[str, Callable[[Schema, Any, str], None]]] = {
    "object": _check_object,
    "array": _check_array,
    "string": _check_string,
    "integer": _check_integer,
    "boolean": _check_boolean,
}
