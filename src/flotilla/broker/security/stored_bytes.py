"""How much the topics of users and namespaces with a bound on it store, as of the last look.

A node looks every few seconds, while there is such a quota: at its own replicas, and for partitions that it has none of
it asks their leaders, one after another. So the bound is exceeded by what is stored between two looks at most. A
partition whose leader does not answer counts as it did before.
"""

from collections.abc import Callable, Iterator
from typing import Final

from flotilla.broker.catalog import Catalog
from flotilla.broker.ports import Cancel, Consensus, Elsewhere, Outside
from flotilla.broker.security.quotas import Quotas
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import GroupId
from flotilla.types.operations import Reply
from flotilla.types.operations.cluster import DescribeReplicas, ReplicasDescribed

LOOK_MS: Final = 2_000


class StoredBytes:
    def __init__(
        self,
        quotas: Callable[[], Quotas],
        catalog: Catalog,
        consensus: Consensus,
        outside: Outside,
        elsewhere: Elsewhere,
    ) -> None:
        self._quotas = quotas
        self._catalog = catalog
        self._consensus = consensus
        self._outside = outside
        self._elsewhere = elsewhere
        #: Of partitions without a replica here, as their leaders said.
        self._told: dict[GroupId, int] = {}
        self._is_asking = False
        self._stop: Cancel | None = None

    def start(self) -> None:
        self._look()

    def close(self) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None

    def _look(self) -> None:
        self._stop = self._outside.later(LOOK_MS, self._look)
        quotas = self._quotas()
        sizes = {meter: 0 for meter in quotas.meters() if meter.quota.stored_bytes}
        if not sizes:
            self._told.clear()
            return
        missing: dict[GroupId, DescribeReplicas] = {}
        for topic in self._catalog.topics():
            bounded = [meter for meter in quotas.of_topic(topic.name, topic.owner) if meter in sizes]
            if not bounded:
                continue
            size_bytes = 0
            for partition in topic.partitions:
                replica = self._consensus.replica(partition.group)
                if replica is not None:
                    size_bytes += replica.log.size_bytes()
                else:
                    size_bytes += self._told.get(partition.group, 0)
                    missing[partition.group] = DescribeReplicas(topic.name, partition.number)
            for meter in bounded:
                sizes[meter] += size_bytes
        for meter, stored_bytes in sizes.items():
            meter.stored_bytes = stored_bytes
        self._told = {group: size for group, size in self._told.items() if group in missing}
        if missing and not self._is_asking:
            self._is_asking = True
            self._ask(iter(missing.items()))

    def _ask(self, missing: Iterator[tuple[GroupId, DescribeReplicas]]) -> None:
        found = next(missing, None)
        if found is None or self._stop is None:
            self._is_asking = False
            return
        group, request = found

        def answered(result: Reply | FlotillaError) -> None:
            if isinstance(result, ReplicasDescribed):
                self._told[group] = result.size_bytes
            self._ask(missing)

        self._elsewhere.ask(request, answered)
