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
    """Removes the user with its grants and roles, and ends its connections; or a role, named `role:` and its name."""

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
    """Gives a right to a role, or to a user, who need not have a password: certificates and tokens name users, too."""

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
    #: Only of this user and its roles, or of this role; empty: all.
    user: str = ""


@dataclass(slots=True)
class AssignRole(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """A user has the grants of a role from now on. Neither need exist otherwise."""

    user: str
    role: str


@dataclass(slots=True)
class UnassignRole(Request[Done], to=CONTROLLER, effect=ONCE, needs=OPERATE):
    """NOT_FOUND: the user does not have the role."""

    user: str
    role: str


@dataclass(slots=True)
class RoleOfUser:
    user: str
    role: str


@dataclass(slots=True)
class RoleList(Reply):
    #: By user and role.
    roles: list[RoleOfUser]


@dataclass(slots=True)
class ListRoles(Request[RoleList], to=CONTROLLER, effect=READ, needs=OPERATE):
    """Which user has which role. Roles that nobody has show up among the grants only."""
