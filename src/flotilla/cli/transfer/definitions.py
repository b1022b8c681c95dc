"""The definitions of a cluster as one document: topics, groups' settings, schedules, grants, roles, quotas, user names.

Definitions are what people decide, without messages, positions or secrets: a cluster tells nobody what passwords are
checked against, so users are listed and not created. An import creates and alters, and never deletes: applied twice
it changes nothing the second time.
"""

import json
import tomllib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from flotilla.types.access import Action, Grant
from flotilla.types.dead_letters import PREFIX
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.group_settings import GROUP_SETTINGS
from flotilla.types.operations.quotas import Quota
from flotilla.types.operations.schedules import ScheduleDefinition
from flotilla.types.setting_table import SettingTable
from flotilla.types.topics import SETTINGS

if TYPE_CHECKING:
    from flotilla.client.client import Client

DEFINITIONS_FORMAT: Final = "flotilla definitions"
DEFINITIONS_VERSION: Final = 1
_PARTS: Final = ("topics", "schedules", "users", "grants", "roles", "quotas")


@dataclass(frozen=True, slots=True)
class Change:
    """One step from what a cluster has to what a document says."""

    text: str
    apply: Callable[["Client"], object]


def collect(client: "Client", groups: Mapping[str, Iterable[str]] = MappingProxyType({})) -> dict[str, Any]:
    """What a cluster has, in the order of names.

    `groups` are looked at by topic, too: a group that nobody has used yet is in no list.
    """
    names = sorted(topic.name for topic in client.topics())
    topics = [_topic(client, name, groups.get(name, ())) for name in names]
    return {
        "format": DEFINITIONS_FORMAT,
        "version": DEFINITIONS_VERSION,
        "topics": [topic for topic in topics if not topic["name"].startswith(PREFIX)],
        "schedules": [
            {"name": each.name, "is_paused": each.is_paused, **_schedule(each.definition)}
            for each in client.schedules.list()
        ],
        "users": [{"name": user.name} for user in client.admin.users.list()],
        "grants": [asdict(grant) for grant in sorted(client.admin.grants.list())],
        "roles": [{"user": each.user, "role": each.role} for each in client.admin.roles.list()],
        "quotas": [_without_defaults(asdict(quota)) for quota in sorted(client.admin.quotas.list())],
    }


def _topic(client: "Client", name: str, named: Iterable[str]) -> dict[str, Any]:
    found = client.describe_topic(name)
    groups = {group: client.alter_group(name, group) for group in sorted({*client.groups(name), *named})}
    settings = dict(sorted(found.settings.items()))
    factor = int(settings.pop("replication_factor", 0))
    return {
        "name": name,
        "partitions": len(found.partitions),
        "replication_factor": factor or max(len(part.replicas) for part in found.partitions),
        "settings": _shown(SETTINGS, settings),
        "groups": {group: _shown(GROUP_SETTINGS, rules) for group, rules in groups.items() if rules},
    }


def _shown(table: SettingTable, settings: dict[str, Any]) -> dict[str, str]:
    """As people read them, in one form: 3d and 259200000 are the same. Raises InvalidArgumentError."""
    parsed = table.parse({name: str(text) for name, text in settings.items()})
    return table.show(sorted(parsed.items()))


def _schedule(definition: ScheduleDefinition) -> dict[str, Any]:
    plain = _without_defaults(asdict(definition))
    for name in ("payload", "key"):
        if name in plain:
            plain[f"{name}_base64"] = b64encode(plain.pop(name)).decode()
    if "headers" in plain:
        plain["headers"] = [
            {"name": name, "value_base64": b64encode(value).decode()} for name, value in plain["headers"]
        ]
    return plain


def _definition(plain: dict[str, Any]) -> ScheduleDefinition:
    fields = {name: value for name, value in plain.items() if name not in ("name", "is_paused")}
    for name in ("payload", "key"):
        if f"{name}_base64" in fields:
            fields[name] = b64decode(fields.pop(f"{name}_base64"))
    headers = [(each["name"], b64decode(each["value_base64"])) for each in fields.get("headers", ())]
    return ScheduleDefinition(**{**fields, "headers": headers})


def _without_defaults(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if value not in (0, "", b"", [])}


# Documents.


def encode(document: dict[str, Any], *, is_toml: bool) -> str:
    return _toml(document) if is_toml else json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def decode(text: str, *, is_toml: bool) -> dict[str, Any]:
    """Raises InvalidArgumentError for a document that is none, or of a later version."""
    try:
        document: Any = tomllib.loads(text) if is_toml else json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"the document cannot be read: {error}") from None
    if not isinstance(document, dict) or document.get("format") != DEFINITIONS_FORMAT:
        raise InvalidArgumentError(f"the document does not begin with format = {DEFINITIONS_FORMAT!r}")
    if document.get("version") != DEFINITIONS_VERSION:
        raise InvalidArgumentError(
            f"the document is of version {document.get('version')}, and this flotilla reads {DEFINITIONS_VERSION}"
        )
    unknown = document.keys() - {"format", "version", *_PARTS}
    if unknown:
        raise InvalidArgumentError(f"the document has unknown parts: {', '.join(sorted(unknown))}")
    return document


