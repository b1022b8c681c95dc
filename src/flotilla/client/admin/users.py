"""Users, grants and quotas of the cluster: who may use it, for what, and how much."""

from collections.abc import Sequence
from typing import Protocol

from flotilla.client._blocking import BlockingShell, blocking
from flotilla.client._core.asyncio_network import R
from flotilla.client._duration import Duration
from flotilla.machine import here
from flotilla.security.scram import SALT_BYTES, derive
from flotilla.types.access import ALL, ITERATIONS, Action, Grant, Verifier
from flotilla.types.operations import Request
from flotilla.types.operations.quotas import ListQuotas, Quota, RemoveQuota, SetQuota
from flotilla.types.operations.security import (
    CreateAdministrator,
    CreateUser,
    DeleteUser,
    GrantAccess,
    ListGrants,
    ListUsers,
    RevokeAccess,
    SetPassword,
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

        Needs no log-in, but a connection from the machine of a node.
        """
        await self._call(CreateAdministrator(name, _verifier(password)), timeout_ms)


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
        """The grants of a user, or of all."""
        return (await self._call(ListGrants(user), timeout_ms)).grants


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


class Quotas(BlockingShell[AsyncQuotas]):
    """The attribute `admin.quotas` of a Client: how much users and namespaces may use."""

    set = blocking(AsyncQuotas.set)
    remove = blocking(AsyncQuotas.remove)
    list = blocking(AsyncQuotas.list)


def _verifier(password: str) -> Verifier:
    return derive(password, here().secret(SALT_BYTES), ITERATIONS)
