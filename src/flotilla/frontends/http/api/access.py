"""Access over HTTP: who asks and what it may do, users, roles, grants, and quotas."""

from dataclasses import asdict
from itertools import zip_longest
from typing import Any, Final

from flotilla.frontends.http.framework.operation import (
    INTEGER,
    TEXT,
    Answer,
    Call,
    Operation,
    Parameter,
    integer,
    obj,
    text,
)
from flotilla.gateway.gateway import Gateway
from flotilla.types.access import ACTIONS, ALL, Grant, Resource, check_grant
from flotilla.types.operations.quotas import (
    LIMITS,
    QUOTA_VALUE_MAX,
    ListQuotas,
    Quota,
    QuotaUsage,
    RemoveQuota,
    SetQuota,
    check_quota,
    check_subject,
)
from flotilla.types.operations.security import (
    AssignRole,
    DeleteUser,
    GrantAccess,
    ListGrants,
    ListRoles,
    ListUsers,
    RevokeAccess,
    UnassignRole,
)

_NAME: Final = text(1, 1_000, "Name of the user.")
_PATTERN: Final = "A name, a prefix and `*`, or `*` for all."
_GRANT: Final = obj(
    ("user", "action"),
    user=_NAME,
    action={"type": "string", "enum": list(ACTIONS)},
    topic=text(1, 1_000, _PATTERN, default=ALL),
    group=text(1, 1_000, _PATTERN, default=ALL),
)
_GRANTS: Final = obj(("grants",), grants={"type": "array", "items": _GRANT})
_ROLE: Final = obj(("user", "role"), user=_NAME, role=text(1, 1_000, "Name of the role."))
_ROLES: Final = obj(("roles",), roles={"type": "array", "items": _ROLE})
_SUBJECT: Final = {
    "user": text(0, 1_000, "Of this user; or", default=""),
    "namespace": text(0, 1_000, "of all topics whose names begin with this and a dot.", default=""),
}
_QUOTA: Final = obj(**_SUBJECT, **{name: integer(0, QUOTA_VALUE_MAX, "0: no limit.", default=0) for name in LIMITS})
_USAGE: Final = obj(
    partitions={"type": "integer", "description": "Of its topics."},
    stored_bytes={"type": "integer", "description": "In them, without replicas; 0 where it is not counted."},
)
_LISTED_QUOTA: Final = obj(("usage",), **_QUOTA["properties"], usage=_USAGE)
_QUOTAS: Final = obj(("quotas",), quotas={"type": "array", "items": _LISTED_QUOTA})
_USER: Final = obj(("name", "created_ms", "password_ms"), name=TEXT, created_ms=INTEGER, password_ms=INTEGER)
_SESSION: Final = obj(
    ("principal", "is_known", "actions"),
    principal={"type": "string", "description": "Who asks, as in `user anna`; empty if nobody is asked."},
    is_known={"type": "boolean", "description": "False: the cluster asks nobody who they are."},
    actions={"type": "array", "items": TEXT, "description": "What the caller may do there."},
)


class AccessApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[Operation]:
        tag = "access"
        of_user = Parameter("user", text(0, 1_000, "Only of this user.", default=""))
        topic = Parameter("topic", text(1, 1_000, "In this topic; by default in all of them.", default=ALL))
        group = Parameter("group", text(0, 1_000, "In this group of the topic.", default=""))
        return [
            Operation("getSession", "GET", "/v1/session", tag, "Who asks, and what it may do.", self.session,
                      query=(topic, group), answers={200: _SESSION}),
            Operation("listUsers", "GET", "/v1/users", tag, "Users with a password.", self.users,
                      answers={200: obj(("users",), users={"type": "array", "items": _USER})}),
            Operation("deleteUser", "DELETE", "/v1/users/{user}", tag, "Remove a user and all its grants.",
                      self.delete_user, {"user": _NAME}, answers={200: obj(("user",), user=TEXT)}, errors=(404,)),
            Operation("listGrants", "GET", "/v1/grants", tag, "What users may do.", self.grants, query=(of_user,),
                      answers={200: _GRANTS}),
            Operation("grantAccess", "POST", "/v1/grants", tag, "Let a user do something.", self.grant, body=_GRANT,
                      answers={201: _GRANT}, errors=(409,)),
            Operation("revokeAccess", "POST", "/v1/grants/revoke", tag, "Take a grant back, exactly as it was given.",
                      self.revoke, body=_GRANT, answers={200: _GRANT}, errors=(404, 409)),
            Operation("listRoles", "GET", "/v1/roles", tag, "Which user has which role.", self.roles,
                      answers={200: _ROLES}, description="A role without users is among the grants: `role:` and its "
                      "name in the place of a user."),
            Operation("assignRole", "POST", "/v1/roles", tag, "Give a role to a user.", self.assign, body=_ROLE,
                      answers={201: _ROLE}, errors=(409,)),
            Operation("unassignRole", "POST", "/v1/roles/unassign", tag, "Take a role from a user.", self.unassign,
                      body=_ROLE, answers={200: _ROLE}, errors=(404, 409)),
            Operation("listQuotas", "GET", "/v1/quotas", tag, "How much users and namespaces may use.", self.quotas,
                      answers={200: _QUOTAS}),
            Operation("setQuota", "PUT", "/v1/quotas", tag, "Limit a user or a namespace.", self.set_quota,
                      body=_QUOTA, answers={200: _QUOTA}, errors=(409,),
                      description="In place of the quota that it had: what is not named has no limit."),
            Operation("removeQuota", "POST", "/v1/quotas/remove", tag, "Remove the quota of a user or a namespace.",
                      self.remove_quota, body=obj(**_SUBJECT), answers={200: obj(user=TEXT, namespace=TEXT)},
                      errors=(404, 409)),
        ]  # fmt: skip

    async def session(self, call: Call) -> Answer:
        caller = self._gateway.caller
        resource = Resource(call.query["topic"], call.query["group"])
        actions = [action for action in ACTIONS if self._gateway.may(action, resource)]
        shown = {"principal": "" if caller is None else str(caller), "is_known": caller is not None}
        return Answer({**shown, "actions": actions})

    async def users(self, call: Call) -> Answer:
        found = (await self._gateway.ask(ListUsers())).users
        return Answer({"users": [{name: getattr(user, name) for name in _USER["properties"]} for user in found]})

    async def delete_user(self, call: Call) -> Answer:
        await self._gateway.ask(DeleteUser(call.path["user"]))
        return Answer({"user": call.path["user"]})

    async def grants(self, call: Call) -> Answer:
        found = (await self._gateway.ask(ListGrants(call.query["user"]))).grants
        return Answer({"grants": [asdict(grant) for grant in found]})

    async def grant(self, call: Call) -> Answer:
        grant = _read(call.body)
        await self._gateway.ask(GrantAccess(grant))
        return Answer(asdict(grant), 201)

    async def revoke(self, call: Call) -> Answer:
        grant = _read(call.body)
        await self._gateway.ask(RevokeAccess(grant))
        return Answer(asdict(grant))

    async def roles(self, call: Call) -> Answer:
        return Answer({"roles": [asdict(each) for each in (await self._gateway.ask(ListRoles())).roles]})

    async def assign(self, call: Call) -> Answer:
        await self._gateway.ask(AssignRole(**call.body))
        return Answer(call.body, 201)

    async def unassign(self, call: Call) -> Answer:
        await self._gateway.ask(UnassignRole(**call.body))
        return Answer(call.body)

    async def quotas(self, call: Call) -> Answer:
        found = await self._gateway.ask(ListQuotas())
        rows = zip_longest(found.quotas, found.usage, fillvalue=QuotaUsage(0, 0))
        return Answer({"quotas": [{**asdict(quota), "usage": asdict(usage)} for quota, usage in rows]})

    async def set_quota(self, call: Call) -> Answer:
        quota = Quota(**call.body)
        check_quota(quota)
        await self._gateway.ask(SetQuota(quota))
        return Answer(asdict(quota))

    async def remove_quota(self, call: Call) -> Answer:
        check_subject(**call.body)
        await self._gateway.ask(RemoveQuota(**call.body))
        return Answer(call.body)


def _read(body: dict[str, Any]) -> Grant:
    """Raises InvalidArgumentError."""
    grant = Grant(**body)
    check_grant(grant)
    return grant
