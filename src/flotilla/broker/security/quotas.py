"""Quotas at one node: what each user and each namespace with a quota has used, and who has to wait for it.

A caller is charged for what it did, and is not read again until nothing is owed: nothing fails by a rate. Connections
and stored bytes have a bound instead. Rates and connections count at this node, whatever happens at others.

A meter outlives a change of its quota, so that its counters do, too. There are as many meters as quotas, so the labels
of metrics are bounded.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from flotilla.broker.security.token_bucket import TokenBucket
from flotilla.types.errors import QuotaExceededError
from flotilla.types.operations.quotas import Quota, namespace_of

#: The rates of a quota.
_RATES: Final = ("bytes_in_per_second", "bytes_out_per_second", "requests_per_second")


class Meter:
    """What one user or one namespace uses."""

    __slots__ = ("_bytes_in", "_bytes_out", "_now_ms", "_requests", "quota", "refused", "stored_bytes", "waited_ms")

    def __init__(self, quota: Quota, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        #: In the topics of one with a bound for it, as of the last look.
        self.stored_bytes = 0
        #: Since the process started: requests and connections that were refused, and time for which callers waited.
        self.refused = 0
        self.waited_ms = 0
        self.limit(quota)

    def limit(self, quota: Quota) -> None:
        """From now on."""
        self.quota = quota
        now_ms = self._now_ms()
        self._bytes_in, self._bytes_out, self._requests = [
            TokenBucket(rate, now_ms) if (rate := getattr(quota, name)) else None for name in _RATES
        ]

    def received(self, size_bytes: int) -> None:
        """A request."""
        now_ms = self._now_ms()
        if self._requests is not None:
            self._requests.take(1, now_ms)
        if self._bytes_in is not None and size_bytes:
            self._bytes_in.take(size_bytes, now_ms)

    def sent(self, size_bytes: int) -> None:
        """An answer."""
        if self._bytes_out is not None:
            self._bytes_out.take(size_bytes, self._now_ms())

    def wait_ms(self) -> int:
        """How long its callers are to wait; 0: nothing is owed."""
        now_ms = self._now_ms()
        buckets = (self._bytes_in, self._bytes_out, self._requests)
        return max([0 if bucket is None else bucket.wait_ms(now_ms) for bucket in buckets])

    def check_connections(self, count: int) -> None:
        """Raises QuotaExceededError when there are so many already, and must not be more."""
        most = self.quota.connections
        if most and count >= most:
            self.refused += 1
            raise QuotaExceededError(f"{self.quota.subject} has {count} connections to this node, and may have {most}")

    def check_stored(self) -> None:
        """Raises QuotaExceededError when its topics can store nothing more."""
        most = self.quota.stored_bytes
        if most and self.stored_bytes >= most:
            self.refused += 1
            raise QuotaExceededError(
                f"{self.quota.subject} stores {self.stored_bytes} bytes, and may store {most}: trim or delete topics, "
                "or wait for their retention"
            )


class Quotas:
    """All meters of a node."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """`now_ms` is a clock that never steps."""
        self._now_ms = now_ms
        self.of_users: dict[str, Meter] = {}
        self.of_namespaces: dict[str, Meter] = {}
        #: Some user has a bound for what its topics store.
        self.bounds_owners = False
        #: Open at this node, by user, whether it has a quota or not.
        self._connections: dict[str, int] = {}

    def set(self, users: Mapping[str, Quota], namespaces: Mapping[str, Quota]) -> None:
        """These are the quotas from now on."""
        for meters, quotas in ((self.of_users, users), (self.of_namespaces, namespaces)):
            for gone in [name for name in meters if name not in quotas]:
                del meters[gone]
            for name, quota in quotas.items():
                meter = meters.get(name)
                if meter is None:
                    meters[name] = Meter(quota, self._now_ms)
                elif meter.quota != quota:
                    meter.limit(quota)
        self.bounds_owners = any(quota.stored_bytes for quota in users.values())

    def of_topic(self, name: str, owner: str) -> list[Meter]:
        """Those for which a topic of this name and owner counts."""
        found = (self.of_namespaces.get(namespace_of(name)), self.of_users.get(owner))
        return [meter for meter in found if meter is not None]

    def enter(self, user: str) -> None:
        """A connection of this user. Raises QuotaExceededError."""
        count = self._connections.get(user, 0)
        meter = self.of_users.get(user)
        if meter is not None:
            meter.check_connections(count)
        self._connections[user] = count + 1

    def leave(self, user: str) -> None:
        count = self._connections[user] - 1
        if count:
            self._connections[user] = count
        else:
            del self._connections[user]

    def meters(self) -> Iterable[Meter]:
        return [*self.of_users.values(), *self.of_namespaces.values()]
