"""Access over HTTP: who asks and what it may do, users, and grants."""

from dataclasses import asdict
from typing import Any, Final

from flotilla.frontends.http.framework.operation import (
    INTEGER,
    TEXT,
    Answer,
    Call,
    Operation,
    Parameter,
    obj,
    text,
)
from flotilla.gateway.gateway import Gateway
from flotilla.types.access import ACTIONS, ALL, Grant, Resource, check_grant
from flotilla.types.operations.security import DeleteUser, GrantAccess, ListGrants, ListUsers, RevokeAccess

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


def _read(body: dict[str, Any]) -> Grant:
    """Raises InvalidArgumentError."""
    grant = Grant(**body)
    check_grant(grant)
    return grant
