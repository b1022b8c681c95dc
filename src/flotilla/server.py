"""The composition root of a broker process: a node with metadata, partitions and the endpoints for clients.

`cluster_entry` decides how the node gets into its cluster.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from math import ceil
from pathlib import Path

from flotilla.broker.backup_hold import BackupHold
from flotilla.broker.broker import Broker
from flotilla.broker.catalog import METADATA_GROUP, Catalog, CatalogMachine
from flotilla.broker.cluster.registration import Membership
from flotilla.broker.cluster_clock import ClusterClock
from flotilla.broker.disk.looks import DiskLooks
from flotilla.broker.disk.room import DiskRoom, Room
from flotilla.broker.exposure_warnings import exposure_warnings
from flotilla.broker.observability.event_log import LOOK_MS, EventLog
from flotilla.broker.observability.rate_history import RateHistory
from flotilla.broker.observability.request_metrics import MeteredService
from flotilla.broker.observability.status import NodeStatus
from flotilla.broker.ports import Cancel, Service
from flotilla.broker.security.entrance import Entrances, JoinEntrance
from flotilla.broker.security.gate import Gate, node_credentials
from flotilla.broker.security.quotas import Meter
from flotilla.broker.security.stored_bytes import StoredBytes
from flotilla.client.credentials import Password
from flotilla.cluster_entry import ClusterEntry
from flotilla.codec.batch.facts import facts_of, span_of
from flotilla.frontends.caller import Callers
from flotilla.frontends.connected_clients import ConnectedClients
from flotilla.frontends.grpc.server import GrpcServer
from flotilla.frontends.http.server import HttpServer
from flotilla.frontends.listener import ConnectionBudget
from flotilla.frontends.tcp.server import TcpServer
from flotilla.gateway.elsewhere import ClusterElsewhere
from flotilla.gateway.gateway import Gateway
from flotilla.gateway.guarded import GuardedGateway
from flotilla.machine import Lane, here
from flotilla.metadata.commands import RegisterBroker
from flotilla.metadata.security.users import SECRET_BYTES
from flotilla.metadata.values import Labels
from flotilla.node import Node, NodeParts
from flotilla.peers.handshake import KnownPeer
from flotilla.raft.options import RaftOptions
from flotilla.replica.replica import Replica, ReplicaOptions
from flotilla.runtime.clock import Clock, LoopClock
from flotilla.runtime.data_dir_identity import COPIED_FILES, DataDir
from flotilla.runtime.descriptors import budget_descriptors
from flotilla.runtime.driver import DriverOptions
from flotilla.runtime.observability.failures import watch
from flotilla.runtime.observability.logs import get_logger
from flotilla.runtime.observability.process_usage import disk_room
from flotilla.runtime.path_folder import PathFolder
from flotilla.security.endpoint_tls import TlsFiles, fresh_certificates
from flotilla.security.fresh_file import FreshFile
from flotilla.security.join_secret import JoinSecret, read_join_secret
from flotilla.security.node_tls import NodeTls
from flotilla.security.token_issuers import TokenIssuers
from flotilla.security.tokens import TokenVerifier
from flotilla.storage.disk_folder import DiskFolder
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Disk
from flotilla.types.address import Address, parse_address
from flotilla.types.errors import DiskFullError, FlotillaError, UnavailableError
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.limits import RESERVE_BYTES_MIN, SEGMENT_INDEX_INTERVAL_BYTES, THRIFTY_BYTES_MAX
from flotilla.types.settings import NodeSettings
from flotilla.types.version import SUPPORTED, VersionRange, __version__

log = get_logger("broker")

#: For requests in flight when a node stops.
DRAIN_MS = 2_000


class LoopConsensus:
    """Implements broker.ports.Consensus with a node's runtime."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._runtime = runtime = node.runtime
        self.is_confirmed = runtime.is_confirmed
        self.when_loaded = runtime.when_loaded
        self.propose = runtime.propose
        self.forward = runtime.forward
        self.read = runtime.read
        self.change_members = runtime.change_members
        self.transfer = runtime.transfer
        self.preload = runtime.driver.preload
        self.host = node.host
        self.snapshot = runtime.snapshot
        self.campaign = runtime.campaign
        self.drop = runtime.drop
        self.fail = runtime.fail
        self.resign = runtime.resign

    def replica(self, group: GroupId) -> Replica | None:
        return self._runtime.driver.replicas.get(group)

    def has_failed(self, group: GroupId) -> bool:
        return group in self._runtime.driver.failed

    def holds(self, group: GroupId) -> bool:
        return group in self._node.store.groups

    def stalled(self) -> Mapping[GroupId, str]:
        return self._runtime.driver.stalled

    def storage_error(self) -> FlotillaError | None:
        return self._runtime.driver.storage_error

    def is_short_of_room(self, node: NodeId) -> bool:
        return self._runtime.driver.is_short_of_room(node)


