"""The status of a node: health, readiness with reasons, and metrics.

*Health* is the process and its disk: when it fails, an operator must look, or another node take over. *Readiness* is
whether requests should be sent here. *Metrics* judge nothing. All are computed from memory, on the loop, on request.
"""

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.broker.clock_warnings import clock_warnings
from flotilla.broker.cluster.founding import Wait
from flotilla.broker.cluster_clock import ClusterClock
from flotilla.broker.disk.room import DiskRoom
from flotilla.broker.group_names import GroupNames
from flotilla.broker.observability.request_metrics import MeteredService
from flotilla.broker.observability.scrape import Build, Measurements, Peers, QueueMeter
from flotilla.broker.replica_warnings import ReplicaWarnings
from flotilla.broker.retention_holds import hold_warnings
from flotilla.broker.security.quotas import Meter
from flotilla.machine import steady_ms
from flotilla.replica.replica import Replica
from flotilla.runtime.node import NodeRuntime
from flotilla.runtime.observability.metrics import CONTENT_TYPE
from flotilla.types.ids import NO_NODE, GroupId
from flotilla.types.operations.cluster import NodeWarning
from flotilla.types.operations.pipelines import Pipeline
from flotilla.types.version import __version__

#: The content type of `NodeStatus.metrics`.
METRICS_TYPE = CONTENT_TYPE

#: A reason names at most this many partitions.
_NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node is not ready: a word for programs and a sentence for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Health:
    is_ok: bool
    #: For people and programs, as JSON can hold it.
    facts: dict[str, object]


