"""Quotas: how much a user, or everybody together in a namespace, may use, and the operations on them.

A namespace is the part of a topic's name before its first dot: `team-a.orders` and `team-a.mail` are in `team-a`. A
topic without a dot is in none, and neither are dead letters. Grants mean a namespace by the pattern `team-a.*`.

Rates count on each node by itself and slow callers down. The others are bounds, and what would exceed one is refused.
A topic counts for its namespace and for its owner, the user who created it, whoever produces to it or lets it grow.
"""

import re
from dataclasses import dataclass, field, fields
from typing import Final

from flotilla.types.access import OPERATE, check_user_name
from flotilla.types.dead_letters import PREFIX
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import QUOTA_RATE_BYTES_MIN
from flotilla.types.operations.request import CONTROLLER, ONCE, READ, REPEATABLE, Done, Reply, Request
from flotilla.types.slotted import slotted

_NAMESPACE = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
#: What the layout of commands and JavaScript's numbers can hold.
QUOTA_VALUE_MAX: Final = 2**53 - 1


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
    #: Of all topics of the user or the namespace together, and what their logs hold, without replicas.
    partitions: int = 0
    stored_bytes: int = 0

    @property
    def subject(self) -> str:
        return f"user {self.user}" if self.user else f"namespace {self.namespace}"

    def covers(self, topic: str, owner: str) -> bool:
        """Whether a topic of this name and owner counts for it."""
        return self.user == owner if self.user else self.namespace == namespace_of(topic)

    def __str__(self) -> str:
        limits = [f"{name} {getattr(self, name)}" for name in LIMITS if getattr(self, name)]
        return f"{self.subject}: {', '.join(limits) or 'no limits'}"


#: The names of the limits.
LIMITS: Final = tuple(each.name for each in fields(Quota) if each.name not in ("user", "namespace"))
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
        if not 0 < value <= QUOTA_VALUE_MAX:
            raise InvalidArgumentError(f"{name} is 1 to {QUOTA_VALUE_MAX}, not {value}")
        if name in _RATES_OF_BYTES and value < QUOTA_RATE_BYTES_MIN:
            raise InvalidArgumentError(f"{name} is at least {QUOTA_RATE_BYTES_MIN}, not {value}")
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
class QuotaUsage:
    """How much of a quota is used, of what its topics have."""

    partitions: int
    #: Counted where the quota has a bound for it and authentication is on; 0 elsewhere.
    stored_bytes: int


@slotted
class QuotaList(Reply):
    #: By name; those of namespaces first.
    quotas: list[Quota]
    #: Of each of them, in the same order; empty from brokers that do not tell.
    usage: list[QuotaUsage] = field(default_factory=list)


@slotted
class ListQuotas(Request[QuotaList], to=CONTROLLER, effect=READ, needs=OPERATE):
    """All quotas."""
