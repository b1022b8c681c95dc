"""Rows of log-ins, users, grants and quotas, as in `messages`."""

from flotilla.codec.client.rows import Row, derived
from flotilla.types.operations.handshake import Authenticate, Challenge
from flotilla.types.operations.quotas import ListQuotas, QuotaList, RemoveQuota, SetQuota
from flotilla.types.operations.security import (
    AssignRole,
    CreateAdministrator,
    CreateUser,
    DeleteUser,
    GrantAccess,
    GrantList,
    ListGrants,
    ListRoles,
    ListUsers,
    RevokeAccess,
    RoleList,
    SetPassword,
    UnassignRole,
    UserList,
)

REQUEST_ROWS: tuple[Row, ...] = (
    derived(Authenticate),
    derived(CreateUser),
    derived(SetPassword),
    derived(DeleteUser),
    derived(CreateAdministrator),
    derived(ListUsers),
    derived(GrantAccess),
    derived(RevokeAccess),
    derived(ListGrants),
    derived(AssignRole),
    derived(UnassignRole),
    derived(ListRoles),
    derived(SetQuota),
    derived(RemoveQuota),
    derived(ListQuotas),
)

REPLY_ROWS: tuple[Row, ...] = (
    derived(Challenge),
    derived(UserList),
    derived(GrantList),
    derived(QuotaList),
    derived(RoleList),
)
