"""The OpenAPI 3.1 document, made from the table of operations."""

import re
from collections.abc import Sequence
from typing import Any, Final

from flotilla.frontends.http.framework.operation import Operation
from flotilla.frontends.http.framework.response import JSON_TYPE
from flotilla.types.errors import ALL_ERRORS
from flotilla.types.version import __version__

#: Errors that every operation can return.
_COMMON_ERRORS: Final = (400, 401, 403, 421, 429, 431, 500, 503, 504, 507)
#: Errors that every operation with a body can return, too.
_BODY_ERRORS: Final = (408, 413, 415)
_REASONS: Final = {
    400: "The request is malformed, or a value is out of bounds.",
    401: "The caller did not say who it is, or could not prove it.",
    403: "A web page of another site asked, or no grant allows it.",
    404: "Not found.",
    408: "The body did not come in time.",
    409: "The state does not allow it.",
    413: "The body is too large.",
    415: "The body has another media type.",
    416: "There is no such offset.",
    421: "The Host is not this node, or another node leads.",
    429: "Too many requests; retry later.",
    431: "The head of the request is too large.",
    500: "Corrupt data or a fault of the node; see the code.",
    501: "Not offered by this version.",
    503: "Not available now; retry later.",
    504: "Not done in time; nothing has changed.",
    507: "A disk is full.",
}
_SECURITY_SCHEMES: Final = {
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "A user and a password, where the setting `authentication` is on.",
    },
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token of the issuer whose keys the node has (`token_keys`).",
    },
}
_ERROR: Final = {"$ref": "#/components/schemas/Error"}
_TAGS: Final = {
    "tasks": "Work for workers, one queue per topic.",
    "topics": "Topics and their partitions.",
    "records": "Producing and reading by offset.",
    "messages": "Queue groups: polls and settlements.",
    "groups": "Administration of groups.",
    "dead letters": "Messages that failed too often.",
    "schedules": "Recurring messages.",
    "cluster": "The nodes of the cluster.",
    "access": "Who may do what.",
}


def make_document(operations: Sequence[Operation]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        methods = paths.setdefault(operation.path, {})
        assert operation.method.lower() not in methods, f"{operation.method} {operation.path} is defined twice"
        methods[operation.method.lower()] = _describe(operation)
    names = [operation.name for operation in operations]
    assert len(set(names)) == len(names), "an operationId is used twice"
    used = dict.fromkeys(operation.tag for operation in operations)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Flotilla",
            "version": __version__,
            "description": "Any node answers every request: it asks the leader. Times are milliseconds since 1970.",
        },
        "tags": [{"name": tag, "description": _TAGS[tag]} for tag in used],
        "paths": paths,
        "components": {"schemas": {"Error": _error_schema()}, "securitySchemes": _SECURITY_SCHEMES},
        # One of them, or none where nobody is asked; a client certificate takes the place of both.
        "security": [{"basic": []}, {"bearer": []}, {}],
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
