"""The reference page of the Python API, generated from signatures and docstrings:
`REWRITE=1 pytest tests/tidy/test_python_docs.py`.
"""

import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, cast

import flotilla
import flotilla.testing

PATH = "docs/reference/python.md"
PUBLIC: Final = cast("list[str]", flotilla.__all__)

_HEAD = """\
# Python API

Everything below is imported from `flotilla`. Each blocking class has a twin for coroutines with the same methods: \
`AsyncClient`, `AsyncProducer`, `AsyncReader`, `AsyncQueueConsumer`, `AsyncStreamConsumer`, `AsyncQueueMessage`, \
`AsyncTransaction`, `AsyncDeadLetters`, `AsyncSchedules`, `AsyncAdmin`, `AsyncUsers`, `AsyncGrants`, \
`AsyncQuotas`, `AsyncRoles`, `AsyncDelivery`. Arguments that end in `_ms` take milliseconds or a `timedelta`.
"""

#: The order of the page; every other name follows by the alphabet.
_FIRST = (
    *("Client", "Producer", "SyncDelivery", "Receipt", "Record", "RecordFields", "ContentType"),
    *(
        "QueueConsumer",
        "QueueMessage",
        "DetachedMessage",
        "Worker",
        "App",
        "Task",
        "AppWorker",
        "Handler",
        "BlockingHandler",
        "AsyncHandler",
        "Retry",
        "Release",
        "Reject",
    ),
    *("StreamConsumer", "Reader", "Message", "AnyMessage", "Transaction", "DeadLetters", "Schedules", "Admin"),
    *("Users", "Grants", "Grant", "Roles", "Quotas", "Quota", "QuotaUsage", "Password", "Token"),
)
#: Methods that classes share with each other, not with applications.
_INTERNAL = {
    *("send_record", "send_all", "make_record", "adapt", "abandon", "batch", "settle", "hurry", "is_usable"),
    *("unresolved", "lone", "single", "put", "page"),
}


def names() -> list[str]:
    """The documented names, in the order of the page."""
    public = [name for name in PUBLIC if not _is_twin(name) and not _is_error(name)]
    return [*_FIRST, *[name for name in public if name not in _FIRST]]


def _is_twin(name: str) -> bool:
    return name.startswith("Async") and name != "AsyncHandler"


def _is_error(name: str) -> bool:
    return name.endswith("Error")


def render() -> str:
    sections = [_section(name, getattr(flotilla, name)) for name in names()]
    testing = [_section(name, getattr(flotilla.testing, name)) for name in flotilla.testing.__all__]
    return "\n".join([_HEAD, *sections, _errors(), "## flotilla.testing\n", *testing]).rstrip() + "\n"


def _section(name: str, found: Any) -> str:
    if inspect.isfunction(found):
        return "\n".join([f"## {name}\n", _code(name, found), _text(found)])
    if not isinstance(found, type):
        return f"## {name}\n\n```text\n{name} = {_plain(str(found))}\n```\n"
    return "\n".join([f"## {name}\n", _text(found), *_content(name, found)])


def _content(name: str, kind: type) -> Iterable[str]:
    if issubclass(kind, Enum):
        yield "".join(f"- `{each.name}` = {each.value}\n" for each in kind)
        return
    if _is_made_by_users(kind):
        yield _code(name, vars(kind)["__init__"]).replace(" -> None", "")
        yield _text(vars(kind)["__init__"])
    if "__call__" in vars(kind):
        yield _code("__call__", vars(kind)["__call__"])
    listed = [*_fields(kind), *_properties(kind)]
    if listed:
        yield "".join(f"- {each}\n" for each in listed)
    for member in _members(kind):
        if callable(getattr(kind, member)):
            yield f"### {name}.{member}\n"
            yield _code(member, getattr(kind, member))
            yield _text(getattr(kind, member))


def _is_made_by_users(kind: type) -> bool:
    about = kind.__doc__ or ""
    is_value = is_dataclass(kind) or _is_typed_dict(kind) or hasattr(kind, "_fields")
    has_init = "__init__" in vars(kind) and not issubclass(kind, tuple) and "__call__" not in vars(kind)
    return has_init and not is_value and "Made by" not in about and "The attribute `" not in about


