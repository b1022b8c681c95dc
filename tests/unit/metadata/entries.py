"""Committed commands, for the tests of the metadata."""

from dataclasses import dataclass, field

from flotilla.metadata.commands import Command, CreateTopic, InitCluster, RegisterBroker, encode_command
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.move_commands import FinishMove, PlanMoves
from flotilla.metadata.values import Partition, Topic
from flotilla.raft.messages import DATA, Entry

CLUSTER = "c-1"
CLUSTER_NAME = "ships"


@dataclass
class Log:
    """Gives committed entries their index. Indexes are not dense: no-ops take some."""

    machine: MetadataMachine = field(default_factory=MetadataMachine)
    index: int = 0

    def apply(self, data: bytes) -> object:
        self.index += 2
        return self.machine.apply(Entry(self.index, 1, DATA, data))

    def command(self, command: Command) -> object:
        return self.apply(encode_command(command))

    def create(self, name: str, partitions: int = 1, replication_factor: int = 3, **settings: int) -> Topic:
        topic = self.command(CreateTopic(name, partitions, replication_factor, tuple(settings.items()), 100))
        assert isinstance(topic, Topic)
        return topic

    def move(self, group: int, target: tuple[int, ...], *, now_ms: int = 70) -> Partition:
        """A move that is planned and done."""
        planned = self.command(PlanMoves(((group, target),), now_ms))
        assert isinstance(planned, list), planned
        move = planned[0].move
        done = self.command(FinishMove(group, move.number, now_ms))
        assert isinstance(done, Partition), done
        return done


def placed(number: int, group: int, replicas: tuple[int, ...]) -> Partition:
    """A partition that lives where it was placed."""
    return Partition(number, group, replicas, founders=replicas)


def register(
    node: int, *, cluster_name: str = CLUSTER_NAME, now_ms: int = 50, http_address: str = ""
) -> RegisterBroker:
    return RegisterBroker(
        cluster_name, node, f"host{node}:7600", f"host{node}:7601", http_address, "", "0.1.0", 0, 0, now_ms
    )


def cluster(brokers: int = 3) -> Log:
    """An initialised cluster whose brokers have registered."""
    log = Log()
    log.command(InitCluster(CLUSTER, CLUSTER_NAME, (1, 2, 3), 10))
    for node in range(1, brokers + 1):
        log.command(register(node))
    return log
