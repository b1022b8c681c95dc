"""Operations on users and grants: who may use the cluster, and for what (`types/access.py`).

Passwords never travel: a client derives the verifier of a new one.
"""

from flotilla.types.access import FOUND, OPERATE, Grant, Verifier
from flotilla.types.operations.request import ANY, CONTROLLER, ONCE, READ, REPEATABLE, Done, Reply, Request
from flotilla.types.slotted import slotted


@slotted
class CreateUser(Request[Done], to=CONTROLLER, effect=ONCE, needs=OPERATE):
    """A user who may log in with a password. Grants may name it before."""

    name: str
    verifier: Verifier


@slotted
class SetPassword(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """Connections that are open stay open; the old password opens no other."""

    name: str
    verifier: Verifier


@slotted
class DeleteUser(Request[Done], to=CONTROLLER, effect=ONCE, needs=OPERATE):
    """Removes the user with its grants and roles, and ends its connections; or a role, named `role:` and its name."""

    name: str


@slotted
class CreateAdministrator(Request[Done], to=ANY, effect=ONCE, needs=FOUND):
    """The first user, who may do everything. ALREADY_EXISTS when there was another user or a grant before."""

    name: str
    verifier: Verifier


@slotted
class UserInfo:
    name: str
    created_ms: int
    #: When its password was set last.
    password_ms: int


@slotted
class UserList(Reply):
    #: By name.
    users: list[UserInfo]


@slotted
class ListUsers(Request[UserList], to=CONTROLLER, effect=READ, needs=OPERATE):
    """All users with a password."""


@slotted
class GrantAccess(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """Gives a right to a role, or to a user, who need not have a password: certificates and tokens name users, too."""

    grant: Grant


@slotted
class RevokeAccess(Request[Done], to=CONTROLLER, effect=ONCE, needs=OPERATE):
    """Takes one grant back, exactly as it was given. NOT_FOUND: there is none like it."""

    grant: Grant


@slotted
class GrantList(Reply):
    #: By user, action, topic and group.
    grants: list[Grant]


@slotted
class ListGrants(Request[GrantList], to=CONTROLLER, effect=READ, needs=OPERATE):
    #: Only of this user and its roles, or of this role; empty: all.
    user: str = ""


@slotted
class AssignRole(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
    """A user has the grants of a role from now on. Neither need exist otherwise."""

    user: str
    role: str


@slotted
class UnassignRole(Request[Done], to=CONTROLLER, effect=ONCE, needs=OPERATE):
    """NOT_FOUND: the user does not have the role."""

    user: str
    role: str


@slotted
class RoleOfUser:
    user: str
    role: str


@slotted
class RoleList(Reply):
    #: By user and role.
    roles: list[RoleOfUser]


@slotted
class ListRoles(Request[RoleList], to=CONTROLLER, effect=READ, needs=OPERATE):
    """Which user has which role. Roles that nobody has show up among the grants only."""