def _is_typed_dict(kind: type) -> bool:
    return hasattr(kind, "__total__")


def _fields(kind: type) -> Sequence[str]:
    if is_dataclass(kind):
        found = {field.name: field.type for field in fields(kind)}
    elif _is_typed_dict(kind) or hasattr(kind, "_fields"):
        found = {}
        for base in reversed(kind.__mro__):
            found.update(vars(base).get("__annotations__", {}))
    else:
        return []
    notes = _notes(kind)
    return [
        f"`{name}: {_plain(inspect.formatannotation(type_))}`{notes.get(name, '')}" for name, type_ in found.items()
    ]


def _properties(kind: type) -> Iterable[str]:
    for name in _members(kind):
        found = inspect.getattr_static(kind, name)
        if isinstance(found, property) and found.fget is not None:
            returned = _plain(inspect.formatannotation(inspect.signature(found.fget).return_annotation))
            text = " ".join((inspect.getdoc(found) or "").split())
            yield f"`{name}: {returned}`" + (f": {text}" if text else "")


def _notes(kind: type) -> dict[str, str]:
    """The `#:` comments before fields, as ends of list items."""
    found: dict[str, str] = {}
    for base in kind.__mro__:
        if base.__module__.startswith("flotilla"):
            note = ""
            for line in inspect.getsource(base).splitlines():
                text = line.strip()
                name = re.match(r"(\w+):", text)
                if text.startswith("#:"):
                    note = f"{note} {text[2:].strip()}" if note else f": {text[2:].strip()}"
                    continue
                if name and note:
                    found.setdefault(name[1], note)
                note = ""
    return found


def _members(kind: type) -> list[str]:
    own = [name for base in kind.__mro__ if base.__module__.startswith("flotilla") for name in vars(base)]
    listed = {*getattr(kind, "_fields", ())} | ({field.name for field in fields(kind)} if is_dataclass(kind) else set())
    if _is_typed_dict(kind):
        return []
    return [
        name for name in dict.fromkeys(own) if not name.startswith("_") and name not in _INTERNAL and name not in listed
    ]


def _code(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "shell")]
    shown = _plain(str(signature.replace(parameters=parameters)))
    text = f"{name}{shown}"
    if len(text) > 100:
        _, _, tail = shown.rpartition(")")
        arguments = "".join(f"    {_plain(str(each))},\n" for each in _with_marks(parameters))
        text = f"{name}(\n{arguments}){tail}"
    return f"```text\n{text}\n```\n"


def _with_marks(parameters: list[inspect.Parameter]) -> Iterable[object]:
    is_marked = False
    for each in parameters:
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not is_marked:
            is_marked = True
            yield "*"
        yield each


def _plain(text: str) -> str:
    """Types without the modules that they live in."""
    text = re.sub(r"\b(?:flotilla|collections|datetime|typing)(?:\.\w+)*\.(?=\w)", "", text)
    text = re.sub(r"Union\[(.*?), NoneType\]", lambda found: found[1].replace(", ", " | ") + " | None", text)
    text = text.replace("NoneType", "None").replace("~", "").replace("int | timedelta", "Duration")
    text = re.sub(r"\*<class '(\w+)'>", r"Unpack[\1]", text)
    # A class that is loaded when it is first used is named in quotes.
    return re.sub(r"(-> |^)'(\w+)'", r"\1\2", text)


def _text(found: Any) -> str:
    """The docstring; lines of the form `name: meaning` become a list."""
    text = inspect.getdoc(found) or ""
    if isinstance(found, type) and text.startswith(f"{found.__name__}("):
        text = ""
    text = re.sub(r"^(\w+(?:, \w+)*): ", r"- `\1`: ", text, flags=re.MULTILINE)
    return re.sub(r"\n    (?=\S)", "\n  ", text) + "\n" if text else ""


def _errors() -> str:
    rows = []
    for name in PUBLIC:
        if _is_error(name):
            kind = getattr(flotilla, name)
            bases = [base.__name__ for base in kind.__bases__ if base is not Exception]
            rows.append(f"| `{name}` | {', '.join(f'`{base}`' for base in bases)} |\n")
    head = "## Errors\n\n[Codes and meanings](errors.md).\n\n| error | derives from |\n| --- | --- |\n"
    return head + "".join(rows)
