"""A node whose disk was put back to an earlier state: its replicas become learners and then voters, by themselves."""

from copy import deepcopy

import pytest

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.operations import AlterTopic
from tests.unit.broker.cluster.test_moves import Ledger
from tests.unit.broker.fleet import Fleet

LONG_MS = 120_000


class PutBack:
    """Three nodes with a topic; one that leads nothing gets an earlier image of its disk."""

    def __init__(self) -> None:
        self.fleet = Fleet(3).form()
        self.fleet.create("t")
        self.ledger = Ledger(self.fleet, "t")
        self.ledger.produce(3)
        self.fleet.advance(2_000)
        self.group = self.fleet.controller().catalog.topic("t").partitions[0].group
        self.leaders = {group: self.leader(group) for group in (METADATA_GROUP, self.group)}
        self.victim = next(node for node in self.fleet.nodes if node not in self.leaders.values())
        self.other = next(node for node in self.fleet.nodes if node not in (self.victim, self.leaders[self.group]))
        self._image = deepcopy(self.fleet.nodes[self.victim].disk)
        #: Voters of the two groups, as their leaders have seen them.
        self.seen: dict[GroupId, list[tuple[NodeId, ...]]] = {METADATA_GROUP: [], self.group: []}

    def leader(self, group: GroupId) -> NodeId:
        found = [box.replica(group) for box in self.fleet.nodes.values()]
        return next(replica.raft.id for replica in found if replica is not None and replica.is_serving())

    def write_and_put_back(self) -> None:
        self.ledger.produce(3)
        self.fleet.controller().call(AlterTopic("t", settings={"retention_ms": "1000000"}))
        self.fleet.advance(2_000)
        self.fleet.kill(self.victim)
        self.fleet.nodes[self.victim].disk = self._image
        self.fleet.restart(self.victim)

    def look(self) -> bool:
        for group, seen in self.seen.items():
            voters = self.raft(group).configuration.voters
            if voters not in seen[-1:]:
                seen.append(voters)
        return all(len(seen) == 3 for seen in self.seen.values())

    def raft(self, group: GroupId):
        replica = self.fleet.nodes[self.leaders[group]].replica(group)
        assert replica is not None
        return replica.raft


@pytest.fixture
def case() -> PutBack:
    return PutBack()


def test_replicas_that_forgot_learn_anew_by_themselves(case: PutBack) -> None:
    case.look()
    case.write_and_put_back()
    case.fleet.wait(case.look, LONG_MS)
    rest = tuple(node for node in (1, 2, 3) if node != case.victim)
    for group, seen in case.seen.items():
        assert seen == [(1, 2, 3), rest, (1, 2, 3)], group
        assert case.raft(group).forgotten_counts == {case.victim: 1}
        assert case.raft(group).forgetful == frozenset()
    case.ledger.produce()
    case.ledger.check(least=7)


def test_a_replica_that_forgot_stays_a_learner_when_the_leader_changes(case: PutBack) -> None:
    """What the leader found out stands in the configuration."""
    case.write_and_put_back()

    def is_learner() -> bool:
        replica = case.fleet.nodes[case.victim].replica(case.group)
        return replica is not None and case.victim in replica.raft.log.configurations[0][1].learners

    case.fleet.wait(is_learner, LONG_MS)
    case.fleet.kill(case.leaders[case.group])
    case.fleet.kill(case.victim)
    case.fleet.restart(case.victim)
    case.fleet.advance(20_000)
    running = [case.fleet.nodes[node].replica(case.group) for node in (case.victim, case.other)]
    assert not any(replica is not None and replica.is_serving() for replica in running), "it has no vote to give"
    case.fleet.restart(case.leaders[case.group])

    def is_whole() -> bool:
        replica = case.fleet.leader("t").replica(case.group)
        return replica is not None and replica.raft.configuration.voters == (1, 2, 3)

    case.fleet.wait(is_whole, LONG_MS)
    case.ledger.produce()
    case.ledger.check(least=7)


def test_a_replica_that_forgot_keeps_its_vote_while_the_others_cannot_go_on_without_it(case: PutBack) -> None:
    case.write_and_put_back()
    case.fleet.kill(case.other)
    case.fleet.advance(10_000)
    assert case.raft(case.group).configuration.voters == (1, 2, 3)
    before = len(case.ledger.acked)
    case.ledger.produce(2)
    case.fleet.advance(1_000)
    assert len(case.ledger.acked) == before + 2, "the two that are left go on"
    case.fleet.restart(case.other)
    case.fleet.wait(lambda: case.victim in case.raft(case.group).configuration.learners, LONG_MS)
    case.fleet.wait(lambda: case.raft(case.group).configuration.voters == (1, 2, 3), LONG_MS)
    case.ledger.check(least=8)
