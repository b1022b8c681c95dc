"""Real brokers and real clients on simulated hosts.

A broker here is `flotilla.server.Server`, a client process runs `flotilla.client.AsyncClient`. The cluster starts
them, kills them and starts them again; it knows nothing of faults, workloads or promises.
"""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from flotilla.server import Server
from flotilla.sim.devices.world import World
from flotilla.sim.whole.loop_network import NetworkedLoop
from flotilla.sim.whole.process import DESCRIPTORS_MAX, Host, Process
from flotilla.sim.whole.sockets import Internet
from flotilla.types.address import Address, Peer
from flotilla.types.ids import NodeId
from flotilla.types.limits import KIB, MIB
from flotilla.types.settings import NodeSettings

CLIENT_PORT: Final = 7600
PEER_PORT: Final = 7601
HTTP_PORT: Final = 7680
#: Few, so that every run restores states.
_SNAPSHOT_ENTRIES: Final = 100
_CLUSTER_NAME: Final = "simulated"


class Broker:
    """A host with a broker on it, or without one while it is down."""

    def __init__(self, cluster: "Cluster", node: NodeId, settings: NodeSettings) -> None:
        self._cluster = cluster
        self.node = node
        self.settings = settings
        self.host = Host(cluster.world, f"broker-{node}", f"10.0.0.{node}")
        cluster.internet.add(self.host)
        self.process: Process | None = None
        self.server: Server | None = None
        #: What ended the broker, or kept it from starting; None: nothing did.
        self.failure: BaseException | None = None
        self.start_count = 0
        #: Of the next start.
        self.descriptors_max = DESCRIPTORS_MAX
        #: Called when the power failed in the middle of a disk operation.
        self.on_interrupted: Callable[[], None] = _nothing
        #: Operations of the disk that had failed when the broker started.
        self._failed_before = 0

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.is_alive

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running

    @property
    def has_met_disk_fault(self) -> bool:
        """Whether an operation of the disk has failed since the broker started."""
        return self.host.disk.failed_count > self._failed_before

    def start(self) -> None:
        assert not self.is_up, f"broker {self.node} runs already"
        self.host.is_powered = True
        self.failure = None
        self.server = None
        self.start_count += 1
        process = self.process = self._cluster.spawn(self.host, self.descriptors_max)
        disk = self.host.disk
        self._failed_before = disk.failed_count
        disk.on_interrupted = self._interrupted
        disk.on_sync = process.sync
        process.loop.create_task(self._serve(process))

    async def _serve(self, process: Process) -> None:
        try:
            self.server = server = Server(self.settings, disk=self.host.disk)
            self._cluster.on_broker_opened(server)
            server.entry.on_expelled = lambda: self._expelled(process, server)
            await server.start()
            await server.node.runtime.wait_stopped()
        except Exception as failure:
            if process.is_alive:
                self.failure = failure
                self._cluster.broker_failed(self, failure)
                self.die(is_heard=True)

    def _interrupted(self) -> None:
        self.cut_power()
        on_interrupted, self.on_interrupted = self.on_interrupted, _nothing
        on_interrupted()

    def _expelled(self, process: Process, server: Server) -> None:
        """The cluster has no place for it."""
        reason = server.entry.expulsion
        self._cluster.on_broker_expelled(self, "" if reason is None else reason.code)
        process.loop.create_task(self._stop(process, server, _nothing))

    def stop(self, stopped: Callable[[], None] = lambda: None) -> None:
        """Asks the broker to stop by itself, as SIGTERM does. `stopped` is called at its end."""
        process, server = self.process, self.server
        if process is not None and process.is_running and server is not None:
            process.loop.create_task(self._stop(process, server, stopped))

    async def _stop(self, process: Process, server: Server, stopped: Callable[[], None]) -> None:
        await server.stop()
        if process is self.process:
            self.kill()
            stopped()

    def kill(self) -> None:
        """The process ends at once, and its host lives on."""
        self.die(is_heard=True)

    def cut_power(self) -> None:
        """The host ends at once: what was not synced may be lost, and nobody hears of it."""
        self.host.is_powered = False
        self.die(is_heard=False)

    def die(self, *, is_heard: bool) -> None:
        if self.process is None or not self.process.is_alive:
            return
        self.process.die(is_heard=is_heard)
        if is_heard:
            self.host.disk.stop()
        else:
            self.host.disk.crash()

    @property
    def client_address(self) -> str:
        return f"{self.host.name}:{CLIENT_PORT}"


