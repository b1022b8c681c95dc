"""The values of a metrics scrape, read from counters that the parts of a node keep anyway.

Nothing is prepared between two scrapes, so a node that is not scraped pays nothing. A scrape of many partitions yields
to the loop in between, so that it delays other work by a slice at most.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from flotilla.broker.catalog import Catalog
from flotilla.broker.cluster_clock import ClusterClock
from flotilla.broker.disk.room import DiskRoom
from flotilla.broker.group_names import UNASSIGNED_TOPIC, GroupNames
from flotilla.broker.observability.request_metrics import MeteredService
from flotilla.broker.replica_warnings import ReplicaWarnings, Trouble
from flotilla.broker.security.quotas import Meter
from flotilla.machine import now_ms, steady_ms
from flotilla.raft import reasons
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.runtime.node import NodeRuntime
from flotilla.runtime.observability import metrics
from flotilla.runtime.observability import process_usage as usage
from flotilla.runtime.observability.failures import FAILURES
from flotilla.runtime.observability.metrics import Exposition, label
from flotilla.types.ids import NO_NODE, GroupId, NodeId
from flotilla.types.operations.cluster import (
    ENDPOINTS,
    REPLICA_BEHIND,
    REPLICA_DOWN,
    REPLICA_FORGETFUL,
    UNDER_REPLICATED,
)
from flotilla.types.operations.pipelines import Pipeline
from flotilla.types.operations.queue import OFFSET_KIND, GroupDescription
from flotilla.types.version import SUPPORTED

#: Replicas measured before yielding to the loop: about a millisecond.
_SLICE = 128
#: The same with queue groups, whose oldest message is looked up in the log.
_QUEUE_SLICE = 16

#: The metrics of TcpServer.statistics.
_CLIENTS = {
    "connections": metrics.CLIENT_CONNECTIONS,
    "connections_accepted_total": metrics.CLIENT_CONNECTIONS_ACCEPTED,
    "connections_refused_total": metrics.CLIENT_CONNECTIONS_REFUSED,
    "connections_cut_total": metrics.CLIENT_CONNECTIONS_CUT,
    "requests_in_flight": metrics.CLIENT_REQUESTS_IN_FLIGHT,
    "received_bytes_total": metrics.CLIENT_RECEIVED_BYTES,
    "sent_bytes_total": metrics.CLIENT_SENT_BYTES,
}


#: The states of UNHEALTHY_REPLICAS.
_UNHEALTHY = {REPLICA_DOWN: "down", REPLICA_BEHIND: "behind", REPLICA_FORGETFUL: "forgetful"}


class PeerState(Protocol):
    """The state of the link to one peer."""

    @property
    def peer(self) -> NodeId: ...

    @property
    def is_up(self) -> bool: ...

    @property
    def queued_bytes(self) -> int: ...

    @property
    def sent_bytes(self) -> int: ...

    @property
    def dropped_frames(self) -> int: ...


class Peers(Protocol):
    def health(self) -> Sequence[PeerState]: ...

    def is_up(self, peer: NodeId) -> bool: ...


class QueueMeter(Protocol):
    """A partition with queue groups."""

    def queue_groups(self) -> list[str]:
        """Their names, while this node leads the partition."""

    def offset_groups(self) -> list[str]:
        """The same of groups that commit offsets."""

    def measure_queue(self, group: str) -> GroupDescription | None:
        """Also of a group that commits offsets; None: it is gone, or its messages cannot be read now."""

    def held_messages(self) -> dict[str, int]:
        """Messages that groups hold beyond the topic's retention, by group."""

    def held_back(self) -> dict[str, int]:
        """The same, of groups that have held them for long."""

    def kept_results(self) -> tuple[int, int]:
        """Results of acked messages that are kept, and their bytes, while this node leads the partition."""

    @property
    def retention_behind_ms(self) -> int: ...


class Build(NamedTuple):
    version: str
    python: str
    node: NodeId
    #: By the monotonic clock.
    started_ms: int
    #: Other machines can connect.
    is_exposed: bool
    room: DiskRoom
    #: When the certificate in use expires, in seconds since 1970; None: there is none.
    expires_s: Callable[[], int | None] = lambda: None
    #: Of users and namespaces with a quota.
    meters: Callable[[], Iterable[Meter]] = tuple
    #: That report to this node.
    pipelines: Callable[[], Iterable[Pipeline]] = tuple


