"""Quotas: how much a user, or everybody together in a namespace, may use, and the operations on them.

A namespace is the part of a topic's name before its first dot: `team-a.orders` and `team-a.mail` are in `team-a`. A
topic without a dot is in none, and neither are dead letters. Grants mean a namespace by the pattern `team-a.*`.

Rates count on each node by itself and slow callers down. The others are bounds, and what would exceed one is refused.
What is stored belongs to a namespace, a connection to a user: neither has the other's bound.
"""

import re
from dataclasses import dataclass, fields
from typing import Final

from flotilla.types.access import OPERATE, check_user_name
from flotilla.types.dead_letters import PREFIX
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import QUOTA_RATE_BYTES_MIN
from flotilla.types.operations.request import CONTROLLER, ONCE, READ, REPEATABLE, Done, Reply, Request
from flotilla.types.slotted import slotted

_NAMESPACE = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
#: What the layout of commands and JavaScript's numbers can hold.
_VALUE_MAX: Final = 2**53 - 1


@dataclass(frozen=True, slots=True, order=True)
class Quota:
    """Exactly one of user and namespace is set. A limit of 0: none."""

    user: str = ""
    namespace: str = ""
    bytes_in_per_second: int = 0
    bytes_out_per_second: int = 0
    requests_per_second: int = 0
    #: Of a user: open at one node. Over HTTP and gRPC each request in flight counts as one.
    connections: int = 0
    #: Of a namespace: of all its topics together, and what their logs hold, without replicas.
    partitions: int = 0
    stored_bytes: int = 0

    @property
    def subject(self) -> str:
        return f"user {self.user}" if self.user else f"namespace {self.namespace}"

    def __str__(self) -> str:
        limits = [f"{name} {getattr(self, name)}" for name in LIMITS if getattr(self, name)]
        return f"{self.subject}: {', '.join(limits) or 'no limits'}"


#: The names of the limits.
LIMITS: Final = tuple(field.name for field in fields(Quota) if field.name not in ("user", "namespace"))
_OF_NAMESPACES: Final = ("partitions", "stored_bytes")
_RATES_OF_BYTES: Final = ("bytes_in_per_second", "bytes_out_per_second")


def namespace_of(topic: str) -> str:
    """Empty: the topic is in none."""
    name, dot, _ = topic.partition(".")
    return "" if not dot or topic.startswith(PREFIX) else name


def check_subject(user: str, namespace: str) -> None:
    """Raises InvalidArgumentError."""
    if bool(user) == bool(namespace):
        raise InvalidArgumentError("a quota is of a user or of a namespace: name one of them")
    if user:
        check_user_name(user)
    elif _NAMESPACE.fullmatch(namespace) is None or namespace + "." == PREFIX:
        raise InvalidArgumentError(
            f"a namespace is what topics' names have before the first dot, not {namespace[:80]!r}"
        )


def check_quota(quota: Quota) -> None:
    """Raises InvalidArgumentError."""
    check_subject(quota.user, quota.namespace)
    chosen = {name: getattr(quota, name) for name in LIMITS if getattr(quota, name)}
    if not chosen:
        raise InvalidArgumentError("a quota limits something: name a limit")
    for name, value in chosen.items():
        if not 0 < value <= _VALUE_MAX:
            raise InvalidArgumentError(f"{name} is 1 to {_VALUE_MAX}, not {value}")
        if name in _RATES_OF_BYTES and value < QUOTA_RATE_BYTES_MIN:
            raise InvalidArgumentError(f"{name} is at least {QUOTA_RATE_BYTES_MIN}, not {value}")
        if quota.user and name in _OF_NAMESPACES:
            raise InvalidArgumentError(f"{name} is a limit of namespaces: what a user stores belongs to its namespace")
        if quota.namespace and name == "connections":
            raise InvalidArgumentError("connections are of users: name a user")


@slotted
class SetQuota(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """Limits a user or a namespace, in place of the quota that it had."""

    quota: Quota


@slotted
class RemoveQuota(Request[Done], to=CONTROLLER, effect=ONCE, needs=OPERATE):
    """NOT_FOUND: there is none."""

    #: One of the two is empty.
    user: str = ""
    namespace: str = ""


@slotted
class QuotaList(Reply):
    #: By name; those of namespaces first.
    quotas: list[Quota]


@slotted
class ListQuotas(Request[QuotaList], to=CONTROLLER, effect=READ, needs=OPERATE):
    """All quotas."""
