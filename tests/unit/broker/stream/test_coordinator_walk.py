"""Stream groups at three brokers of which one may be dead or cut off: whatever happens, in whatever order.

Members keep heartbeats parked, are slow, forget, and repeat themselves. A partition never has two owners under one
epoch, a commit is never lost, and in the end every member has its share.
"""

from dataclasses import dataclass, field
from random import Random

import pytest

from flotilla.types.errors import FlotillaError
from flotilla.types.operations import CommitOffset, OffsetCommitted, Produce, Reply, Request
from flotilla.types.operations.stream import ClaimPartition, GroupAssignment, Heartbeat, JoinGroup, LeaveGroup
from tests.unit.broker.fleet import Answer, Fleet, Node, batch, three

TOPIC = "orders"
GROUP = "billing"
SESSION_MS = 3_000
PARTITIONS = 5
RECORDS = 100


@dataclass
class Ledger:
    """Every answer that a member ever got."""

    owner_of: dict[tuple[int, int], str] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), -1))
    claimed: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))


@dataclass
class Member:
    fleet: Fleet
    ledger: Ledger
    random: Random
    name: str
    is_joined: bool = False
    generation: int = 0
    owned: dict[int, int] = field(default_factory=dict)
    waiting: Answer | None = None

    def ask(self, request: Request) -> Reply | FlotillaError | None:
        """The answer of the leader; None: there is none, or not yet."""
        for box in self.running():
            answer = box.call(request)
            if answer.is_waiting:
                self.waiting = answer
                return None
            if not isinstance(answer.result, FlotillaError) or not answer.result.retryable:
                return answer.result
        return None

    def running(self) -> list[Node]:
        boxes = [box for box in self.fleet.nodes.values() if box.is_running]
        self.random.shuffle(boxes)
        return boxes

    def step(self) -> None:
        if self.waiting is not None and not self.waiting.is_waiting:
            self.take(self.waiting.result)
            self.waiting = None
        if not self.is_joined:
            self.take(self.ask(JoinGroup(TOPIC, GROUP, self.name, session_ms=SESSION_MS)))
        elif self.random.random() < 0.6:
            wait_ms = self.random.choice((0, 0, 60_000))
            self.take(self.ask(Heartbeat(TOPIC, GROUP, self.name, self.generation, list(self.owned), wait_ms)))
        elif self.owned:
            partition = self.random.choice(list(self.owned))
            self.use(partition, self.owned[partition])

    def take(self, answer: Reply | FlotillaError | None) -> None:
        if isinstance(answer, GroupAssignment):
            self.is_joined = True
            if answer.generation < self.generation:
                return
            self.generation = answer.generation
            self.owned = dict(answer.partitions)
            for place in answer.partitions:
                assert self.ledger.owner_of.setdefault(tuple(place), self.name) == self.name, "two owners of one epoch"
        elif isinstance(answer, FlotillaError) and answer.code == "STALE_GENERATION":
            self.is_joined = False
            self.generation = 0
            self.owned = {}

    def use(self, partition: int, epoch: int) -> None:
        before, latest = self.ledger.committed[partition], self.ledger.claimed[partition]
        claimed = self.ask(ClaimPartition(GROUP, TOPIC, partition, epoch))
        if not isinstance(claimed, OffsetCommitted):
            return
        assert epoch >= latest, "a later owner had claimed it"
        assert claimed.offset >= before, "a commit was lost"
        self.ledger.claimed[partition] = max(latest, epoch)
        offset = self.random.randint(max(claimed.offset, 0), RECORDS)
        committed = self.ask(CommitOffset(GROUP, TOPIC, partition, offset, epoch=epoch))
        if isinstance(committed, OffsetCommitted):
            assert committed.offset >= max(before, offset)
            self.ledger.committed[partition] = committed.offset


@pytest.mark.parametrize("seed", range(8))
def test_any_walk_ends_with_an_even_assignment(seed: int) -> None:
    random = Random(seed)
    fleet = three()
    fleet.create(TOPIC, PARTITIONS)
    for partition in range(PARTITIONS):
        leader = fleet.leader(TOPIC, partition)
        assert leader.call(Produce(TOPIC, partition, batch(*[b"x"] * RECORDS))).code == "Produced"
    ledger = Ledger()
    members = [Member(fleet, ledger, random, f"m{number}") for number in range(4)]
    away: list[tuple[str, int]] = []
    for _ in range(150):
        dice = random.random()
        if dice < 0.75:
            random.choice(members).step()
        elif dice < 0.80:
            member = random.choice(members)
            if random.random() < 0.5:
                member.ask(LeaveGroup(TOPIC, GROUP, member.name))
            # One that has forgotten everything is another one.
            members[members.index(member)] = Member(fleet, ledger, random, f"{member.name}'")
        elif dice < 0.84 and not away:
            node = random.choice(list(fleet.nodes))
            away.append((random.choice(("dead", "cut")), node))
            fleet.kill(node) if away[0][0] == "dead" else fleet.isolate(node)
        elif dice < 0.90 and away:
            bring_back(fleet, away)
        else:
            fleet.advance(random.choice((100, 500, 2_000)))
    bring_back(fleet, away)
    settle(fleet, members)
    shares = sorted(len(member.owned) for member in members)
    assert shares == [1, 1, 1, 2]
    assert sorted(partition for member in members for partition in member.owned) == list(range(PARTITIONS))
    for member in members:
        for partition, epoch in member.owned.items():
            assert isinstance(member.ask(CommitOffset(GROUP, TOPIC, partition, RECORDS, epoch=epoch)), OffsetCommitted)


def bring_back(fleet: Fleet, away: list[tuple[str, int]]) -> None:
    while away:
        how, node = away.pop()
        fleet.restart(node) if how == "dead" else fleet.heal(node)


def settle(fleet: Fleet, members: list[Member]) -> None:
    """All members send heartbeats until the silent ones are removed and every partition has its owner."""
    fleet.controller()
    for partition in range(PARTITIONS):
        fleet.leader(TOPIC, partition)
    for _ in range(40):
        fleet.advance(300)
        for member in members:
            if member.is_joined:
                request: Request = Heartbeat(TOPIC, GROUP, member.name, member.generation, list(member.owned))
            else:
                request = JoinGroup(TOPIC, GROUP, member.name, session_ms=SESSION_MS)
            member.take(member.ask(request))
