"""Operations on users and grants: who may use the cluster, and for what (`types/access.py`).

Passwords never travel: a client derives the verifier of a new one.
"""

from dataclasses import dataclass

from flotilla.types.access import FOUND, OPERATE, Grant, Verifier
from flotilla.types.operations.request import ANY, CONTROLLER, ONCE, READ, REPEATABLE, Done, Reply, Request


@dataclass(slots=True)
class CreateUser(Request[Done], to=CONTROLLER, effect=ONCE, needs=OPERATE):
    """A user who may log in with a password. Grants may name it before."""

    name: str
    verifier: Verifier


@dataclass(slots=True)
class SetPassword(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """Connections that are open stay open; the old password opens no other."""

    name: str
    verifier: Verifier


@dataclass(slots=True)
class DeleteUser(Request[Done], to=CONTROLLER, effect=ONCE, needs=OPERATE):
    """Removes the user and all its grants. Its connections end."""

    name: str


@dataclass(slots=True)
class CreateAdministrator(Request[Done], to=ANY, effect=ONCE, needs=FOUND):
    """The first user, who may do everything. ALREADY_EXISTS when there was a user or a grant before."""

    name: str
    verifier: Verifier


@dataclass(slots=True)
class UserInfo:
    name: str
    created_ms: int
    #: When its password was set last.
    password_ms: int


@dataclass(slots=True)
class UserList(Reply):
    #: By name.
    users: list[UserInfo]


@dataclass(slots=True)
class ListUsers(Request[UserList], to=CONTROLLER, effect=READ, needs=OPERATE):
    """All users with a password."""


@dataclass(slots=True)
class GrantAccess(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """Gives a right to a user, who need not have a password: certificates and tokens name users, too."""

    grant: Grant


@dataclass(slots=True)
class RevokeAccess(Request[Done], to=CONTROLLER, effect=ONCE, needs=OPERATE):
    """Takes one grant back, exactly as it was given. NOT_FOUND: there is none like it."""

    grant: Grant


@dataclass(slots=True)
class GrantList(Reply):
    #: By user, action, topic and group.
    grants: list[Grant]


@dataclass(slots=True)
class ListGrants(Request[GrantList], to=CONTROLLER, effect=READ, needs=OPERATE):
    #: Only of this user; empty: all.
    user: str = ""
