"""The commands of users, grants and quotas. `commands` knows their bytes."""

from dataclasses import dataclass

from flotilla.types.access import Grant, Verifier
from flotilla.types.operations.quotas import Quota


@dataclass(frozen=True, slots=True)
class PutUser:
    """A new user, or another password for a known one."""

    name: str
    verifier: Verifier
    is_new: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class RemoveUser:
    """Removes a user, its grants and its roles; or a role, its grants, and itself from all users."""

    name: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class PutAdministrator:
    """The first user, with grants for everything. The first of several stands."""

    name: str
    verifier: Verifier
    now_ms: int


@dataclass(frozen=True, slots=True)
class PutGrant:
    """A grant that is there already stays."""

    grant: Grant
    now_ms: int


@dataclass(frozen=True, slots=True)
class RemoveGrant:
    grant: Grant
    now_ms: int


@dataclass(frozen=True, slots=True)
class PutRole:
    """A user has a role. One that has it already keeps it."""

    user: str
    role: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class RemoveRole:
    user: str
    role: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class PutQuota:
    """The only quota of its user or namespace: one that was there before is replaced."""

    quota: Quota
    now_ms: int


@dataclass(frozen=True, slots=True)
class RemoveQuota:
    #: One of the two is empty.
    user: str
    namespace: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class PutSecret:
    """The secret by which nodes of the cluster know each other. The first of several stands."""

    secret: bytes
    now_ms: int
