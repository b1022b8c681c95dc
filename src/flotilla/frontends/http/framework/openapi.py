"""The OpenAPI 3.1 document, made from the table of operations: what is served is what is described."""

import re
from collections.abc import Sequence
from typing import Any, Final

from flotilla.frontends.http.framework.operation import Operation
from flotilla.frontends.http.framework.response import JSON_TYPE
from flotilla.types.errors import ALL_ERRORS
from flotilla.types.version import __version__

#: Every operation can be refused in these ways, whatever it is.
_COMMON_ERRORS: Final = (400, 429, 431, 500, 503, 504, 507)
#: And every one with a body in these.
_BODY_ERRORS: Final = (413, 415)
_REASONS: Final = {
    400: "The request is not well formed, or outside of a bound.",
    404: "There is no such thing.",
    409: "Not possible as things are.",
    413: "The body is too large.",
    415: "The body is of another kind.",
    416: "There is no such offset.",
    421: "Another node leads.",
    429: "Too much at once; try again.",
    431: "The head of the request is too large.",
    500: "Stored data or this node are damaged; see the code.",
    501: "Not offered by this version.",
    503: "Not at the moment; try again.",
    504: "Not done in time, and nothing has happened.",
    507: "No room on a disk.",
}
_ERROR: Final = {"$ref": "#/components/schemas/Error"}
_TAGS: Final = {
    "tasks": "Work to be done, by whoever is free.",
    "topics": "Topics and their partitions.",
    "records": "Producing and reading by offset.",
    "messages": "Queue groups at work: polls, and ends of leases.",
    "groups": "Groups as people look at them.",
    "dead letters": "What failed for the last time.",
    "cluster": "Nodes.",
}


def make_document(operations: Sequence[Operation]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        methods = paths.setdefault(operation.path, {})
        assert operation.method.lower() not in methods, f"{operation.method} {operation.path} is there twice"
        methods[operation.method.lower()] = _describe(operation)
    names = [operation.name for operation in operations]
    assert len(set(names)) == len(names), "an operationId is there twice"
    used = dict.fromkeys(operation.tag for operation in operations)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Flotilla",
            "version": __version__,
            "description": "Any node answers everything: it asks whoever leads. Times are milliseconds since 1970.",
        },
        "tags": [{"name": tag, "description": _TAGS[tag]} for tag in used],
        "paths": paths,
        "components": {"schemas": {"Error": _error_schema()}},
    }


def _error_schema() -> dict[str, Any]:
    codes = sorted({error.row.name for error in ALL_ERRORS})
    return {
        "type": "object",
        "required": ["code", "message", "retryable"],
        "additionalProperties": False,
        "properties": {
            "code": {"type": "string", "enum": codes},
            "message": {"type": "string"},
            "retryable": {"type": "boolean", "description": "Whether the same request can succeed later."},
        },
    }


def _describe(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "responses": _responses(operation),
    }
    if operation.description:
        described["description"] = operation.description
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": operation.path_schemas[name]}
        for name in re.findall(r"\{(\w+)\}", operation.path)
    ]
    for parameter in operation.query:
        row: dict[str, Any] = {"name": parameter.name, "in": "query", "schema": parameter.schema}
        if parameter.is_required:
            row["required"] = True
        if parameter.schema.get("type") == "array":
            row |= {"style": "form", "explode": False}
        parameters.append(row)
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        is_needed = bool(operation.body.get("required")) or operation.body_type != JSON_TYPE
        described["requestBody"] = {"required": is_needed, "content": {operation.body_type: {"schema": operation.body}}}
    return described


def _responses(operation: Operation) -> dict[str, Any]:
    responses: dict[str, Any] = {
        str(status): {"description": operation.summary, "content": {operation.answer_type: {"schema": schema}}}
        for status, schema in operation.answers.items()
    }
    errors = (*_COMMON_ERRORS, *(_BODY_ERRORS if operation.body is not None else ()), *operation.errors)
    for status in sorted(set(errors)):
        content = {JSON_TYPE: {"schema": _ERROR}}
        responses[str(status)] = {"description": _REASONS[status], "content": content}
    return responses