class NodeStatus:
    def __init__(
        self,
        runtime: NodeRuntime,
        peers: Peers,
        catalog: Catalog,
        service: MeteredService,
        clients: Callable[[], Mapping[str, int]],
        hosts: Mapping[GroupId, QueueMeter],
        clock: ClusterClock,
        room: DiskRoom,
        is_registered: Callable[[], bool],
        entry: Callable[[], list[Wait]] = list,
        exposure: Sequence[NodeWarning] = (),
        expires_s: Callable[[], int | None] = lambda: None,
        meters: Callable[[], Iterable[Meter]] = tuple,
        pipelines: Callable[[], Iterable[Pipeline]] = tuple,
    ) -> None:
        """`clients` is TcpServer.statistics, with clients by endpoint; `hosts` are partitions with queue groups.

        `is_registered`: whether the cluster has registered this start of the node. `entry` says why the node has not
        entered its cluster, or has no place in it. `exposure` are warnings about addresses that anybody can connect to.
        `expires_s`: when the certificate in use expires, in seconds since 1970; None: there is none. `meters` are those
        of users and namespaces with a quota; `pipelines` report to this node.
        """
        self._exposure = exposure
        self._is_registered = is_registered
        self._entry = entry
        self._node = runtime.node
        self._driver = runtime.driver
        self._catalog = catalog
        self._names = GroupNames(catalog)
        self._started_ms = steady_ms()
        self._is_stopping = False
        self._warnings = ReplicaWarnings(catalog, self._names, peers.is_up)
        python = platform.python_version()
        place = (__version__, python, runtime.node, self._started_ms, bool(exposure))
        self._room = room
        build = Build(*place, room, expires_s, meters, pipelines)
        self._clock = clock
        self._hosts = hosts
        self._measurements = Measurements(
            runtime, peers, catalog, service, clients, self._names, hosts, build, self._warnings, clock
        )

    def stopping(self) -> None:
        """Not ready from now on: a load balancer should send requests elsewhere."""
        self._is_stopping = True

    def is_member(self) -> bool:
        """Whether the node is part of a cluster, as far as it knows, with or without a leader."""
        return bool(self._catalog.cluster_id) and self._node in self._catalog.brokers()

    def health(self) -> Health:
        error = self._driver.refusal
        background = self._driver.background_error
        replicas = self._driver.replicas
        facts: dict[str, object] = {
            "status": "ok" if error is None else "failing",
            "storage": "ok" if error is None else error.code,
            "storage_message": "" if error is None else str(error),
            # Acknowledged records are safe in the journal, which grows while this lasts.
            "background": "ok" if background is None else background.code,
            "background_message": "" if background is None else str(background),
            # Out of operation here until the node starts again; other replicas serve.
            "failed": [str(self._names.of(group)) for group in self._driver.failed],
            # The disk does not return reads of these; other replicas may.
            "stalled": [str(self._names.of(group)) for group in self._driver.stalled],
            "damaged": [self._damage(replica) for replica in replicas.values() if replica.raft.damaged],
            "node": self._node,
            "cluster": self._catalog.cluster_name,
            "cluster_id": self._catalog.cluster_id,
            "version": __version__,
            "uptime_seconds": (steady_ms() - self._started_ms) / 1000,
            "replicas": len(replicas),
            "leading": sum(1 for replica in replicas.values() if replica.raft.leader == self._node),
        }
        return Health(error is None, facts)

    def _damage(self, replica: Replica) -> dict[str, object]:
        name = self._names.of(replica.group)
        return {"topic": name.topic, "partition": name.partition, "ranges": [list(r) for r in replica.raft.damaged]}

    def reasons(self) -> list[Reason]:
        """Why requests should not be sent here; empty when the node is ready."""
        found = [*self._of_disk(), *self._of_cluster(), *self._of_replicas()]
        if self._is_stopping:
            found.insert(0, Reason("STOPPING", "the node is about to stop"))
        return found

    def _of_disk(self) -> list[Reason]:
        error = self._driver.refusal
        return [Reason(error.code, str(error))] if error is not None else []

    def _of_cluster(self) -> list[Reason]:
        metadata = self._driver.replicas.get(METADATA_GROUP)
        if METADATA_GROUP in self._driver.failed:
            # A reason of its own.
            return []
        told = [Reason(wait.code, wait.message) for wait in self._entry()]
        if told:
            return told
        if metadata is None:
            return [Reason("NO_CLUSTER", "the node is not part of a cluster yet")]
        if metadata.raft.leader == NO_NODE:
            return [Reason("NO_METADATA_LEADER", "the cluster's metadata have no known leader")]
        if not self._catalog.cluster_id:
            return [Reason("NO_CLUSTER", "the cluster is not initialised yet")]
        if not self._is_registered():
            return [Reason("NOT_REGISTERED", "the cluster has not registered this start of the node as a broker yet")]
        return []

    def _of_replicas(self) -> list[Reason]:
        replicas = self._driver.replicas.values()
        damaged = [replica for replica in replicas if replica.raft.damaged]
        # The metadata have a reason of their own, and a damaged replica hears no leader.
        leaderless = [
            replica
            for replica in replicas
            # A new replica without voters waits for its first entries: the others serve without it.
            if replica.raft.leader == NO_NODE
            and replica.raft.configuration.voters
            and not replica.raft.damaged
            and replica.group != METADATA_GROUP
        ]
        return [
            *self._of_failed(),
            *self._listed("DAMAGED", _groups(damaged), "repair their log"),
            *self._listed("STALLED", list(self._driver.stalled), "wait for a read that their disk does not return"),
            *self._listed("NO_LEADER", _groups(leaderless), "know no leader"),
        ]

    def _of_failed(self) -> list[Reason]:
        failed = list(self._driver.failed)
        if not failed:
            return []
        named = ", ".join(str(self._names.of(group)) for group in failed[:_NAMED_MAX])
        more = ", ..." if len(failed) > _NAMED_MAX else ""
        text = f"{len(failed)} replicas failed and are out of operation until this node starts again: {named}{more}"
        return [Reason("FAILED", text)]

    def _listed(self, code: str, groups: list[GroupId], what: str) -> list[Reason]:
        if not groups:
            return []
        named = ", ".join(str(self._names.of(group)) for group in groups[:_NAMED_MAX])
        more = ", ..." if len(groups) > _NAMED_MAX else ""
        # A replica whose snapshot is being read does not take part yet.
        total = len(self._driver.replicas.keys() | groups)
        return [Reason(code, f"{len(groups)} of {total} replicas {what}: {named}{more}")]

    def warnings(self) -> list[NodeWarning]:
        """Troubles that do not stop this node from serving."""
        clocks = clock_warnings(self._node, self._clock, self._hosts.values())
        holds = hold_warnings(self._node, self._hosts.items(), self._names)
        replicas = self._warnings.take(self._driver.replicas.values())
        return [*replicas, *self._room.warnings(), *clocks, *holds, *self._exposure]

    async def metrics(self) -> bytes:
        """In the text format of Prometheus."""
        return await self._measurements.take()


def _groups(replicas: list[Replica]) -> list[GroupId]:
    return [replica.group for replica in replicas]
