"""The quotas of the cluster: at most one for each user and each namespace."""

from flotilla.types.errors import NotFoundError, OverloadedError
from flotilla.types.limits import QUOTA_COUNT_MAX
from flotilla.types.operations.quotas import Quota, check_quota, check_subject, namespace_of


class QuotaTable:
    __slots__ = ("of_namespaces", "of_users")

    def __init__(self) -> None:
        self.of_users: dict[str, Quota] = {}
        self.of_namespaces: dict[str, Quota] = {}

    def all(self) -> list[Quota]:
        """Those of namespaces first, by name."""
        return sorted([*self.of_users.values(), *self.of_namespaces.values()])

    def of_topic(self, name: str, owner: str) -> list[Quota]:
        """Those for which a topic of this name and owner counts."""
        found = (self.of_namespaces.get(namespace_of(name)), self.of_users.get(owner))
        return [quota for quota in found if quota is not None]

    def check_put(self, quota: Quota) -> None:
        check_quota(quota)
        is_new = quota.user not in self.of_users and quota.namespace not in self.of_namespaces
        if is_new and len(self.of_users) + len(self.of_namespaces) >= QUOTA_COUNT_MAX:
            raise OverloadedError(f"a cluster has at most {QUOTA_COUNT_MAX} quotas")

    def check_remove(self, user: str, namespace: str) -> None:
        check_subject(user, namespace)
        if (user not in self.of_users) if user else (namespace not in self.of_namespaces):
            raise NotFoundError(f"{Quota(user, namespace).subject[:140]!r} has no quota")

    # Changes. Callers have checked the command.

    def put(self, quota: Quota) -> Quota:
        if quota.user:
            self.of_users[quota.user] = quota
        else:
            self.of_namespaces[quota.namespace] = quota
        return quota

    def remove(self, user: str, namespace: str) -> None:
        if user:
            del self.of_users[user]
        else:
            del self.of_namespaces[namespace]
