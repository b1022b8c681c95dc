"""A cluster of broker processes on this machine: their ports, folders, starts and kills.

    with LocalCluster.on_free_ports(folder, node_count=3) as cluster:
        cluster.start()
        cluster.wait_ready()
        Client(cluster.servers) ...
        cluster.nodes[2].kill()

Each node has a folder and a log file beside it. `cluster.json` keeps the ports, so that a stopped cluster restarts as
it was. Attached nodes end with the process that started them, however that ends; detached ones stay. Whether a node
runs is read from the lock on its folder, never from a process id alone.
"""

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self, TypeVar

import typer

import flotilla
from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.output import complain
from flotilla.types.errors import (
    AlreadyExistsError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from flotilla.types.ids import NO_NODE
from flotilla.types.setting_table import VARIABLE_PREFIX

if TYPE_CHECKING:
    from flotilla.client.client import Client

T = TypeVar("T")

HOST = "127.0.0.1"
LAYOUT_FILE = "cluster.json"
READY_S_MAX = 30.0
#: Longer than a node may take to stop.
STOP_S_MAX = 15.0
POLL_S = 0.02
#: Short, because the processes are checked between two requests.
_ASK_MS = 500

#: Below the ports that systems use for outgoing connections.
FREE_PORTS = range(20_000, 32_000)
#: How long a port that was found is kept for its node.
RESERVED_S = 60.0
#: The distance between two nodes, and the offset of each service, as in the defaults.
_NODE_STEP = 100
_PEER, _GRPC, _HTTP = 1, 50, 80


@dataclass(frozen=True, slots=True)
class Ports:
    client: int
    peer: int
    http: int
    grpc: int


@dataclass(slots=True)
class LocalNode:
    """One broker: its folder, ports and, if this process started it, its process."""

    node: int
    data: Path
    ports: Ports
    #: Of the last started process; 0: none.
    pid: int = 0
    #: It goes on when the process that started it ends.
    is_detached: bool = False
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        """The client address."""
        return f"{HOST}:{self.ports.client}"

    @property
    def peer_address(self) -> str:
        return f"{HOST}:{self.ports.peer}"

    @property
    def log(self) -> Path:
        return self.data.with_suffix(".log")

    @property
    def is_running(self) -> bool:
        if self.process is not None:
            return self.process.poll() is None
        return bool(self.pid) and _is_locked(self.data / "lock") and _is_node_of(self.pid, self.data)

    def kill(self) -> None:
        """Sends SIGKILL and waits until the process is gone."""
        self.kill_soon()
        self.wait_gone()

    def kill_soon(self) -> None:
        """Sends SIGKILL."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self._signal(signal.SIGTERM)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def wait_gone(self, timeout_s: float = STOP_S_MAX) -> int | None:
        """The exit code; None: the process is not a child. Raises UnavailableError when it does not end."""
        deadline = time.monotonic() + timeout_s
        while self.is_running:
            if time.monotonic() > deadline:
                raise UnavailableError(f"node {self.node} (process {self.pid}) does not stop; see {self.log}")
            time.sleep(POLL_S)
        if self.process is None:
            return None
        if self.process.stdin is not None:
            self.process.stdin.close()
        return self.process.returncode

    def last_words(self) -> str:
        """The last line of its log that is not blank."""
        lines = self.log.read_text("utf-8", "replace").split("\n") if self.log.exists() else []
        return next((line for line in reversed(lines) if line.strip()), "its log is empty")

    def _signal(self, number: int) -> None:
        if self.is_running:
            os.kill(self.pid, number)


class LocalCluster:
    def __init__(self, folder: Path, ports: Mapping[int, Ports], flags: Iterable[str] = ()) -> None:
        """`flags` are arguments of `flotilla serve` for every node."""
        self.folder = folder.resolve()
        self.nodes = {node: LocalNode(node, self.folder / f"node{node}", its) for node, its in ports.items()}
        self._flags = list(flags)

    @classmethod
    def on_free_ports(cls, folder: Path, *, node_count: int = 3, flags: Iterable[str] = ()) -> Self:
        return cls(folder, dict(enumerate(find_free_ports(node_count), 1)), flags)

    @classmethod
    def on_ports_from(cls, base_port: int, folder: Path, *, node_count: int = 3, flags: Iterable[str] = ()) -> Self:
        """Each node has the default offsets of its services, a hundred ports after the node before."""
        bases = range(base_port, base_port + node_count * _NODE_STEP, _NODE_STEP)
        ports = [Ports(base, base + _PEER, base + _HTTP, base + _GRPC) for base in bases]
        return cls(folder, dict(enumerate(ports, 1)), flags)

    @classmethod
    def from_layout(cls, folder: Path, flags: Iterable[str] = ()) -> Self:
        """A cluster that was started in this folder. Raises NotFoundError."""
        path = folder / LAYOUT_FILE
        try:
            nodes = json.loads(path.read_text("utf-8"))["nodes"]
            cluster = cls(folder, {each["node"]: Ports(**each["ports"]) for each in nodes}, flags)
            for each in nodes:
                cluster.nodes[each["node"]].pid = int(each["pid"])
                cluster.nodes[each["node"]].is_detached = bool(each.get("detached", True))
        except FileNotFoundError:
            raise NotFoundError(f"no cluster was started in {folder}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidArgumentError(f"{path} is damaged: {error}") from error
        return cluster

    @property
    def servers(self) -> list[str]:
        return [node.address for node in self.nodes.values()]

    @property
    def running(self) -> list[LocalNode]:
        return [node for node in self.nodes.values() if node.is_running]

    def start(self, *, is_detached: bool = False) -> None:
        """Starts the nodes that do not run. Raises AlreadyExistsError when all do."""
        missing = [node for node, each in self.nodes.items() if not each.is_running]
        if not missing:
            raise AlreadyExistsError(f"the cluster in {self.folder} runs already; `flotilla cluster stop` ends it")
        for node in missing:
            self.start_node(node, is_detached=is_detached)

    def start_ready(self) -> None:
        """Starts every node and waits until all see each other."""
        self.start()
        self.wait_ready()

    def start_node(self, node: int, *, is_detached: bool = False) -> None:
        chosen = self.nodes[node]
        assert not chosen.is_running
        chosen.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        arguments = self._arguments(chosen, is_detached=is_detached)
        with chosen.log.open("ab") as log:
            process = start_process(arguments, self._environment(chosen), log, is_detached=is_detached)
        chosen.process = process
        chosen.pid = process.pid
        chosen.is_detached = is_detached
        self._save_layout()

    def _arguments(self, node: LocalNode, *, is_detached: bool) -> list[str]:
        pairs = [word for pair in self._settings(node).items() for word in pair]
        return ["serve", *pairs, *([] if is_detached else ["--stop-with-stdin"]), *self._flags]

    def _settings(self, node: LocalNode) -> dict[str, str]:
        """The flags of one node. A subclass may change them."""
        return {
            "--node-id": str(node.node),
            "--data-dir": str(node.data),
            "--listen": node.address,
            "--peer-listen": node.peer_address,
            "--http-listen": f"{HOST}:{node.ports.http}",
            "--grpc-listen": f"{HOST}:{node.ports.grpc}",
            "--peers": ",".join(f"{each.node}={each.peer_address}" for each in self.nodes.values()),
        }

    def _environment(self, node: LocalNode) -> dict[str, str]:
        """The environment of one node. A subclass may add to it."""
        return _environment()

    def wait_ready(self, timeout_s: float = READY_S_MAX) -> None:
        """Waits until all nodes are connected and one leads. Raises UnavailableError with a dead node's last line."""
        from flotilla.client.client import Client

        deadline = time.monotonic() + timeout_s
        with Client(self.servers, timeout_ms=_ASK_MS) as client:
            while (alive := _alive_count(client)) < len(self.nodes):
                self.check_alive()
                if time.monotonic() > deadline:
                    raise UnavailableError(f"{alive} of {len(self.nodes)} nodes are ready; see {self.folder}")
                time.sleep(POLL_S)

    def check_alive(self) -> None:
        for node in self.nodes.values():
            if not node.is_running:
                raise UnavailableError(f"node {node.node} ended: {node.last_words()}")

    def restart_node(self, node: int) -> None:
        """Starts a node that was killed or has ended, on its data."""
        self.start_node(node)

    def restart_detached(self, nodes: Iterable[int]) -> None:
        """Stops these nodes in order, and starts them. Raises InvalidArgumentError for one that ends with a command."""
        chosen = [self.nodes[node] for node in nodes]
        for each in chosen:
            if each.is_running and not each.is_detached:
                raise InvalidArgumentError(f"node {each.node} belongs to a `flotilla cluster start` in the foreground")
        for each in chosen:
            each.terminate()
        for each in chosen:
            each.wait_gone()
            self.start_node(each.node, is_detached=True)

    def stop(self, timeout_s: float = STOP_S_MAX) -> None:
        """Stops all nodes in order and in parallel; kills those that do not stop in time."""
        for node in self.running:
            node.resume()
            node.terminate()
        # Also for nodes that ended by themselves, to release their pipes.
        for node in self.nodes.values():
            try:
                node.wait_gone(timeout_s)
            except UnavailableError:
                node.kill()

    def kill(self) -> None:
        """Kills all nodes, like a power cut."""
        for node in self.running:
            node.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _save_layout(self) -> None:
        nodes = [
            {"node": each.node, "pid": each.pid, "detached": each.is_detached, "ports": asdict(each.ports)}
            for each in self.nodes.values()
        ]
        beside = self.folder / f"{LAYOUT_FILE}.new"
        beside.write_text(json.dumps({"nodes": nodes}, indent=2) + "\n", "utf-8")
        beside.rename(self.folder / LAYOUT_FILE)

    def forget_layout(self) -> None:
        """Lets the next start choose other ports."""
        (self.folder / LAYOUT_FILE).unlink(missing_ok=True)


def run_with_cluster(name: str, act: Callable[[LocalCluster], Coroutine[None, None, T]]) -> T:
    """Runs a coroutine with a temporary cluster of three that is not started yet.

    SIGTERM cancels it and ends the command with exit code 1, after the brokers and the folder are gone.
    """

    # Loaded here: the verbs about a cluster elsewhere work without it, too, as on Windows.
    import uvloop

    async def run() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await act(cluster)

    try:
        with (
            TemporaryDirectory(prefix=f"flotilla-{name}-", ignore_cleanup_errors=True) as folder,
            LocalCluster.on_free_ports(Path(folder)) as cluster,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            return runner.run(run())
    except asyncio.CancelledError:
        complain(f"{name} was interrupted")
        raise typer.Exit(FAILED.code) from None


def _alive_count(client: "Client") -> int:
    """Nodes that the cluster counts as alive; 0 before it has a leader."""
    try:
        metadata = client.admin.metadata()
    except FlotillaError:
        return 0
    return sum(broker.is_alive for broker in metadata.brokers) if metadata.controller != NO_NODE else 0


def start_process(
    arguments: list[str], environment: dict[str, str], log: IO[bytes], *, is_detached: bool
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "flotilla.cli", *arguments],
        env=environment,
        # An attached node stops when its input closes, which happens even when this process is killed.
        stdin=subprocess.DEVNULL if is_detached else subprocess.PIPE,
        stdout=log,
        stderr=log,
        # Ctrl-C reaches this process only, which then stops its nodes in order.
        start_new_session=True,
    )


def _environment() -> dict[str, str]:
    """This process's environment without settings of nodes, and with this package on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLE_PREFIX)}
    package = str(Path(flotilla.__file__).resolve().parents[1])
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [package, kept.get("PYTHONPATH")]))
    return kept


def find_free_ports(node_count: int) -> list[Ports]:
    """Free ports that no other caller finds, in any process, until their nodes have had time to start."""
    listeners: list[socket.socket] = []
    try:
        for port in random.sample(FREE_PORTS, len(FREE_PORTS)):
            if len(listeners) == node_count * 4:
                break
            try:
                listeners.append(socket.create_server((HOST, port)))
            except OSError:
                continue
            if not RESERVATIONS.take(port):
                listeners.pop().close()
        found = [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()
    return [Ports(*found[at : at + 4]) for at in range(0, len(found), 4)]


class PortReservations:
    """Ports that were found and that no node has bound yet, each held by a socket for datagrams of the same number.

    Nodes use streams only, so they are not in the way. The sockets end with this process, or after `RESERVED_S`.
    """

    def __init__(self) -> None:
        self._held: deque[tuple[float, socket.socket]] = deque()

    def take(self, port: int) -> bool:
        """False: it is reserved."""
        now = time.monotonic()
        self.release(now)
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            reservation.bind((HOST, port))
        except OSError:
            reservation.close()
            return False
        self._held.append((now + RESERVED_S, reservation))
        return True

    def release(self, now: float) -> None:
        """Ends those that are over by then."""
        while self._held and self._held[0][0] <= now:
            self._held.popleft()[1].close()


RESERVATIONS = PortReservations()


def _is_locked(path: Path) -> bool:
    """Whether a node has locked its folder."""
    # Loaded here: Windows does not have it, and starts no nodes.
    import fcntl

    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _is_node_of(pid: int, data: Path) -> bool:
    """Whether the process is the node of this folder, and not another that got its old id, where /proc says so."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return not Path("/proc/self/cmdline").exists()
    return os.fsencode(data) in command.split(b"\0")