class Measurements:
    def __init__(
        self,
        runtime: NodeRuntime,
        peers: Peers,
        catalog: Catalog,
        service: MeteredService,
        clients: Callable[[], Mapping[str, int]],
        names: GroupNames,
        hosts: Mapping[GroupId, QueueMeter],
        build: Build,
        warnings: ReplicaWarnings,
        clock: ClusterClock,
    ) -> None:
        self._runtime = runtime
        self._peers = peers
        self._catalog = catalog
        self._service = service
        self._clients = clients
        self._names = names
        self._hosts = hosts
        self._build = build
        self._warnings = warnings
        self._clock = clock
        #: The rendered labels of each replica.
        self._labels: dict[GroupId, str] = {}

    async def take(self) -> bytes:
        out = Exposition()
        self._add_requests(out)
        await self._add_replicas(out)
        await self._add_queues(out)
        self._add_storage(out)
        self._add_network(out)
        self._add_quotas(out)
        self._add_pipelines(out)
        self._add_clock(out)
        self._add_process(out)
        return out.render()

    def _add_requests(self, out: Exposition) -> None:
        service = self._service
        service.forget_topics_except({topic.name for topic in self._catalog.topics()})
        for metric, counts in (
            (metrics.MESSAGES_PRODUCED, service.produced),
            (metrics.MESSAGES_DELIVERED, service.delivered),
            (metrics.MESSAGES_REDELIVERED, service.redelivered),
        ):
            for topic, count in counts.items():
                out.add(metric, count, label("topic", topic))
        for operation in service.operations.values():
            name = label("operation", operation.name)
            out.add_histogram(metrics.REQUEST_SECONDS, operation.durations, name)
            if operation.waits.count:
                waits = label("operation", f"{operation.name}_wait")
                out.add_histogram(metrics.REQUEST_SECONDS, operation.waits, waits)
            for code, count in operation.errors.items():
                out.add(metrics.REQUEST_ERRORS, count, f"{name},{label('code', code)}")

    async def _add_replicas(self, out: Exposition) -> None:
        replicas = self._runtime.driver.replicas
        self._forget_gone(replicas)
        states = {"leading": 0, "following": 0, "leaderless": 0, "damaged": 0, "failed": 0}
        states["failed"] = len(self._runtime.driver.failed)
        for place, replica in enumerate(list(replicas.values()), 1):
            if replicas.get(replica.group) is replica:
                states[self._state(replica)] += 1
                self._add_replica(out, replica)
            if place % _SLICE == 0:
                await asyncio.sleep(0)
        self._add_troubles(out, replicas)
        for (begins, reason), count in sorted(self._runtime.driver.leaderships().items()):
            labels = f"{label('event', 'began' if begins else 'ended')},{label('reason', reasons.name_of(reason))}"
            out.add(metrics.LEADERSHIPS, count, labels)
        for state, count in states.items():
            out.add(metrics.REPLICAS, count, label("state", state))

    def _add_troubles(self, out: Exposition, replicas: Mapping[GroupId, Replica]) -> None:
        troubles = self._warnings.troubles(replicas.values())
        out.add(metrics.UNDER_REPLICATED, len(troubles.get(Trouble(UNDER_REPLICATED), ())))
        for trouble, partitions in sorted(troubles.items()):
            if trouble.code in _UNHEALTHY:
                labels = f"{label('peer', trouble.node)},{label('state', _UNHEALTHY[trouble.code])}"
                out.add(metrics.UNHEALTHY_REPLICAS, len(partitions), labels)

    async def _add_queues(self, out: Exposition) -> None:
        out.add(metrics.GROUPS_EXPIRED, self._catalog.expired_group_count)
        measured = 0
        for group, host in list(self._hosts.items()):
            for name, count in host.held_messages().items():
                out.add(metrics.RETENTION_HELD_MESSAGES, count, f"{self._labels_of(group)},{label('group', name)}")
            results = host.kept_results()
            if results[0]:
                out.add(metrics.RESULTS_KEPT, results[0], self._labels_of(group))
                out.add(metrics.RESULTS_KEPT_BYTES, results[1], self._labels_of(group))
            for name in (*host.queue_groups(), *host.offset_groups()):
                found = host.measure_queue(name)
                if found is not None:
                    self._add_queue(out, f"{self._labels_of(group)},{label('group', name)}", found)
                measured += 1
                if measured % _QUEUE_SLICE == 0:
                    await asyncio.sleep(0)

    def _add_queue(self, out: Exposition, labels: str, found: GroupDescription) -> None:
        out.add(metrics.GROUP_LAG_MESSAGES, found.lag, labels)
        out.add(metrics.GROUP_LAG_SECONDS, found.oldest_age_ms / 1000, labels)
        if found.kind == OFFSET_KIND:
            # It has a position and no leases.
            return
        out.add(metrics.MESSAGES_ACKED, found.acked_total, labels)
        out.add(metrics.MESSAGES_DEAD_LETTERED, found.dead_total, labels)
        out.add(metrics.MESSAGES_UNBURIED, found.unburied, labels)
        out.add(metrics.MESSAGES_TRIMMED, found.trimmed_total, labels)
        out.add(metrics.QUEUE_READY, found.ready, labels)
        out.add(metrics.QUEUE_LEASED, found.leased, labels)
        out.add(metrics.QUEUE_DELAYED, found.delayed, labels)

    def _state(self, replica: Replica) -> str:
        raft = replica.raft
        if raft.damaged:
            return "damaged"
        if raft.role == LEADER:
            return "leading"
        return "following" if raft.leader != NO_NODE else "leaderless"

    def _add_replica(self, out: Exposition, replica: Replica) -> None:
        raft = replica.raft
        labels = self._labels_of(replica.group)
        out.add(metrics.RAFT_STATE, metrics.STATE_DAMAGED if raft.damaged else raft.role, labels)
        out.add(metrics.RAFT_TERM, raft.term, labels)
        out.add(metrics.RAFT_COMMIT_INDEX, raft.log.committed, labels)
        out.add(metrics.LOG_SIZE_BYTES, replica.log.size_bytes(), labels)
        for peer, count in raft.forgotten_counts.items():
            out.add(metrics.RAFT_FORGOTTEN, count, f'{labels},peer="{peer}"')
        if raft.role == LEADER:
            last_index = raft.log.last_index
            for peer, progress in raft.progress.items():
                if peer != raft.id:
                    lag = max(last_index - progress.match, 0)
                    out.add(metrics.RAFT_REPLICATION_LAG, lag, f'{labels},peer="{peer}"')

    def _labels_of(self, group: GroupId) -> str:
        labels = self._labels.get(group)
        if labels is None:
            name = self._names.of(group)
            labels = f"{label('topic', name.topic)},{label('partition', name.partition)}"
            if name.topic != UNASSIGNED_TOPIC:
                self._labels[group] = labels
        return labels

    def _forget_gone(self, replicas: Mapping[GroupId, Replica]) -> None:
        self._names.forget_except(replicas)
        for group in [group for group in self._labels if group not in replicas]:
            del self._labels[group]

    def _add_storage(self, out: Exposition) -> None:
        runtime = self._runtime
        out.add(metrics.STORAGE_OK, int(runtime.driver.refusal is None))
        room = self._build.room
        if room.now.total_bytes:
            out.add(metrics.DISK_FREE_BYTES, room.now.free_bytes)
            out.add(metrics.DISK_SIZE_BYTES, room.now.total_bytes)
            out.add(metrics.DISK_WARN_FREE_BYTES, room.warn_bytes)
            out.add(metrics.DISK_REFUSE_FREE_BYTES, room.refuse_bytes)
        out.add(metrics.STALLED_READS, len(runtime.driver.stalled))
        scrubbed = runtime.scrubbing.done
        out.add(metrics.SCRUBBED_BYTES, scrubbed.bytes)
        out.add(metrics.SCRUB_DAMAGE, scrubbed.damage)
        out.add(metrics.SCRUB_PASS_AGE, runtime.scrubbing.seconds_since_pass)
        out.add_histogram(metrics.FSYNC_SECONDS, runtime.journal.durations)
        out.add(metrics.STORAGE_ERRORS, runtime.journal.failed_count, label("work", "journal"))
        out.add(metrics.STORAGE_ERRORS, runtime.background.failed_count, label("work", "background"))

    def _add_network(self, out: Exposition) -> None:
        for state in self._peers.health():
            peer = label("peer", state.peer)
            out.add(metrics.PEER_UP, int(state.is_up), peer)
            out.add(metrics.PEER_QUEUED_BYTES, state.queued_bytes, peer)
            out.add(metrics.PEER_SENT_BYTES, state.sent_bytes, peer)
            out.add(metrics.PEER_DROPPED_FRAMES, state.dropped_frames, peer)
        clients = self._clients()
        for key, metric in _CLIENTS.items():
            out.add(metric, clients[key])
        for endpoint in ENDPOINTS:
            out.add(metrics.CONNECTED_CLIENTS, clients[endpoint], label("endpoint", endpoint))

    def _add_clock(self, out: Exposition) -> None:
        clock = self._clock
        clock.now_ms()
        out.add(metrics.CLOCK_OFFSET_SECONDS, clock.offset_ms / 1000)
        out.add(metrics.CLOCK_JUMPS, clock.jump_count)
        out.add(metrics.CLOCKS_AGREE, int(clock.has_agreement))
        behind_ms = max([host.retention_behind_ms for host in self._hosts.values()], default=0)
        out.add(metrics.RETENTION_BEHIND_SECONDS, behind_ms / 1000)

    def _add_quotas(self, out: Exposition) -> None:
        for meter in self._build.meters():
            subject = label("subject", meter.quota.subject)
            out.add(metrics.QUOTA_WAITED_SECONDS, meter.waited_ms / 1000, subject)
            out.add(metrics.QUOTA_REFUSED, meter.refused, subject)
            if meter.quota.stored_bytes:
                out.add(metrics.QUOTA_STORED_BYTES, meter.stored_bytes, subject)

    def _add_pipelines(self, out: Exposition) -> None:
        now_ms = self._clock.now_ms()
        for each in self._build.pipelines():
            labels = f"{label('pipeline', each.name)},{label('id', each.id)}"
            out.add(metrics.PIPELINE_RECORDS_BEHIND, each.records_behind, labels)
            out.add(metrics.PIPELINE_BYTES_BEHIND, each.bytes_behind, labels)
            out.add(metrics.PIPELINE_RECORDS_PER_SECOND, each.records_per_second, labels)
            out.add(metrics.PIPELINE_BATCH_SECONDS, each.batch_ms / 1000, labels)
            out.add(metrics.PIPELINE_REPORT_AGE, max(now_ms - each.reported_ms, 0) / 1000, labels)
            if each.lake:
                out.add(metrics.PIPELINE_LAKE_BYTES, each.lake_bytes, labels)
                out.add(metrics.PIPELINE_LAKE_ROWS, each.lake_rows, labels)
                out.add(metrics.PIPELINE_LAKE_VERIFIED, each.lake_verified_ms / 1000, labels)

    def _add_process(self, out: Exposition) -> None:
        build = self._build
        for part, count in FAILURES.counts.items():
            out.add(metrics.FAILURES, count, label("part", part))
        info = (label("version", build.version), label("python", build.python), label("node", build.node))
        out.add(metrics.BUILD_INFO, 1, ",".join(info))
        out.add(metrics.CLUSTER_VERSION, self._catalog.cluster_version)
        out.add(metrics.CLUSTER_VERSION_SUPPORTED, SUPPORTED.lowest, label("bound", "lowest"))
        out.add(metrics.CLUSTER_VERSION_SUPPORTED, SUPPORTED.highest, label("bound", "highest"))
        out.add(metrics.INSECURE, int(build.is_exposed))
        expires_s = build.expires_s()
        if expires_s is not None:
            out.add(metrics.CERTIFICATE_EXPIRY_SECONDS, expires_s - now_ms() // 1000)
        out.add(metrics.UPTIME_SECONDS, (steady_ms() - build.started_ms) / 1000)
        usage.add_usage(out)
        pauses = usage.GC_PAUSE_TIMER.pauses
        out.add_histogram(metrics.GC_PAUSE_SECONDS, pauses)
        out.add(metrics.GC_PAUSE_MAX_SECONDS, pauses.max_us / 1e6)
