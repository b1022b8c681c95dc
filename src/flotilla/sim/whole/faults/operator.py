"""The operator of a cluster under faults: all it does goes through the administration that users have.

It transfers leadership, spreads and drains, adds and removes brokers, and brings back or replaces one whose disk is
lost, as docs/operations.md says. Each task is a client process of its own, which tries again until it is done or the
run is over.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.client.async_client import AsyncClient
from flotilla.sim.devices.world import SECOND
from flotilla.sim.whole.cluster import Broker
from flotilla.sim.whole.faults.trouble import Trouble
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NodeId

_TIMEOUT_MS: Final = 5_000
_TRIES: Final = 40
#: Brokers that a cluster keeps: with fewer, a lost disk would be no minority.
_BROKERS_MIN: Final = 3
_LOOK_US: Final = 500_000

Task = Callable[[AsyncClient], Awaitable[None]]


class Operator:
    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble
        self._chance = trouble.chance
        self._tasks = 0
        #: Brokers that it has asked to remove.
        self.leaving: set[NodeId] = set()
        self._is_changing = False

    def _do(self, task: Task) -> None:
        """As a process that tries until the task is done."""
        self._tasks += 1
        name = f"operator-{self._tasks}"

        async def main() -> None:
            async with AsyncClient(self._trouble.cluster.servers, timeout_ms=_TIMEOUT_MS, name=name) as client:
                for _ in range(_TRIES):
                    try:
                        await task(client)
                        return
                    except FlotillaError:
                        await asyncio.sleep(1)

        self._trouble.simulation.client(name, main)

    # Leaders and replicas.

    def transfer(self) -> None:
        dice = self._chance.random()

        async def task(client: AsyncClient) -> None:
            topics = await client.topics()
            places = [(topic.name, number) for topic in topics for number in range(len(topic.partitions))]
            if places:
                topic, number = places[int(dice * len(places))]
                await client.admin.transfer_leadership(topic, number)
                self._trouble.simulation.tell(f"the operator has another broker lead {topic}/{number}")
                self._trouble.simulation.note("leadership transferred")

        self._do(task)

    def rebalance(self) -> None:
        async def task(client: AsyncClient) -> None:
            if await client.admin.rebalance():
                self._trouble.simulation.tell("the operator spreads the partitions")
                self._trouble.simulation.note("partition moved")

        self._do(task)

    def drain(self) -> None:
        """Moves everything off a broker, and back a while later."""
        broker = self._trouble.target()
        self._trouble.tell(broker, "is drained")

        async def drain(client: AsyncClient) -> None:
            await client.admin.drain_node(broker.node)
            self._trouble.simulation.note("broker drained")

        async def end(client: AsyncClient) -> None:
            await client.admin.drain_node(broker.node, is_draining=False)

        self._do(drain)
        self._trouble.later(5 * SECOND + self._trouble.length_us(), self._do, end)

    # Members.

    def add(self) -> None:
        """Once in a run."""
        if not self._is_changing:
            self._is_changing = True
            broker = self._trouble.cluster.add_broker()
            self._trouble.tell(broker, "joins the cluster")
            self._watch_entry(broker, "broker added")
            self._trouble.later(8 * SECOND, self.rebalance)

    def remove(self) -> None:
        brokers = [broker for broker in self._trouble.members() if broker.node not in self.leaving]
        broker = self._chance.choice(brokers)
        if len(brokers) <= _BROKERS_MIN or broker.node == self._trouble.victim:
            return
        self.leaving.add(broker.node)
        self._trouble.tell(broker, "is to be removed")
        self._remove(broker)

    def _remove(self, broker: Broker, event: str = "") -> None:
        async def task(client: AsyncClient) -> None:
            await client.admin.remove_node(broker.node)
            if event:
                self._trouble.simulation.note(event)

        self._do(task)

    def expelled(self, broker: Broker, code: str) -> bool:
        """A broker learned that it has no place in its cluster. False: nobody wanted that."""
        if code != "REMOVED" or broker.node not in self.leaving:
            return False
        self._trouble.removed.add(broker.node)
        self._trouble.tell(broker, "was removed and ends")
        self._trouble.simulation.note("broker removed")
        return True

    # A disk that is lost.

    def wipe(self) -> None:
        """The victim comes back on an empty disk: with its old flags first, or at once with --join."""
        broker = self._lose_disk()
        if broker is None:
            return
        old_flags = self._chance.random() < 0.5
        start = self._start_with_old_flags if old_flags else self.join_again
        self._trouble.later(self._trouble.length_us(), start, broker)

    def _lose_disk(self) -> Broker | None:
        trouble = self._trouble
        broker = trouble.cluster.brokers[trouble.victim]
        if broker.node in (trouble.held | trouble.removed | self.leaving) or not trouble.can_spare({broker.node}):
            return None
        trouble.tell(broker, "loses its disk")
        broker.cut_power()
        broker.host.disk.wipe()
        trouble.simulation.watch.wiped(broker.node)
        trouble.held.add(broker.node)
        trouble.is_victim_damaged = True
        return broker

    def _start_with_old_flags(self, broker: Broker) -> None:
        self._trouble.tell(broker, "starts on an empty disk with its old flags")
        broker.start()
        self._trouble.later(3 * SECOND, self.join_again, broker)

    def join_again(self, broker: Broker) -> None:
        if broker.is_up:
            broker.kill()
        self._trouble.held.discard(broker.node)
        self._trouble.tell(broker, "joins again after its disk was lost")
        broker.settings = self._trouble.cluster.joining_settings(broker.node)
        broker.start()
        self._watch_entry(broker, "wiped broker came back")

    def finish(self) -> None:
        """Everything heals: a broker whose disk was lost joins now."""
        broker = self._trouble.cluster.brokers[self._trouble.victim]
        if broker.node in self._trouble.held:
            self.join_again(broker)

    def replace(self) -> None:
        """The victim is lost for good: a new broker takes its place."""
        trouble = self._trouble
        if self._is_changing:
            return
        broker = self._lose_disk()
        if broker is None:
            return
        self._is_changing = True
        trouble.held.discard(broker.node)
        trouble.removed.add(broker.node)
        self.leaving.add(broker.node)
        newcomer = trouble.cluster.add_broker()
        trouble.tell(newcomer, f"joins in place of broker {broker.node}")
        self._remove(broker, "broker replaced")

    def _watch_entry(self, broker: Broker, event: str) -> None:
        server = broker.server
        if broker.is_up and server is not None and METADATA_GROUP in server.node.store.groups:
            self._trouble.simulation.note(event)
        else:
            self._trouble.later(_LOOK_US, self._watch_entry, broker, event)
