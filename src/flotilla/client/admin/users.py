"""Users, grants and quotas of the cluster: who may use it, for what, and how much."""

from collections.abc import Sequence
from typing import Protocol

from flotilla.client._blocking import BlockingShell, blocking
from flotilla.client._core.asyncio_network import R
from flotilla.client._duration import Duration
from flotilla.machine import here
from flotilla.security.scram import SALT_BYTES, derive
from flotilla.types.access import ALL, ITERATIONS, ROLE_PREFIX, Action, Grant, Verifier
from flotilla.types.operations import Request
from flotilla.types.operations.quotas import ListQuotas, Quota, QuotaUsage, RemoveQuota, SetQuota
from flotilla.types.operations.security import (
    AssignRole,
    CreateAdministrator,
    CreateUser,
    DeleteUser,
    GrantAccess,
    ListGrants,
    ListRoles,
    ListUsers,
    RevokeAccess,
    RoleOfUser,
    SetPassword,
    UnassignRole,
    UserInfo,
)


class _Call(Protocol):
    async def __call__(self, request: Request[R], timeout_ms: Duration | None, /) -> R: ...


class AsyncUsers:
    """The attribute `admin.users` of an AsyncClient: users with passwords. A password does not leave this process."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    async def create(self, name: str, password: str, *, timeout_ms: Duration | None = None) -> None:
        """A user without grants. Raises AlreadyExistsError."""
        await self._call(CreateUser(name, _verifier(password)), timeout_ms)

    async def set_password(self, name: str, password: str, *, timeout_ms: Duration | None = None) -> None:
        """Another password; open connections stay. Raises NotFoundError."""
        await self._call(SetPassword(name, _verifier(password)), timeout_ms)

    async def delete(self, name: str, *, timeout_ms: Duration | None = None) -> None:
        """Removes a user and its grants, and ends its connections. Raises NotFoundError."""
        await self._call(DeleteUser(name), timeout_ms)

    async def list(self, *, timeout_ms: Duration | None = None) -> Sequence[UserInfo]:
        """All users with a password, by name."""
        return (await self._call(ListUsers(), timeout_ms)).users

    async def create_administrator(self, name: str, password: str, *, timeout_ms: Duration | None = None) -> None:
        """The first user, who may do everything. Raises AlreadyExistsError if there was a user or a grant before.

        Needs no log-in, but a connection from the machine of a node. With the same password it may be repeated.
        """
        # A salt that follows from the password: the broker recognises a repetition by it.
        salt = derive(password, b"administrator " + name.encode(), ITERATIONS).stored_key[:SALT_BYTES]
        await self._call(CreateAdministrator(name, derive(password, salt, ITERATIONS)), timeout_ms)


class AsyncGrants:
    """The attribute `admin.grants` of an AsyncClient: what users may do."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    async def add(
        self, user: str, action: Action, topic: str = ALL, group: str = ALL, *, timeout_ms: Duration | None = None
    ) -> None:
        """Lets a user do something to a topic and its groups: exact names, prefixes that end with `*`, or `*`."""
        await self._call(GrantAccess(Grant(user, action, topic, group)), timeout_ms)

    async def remove(
        self, user: str, action: Action, topic: str = ALL, group: str = ALL, *, timeout_ms: Duration | None = None
    ) -> None:
        """Takes a grant back, exactly as it was given. Raises NotFoundError."""
        await self._call(RevokeAccess(Grant(user, action, topic, group)), timeout_ms)

    async def list(self, user: str = "", *, timeout_ms: Duration | None = None) -> Sequence[Grant]:
        """The grants of a user and its roles, or of all users and roles: a role has `role:` in front of its name."""
        return (await self._call(ListGrants(user), timeout_ms)).grants


