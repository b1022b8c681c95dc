"""One node: the composition of storage, links and runtime.

A Node is one process's part of a cluster: it opens the store, takes part in every group that the
store holds, and connects the links with the runtime. It decides nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from flotilla.machine import here
from flotilla.peers.network import PeerNetwork
from flotilla.raft.messages import Configuration, Entry
from flotilla.replica.ports import StateMachine
from flotilla.replica.replica import ReplicaOptions
from flotilla.replica.stored_state import StoredState
from flotilla.runtime.driver import DriverOptions
from flotilla.runtime.node import NodeRuntime
from flotilla.runtime.observability.logs import get_logger
from flotilla.runtime.start_watch import StartWatch, attach_in_time
from flotilla.security.join_secret import JoinSecret
from flotilla.security.node_tls import PeerTls
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Disk
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.records import Span
from flotilla.types.timing import Timing

log = get_logger("storage")


@dataclass(frozen=True, slots=True)
class NodeParts:
    node: NodeId
    #: Sixteen bytes that all nodes of a cluster share.
    cluster: bytes
    data: Path
    listen: Address
    peers: Mapping[NodeId, Address]
    store: StoreOptions = field(default_factory=StoreOptions)
    driver: DriverOptions = field(default_factory=lambda: DriverOptions(ReplicaOptions()))
    #: The number of the data directory; 0: it has none.
    incarnation: int = 0
    timing: Timing = field(default_factory=Timing)
    #: How fast stored data are verified in the background; 0: not at all.
    scrub_bytes_per_second: int = 0
    #: None: links are not encrypted.
    tls: PeerTls | None = None
    #: What nodes on links without TLS must know; None: nothing.
    secret: JoinSecret | None = None


class Node:
    def __init__(
        self,
        parts: NodeParts,
        machine: Callable[[GroupId], StateMachine | None],
        describe: Callable[[Entry], Span | None],
        disk: Disk | None = None,
    ) -> None:
        """Opens the store and recovers; `machine` makes the state machine of a group. Nothing runs before `start`.

        `disk` replaces the folder `parts.data`.

        A group for which it returns None waits for `host`, also with files that the disk does not return now.
        """
        chance = here().chance()
        self._machine = machine
        self._own_disk: PosixDisk | None = None
        if disk is not None:
            self.store = NodeStore.open(disk, parts.store, describe)
        else:
            own = self._own_disk = PosixDisk(str(parts.data))
            own.on_close_failed = _report_close
            with StartWatch(lambda: own.opened):
                attach = partial(
                    attach_in_time,
                    progress=lambda: own.opened_count,
                    is_needed=lambda group: machine(group) is not None,
                )
                self.store = NodeStore.open(own, parts.store, describe, attach)
        self.network = PeerNetwork(
            node=parts.node,
            cluster=parts.cluster,
            listen=parts.listen,
            peers=parts.peers,
            chance=chance,
            check_interval_ms=parts.timing.link_check_ms,
            data=parts.incarnation,
            tls=parts.tls,
            secret=parts.secret,
        )
        self.network.own.election_ms = parts.timing.election_ticks * parts.timing.tick_ms
        self.runtime = NodeRuntime(
            node=parts.node,
            store=self.store,
            links=self.network,
            chance=chance,
            options=parts.driver,
            timing=parts.timing,
            scrub_bytes_per_second=parts.scrub_bytes_per_second,
        )
        for group in self.store.groups:
            self._take_part(group, machine(group), None)

    def create_group(self, group: GroupId, configuration: Configuration) -> None:
        """Takes part in a new group; has no effect if the store holds it already."""
        if group not in self.store.groups:
            self.host(group, configuration, self._machine(group), None)

    def host(
        self,
        group: GroupId,
        configuration: Configuration,
        machine: StateMachine | None,
        options: ReplicaOptions | None,
        state: StoredState | None = None,
    ) -> None:
        """Takes part in a group; its log is new unless the store holds it. `state`: see Driver.preload."""
        if group not in self.store.groups:
            self.store.create_group(group, configuration)
        self._take_part(group, machine, options, state)

    def _take_part(
        self,
        group: GroupId,
        machine: StateMachine | None,
        options: ReplicaOptions | None,
        state: StoredState | None = None,
    ) -> None:
        if machine is not None and group not in self.runtime.driver.replicas:
            self.runtime.driver.add_replica(group, machine, options, state)

    @property
    def sync_method(self) -> str:
        """How writes become durable on this node's file system, for people."""
        return "none" if self._own_disk is None else self._own_disk.sync_method

    async def start(self) -> None:
        await self.runtime.start()

    async def stop(self) -> None:
        await self.runtime.stop()
        self.store.close()
        if self._own_disk is not None:
            self._own_disk.close()


def _report_close(error: FlotillaError) -> None:
    log.warning("closing a file failed; nothing synced is lost, later failures are not logged", error=str(error))