class Cluster:
    def __init__(self, world: World, nodes: int, **settings: Any) -> None:
        """`settings` are those of NodeSettings, the same for every broker."""
        self.world = world
        self.internet = Internet(world)
        self.brokers: dict[NodeId, Broker] = {}
        #: All processes of the run, the dead ones too: nothing of them may be collected before its end.
        self.processes: list[Process] = []
        #: Called with each broker that has opened its store and not begun to run.
        self.on_broker_opened: Callable[[Server], None] = _ignore_opened
        #: Called when a broker ends by itself.
        self.on_broker_failed: Callable[[Broker, BaseException], None] = _ignore
        #: Called with the code of the reason when a broker learns that it must end.
        self.on_broker_expelled: Callable[[Broker, str], None] = _ignore_expelled
        #: Called when the code of a client raises.
        self.on_client_failed: Callable[[Process, Exception], None] = _ignore
        self._settings = settings
        self._clients = 0
        members = tuple(Peer(node, Address(f"broker-{node}", PEER_PORT)) for node in range(1, nodes + 1))
        for node in range(1, nodes + 1):
            self.brokers[node] = Broker(self, node, self._node_settings(node, peers=members))

    def _node_settings(self, node: NodeId, **more: Any) -> NodeSettings:
        # Everybody dials it by its name: its address may change.
        host, name = "0.0.0.0", f"broker-{node}"
        base = NodeSettings(
            node_id=node,
            cluster_name=_CLUSTER_NAME,
            data_dir="/data",
            listen=Address(host, CLIENT_PORT),
            peer_listen=Address(host, PEER_PORT),
            http_listen=Address(host, HTTP_PORT),
            advertise=Address(name, CLIENT_PORT),
            peer_advertise=Address(name, PEER_PORT),
            insecure=True,
            auto_create_topics=True,
            # Its C core has threads and sockets of its own.
            grpc_listen=None,
            journal_file_bytes=1 * MIB,
            segment_file_bytes=1 * MIB,
            snapshot_entries=_SNAPSHOT_ENTRIES,
        )
        settings = replace(base, **{**self._settings, **more})
        _check(settings)
        return settings

    def mix_settings(self) -> None:
        """Some settings of the first broker differ from those of the others."""
        broker = self.brokers[1]
        broker.settings = replace(
            broker.settings,
            segment_file_bytes=64 * KIB,
            open_files_max=16,
            snapshot_entries=10,
            proposal_count_max=8,
            move_bytes_per_second=64 * KIB,
        )
        _check(broker.settings)

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.start()

    def heal(self) -> None:
        """Every path is open and every broker runs, at its usual speed."""
        self.internet.mend_all()
        for broker in self.brokers.values():
            broker.host.slowness = broker.host.disk_slowness = 1
            if not broker.is_up:
                broker.start()
            elif broker.process is not None:
                broker.process.resume()

    def add_broker(self) -> Broker:
        """A new node, which joins the cluster."""
        node = max(self.brokers) + 1
        broker = self.brokers[node] = Broker(self, node, self.joining_settings(node))
        broker.start()
        return broker

    def joining_settings(self, node: NodeId) -> NodeSettings:
        """Of a node that joins the running cluster."""
        others = [broker for broker in self.brokers.values() if broker.node != node]
        join = tuple(Address(broker.host.name, CLIENT_PORT) for broker in others)
        return self._node_settings(node, join=join, peers=())

    def spawn(self, host: Host, descriptors_max: int = DESCRIPTORS_MAX) -> Process:
        """A new process on the host."""
        # The methods that asyncio calls abstract and nobody here uses are not implemented.
        process = Process(host, lambda process: NetworkedLoop(process, self.internet), descriptors_max)  # type: ignore[abstract]
        self.processes.append(process)
        return process

    def client_host(self, name: str = "") -> Host:
        self._clients += 1
        host = Host(self.world, name or f"client-{self._clients}", f"10.1.{self._clients // 250}.{self._clients % 250}")
        self.internet.add(host)
        return host

    def run(self, host: Host, main: Callable[[], Coroutine[Any, Any, None]]) -> Process:
        """Starts a client process that does `main`."""
        process = self.spawn(host)
        process.loop.create_task(self._run(process, main))
        return process

    async def _run(self, process: Process, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await main()
        except Exception as failure:
            process.failures.append({"message": "a client failed", "exception": failure})
            self.on_client_failed(process, failure)

    @property
    def servers(self) -> list[str]:
        """The addresses of all brokers, for clients."""
        return [broker.client_address for broker in self.brokers.values()]

    def broker_failed(self, broker: Broker, failure: BaseException) -> None:
        self.on_broker_failed(broker, failure)


def _nothing() -> None:
    """Nobody waits for it."""


def _ignore_opened(server: Server) -> None:
    """Nobody watches."""


def _ignore_expelled(broker: Broker, code: str) -> None:
    """Nobody watches."""


def _check(settings: NodeSettings) -> None:
    """Raises InvalidArgumentError. Simulated nodes have no join secret: it is a file of a real disk."""
    replace(settings, join_secret="join.secret").validate()


def _ignore(_: object, failure: BaseException) -> None:
    """Nobody watches."""
