"""The brokers of a chaos run: a local cluster on machines that fail, which notices every exit that nobody caused."""

import asyncio
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from flotilla.cli.chaos.machine.preload import Machine
from flotilla.cli.chaos.machine.relay import HOST, Network
from flotilla.cli.chaos.machine.undo_log import CutReport, UndoLog
from flotilla.cli.local_cluster import LocalCluster, LocalNode, Ports, find_free_ports

#: A starved broker runs for the first time in each period, and is stopped for the rest: a tenth of a processor.
_RUN_S: Final = 0.01
_STOP_S: Final = 0.09
_TERMINATE_S_MAX: Final = 120.0


class ChaosCluster(LocalCluster):
    def __init__(
        self, folder: Path, ports: Mapping[int, Ports], flags: Iterable[str] = (), *, library: Path | None = None
    ) -> None:
        """With `library`, nodes run on machines whose clock, disk and power can fail."""
        super().__init__(folder, ports, flags)
        self._library = library
        self.machines: dict[int, Machine] = {}
        self.network: Network | None = None
        #: The ports of the relays before each node: for clients and for peers.
        self._relays: dict[int, tuple[int, int]] = {}
        #: Nodes that join instead of founding the cluster.
        self._joining: set[int] = set()
        #: Nodes that the run has stopped.
        self._stopped: set[int] = set()
        self._paused: set[int] = set()
        self._signals = threading.Lock()
        #: Exits that the run did not cause.
        self.exits: list[str] = []
        self._starving: threading.Thread | None = None
        self._is_over = False

    # What runs where.

    async def open_network(self) -> None:
        """Puts a relay before every port, so that links can fail. Before the first start."""
        self.network = Network()
        for node in self.nodes.values():
            await self._relay(node)

    async def _relay(self, node: LocalNode) -> None:
        assert self.network is not None
        client = await self.network.listen(node.node, node.ports.client, is_for_peers=False)
        peer = await self.network.listen(node.node, node.ports.peer, is_for_peers=True)
        self._relays[node.node] = (client, peer)

    def address(self, node: int) -> str:
        """Where clients reach a node."""
        client, _ = self._relays.get(node, (self.nodes[node].ports.client, 0))
        return f"{HOST}:{client}"

    @property
    def servers(self) -> list[str]:
        return [self.address(node) for node in self.nodes]

    def _settings(self, node: LocalNode) -> dict[str, str]:
        found = super()._settings(node)
        found |= {"--http-listen": "off", "--grpc-listen": "off"}
        if self._relays:
            client, peer = self._relays[node.node]
            found |= {"--advertise": f"{HOST}:{client}", "--peer-advertise": f"{HOST}:{peer}"}
            found["--peers"] = ",".join(f"{each}={HOST}:{ports[1]}" for each, ports in self._relays.items())
        if node.node in self._joining:
            del found["--peers"]
            found["--join"] = ",".join(self.address(each) for each in self.nodes if each != node.node)
        return found

    def _environment(self, node: LocalNode) -> dict[str, str]:
        found = super()._environment(node)
        if self._library is not None:
            found |= self.machine(node.node).environment
        return found

    def machine(self, node: int) -> Machine:
        """The machine under a node, which may not have been started yet."""
        assert self._library is not None
        if node not in self.machines:
            self.machines[node] = Machine(self._library, self.nodes[node].data)
        return self.machines[node]

    # Life and death.

    def start_node(self, node: int, *, is_detached: bool = False) -> None:
        super().start_node(node, is_detached=is_detached)
        self._stopped.discard(node)

    async def kill_node(self, node: int) -> None:
        self.check_exits()
        self._stopped.add(node)
        self._paused.discard(node)
        await asyncio.to_thread(self.nodes[node].kill)

    async def terminate_node(self, node: int) -> None:
        """SIGTERM; any exit code but 0 counts as an exit that nobody caused."""
        self.check_exits()
        self.resume_node(node)
        self._stopped.add(node)
        self.nodes[node].terminate()
        code = await asyncio.to_thread(self.nodes[node].wait_gone, _TERMINATE_S_MAX)
        if code != 0:
            self.exits.append(f"node {node} ended with {code} after SIGTERM: {self.nodes[node].last_words()}")

    def pause_node(self, node: int) -> None:
        with self._signals:
            self._paused.add(node)
            self.nodes[node].pause()

    def resume_node(self, node: int) -> None:
        with self._signals:
            self._paused.discard(node)
            self.nodes[node].resume()

    async def cut_power(self, nodes: Iterable[int], random: Random) -> CutReport:
        """Kills nodes at one moment, and takes away what they had not synced."""
        self.check_exits()
        cut = [node for node in nodes if node in self.machines]
        self._stopped.update(cut)
        for node in cut:
            self._paused.discard(node)
            self.nodes[node].kill_soon()
        total = CutReport()
        for node in cut:
            await asyncio.to_thread(self.nodes[node].wait_gone)
            total.add(await asyncio.to_thread(_lose_power, self.machines[node], random))
        return total

    async def add_node(self) -> int:
        """A node under a new id, not started, that will join."""
        node = max(self.nodes) + 1
        (ports,) = find_free_ports(1)
        self.nodes[node] = LocalNode(node, self.folder / f"node{node}", ports)
        self._joining.add(node)
        if self.network is not None:
            await self._relay(self.nodes[node])
        return node

    async def remove_node(self, node: int) -> None:
        """Ends a node for good."""
        await self.kill_node(node)
        del self.nodes[node]
        self.machines.pop(node, None)
        self._relays.pop(node, None)

    def may_exit(self, node: int) -> None:
        """The cluster has been told to remove the node: its process may end."""
        self._stopped.add(node)

    def check_exits(self) -> None:
        """Notes every node that ended by itself since the last call."""
        for node in self.nodes.values():
            if node.process is not None and not node.is_running and node.node not in self._stopped:
                self._stopped.add(node.node)
                self.exits.append(
                    f"node {node.node} ended by itself with {node.process.returncode}: {node.last_words()}"
                )

    # Starvation.

    def starve(self) -> None:
        """From now on every broker gets about a tenth of a processor."""
        self._starving = threading.Thread(target=self._starve, daemon=True)
        self._starving.start()

    def _starve(self) -> None:
        while not self._is_over:
            for pause_s, act in ((_RUN_S, LocalNode.pause), (_STOP_S, LocalNode.resume)):
                time.sleep(pause_s)
                with self._signals:
                    for node in list(self.nodes.values()):
                        if node.node not in self._paused and node.is_running:
                            act(node)

    def stop(self, timeout_s: float = 15.0) -> None:
        self._is_over = True
        if self._starving is not None:
            self._starving.join()
        super().stop(timeout_s)


def _lose_power(machine: Machine, random: Random) -> CutReport:
    return UndoLog(machine.undo).cut_power(machine.data, random)
