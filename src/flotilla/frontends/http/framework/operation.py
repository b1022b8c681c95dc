"""One operation of the HTTP endpoint: a row from which its route, its checks and its OpenAPI entry are made.

The handler gets a Call that was checked against the row, and returns an Answer. So every field that is read is
documented, and every documented field is read.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from flotilla.frontends.http.framework.response import JSON_TYPE, Response
from flotilla.frontends.http.framework.schema import Checker, Schema


class Call(NamedTuple):
    """A request, parsed and checked."""

    path: dict[str, Any]
    query: dict[str, Any]
    #: With defaults filled in; None for an operation without a body; bytes if the body is not JSON.
    body: Any
    #: Names in lower case.
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
    #: The schema of each parameter in the path.
    path_schemas: Mapping[str, Schema] = field(default_factory=dict)
    query: tuple[Parameter, ...] = ()
    #: What changes something has one, if an empty object: its media type keeps the forms of other sites out.
    body: Schema | None = None
    #: Media type of the body.
    body_type: str = JSON_TYPE
    #: Schemas of successful answers, by status.
    answers: Mapping[int, Schema] = field(default_factory=dict)
    answer_type: str = JSON_TYPE
    #: Statuses of errors, beside those that every operation can return.
    errors: tuple[int, ...] = ()
    description: str = ""

    #: The checks of what comes in, by name; compiled from the schemas. None: there is no JSON to check.
    path_checks: Mapping[str, Checker] = field(init=False)
    query_checks: Mapping[str, Checker] = field(init=False)
    body_check: Checker | None = field(init=False)

    def __post_init__(self) -> None:
        if self.body is None and self.method in ("POST", "PUT", "PATCH"):
            object.__setattr__(self, "body", obj())
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


#: For answers, which need no bounds.
INTEGER: Final[Schema] = {"type": "integer"}
TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
ANYTHING: Final[Schema] = {}


def page(path: str, handler: Handler, query: tuple[Parameter, ...] = ()) -> Operation:
    """A page that is in no table and in no description."""
    return Operation(path, "GET", path, "", "", handler, query=query, answers={200: ANYTHING})