#: How long the end of a node waits for work aside; its thread ends with the process.
_ASIDE_S = 0.1


class LoopOutside:
    """Implements broker.ports.Outside with a clock and the links, over which the brokers compare their clocks."""

    def __init__(self, node: Node, clock: Clock, room: DiskRoom) -> None:
        self._node = node
        self.room = room
        self.clock = ClusterClock(clock, self._cluster_size)
        self.now_ms = self.clock.now_ms
        self.steady_ms = clock.steady_ms
        self.later = clock.later
        self.hold = BackupHold(clock.later)
        self.after_hold = self.hold.run
        #: Started when it is needed.
        self._lane: Lane | None = None
        node.network.exchange_clocks(clock.now_ms, self.clock.heard)

    def aside(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        if self._lane is None:
            self._lane = here().lane("aside")
        loop = asyncio.get_running_loop()

        def run() -> None:
            work()
            with suppress(RuntimeError):
                # The loop may be closed meanwhile.
                loop.call_soon_threadsafe(done)

        self._lane.put(run)

    def close(self) -> None:
        if self._lane is not None:
            self._lane.close(_ASIDE_S)

    def _cluster_size(self) -> int:
        """Brokers that this node knows of; 0 while it is part of no cluster."""
        metadata = self._node.runtime.driver.replicas.get(METADATA_GROUP)
        if metadata is None:
            return 0
        return max(self._node.network.peer_count + 1, len(metadata.raft.configuration.members()))

    def is_time_set(self) -> bool:
        return self.clock.may_lead()

    def is_time_trusted(self) -> bool:
        return self.clock.is_trusted

    def is_up(self, node: NodeId) -> bool:
        return node == self._node.runtime.node or self._node.network.is_up(node)

    def is_unknown_to(self, node: NodeId) -> bool:
        return self._node.network.is_unknown_to(node)

    def versions_of(self, node: NodeId) -> VersionRange | None:
        return SUPPORTED if node == self._node.runtime.node else self._node.network.versions_of(node)

    def election_timeouts(self) -> Mapping[NodeId, int]:
        return self._node.network.election_timeouts

    def connect(self, node: NodeId, peer_address: str, incarnation: int = 0, starts: int = 0, process: int = 0) -> None:
        known = KnownPeer(incarnation, starts, process)
        self._node.network.add_peer(node, parse_address(peer_address), known)

    def disconnect(self, node: NodeId) -> None:
        self._node.network.remove_peer(node, for_good=True)
        self.clock.forget(node)


def _replica_options(settings: NodeSettings) -> ReplicaOptions:
    return ReplicaOptions(
        raft=RaftOptions(
            election_ticks=settings.timing.election_ticks,
            heartbeat_ticks=settings.timing.heartbeat_ticks,
            quiesce_ticks=ceil(settings.quiesce_ms / settings.timing.tick_ms),
            commit_news_ticks=1,
            thrifty_bytes_max=THRIFTY_BYTES_MAX,
            proposal_bytes_max=settings.proposal_bytes_max,
            proposal_count_max=settings.proposal_count_max,
        ),
        snapshot_entries=settings.snapshot_entries,
    )


def _node_tls(settings: NodeSettings) -> NodeTls | None:
    """Raises InvalidArgumentError, UnsupportedError."""
    if not settings.has_tls:
        return None
    files = TlsFiles(settings.tls_certificate, settings.tls_key, settings.tls_ca)
    own = (settings.cluster_name, settings.node_id, settings.tls_client_certificates)
    return NodeTls(files, *own, is_optional=not settings.needs_tls)


def _node_parts(
    settings: NodeSettings,
    options: ReplicaOptions,
    segments: int,
    data: DataDir,
    tls: NodeTls | None,
    secret: JoinSecret | None,
) -> NodeParts:
    return NodeParts(
        node=settings.node_id,
        cluster=settings.cluster_digest,
        data=Path(settings.data_dir),
        listen=settings.peer_listen,
        peers={},
        store=StoreOptions(
            journal_bytes=settings.journal_file_bytes,
            reserve_bytes=max(settings.journal_file_bytes // 4, RESERVE_BYTES_MIN),
            segment_bytes=settings.segment_file_bytes,
            # Small segments get a finer index, so that reading one message walks over a small part of them.
            index_interval_bytes=min(SEGMENT_INDEX_INTERVAL_BYTES, settings.segment_file_bytes // 256),
            open_files_max=segments,
            copied_texts=COPIED_FILES,
        ),
        driver=DriverOptions(options),
        incarnation=data.identity.incarnation,
        timing=settings.timing,
        scrub_bytes_per_second=settings.scrub_bytes_per_second,
        tls=None if tls is None else tls.peers(),
        secret=secret,
    )


class Server:
    """One broker. `start` returns when it listens; it may not be part of a cluster yet."""

    def __init__(
        self,
        settings: NodeSettings,
        clock: Clock | None = None,
        disk: Disk | None = None,
        room: Callable[[], Room] | None = None,
    ) -> None:
        """`clock` replaces the machine's, for tests, and `disk` the data directory, for the simulator.

        `room` replaces the look at the room on the disk; that on a simulated disk is not known.
        """
        self.settings = settings
        self.tls = _node_tls(settings)
        self._fresh_files = [] if self.tls is None else [fresh_certificates(self.tls, log)]
        secret = read_join_secret(settings.join_secret, is_optional=settings.join_secret_mode == "optional")
        dialler = None if self.tls is None else self.tls.node_dialler()
        folder = PathFolder(Path(settings.data_dir)) if disk is None else DiskFolder(disk, settings.data_dir)
        self._data = DataDir.claim(folder, settings.node_id, settings.cluster_name)
        self._machine = CatalogMachine()
        #: What it proves itself by, hashed once.
        self._own_password: tuple[tuple[str, str], Password] | None = None
        self._replica_options = _replica_options(settings)
        self.descriptors = budget_descriptors(
            here().descriptors_max(), segments_max=settings.open_files_max, has_grpc=settings.grpc_listen is not None
        )
        parts = _node_parts(settings, self._replica_options, self.descriptors.segments, self._data, self.tls, secret)
        self.node = Node(parts, lambda group: self._machine if group == METADATA_GROUP else None, span_of, disk)
        self.node.network.own.starts = self._count_start()
        self._consensus = LoopConsensus(self.node)
        self._outside = LoopOutside(self.node, clock or LoopClock(), _room_of(settings))
        self._disk_looks = DiskLooks(room or _look(settings, disk), self._saw_room)
        self.catalog = Catalog(self._machine, self._consensus, self._outside)
        self.entry = ClusterEntry(self._data, self.node, self._consensus, self._outside, dialler, settings.join_token)
        self._elsewhere = ClusterElsewhere(self._broker_addresses, dialler, self._credentials)
        keeps_log = replace(self._replica_options, keeps_log=True)
        self.membership = Membership(
            settings.node_id,
            self.catalog,
            self._consensus,
            self._outside,
            facts_of,
            keeps_log,
            self._elsewhere,
            here().chance(),
            settings.move_bytes_per_second,
            settings.timing.election_ticks * settings.timing.tick_ms,
        )
        self.membership.members.needs_token = settings.needs_tls
        if settings.authentication:
            self.membership.secret = here().secret(SECRET_BYTES)
        self.broker = self._new_broker()
        metered = MeteredService(self.broker, self.membership.produced)
        budget = ConnectionBudget(self.descriptors.clients)
        #: Who may do what; None: everybody may do everything.
        self._gate = self._new_gate(metered, secret) if settings.authentication else None
        self._tcp = TcpServer(metered, budget=budget, tls=self.tls, entrances=_entrances(self._gate, metered, secret))
        self._machine.on_security_changed = self._security_changed
        self._stored_bytes = None if self._gate is None else self._new_stored_bytes(self._gate)
        self.status = NodeStatus(
            self.node.runtime,
            self.node.network,
            self.catalog,
            metered,
            self._count_clients,
            self.membership.hosts,
            self._outside.clock,
            self._outside.room,
            self.membership.is_registered,
            self.entry.reasons,
            exposure_warnings(settings),
            self._expires_s,
            self._meters,
            self.broker.pipelines.measured,
        )
        self.node.runtime.on_group_failed = self.membership.group_failed
        self._open_to_all(budget)
        #: Where this node reaches its own endpoint, and its registration; known once its listeners are open.
        self._own_endpoint: Address | None = None
        self._own: RegisterBroker | None = None
        self._event_log, self._history = self._new_event_log(), self._new_history(metered)
        self._stop_looking: Cancel | None = None

    def _new_broker(self) -> Broker:
        entry, membership = self.entry, self.membership
        membership.on_cluster_known, membership.on_removed = entry.cluster_known, entry.removed
        membership.founding_version = lambda: entry.founding_version
        broker = Broker(
            self.settings, self.catalog, membership, self._consensus, self._outside, entry.found, entry.enter
        )
        broker.users.meters = self._meters
        return broker

    def _new_gate(self, service: MeteredService, join_secret: JoinSecret | None) -> Gate:
        settings, outside = self.settings, self._outside
        tokens = _tokens(settings, lambda: outside.now_ms() // 1_000)
        if tokens is not None:
            self._fresh_files.append(FreshFile(tokens.read))
        return Gate(
            service,
            self._machine,
            outside.later,
            outside.now_ms,
            tokens,
            join_secret,
            has_anonymous=settings.anonymous,
        )

    def _meters(self) -> Iterable[Meter]:
        return () if self._gate is None else self._gate.guard.quotas.meters()

    def _new_stored_bytes(self, gate: Gate) -> StoredBytes:
        return StoredBytes(lambda: gate.guard.quotas, self.catalog, self._consensus, self._outside, self._elsewhere)

    def _told_time_ms(self) -> int:
        """Cluster time, for callers whose delays it begins. Raises UnavailableError while the node does not know it."""
        now_ms = self._outside.now_ms()
        if not self._outside.clock.is_set:
            raise UnavailableError("the node has just started, and has not heard the clocks of a majority yet")
        return now_ms

    def _open_to_all(self, budget: ConnectionBudget) -> None:
        """Makes the endpoints that any node serves for the whole cluster, before the node starts."""
        settings = self.settings
        #: The whole cluster, for endpoints that any node serves. It connects to this node first.
        self.gateway = Gateway(
            self._own_addresses,
            clock=self._told_time_ms,
            local=self.local_endpoint,
            tls=None if self.tls is None else self.tls.node_dialler(),
            credentials=self._credentials,
        )
        #: The same for callers of HTTP and gRPC, who have rights of their own.
        self._guarded = None if self._gate is None else GuardedGateway(self.gateway)
        offered = self._guarded or self.gateway
        self._callers = [] if self._gate is None else [Callers(self._gate, "grpc"), Callers(self._gate, "http")]
        grpc_callers, http_callers = self._callers or (None, None)
        budgets = self._tcp.budgets
        self._grpc = GrpcServer(
            offered,
            self.status.is_member,
            self.descriptors.grpc,
            self.tls,
            grpc_callers,
            budgets.output,
            budgets.large_answers,
        )
        hosts = _host_names(settings)
        self._http = HttpServer(
            self.status,
            offered,
            status_connections_max=self.descriptors.status,
            budget=budget,
            hosts=hosts,
            tls=self.tls,
            callers=http_callers,
            budgets=budgets,
        )
        endpoints = (self._tcp.clients, self._http.clients, self._grpc.calls.clients)
        self._clients = ConnectedClients(settings.node_id, *endpoints)
        self.broker.connected_clients = self._clients.read

    def _count_clients(self) -> dict[str, int]:
        return {**self._tcp.statistics(), **self._clients.counts()}

    def _new_event_log(self) -> EventLog:
        driver = self.node.runtime.driver
        stalled, clock = self._consensus.stalled, self._outside.clock
        return EventLog(self.settings.node_id, self.catalog, driver.replicas, driver.repaired, stalled, clock)

    def _new_history(self, service: MeteredService) -> RateHistory:
        hosts, now_ms = self.membership.hosts, self._outside.now_ms
        history = RateHistory(self.settings.node_id, service, self._count_clients, hosts, now_ms)
        self.broker.history = history
        return history

    def _count_start(self) -> int:
        """The number of this start; 0 if the disk is full: then this start is not counted, and no peer judges it."""
        try:
            return self._data.count_start()
        except DiskFullError:
            log.warning("the disk is full: this start is not counted", node=self.settings.node_id)
            return 0

    def _expires_s(self) -> int | None:
        return None if self.tls is None else self.tls.certificate.expires_s

    def _credentials(self) -> Password | None:
        """By which this node proves itself to others, where they ask."""
        own = node_credentials(self._machine, self.settings.node_id)
        if own is None:
            return None
        if self._own_password is None or self._own_password[0] != own:
            self._own_password = (own, Password(*own))
        return self._own_password[1]

    def _security_changed(self) -> None:
        """Users or grants: what is allowed no more ends, after the entry was applied."""
        if self._guarded is not None:
            self._outside.later(0, self._tcp.reconsider)
            self._outside.later(0, self._guarded.reconsider)

    def _broker_addresses(self) -> list[Address]:
        return [parse_address(broker.client_address) for broker in self.catalog.brokers().values()]

    async def start(self) -> None:
        """Listens to clients and peers, and continues in its cluster, founds or joins one."""
        settings = self.settings
        watch(asyncio.get_running_loop())
        others = {peer: str(address) for peer, address in settings.other_peers.items()}
        if self._is_alone() and (others or settings.join):
            self._warn_alone()
            # They belong to another cluster of the same name.
            others = {}
        self.entry.connect(others)
        self.entry.connect_founders()
        self._disk_looks.first()
        await self.node.start()
        if not settings.join and not settings.await_init:
            self.entry.found(others)
        port = await self._tcp.start(settings.listen.host, settings.listen.port)
        self._own_endpoint = Address("127.0.0.1" if settings.listen.is_wildcard else settings.listen.host, port)
        http = settings.http_listen
        http_port = await self._http.start(http.host, http.port) if http is not None else 0
        grpc = settings.grpc_listen
        grpc_port = await self._grpc.start(grpc.host, grpc.port, settings.grpc_tls_listen) if grpc is not None else 0
        own = self._registration(port, http_port, grpc_port)
        self._own = self.entry.registration = own
        self.entry.labels = Labels(settings.machine, settings.zone)
        self.membership.start(own, self._data.identity.incarnation, self.entry.labels)
        self.entry.start()
        if settings.join:
            self.entry.enter([str(address) for address in settings.join])
        log.info(
            "listening",
            node=settings.node_id,
            cluster=settings.cluster_name,
            clients=own.client_address,
            peers=own.peer_address,
            http=own.http_address or "off",
            grpc=own.grpc_address or "off",
            sync=self.node.sync_method,
        )
        if settings.unguarded:
            listed = ", ".join(map(str, settings.unguarded))
            log.warning("insecure: other machines can connect, and nothing asks who they are", addresses=listed)
        log.info("descriptors are divided", node=settings.node_id, **asdict(self.descriptors))
        self._report_recovery()
        self._look()
        for file in self._fresh_files:
            file.start()
        if self._stored_bytes is not None:
            self._stored_bytes.start()

    def _report_recovery(self) -> None:
        """What a power cut took from the end of the journal, and what bad sectors took."""
        store = self.node.store
        for copy in store.mended_copies:
            log.warning("a small file was damaged, and is mended from its other copy", copy=copy)
        if store.unremoved:
            log.warning("files that are not needed could not be removed", files=store.unremoved[:10])
        if store.dropped_block:
            log.warning("a torn write was dropped; it was never acknowledged", block=store.dropped_block)
        for group, stored in store.groups.items():
            if stored.doubtful:
                ranges = stored.doubtful.as_list()
                log.warning("entries may be torn or rotten; the other replicas decide", group=group, entries=ranges)

    def take_rates(self, settings: NodeSettings) -> None:
        """How fast data are moved and verified from now on."""
        self.membership.moves.bytes_per_second = settings.move_bytes_per_second
        self.node.runtime.scrubbing.bytes_per_second = settings.scrub_bytes_per_second

    def reload_files(self) -> None:
        """Has certificates and keys of tokens read again, changed or not."""
        for file in self._fresh_files:
            file.look(is_forced=True)

    def _look(self) -> None:
        self._stop_looking = self._outside.later(LOOK_MS, self._look)
        for look in (self._event_log.look, self._history.look, self._disk_looks.again, self._expire_sessions):
            try:
                look()
            except Exception as failure:
                # The others go on, and the next round tries this one again.
                context = {"message": "a look at the node failed", "exception": failure, "part": "check"}
                asyncio.get_running_loop().call_exception_handler(context)

    def _expire_sessions(self) -> None:
        if self._gate is not None and self._guarded is not None and self._gate.guard.expire():
            # Streams over HTTP and gRPC; a TCP connection looks by itself.
            self._guarded.reconsider()

    def _saw_room(self, room: Room) -> None:
        self._outside.room.saw(room)
        self.node.runtime.note_room(is_short=self._outside.room.is_refusing)

    async def stop(self) -> None:
        """Refuses new requests, finishes those in flight, hands leadership over, and closes."""
        self.status.stopping()
        self._tcp.stop_accepting()
        self.entry.close()
        # Before leadership is handed over: calls in flight may need it.
        await self._grpc.close(DRAIN_MS)
        await self.node.runtime.hand_over()
        if self._stop_looking is not None:
            self._stop_looking()
            self._event_log.look()
        for file in self._fresh_files:
            file.close()
        if self._stored_bytes is not None:
            self._stored_bytes.close()
        self.broker.close()
        await self.gateway.close()
        await self._elsewhere.close()
        self._outside.close()
        self._disk_looks.close()
        await self._tcp.close(DRAIN_MS)
        await self._http.close(DRAIN_MS)
        for callers in self._callers:
            callers.close()
        await self.node.stop()
        log.info("stopped", node=self.settings.node_id)

    @property
    def client_address(self) -> str:
        """The address that the cluster reports to clients."""
        return self._client_address

    def _own_addresses(self) -> list[Address]:
        return [] if self._own_endpoint is None else [self._own_endpoint]

    def local_endpoint(self, address: Address) -> TcpServer | None:
        """This node's own endpoint for clients, if that is what the address means."""
        own = self._own
        is_own = address == self._own_endpoint or (own is not None and str(address) == own.client_address)
        return self._tcp if is_own else None

    @property
    def grpc_address(self) -> str:
        """Where gRPC clients connect; empty when that endpoint is off."""
        return "" if self._own is None else self._own.grpc_address

    def _registration(self, port: int, http_port: int, grpc_port: int) -> RegisterBroker:
        settings = self.settings
        advertised = settings.advertise or Address(settings.listen.host, port)
        self._client_address = str(advertised)
        peer = settings.peer_advertise or dict(settings.peers).get(settings.node_id) or self.node.network.address
        return RegisterBroker(
            cluster_name=settings.cluster_name,
            node=settings.node_id,
            client_address=str(advertised),
            peer_address=str(peer),
            http_address=_reached_at(settings.http_listen, http_port, advertised),
            grpc_address=_reached_at(settings.grpc_listen, grpc_port, advertised),
            version=__version__,
            starts=self.node.network.own.starts,
            process=self.node.network.own.process,
            now_ms=self._outside.now_ms(),
        )

    def _is_alone(self) -> bool:
        """Whether this node is a cluster of one."""
        replica = self._consensus.replica(METADATA_GROUP)
        return replica is not None and replica.raft.configuration.members() == (self.settings.node_id,)

    def _warn_alone(self) -> None:
        settings = self.settings
        given = {"--join": bool(settings.join), "--peers": bool(settings.other_peers)}
        log.warning(
            "the data directory belongs to a cluster of this node alone: it stays there",
            node=settings.node_id,
            cluster=settings.cluster_name,
            data_dir=settings.data_dir,
            ignored=[flag for flag, is_given in given.items() if is_given],
            advice="to join another cluster, start with an empty data directory",
        )


def _room_of(settings: NodeSettings) -> DiskRoom:
    return DiskRoom(settings.node_id, settings.data_dir, settings.disk_warn_free, settings.disk_refuse_free)


def _look(settings: NodeSettings, disk: Disk | None) -> Callable[[], Room] | None:
    return None if disk is not None else lambda: Room(*disk_room(settings.data_dir))


def _entrances(gate: Gate | None, service: Service, secret: JoinSecret | None) -> Entrances | None:
    if gate is not None:
        return gate.entrance
    return None if secret is None else lambda *_: JoinEntrance(service, secret)


def _tokens(settings: NodeSettings, now_s: Callable[[], int]) -> TokenVerifier | TokenIssuers | None:
    """Raises InvalidArgumentError, UnsupportedError."""
    audience = settings.token_audience or settings.cluster_name
    if settings.token_issuers:
        return TokenIssuers(settings.token_issuers, audience, now_s)
    return TokenVerifier(settings.token_keys, audience, settings.token_issuer, now_s) if settings.token_keys else None


def _host_names(settings: NodeSettings) -> list[str]:
    """The names by which HTTP clients may call this node."""
    own = [settings.advertised, settings.peer_advertised, *filter(None, (settings.http_listen,))]
    return [*settings.http_hosts, *(address.host for address in own), here().host_name()]


def _reached_at(listen: Address | None, port: int, advertised: Address) -> str:
    """The address of an endpoint for others; empty when it is off. A wildcard listener gets the advertised host."""
    if listen is None:
        return ""
    return str(Address(advertised.host if listen.is_wildcard else listen.host, port))