def _toml(document: dict[str, Any]) -> str:
    """For documents of this shape alone: lists of tables, whose values are plain, or tables or lists of such."""
    lines = [f"{name} = {json.dumps(document[name])}" for name in ("format", "version")]
    for part in _PARTS:
        for table in document[part]:
            lines += ("", f"[[{part}]]")
            inner = {name: value for name, value in table.items() if isinstance(value, dict)}
            lines += [f"{name} = {_value(value)}" for name, value in table.items() if name not in inner]
            lines += [f"{name} = {_value(value)}" for name, value in inner.items() if value]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(name)} = {_value(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    # Texts, numbers and booleans are written alike.
    return json.dumps(value)


# Changes.


def changes(client: "Client", wanted: dict[str, Any]) -> Iterator[Change]:
    """What an import would do, in an order in which it can be done. Raises InvalidArgumentError."""
    topic_changes = partial(_topic_changes, broker_count=len(client.admin.metadata().brokers))
    try:
        has = collect(client, {each["name"]: each.get("groups", {}) for each in wanted.get("topics", ())})
        for part, steps in (("topics", topic_changes), ("schedules", _schedule_changes), ("quotas", _quota_changes)):
            known = {_identity(each): each for each in has[part]}
            for each in wanted.get(part, ()):
                yield from steps(each, known.get(_identity(each)))
        for each in wanted.get("grants", ()):
            if each not in has["grants"]:
                yield _grant(Grant(**each))
        for each in wanted.get("roles", ()):
            if each not in has["roles"]:
                yield _role(each["user"], each["role"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgumentError(f"the document has a part that is not understood: {error!r}") from None


def _grant(grant: Grant) -> Change:
    fields = (grant.user, cast(Action, grant.action), grant.topic, grant.group)
    return Change(f"grant {grant}", lambda client: client.admin.grants.add(*fields))


def _role(user: str, role: str) -> Change:
    return Change(f"give role {role} to {user}", lambda client: client.admin.roles.assign(role, user))


def missing_users(client: "Client", wanted: dict[str, Any]) -> list[str]:
    """Users of the document that the cluster does not have: they need passwords."""
    has = {user.name for user in client.admin.users.list()}
    return [each["name"] for each in wanted.get("users", ()) if each["name"] not in has]


def _identity(each: dict[str, Any]) -> tuple[Any, ...]:
    return each.get("name"), each.get("user", ""), each.get("namespace", "")


def _topic_changes(each: dict[str, Any], has: dict[str, Any] | None, *, broker_count: int) -> Iterator[Change]:
    name = each["name"]
    settings: Any = _shown(SETTINGS, each.get("settings", {}))
    partitions = int(each.get("partitions", 0))
    if has is None:
        factor = int(each.get("replication_factor", 0))
        text = f"create topic {name}"
        if factor > broker_count:
            # The default is filled up when more brokers join.
            text += f" with the default replication factor: {factor} replicas need as many brokers"
            factor = 0
        yield Change(
            text,
            lambda client: client.create_topic(name, partitions=partitions, replication_factor=factor, **settings),
        )
        has = {"settings": settings, "partitions": partitions, "groups": {}}
    differing: Any = {key: value for key, value in settings.items() if has["settings"].get(key) != value}
    if differing or partitions > has["partitions"]:
        shown = [f"{key} {has['settings'].get(key, 'default')} -> {value}" for key, value in differing.items()]
        grown = partitions if partitions > has["partitions"] else 0
        shown += [f"partitions {has['partitions']} -> {grown}"] if grown else []
        yield Change(
            f"alter topic {name}: {', '.join(shown)}",
            lambda client: client.alter_topic(name, partitions=grown, **differing),
        )
    for group, rules in each.get("groups", {}).items():
        yield from _group_changes(name, group, rules, has["groups"].get(group, {}))


def _group_changes(topic: str, group: str, rules: dict[str, str], own: dict[str, str]) -> Iterator[Change]:
    wanted = _shown(GROUP_SETTINGS, rules)
    other: Any = {key: value for key, value in wanted.items() if own.get(key) != value}
    if other:
        shown = [f"{key} {own.get(key, 'default')} -> {value}" for key, value in other.items()]
        text = f"alter group {group} of {topic}: {', '.join(shown)}"
        yield Change(text, lambda client: client.alter_group(topic, group, **other))


def _schedule_changes(each: dict[str, Any], has: dict[str, Any] | None) -> Iterator[Change]:
    name, definition, is_paused = each["name"], _definition(each), bool(each.get("is_paused"))
    if has is None or _definition(has) != definition:
        verb = "create" if has is None else "alter"
        yield Change(f"{verb} schedule {name}", lambda client: client.schedules.put(name, definition, is_update=True))
    if is_paused != (has is not None and has["is_paused"]):
        change = "pause" if is_paused else "resume"
        yield Change(f"{change} schedule {name}", lambda client: getattr(client.schedules, change)(name))


def _quota_changes(each: dict[str, Any], has: dict[str, Any] | None) -> Iterator[Change]:
    quota = Quota(**each)
    if has is None or Quota(**has) != quota:
        yield Change(f"set quota of {quota}", lambda client: client.admin.quotas.set(quota))
