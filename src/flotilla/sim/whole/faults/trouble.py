"""What all faults of a run share: chance, time, aim, and what must stay true.

Faults take any number of brokers away for a while. What a disk had made durable is lost on one broker only, the
victim of the run, and only while every group has a majority without it: so much the product survives. The wall clock
of one broker jumps; the clocks of the others only drift.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

from flotilla.raft.node import RaftNode
from flotilla.raft.roles import LEADER
from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.whole.cluster import Broker
from flotilla.types.ids import GroupId, NodeId

if TYPE_CHECKING:
    from flotilla.sim.whole.simulation import Simulation

#: The share of faults that aim at a leader.
_LEADER_SHARE = 0.5


class Trouble:
    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation
        self.cluster = simulation.cluster
        self.world = simulation.world
        self.chance: Random = simulation.stream("faults")
        #: Nothing strikes any more.
        self.is_over = False
        #: The broker whose disk may lose what was durable.
        self.victim: NodeId = self.chance.choice(list(simulation.cluster.brokers))
        #: The broker whose wall clock may jump.
        self.clock_victim: NodeId = self.chance.choice(list(simulation.cluster.brokers))
        #: Brokers that a fault keeps down: nothing but that fault starts them.
        self.held: set[NodeId] = set()
        #: The victim has lost something that was durable.
        self.is_victim_damaged = False
        #: Brokers that left the cluster for good.
        self.removed: set[NodeId] = set()

    # Time.

    def later(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Does it then, unless everything has healed by then."""
        self.world.after(delay_us, self._unless_over, action, arguments)

    def _unless_over(self, action: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if not self.is_over:
            action(*arguments)

    def length_us(self) -> int:
        """Short, medium or long: past a heartbeat, past an election, past a client's patience."""
        longest_us = self.chance.choice((100 * MS, 3 * SECOND, 3 * SECOND, 15 * SECOND))
        return int(self.chance.random() * longest_us) + 1

    def tell(self, broker: Broker, what: str) -> None:
        self.simulation.tell(f"broker {broker.node} {what}")

    # Aim.

    def members(self) -> list[Broker]:
        """Brokers that belong to the cluster."""
        return [broker for broker in self.cluster.brokers.values() if broker.node not in self.removed]

    def target(self) -> Broker:
        """A broker, often one that leads something."""
        brokers = self.members()
        if self.chance.random() < _LEADER_SHARE:
            leaders = [broker for broker in brokers if any(raft.role == LEADER for _, raft in self.rafts(broker))]
            if leaders:
                return self.chance.choice(leaders)
        return self.chance.choice(brokers)

    @staticmethod
    def rafts(broker: Broker) -> Iterator[tuple[GroupId, RaftNode]]:
        """The replicas of a broker that is up."""
        if broker.is_up and broker.server is not None:
            for group, replica in broker.server.node.runtime.driver.replicas.items():
                yield group, replica.raft

    # What must stay true.

    def can_spare(self, away: set[NodeId]) -> bool:
        """Whether every group has a majority without these brokers, now and when the moves that are planned are made.

        By every configuration in the log of any broker that is up. Not known, and so false, while too few are up.
        """
        brokers = self.members()
        up = [broker for broker in brokers if broker.is_up and broker.server is not None]
        if 2 * len(up) <= len(brokers):
            return False
        quorums: set[tuple[NodeId, ...]] = set()
        for broker in up:
            for _, raft in self.rafts(broker):
                for _, configuration in raft.log.configurations:
                    quorums |= {configuration.voters, configuration.outgoing}
            quorums |= self._planned(broker)
        quorums.discard(())
        return bool(quorums) and all(2 * sum(node not in away for node in each) > len(each) for each in quorums)

    @staticmethod
    def _planned(broker: Broker) -> set[tuple[NodeId, ...]]:
        """The replicas that partitions are to have. A leader may make them the voters at any time."""
        assert broker.server is not None
        assignments = broker.server.catalog.machine.state.assignments
        return {assignment.place.wanted for assignment in assignments.values()}
