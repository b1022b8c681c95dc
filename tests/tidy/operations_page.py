"""The reference page of operations: `REWRITE=1 pytest tests/tidy/test_operations_docs.py` writes it."""

import inspect

from flotilla.types.access import ANYBODY, EVERYTHING, FOUND, NODES, OPERATE
from flotilla.types.operations import OPERATIONS, Request

PATH = "docs/reference/operations.md"

_HEAD = """\
# Operations

Every operation of a broker, and the right that it needs where [`authentication`](../security.md) is on. HTTP and \
gRPC calls are made of these operations, and need the same rights. An operation that a user may not carry out is \
 answered with PERMISSION_DENIED, or with NOT_FOUND if the user may not even describe its topic.

*anybody* is everybody who has said who they are: the answer shows only what they may describe. *nodes* are the nodes \
of the cluster: no user may do this. *found*: whoever may operate; while the cluster has no users, whoever connects \
from the node's own machine.

| operation | right | on |
| --- | --- | --- |
"""

#: Rights that depend on the request, and what is not named by fields.
_RIGHTS = {"explain_message": "`describe`; `consume` with the message itself"}
_RESOURCES = {
    "commit_transaction": "each topic that it names; all topics if it names none",
    "abort_transaction": "each topic that it names; all topics if it names none",
    "create_schedule": "the topic of the schedule, and of the one that it replaces",
    "pause_schedule": "the topic of the schedule",
    "delete_schedule": "the topic of the schedule",
    "run_schedule": "the topic of the schedule",
    "list_schedules": "the topic of each schedule shown",
    "report_pipeline": "each topic of the pipeline",
    "list_pipelines": "each topic of each pipeline shown",
    "deliver_now": "topic",
    "alter_group": "topic and group, and the topic of its dead letters",
    "get_metadata": "each topic shown; `manage` to create one",
    "list_groups": "topic, and each group shown",
    "list_stream_groups": "topic, and each group shown",
}


def render() -> str:
    return _HEAD + "".join(_row(name, kind) for name, kind in sorted(OPERATIONS.items()))


def _row(name: str, kind: type[Request]) -> str:
    needs = inspect.getattr_static(kind, "needs")
    right = (
        _RIGHTS[name] if isinstance(needs, property) else needs if needs in (ANYBODY, FOUND, NODES) else f"`{needs}`"
    )
    return f"| `{name}` | {right} | {_RESOURCES.get(name) or _resource(kind, needs)} |\n"


def _resource(kind: type[Request], needs: object) -> str:
    if needs in (ANYBODY, NODES):
        return ""
    if needs in (FOUND, OPERATE):
        return "the cluster"
    if kind.resource_fields is None:
        assert kind.resources.fget(None) == (EVERYTHING,), f"{kind.__name__}: say what it is about"  # type: ignore[attr-defined]
        return "all topics"
    return " and ".join(kind.resource_fields)
