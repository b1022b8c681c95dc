"""Why leadership begins and ends: every way has its reason, at the node that gets it and at the one that gives it."""

from flotilla.raft import reasons
from flotilla.raft.membership import REMOVE, Change, ConfigurationChange
from flotilla.raft.messages import Configuration
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import FOLLOWER, LEADER
from tests.scenarios.cluster import Cluster

ALL = (1, 2, 3)


def led_by_one() -> Cluster:
    cluster = Cluster()
    for node in ALL:
        cluster.add(node, Configuration(voters=ALL), options=RaftOptions())
    cluster.call(1, lambda raft: raft.campaign())
    cluster.settle()
    return cluster


def tick_until_led(cluster: Cluster, nodes: tuple[int, ...]) -> int:
    for _ in range(100):
        for node in nodes:
            cluster.call(node, lambda raft: raft.tick())
        cluster.settle(nodes)
        for node in nodes:
            if cluster.node(node).role == LEADER:
                return node
    raise AssertionError("nobody leads")


def test_a_node_that_starts_stands_at_once() -> None:
    assert led_by_one().node(1).leadership.counts == {(True, reasons.STARTED): 1}


def test_a_silent_leader_is_replaced_after_an_election_timeout() -> None:
    cluster = led_by_one()
    cluster.crash(1)
    leader = tick_until_led(cluster, (2, 3))
    assert cluster.node(leader).leadership.counts == {(True, reasons.ELECTION_TIMEOUT): 1}


def test_a_leader_whose_link_broke_is_replaced_for_that() -> None:
    cluster = led_by_one()
    cluster.crash(1)
    for node in (2, 3):
        cluster.call(node, lambda raft: raft.peer_down(1))
    leader = tick_until_led(cluster, (2, 3))
    assert cluster.node(leader).leadership.counts == {(True, reasons.LOST_LINK): 1}


def test_a_transfer_has_one_reason_at_both_ends() -> None:
    cluster = led_by_one()
    cluster.call(1, lambda raft: raft.transfer(3, reasons.SHUTDOWN))
    cluster.settle()
    assert cluster.node(3).leadership.counts == {(True, reasons.SHUTDOWN): 1}
    assert cluster.node(1).leadership.counts[False, reasons.SHUTDOWN] == 1
    assert cluster.node(1).leadership.latest == reasons.SHUTDOWN


def test_a_leader_that_is_deposed_without_a_transfer_says_so() -> None:
    cluster = led_by_one()
    cluster.cuts = {(1, 2), (2, 1), (1, 3), (3, 1)}
    tick_until_led(cluster, (2, 3))
    cluster.cuts = set()
    for node in (2, 3):
        for _ in range(4):
            cluster.call(node, lambda raft: raft.tick())
    cluster.settle()
    assert cluster.node(1).role == FOLLOWER
    assert cluster.node(1).leadership.latest == reasons.ANOTHER_ELECTED


def test_a_leader_that_hears_no_quorum_steps_down_for_that() -> None:
    cluster = led_by_one()
    cluster.crash(2)
    cluster.crash(3)
    for _ in range(30):
        cluster.call(1, lambda raft: raft.tick())
    assert cluster.node(1).leadership.latest == reasons.NO_QUORUM


def test_a_leader_that_finds_damage_steps_down_for_that() -> None:
    cluster = led_by_one()
    cluster.call(1, lambda raft: raft.propose(b"a"))
    cluster.settle()
    cluster.members[1].store.damaged.add(2)
    cluster.members[1].disk.damaged.add(2)
    cluster.call(1, lambda raft: raft.log.found_damage.append((2, 3)))
    cluster.settle()
    assert cluster.node(1).leadership.counts[False, reasons.DAMAGE] == 1


def test_a_leader_that_removes_itself_gives_that_reason_to_its_heir() -> None:
    cluster = led_by_one()
    cluster.call(1, lambda raft: raft.propose_change(ConfigurationChange((Change(REMOVE, 1),))))
    cluster.settle()
    assert cluster.node(1).leadership.latest == reasons.REMOVED
    heir = next(node for node in (2, 3) if cluster.node(node).role == LEADER)
    assert cluster.node(heir).leadership.counts == {(True, reasons.REMOVED): 1}


def test_every_reason_has_a_name_of_its_own() -> None:
    numbers = [value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, int)]
    assert sorted(numbers) == sorted(reasons.NAMES)
    assert len(set(reasons.NAMES.values())) == len(numbers)
    assert reasons.name_of(999) == "unknown"
