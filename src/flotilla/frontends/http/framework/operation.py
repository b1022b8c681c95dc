"""One operation of the HTTP door: a row from which its route, its checks and its place in OpenAPI are made.

Whoever answers gets a Call in which everything has been checked against the row, and returns an Answer. So a field
that is read is a field that is documented, and the other way round.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from flotilla.frontends.http.framework.response import JSON_TYPE, Response
from flotilla.frontends.http.framework.schema import Checker, Schema


class Call(NamedTuple):
    """A request, read and checked."""

    path: dict[str, Any]
    query: dict[str, Any]
    #: With defaults; None for an operation without a body. Bytes where the row says so.
    body: Any
    #: With names in small letters.
    headers: dict[str, str]


class Answer(NamedTuple):
    body: Any
    status: int = 200


Handler: TypeAlias = Callable[[Call], Awaitable[Answer | Response]]


class Parameter(NamedTuple):
    name: str
    schema: Schema
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    #: `operationId`: a verb and a noun, unique.
    name: str
    method: str
    #: Parameters in braces.
    path: str
    tag: str
    summary: str
    handler: Handler
    #: Of each parameter in the path.
    path_schemas: Mapping[str, Schema] = field(default_factory=dict)
    query: tuple[Parameter, ...] = ()
    body: Schema | None = None
    #: Of the body, if it is not JSON.
    body_type: str = JSON_TYPE
    #: What comes back when all is well, by status.
    answers: Mapping[int, Schema] = field(default_factory=dict)
    answer_type: str = JSON_TYPE
    #: Statuses of errors beside those that every operation can have.
    errors: tuple[int, ...] = ()
    description: str = ""

    #: The checks of what comes in, by name; compiled from the schemas. None: there is no JSON to check.
    path_checks: Mapping[str, Checker] = field(init=False)
    query_checks: Mapping[str, Checker] = field(init=False)
    body_check: Checker | None = field(init=False)

    def __post_init__(self) -> None:
        is_json = self.body is not None and self.body_type == JSON_TYPE
        checks = {
            "path_checks": {name: Checker(schema, name) for name, schema in self.path_schemas.items()},
            "query_checks": {each.name: Checker(each.schema, each.name) for each in self.query},
            "body_check": Checker(self.body or {}, "the body") if is_json else None,
        }
        for name, check in checks.items():
            object.__setattr__(self, name, check)
        assert self.answers, "an operation says what it answers"
        for name in self.path_schemas:
            assert f"{{{name}}}" in self.path, f"{self.path} has no {name}"


def obj(required: tuple[str, ...] = (), /, **properties: Schema) -> dict[str, Any]:
    """The schema of an object that has these fields and no others."""
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    return schema


def integer(minimum: int, maximum: int, description: str = "", *, default: int | None = None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer", "minimum": minimum, "maximum": maximum}
    return _described(schema, description, default)


def text(
    minimum: int, maximum: int, description: str = "", *, default: str | None = None, pattern: str = ""
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": minimum, "maxLength": maximum}
    if pattern:
        schema["pattern"] = pattern
    return _described(schema, description, default)


def flag(description: str = "", *, default: bool = False) -> dict[str, Any]:
    return _described({"type": "boolean"}, description, default)


def array(items: Schema, minimum: int, maximum: int, description: str = "") -> dict[str, Any]:
    return _described({"type": "array", "items": items, "minItems": minimum, "maxItems": maximum}, description, None)


def _described(schema: dict[str, Any], description: str, default: object) -> dict[str, Any]:
    if description:
        schema["description"] = description
    if default is not None:
        schema["default"] = default
    return schema


#: Of answers, where bounds would say nothing.
INTEGER: Final[Schema] = {"type": "integer"}
TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
ANYTHING: Final[Schema] = {}
