"""The users of the cluster, their roles, what is granted to both, and how much users may use.

Every change raises the version: whoever has decided something by an earlier one decides again. Values are frozen and
the tuples of grants are replaced, never changed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from flotilla.metadata.security.quotas import QuotaTable
from flotilla.types.access import (
    ACTIONS,
    OPERATE,
    ROLE_PREFIX,
    Grant,
    Verifier,
    check_grant,
    check_user_name,
    check_verifier,
)
from flotilla.types.errors import (
    AlreadyExistsError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
)
from flotilla.types.limits import GRANT_COUNT_MAX, USER_COUNT_MAX, USER_GRANT_COUNT_MAX, USER_ROLE_COUNT_MAX
from flotilla.types.operations.quotas import Quota

SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class User:
    """A user who can log in with a password."""

    name: str
    verifier: Verifier
    created_ms: int
    password_ms: int


class FrozenSecurity(NamedTuple):
    """Everything, as it stands in a snapshot: in the order of names."""

    version: int
    secret: bytes
    users: tuple[User, ...]
    grants: tuple[Grant, ...]
    quotas: tuple[Quota, ...]
    #: User and role.
    roles: tuple[tuple[str, str], ...]


class SecurityTable:
    __slots__ = ("_grant_count", "grants", "quotas", "roles", "secret", "users", "version")

    def __init__(self) -> None:
        #: Rises with each change of a user or a grant; 0: there never was one.
        self.version = 0
        #: Empty until a leader has drawn it.
        self.secret = b""
        self.users: dict[str, User] = {}
        #: By user or role, in order, none empty.
        self.grants: dict[str, tuple[Grant, ...]] = {}
        self._grant_count = 0
        #: By user, in order, none empty.
        self.roles: dict[str, tuple[str, ...]] = {}
        self.quotas = QuotaTable()

    def granted(self, user: str) -> tuple[Grant, ...]:
        """To the user, or to the role, itself."""
        return self.grants.get(user, ())

    def in_force(self, user: str) -> tuple[Grant, ...]:
        """All grants of a user: its own, then those of its roles."""
        own, roles = self.granted(user), self.roles.get(user)
        if roles is None:
            return own
        return (*own, *[grant for role in roles for grant in self.granted(ROLE_PREFIX + role)])

    def all_roles(self) -> list[tuple[str, str]]:
        """Users and their roles, by user."""
        return [(user, role) for user, held in sorted(self.roles.items()) for role in held]

    def all_grants(self) -> list[Grant]:
        """By user, action, topic and group."""
        return [grant for _, held in sorted(self.grants.items()) for grant in held]

    # Rules.

    def check_put_user(self, name: str, verifier: Verifier, *, is_new: bool) -> None:
        check_user_name(name)
        check_verifier(verifier)
        if not is_new:
            self._known(name)
        elif name in self.users:
            raise AlreadyExistsError(f"user {name!r} exists")
        elif len(self.users) >= USER_COUNT_MAX:
            raise OverloadedError(f"a cluster has at most {USER_COUNT_MAX} users")

    def check_administrator(self, name: str, verifier: Verifier) -> None:
        check_user_name(name)
        check_verifier(verifier)
        if self.version:
            raise AlreadyExistsError("the cluster has users already: one of them who may operate creates others")

    def check_remove_user(self, name: str) -> None:
        is_role = any(ROLE_PREFIX + role == name for held in self.roles.values() for role in held)
        if name not in self.grants and name not in self.roles and not is_role:
            self._known(name)
        self._check_operators(lambda user, holder: name in (user, holder))

    def _check_operators(self, is_removed: Callable[[str, str], bool]) -> None:
        """Raises InvalidArgumentError when nobody could create users any more.

        `is_removed` gets each user who may operate, and whose grant says so: its own, or that of a role.
        """
        holders = [holder for holder, held in self.grants.items() if any(grant.action == OPERATE for grant in held)]
        operators = [(holder, holder) for holder in holders if not holder.startswith(ROLE_PREFIX)]
        operators += [(user, ROLE_PREFIX + role) for user, role in self.all_roles() if ROLE_PREFIX + role in holders]
        if operators and all(is_removed(user, holder) for user, holder in operators):
            raise InvalidArgumentError(f"{operators[0][0]!r} is the last user who may operate the cluster")

    def _known(self, name: str) -> User:
        found = self.users.get(name)
        if found is None:
            raise NotFoundError(f"there is no user {name[:128]!r}")
        return found

    def check_put_grant(self, grant: Grant) -> None:
        check_grant(grant)
        held = self.granted(grant.user)
        if grant in held:
            return
        if len(held) >= USER_GRANT_COUNT_MAX:
            raise OverloadedError(f"a user has at most {USER_GRANT_COUNT_MAX} grants: grant prefixes")
        if self._grant_count >= GRANT_COUNT_MAX:
            raise OverloadedError(f"a cluster has at most {GRANT_COUNT_MAX} grants")

    def check_remove_grant(self, grant: Grant) -> None:
        if grant not in self.granted(grant.user):
            raise NotFoundError(f"there is no grant {str(grant)[:600]!r}")
        if grant.action == OPERATE:
            self._check_operators(lambda _, holder: holder == grant.user)

    def check_put_role(self, user: str, role: str) -> None:
        check_user_name(user)
        check_user_name(role)
        held = self.roles.get(user, ())
        if role in held:
            return
        if len(held) >= USER_ROLE_COUNT_MAX:
            raise OverloadedError(f"a user has at most {USER_ROLE_COUNT_MAX} roles")
        if not held and len(self.roles) >= USER_COUNT_MAX:
            raise OverloadedError(f"a cluster has at most {USER_COUNT_MAX} users with roles")

    def check_remove_role(self, user: str, role: str) -> None:
        if role not in self.roles.get(user, ()):
            raise NotFoundError(f"user {user[:128]!r} does not have the role {role[:128]!r}")
        self._check_operators(lambda *operator: operator == (user, ROLE_PREFIX + role))

    def check_secret(self, secret: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise InvalidArgumentError(f"the cluster's secret has {SECRET_BYTES} bytes")

    # Changes. Callers have checked the command.

    def put_user(self, name: str, verifier: Verifier, now_ms: int) -> User:
        known = self.users.get(name)
        if known is None:
            user = User(name, verifier, now_ms, now_ms)
        else:
            user = replace(known, verifier=verifier, password_ms=now_ms)
        self.users[name] = user
        self.version += 1
        return user

    def put_administrator(self, name: str, verifier: Verifier, now_ms: int) -> User:
        for action in ACTIONS:
            self.put_grant(Grant(name, action))
        return self.put_user(name, verifier, now_ms)

    def remove_user(self, name: str) -> None:
        self.users.pop(name, None)
        self._grant_count -= len(self.grants.pop(name, ()))
        self.roles.pop(name, None)
        if name.startswith(ROLE_PREFIX):
            for user in list(self.roles):
                self.remove_role(user, name.removeprefix(ROLE_PREFIX))
        self.version += 1

    def put_role(self, user: str, role: str) -> None:
        self.roles[user] = tuple(sorted({*self.roles.get(user, ()), role}))
        self.version += 1

    def remove_role(self, user: str, role: str) -> None:
        left = tuple([other for other in self.roles[user] if other != role])
        self.version += 1
        if left:
            self.roles[user] = left
        else:
            del self.roles[user]

    def put_grant(self, grant: Grant) -> Grant:
        held = self.granted(grant.user)
        if grant not in held:
            self.grants[grant.user] = tuple(sorted((*held, grant)))
            self._grant_count += 1
            self.version += 1
        return grant

    def remove_grant(self, grant: Grant) -> None:
        left = tuple(other for other in self.granted(grant.user) if other != grant)
        self._grant_count -= 1
        self.version += 1
        if left:
            self.grants[grant.user] = left
        else:
            del self.grants[grant.user]

    def put_quota(self, quota: Quota) -> Quota:
        self._quota_changed()
        return self.quotas.put(quota)

    def remove_quota(self, user: str, namespace: str) -> None:
        self._quota_changed()
        self.quotas.remove(user, namespace)

    def _quota_changed(self) -> None:
        """Without a user or a grant nobody has decided anything, and the first administrator can still come."""
        if self.version:
            self.version += 1

    def put_secret(self, secret: bytes) -> None:
        self.secret = self.secret or secret

    # Snapshots.

    def freeze(self) -> FrozenSecurity:
        users = tuple([user for _, user in sorted(self.users.items())])
        grants, quotas, roles = tuple(self.all_grants()), tuple(self.quotas.all()), tuple(self.all_roles())
        return FrozenSecurity(self.version, self.secret, users, grants, quotas, roles)

    def put(self, frozen: FrozenSecurity) -> None:
        """Raises AssertionError for tables that no commands make."""
        for user in frozen.users:
            assert user.name not in self.users, "a user is there once"
            self.users[user.name] = user
        for grant in frozen.grants:
            assert grant not in self.granted(grant.user), "a grant is there once"
            self.put_grant(grant)
        for user_name, role in frozen.roles:
            assert role not in self.roles.get(user_name, ()), "a user has a role once"
            self.put_role(user_name, role)
        for quota in frozen.quotas:
            try:
                self.quotas.check_put(quota)
            except FlotillaError as error:
                raise AssertionError(str(error)) from error
            self.quotas.put(quota)
        assert not frozen.secret or len(frozen.secret) == SECRET_BYTES, "a secret has its length"
        self.secret = frozen.secret
        self.version = frozen.version