class AsyncRoles:
    """The attribute `admin.roles` of an AsyncClient: named sets of grants that users have.

    A role is there as long as it has a grant or a user.
    """

    def __init__(self, call: _Call) -> None:
        self._call = call
        self._grants = AsyncGrants(call)

    async def grant(
        self, role: str, action: Action, topic: str = ALL, group: str = ALL, *, timeout_ms: Duration | None = None
    ) -> None:
        """Lets all users who have the role do something, as `admin.grants.add`."""
        await self._grants.add(ROLE_PREFIX + role, action, topic, group, timeout_ms=timeout_ms)

    async def revoke(
        self, role: str, action: Action, topic: str = ALL, group: str = ALL, *, timeout_ms: Duration | None = None
    ) -> None:
        """Takes a grant back, exactly as it was given. Raises NotFoundError."""
        await self._grants.remove(ROLE_PREFIX + role, action, topic, group, timeout_ms=timeout_ms)

    async def assign(self, role: str, user: str, *, timeout_ms: Duration | None = None) -> None:
        """The user has the role from now on."""
        await self._call(AssignRole(user, role), timeout_ms)

    async def unassign(self, role: str, user: str, *, timeout_ms: Duration | None = None) -> None:
        """The user does not have the role any more. Raises NotFoundError."""
        await self._call(UnassignRole(user, role), timeout_ms)

    async def delete(self, role: str, *, timeout_ms: Duration | None = None) -> None:
        """Removes a role with its grants, and takes it from all users. Raises NotFoundError."""
        await self._call(DeleteUser(ROLE_PREFIX + role), timeout_ms)

    async def list(self, *, timeout_ms: Duration | None = None) -> Sequence[RoleOfUser]:
        """Which user has which role, by user."""
        return (await self._call(ListRoles(), timeout_ms)).roles


class AsyncQuotas:
    """The attribute `admin.quotas` of an AsyncClient: how much users and namespaces may use."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    async def set(self, quota: Quota, *, timeout_ms: Duration | None = None) -> None:
        """Limits a user or a namespace, in place of the quota that it had."""
        await self._call(SetQuota(quota), timeout_ms)

    async def remove(self, *, user: str = "", namespace: str = "", timeout_ms: Duration | None = None) -> None:
        """Raises NotFoundError."""
        await self._call(RemoveQuota(user, namespace), timeout_ms)

    async def list(self, *, timeout_ms: Duration | None = None) -> Sequence[Quota]:
        """All quotas, those of namespaces first."""
        return (await self._call(ListQuotas(), timeout_ms)).quotas

    async def usage(self, *, timeout_ms: Duration | None = None) -> Sequence[tuple[Quota, QuotaUsage]]:
        """All quotas in the same order, and how much of each is used. Empty from brokers that do not tell."""
        found = await self._call(ListQuotas(), timeout_ms)
        return list(zip(found.quotas, found.usage, strict=False))


class Users(BlockingShell[AsyncUsers]):
    """The attribute `admin.users` of a Client: users with passwords."""

    create = blocking(AsyncUsers.create)
    set_password = blocking(AsyncUsers.set_password)
    delete = blocking(AsyncUsers.delete)
    list = blocking(AsyncUsers.list)
    create_administrator = blocking(AsyncUsers.create_administrator)


class Grants(BlockingShell[AsyncGrants]):
    """The attribute `admin.grants` of a Client: what users may do."""

    add = blocking(AsyncGrants.add)
    remove = blocking(AsyncGrants.remove)
    list = blocking(AsyncGrants.list)


class Roles(BlockingShell[AsyncRoles]):
    """The attribute `admin.roles` of a Client: named sets of grants that users have."""

    grant = blocking(AsyncRoles.grant)
    revoke = blocking(AsyncRoles.revoke)
    assign = blocking(AsyncRoles.assign)
    unassign = blocking(AsyncRoles.unassign)
    delete = blocking(AsyncRoles.delete)
    list = blocking(AsyncRoles.list)


class Quotas(BlockingShell[AsyncQuotas]):
    """The attribute `admin.quotas` of a Client: how much users and namespaces may use."""

    set = blocking(AsyncQuotas.set)
    remove = blocking(AsyncQuotas.remove)
    list = blocking(AsyncQuotas.list)
    usage = blocking(AsyncQuotas.usage)


def _verifier(password: str) -> Verifier:
    return derive(password, here().secret(SALT_BYTES), ITERATIONS)
