"""Partitions move while they are used and nodes fail; a lost disk comes back as a new node."""

from collections.abc import Iterator
from random import Random

import pytest

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.codec.batch.header import parse_header
from flotilla.codec.batch.records import decode_payloads
from flotilla.metadata.move_commands import PlanMoves
from flotilla.metadata.values import ACTIVE, Partition
from flotilla.raft.node import RaftNode
from flotilla.raft.options import UNLIMITED_BYTES
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NodeId
from flotilla.types.limits import MOVES_TO_NODE_MAX
from flotilla.types.operations import (
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    Fetch,
    Fetched,
    JoinCluster,
    Produce,
    Produced,
    RemoveNode,
    TransferLeadership,
)
from flotilla.types.operations.cluster import (
    CancelMoves,
    DescribeReplicas,
    DrainNode,
    EnterCluster,
    MovesPlanned,
    Rebalance,
    ReplicasDescribed,
)
from tests.unit.broker.fleet import Fleet, Node, batch, client_address, peer_address

LONG_MS = 120_000


class Ledger:
    """What was acknowledged, and whether it is still there."""

    def __init__(self, fleet: Fleet, topic: str, partitions: int = 1) -> None:
        self.fleet = fleet
        self.topic = topic
        self.partitions = partitions
        self.acked: dict[tuple[int, int], bytes] = {}
        self._number = 0
        for partition in range(partitions):
            fleet.leader(topic, partition)

    def produce(self, count: int = 1) -> None:
        """Asks the leader, if there is one; answers may come later."""
        for _ in range(count):
            for partition in range(self.partitions):
                self._number += 1
                value = b"%d" % self._number
                for box in self.fleet.nodes.values():
                    if box.is_running and _leads(box, self.topic, partition):
                        self._ask(box, partition, value)
                        break

    def _ask(self, box: Node, partition: int, value: bytes) -> None:
        def answered(result: object) -> None:
            if isinstance(result, Produced):
                assert (partition, result.base_offset) not in self.acked
                self.acked[partition, result.base_offset] = value

        box.broker.handle(Produce(self.topic, partition, batch(value)), answered)

    def check(self, least: int = 1) -> None:
        """Everything acknowledged is where it was promised to be."""
        self.fleet.settle()
        assert len(self.acked) >= least
        for partition in range(self.partitions):
            leader = self.fleet.leader(self.topic, partition)
            stored = dict(_records(leader, self.topic, partition))
            for (number, offset), value in self.acked.items():
                if number == partition:
                    assert stored.get(offset) == value, f"{value!r} was acknowledged at {number}/{offset}"


def _leads(box: Node, topic: str, partition: int) -> bool:
    found = box.catalog.find_topic(topic)
    host = box.membership.hosts.get(found.partitions[partition].group) if found is not None else None
    return host is not None and host.replica.is_serving()


def _records(leader: Node, topic: str, partition: int) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while True:
        reply = leader.call(Fetch(topic, partition, offset, 1 << 20)).result
        assert isinstance(reply, Fetched), reply
        if not reply.batches:
            return
        for stored in reply.batches:
            values = decode_payloads(stored)
            base = parse_header(stored).base_offset
            yield from enumerate(values, base)
            offset = base + len(values)


def place(fleet: Fleet, topic: str = "t", partition: int = 0) -> Partition:
    return fleet.controller().catalog.topic(topic).partitions[partition]


def plan(fleet: Fleet, *target: NodeId, topic: str = "t", partition: int = 0) -> None:
    group = place(fleet, topic, partition).group
    fleet.controller().catalog.propose(PlanMoves(((group, target),), 1), lambda _: None)
    fleet.settle()


def is_still(fleet: Fleet) -> bool:
    """Nothing moves, nothing is lost, nothing is pending, and every node knows."""
    for box in fleet.nodes.values():
        if box.is_running:
            state = box.machine.state
            if state.moves or state.tombstones or any(found.place.lost for found in state.assignments.values()):
                return False
    return True


def voters(fleet: Fleet, topic: str = "t", partition: int = 0) -> tuple[NodeId, ...]:
    leader = fleet.leader(topic, partition)
    return leader.partition(topic, partition).replica.raft.configuration.voters


def wait_still(fleet: Fleet) -> None:
    fleet.wait(lambda: is_still(fleet), LONG_MS)


def raft(box: Node, group: int) -> RaftNode:
    replica = box.replica(group)
    assert replica is not None
    return replica.raft


def settled(fleet: Fleet, topic: str, partitions: int = 1) -> bool:
    return all(
        voters(fleet, topic, number) == tuple(sorted(place(fleet, topic, number).replicas))
        for number in range(partitions)
    )


# Moving.


def test_a_partition_moves_with_everything_and_leaves_nothing_behind() -> None:
    fleet = Fleet(4).form()
    leader = fleet.create("t")
    ledger = Ledger(fleet, "t")
    ledger.produce(50)
    before = place(fleet).replicas
    newcomer = next(node for node in fleet.nodes if node not in before)
    leaver = before[1]
    plan(fleet, before[0], before[2], newcomer)
    for _ in range(100):
        ledger.produce()
        fleet.advance(50)
    wait_still(fleet)
    assert place(fleet).replicas == (before[0], before[2], newcomer)
    assert voters(fleet) == tuple(sorted(place(fleet).replicas))
    assert not fleet.nodes[leaver].holds(place(fleet).group)
    assert leader.partition("t").replica.raft.learner_credit_bytes == UNLIMITED_BYTES
    # Each replica has all of it now.
    for node in place(fleet).replicas[1:]:
        fleet.leader("t").transfer(place(fleet).group, node)
        fleet.wait(lambda node=node: fleet.leader("t").node == node)
        ledger.check(least=100)


def test_the_leader_itself_moves() -> None:
    fleet = Fleet(4).form()
    leader = fleet.create("t")
    ledger = Ledger(fleet, "t")
    ledger.produce(10)
    before = place(fleet).replicas
    newcomer = next(node for node in fleet.nodes if node not in before)
    plan(fleet, newcomer, *(node for node in before if node != leader.node))
    wait_still(fleet)
    assert leader.node not in voters(fleet)
    assert newcomer in voters(fleet)
    ledger.produce(5)
    ledger.check(least=15)


def test_missing_replicas_are_added_when_brokers_join() -> None:
    fleet = Fleet(1).form()
    fleet.create("t")
    ledger = Ledger(fleet, "t")
    ledger.produce(10)
    assert place(fleet).replicas == (1,)
    for node in (2, 3):
        fleet.add(node)
        fleet.let_in(node)
    fleet.wait(lambda: len(place(fleet).replicas) == 3 and is_still(fleet), LONG_MS)
    assert voters(fleet) == (1, 2, 3)
    ledger.produce(5)
    ledger.check(least=15)


def test_a_partition_of_one_moves() -> None:
    fleet = Fleet(2).form()
    fleet.controller().call(CreateTopic("t", 1, 1))
    leader = fleet.leader("t")
    ledger = Ledger(fleet, "t")
    ledger.produce(10)
    fleet.settle()
    other = 3 - leader.node
    plan(fleet, other)
    wait_still(fleet)
    assert place(fleet).replicas == (other,)
    assert fleet.leader("t").node == other
    ledger.check(least=10)


@pytest.mark.parametrize(("factor", "width"), [(1, 1), (2, 2), (5, 5)])
def test_the_replication_factor_is_changed(factor: int, width: int) -> None:
    fleet = Fleet(5).form()
    fleet.create("t", 2)
    ledger = Ledger(fleet, "t", 2)
    ledger.produce(10)
    answer = fleet.controller().call(AlterTopic("t", 3, {}, factor))
    assert answer.code == "TopicReply", answer.result
    wait_still(fleet)
    topic = fleet.controller().catalog.topic("t")
    assert [len(partition.replicas) for partition in topic.partitions] == [width] * 3
    assert topic.replication_factor == factor
    assert settled(fleet, "t", 3)
    ledger.check(least=20)


def test_a_factor_above_the_number_of_brokers_is_refused() -> None:
    fleet = Fleet(3).form()
    fleet.create("t")
    assert fleet.controller().call(AlterTopic("t", 0, {}, 4)).code == "CONFIGURATION_CHANGE"
    assert fleet.controller().call(AlterTopic("u", 0, {}, 2)).code == "NOT_FOUND"
    assert fleet.controller().call(AlterTopic("t", 0, {}, 9)).code == "INVALID_ARGUMENT"


def test_a_topic_that_is_deleted_while_it_moves_is_gone_everywhere() -> None:
    fleet = Fleet(4).form()
    fleet.create("t")
    group = place(fleet).group
    plan(fleet, *reversed(fleet.nodes))
    fleet.controller().call(DeleteTopic("t"))
    wait_still(fleet)
    fleet.advance(2000)
    assert not any(box.holds(group) for box in fleet.nodes.values())


def test_only_a_few_partitions_are_taught_to_one_node_at_a_time() -> None:
    fleet = Fleet(2).form()
    fleet.controller().call(CreateTopic("t", 12, 1))
    for number in range(12):
        fleet.leader("t", number)
    most = 0
    fleet.controller().call(AlterTopic("t", 0, {}, 2))
    while not is_still(fleet):
        learning = [
            replica.raft.configuration.learners
            for box in fleet.nodes.values()
            for replica in box.driver.replicas.values()
            if replica.raft.leader == box.node and replica.group != METADATA_GROUP
        ]
        most = max(most, sum(2 in learners for learners in learning))
        fleet.advance(50)
    assert 0 < most <= MOVES_TO_NODE_MAX
    assert settled(fleet, "t", 12)


def test_the_rate_to_learners_is_limited() -> None:
    """A megabyte at a hundred kilobytes a second takes some seconds, and producers do not wait for it."""
    fleet = Fleet(2).form()
    for box in fleet.nodes.values():
        box.membership.moves.bytes_per_second = 100_000
    fleet.controller().call(CreateTopic("t", 1, 1))
    leader = fleet.leader("t")
    for number in range(100):
        assert leader.call(Produce("t", 0, batch(b"%d" % number * 5000))).code == "Produced"
    start_ms = fleet.clock.now_ms
    other = 3 - leader.node
    plan(fleet, leader.node, other)
    while place(fleet).move is not None:
        answer = leader.ask(Produce("t", 0, batch(b"x")))
        fleet.advance(100)
        assert answer.code == "Produced"
    size = leader.partition("t").replica.log.size_bytes()
    assert size > 500_000
    assert fleet.clock.now_ms - start_ms >= 0.7 * size / 100_000 * 1000


# Plans.


def test_a_plan_that_is_given_up_is_undone() -> None:
    fleet = Fleet(4).form()
    fleet.create("t")
    before = place(fleet).replicas
    newcomer = next(node for node in fleet.nodes if node not in before)
    group = place(fleet).group
    plan(fleet, *before[:2], newcomer)
    fleet.advance(300)
    reply = fleet.controller().call(CancelMoves()).result
    assert isinstance(reply, MovesPlanned)
    assert [move.target for move in reply.moves] == [list(before)]
    wait_still(fleet)
    fleet.advance(1000)
    assert place(fleet).replicas == before
    assert voters(fleet) == tuple(sorted(before))
    assert not fleet.nodes[newcomer].holds(group)


def test_a_cluster_that_grew_is_evened_out() -> None:
    fleet = Fleet(3).form()
    fleet.create("t", 8)
    ledger = Ledger(fleet, "t", 8)
    ledger.produce(5)
    fleet.add(4)
    fleet.let_in(4)
    fleet.wait(
        lambda: all(4 in box.catalog.brokers() and box.is_up(4) for box in fleet.nodes.values() if box.node != 4)
    )
    controller = fleet.controller()
    dry = controller.call(Rebalance([], is_dry_run=True)).result
    assert isinstance(dry, MovesPlanned)
    assert not controller.machine.state.moves
    done = controller.call(Rebalance()).result
    assert done == dry
    assert sum(4 in move.target for move in dry.moves) == 6
    wait_still(fleet)
    state = fleet.controller().machine.state
    assert [state.load(node).replicas for node in fleet.nodes] == [6, 6, 6, 6]
    assert [state.load(node).leaders for node in fleet.nodes] == [2, 2, 2, 2]
    assert settled(fleet, "t", 8)
    ledger.check(least=40)
    assert controller.call(Rebalance()).result == MovesPlanned([])


def test_a_rebalance_touches_the_named_topics_only() -> None:
    fleet = Fleet(3).form()
    fleet.controller().call(CreateTopic("t", 3, 1))
    fleet.controller().call(CreateTopic("u", 3, 1))
    for topic in ("t", "u"):
        for number in range(3):
            plan(fleet, 1, topic=topic, partition=number)
    wait_still(fleet)
    reply = fleet.controller().call(Rebalance(["t"])).result
    assert isinstance(reply, MovesPlanned)
    assert [move.topic for move in reply.moves] == ["t", "t"]
    assert fleet.controller().call(Rebalance(["nowhere"])).code == "NOT_FOUND"


def test_nothing_is_planned_for_a_node_that_is_down() -> None:
    fleet = Fleet(4).form()
    fleet.controller().call(CreateTopic("t", 4, 1))
    fleet.kill(fleet.leader("t", 3).node)
    reply = fleet.controller().call(Rebalance([], is_dry_run=True)).result
    assert isinstance(reply, MovesPlanned)
    assert reply.moves == []


def test_replicas_are_described_by_their_leader() -> None:
    fleet = Fleet(3).form()
    leader = fleet.create("t")
    leader.call(Produce("t", 0, batch(b"x")))
    fleet.advance(500)
    reply = leader.call(DescribeReplicas("t", 0)).result
    assert isinstance(reply, ReplicasDescribed)
    assert sorted((replica.node, replica.behind_entries) for replica in reply.replicas) == [(1, 0), (2, 0), (3, 0)]
    assert [replica.role for replica in reply.replicas].count("leader") == 1
    assert reply.size_bytes > 0
    follower = next(box for box in fleet.nodes.values() if box is not leader)
    assert follower.call(DescribeReplicas("t", 0)).code == "NOT_LEADER"


# Draining and leaving.


def test_a_broker_drains_and_can_come_back() -> None:
    fleet = Fleet(4).form()
    fleet.create("t", 6)
    ledger = Ledger(fleet, "t", 6)
    ledger.produce(5)
    assert fleet.controller().call(DrainNode(2)).code == "Done"
    fleet.wait(lambda: not fleet.controller().machine.state.assignments_to(2), LONG_MS)
    wait_still(fleet)
    assert settled(fleet, "t", 6)
    assert fleet.nodes[2].membership.hosts == {}
    fleet.create("u")
    assert 2 not in place(fleet, "u").replicas
    assert fleet.controller().call(DrainNode(2, is_draining=False)).code == "Done"
    assert fleet.controller().catalog.brokers()[2].state == ACTIVE
    ledger.check(least=30)


@pytest.mark.parametrize("is_dead", [False, True])
def test_a_broker_leaves_with_everything_moved_elsewhere(is_dead: bool) -> None:
    fleet = Fleet(4).form()
    fleet.create("t", 4)
    ledger = Ledger(fleet, "t", 4)
    ledger.produce(10)
    fleet.settle()
    leaver = fleet.controller().node
    if is_dead:
        fleet.kill(leaver)
    assert fleet.controller().call(RemoveNode(leaver)).code == "ClusterReply"
    rest = [node for node in fleet.nodes if node != leaver]
    fleet.wait(lambda: leaver not in fleet.nodes[rest[0]].catalog.brokers(), LONG_MS)
    controller = fleet.controller()
    fleet.wait(lambda: leaver not in raft(controller, METADATA_GROUP).configuration.members())
    assert all(leaver not in partition.replicas for partition in controller.catalog.topic("t").partitions)
    assert settled(fleet, "t", 4)
    ledger.produce(5)
    ledger.check(least=60)
    assert controller.call(RemoveNode(leaver)).code == "ClusterReply", "repeating is fine"


def test_a_broker_whose_replicas_fit_nowhere_else_stays() -> None:
    fleet = Fleet(3).form()
    fleet.create("t", 2)
    for request in (RemoveNode(3), DrainNode(3)):
        refused = fleet.controller().call(request).result
        assert isinstance(refused, FlotillaError)
        assert refused.code == "CONFIGURATION_CHANGE"
        assert "add a broker or lower the topic's replication factor" in str(refused)
    assert fleet.controller().catalog.brokers()[3].state == ACTIVE
    # With fewer replicas it may go.
    fleet.controller().call(AlterTopic("t", 0, {}, 2))
    wait_still(fleet)
    assert fleet.controller().call(RemoveNode(3)).code == "ClusterReply"
    fleet.wait(lambda: 3 not in fleet.nodes[1].catalog.brokers(), LONG_MS)


def test_unknown_nodes_do_not_drain() -> None:
    fleet = Fleet(1).form()
    assert fleet.controller().call(DrainNode(9)).code == "NOT_FOUND"


# Lost disks.


def lose(fleet: Fleet, node: NodeId) -> Node:
    fleet.kill(node)
    fleet.advance(500)
    return fleet.wipe(node)


def test_a_node_without_its_disk_comes_back_as_a_newcomer_and_nothing_is_lost() -> None:
    fleet = Fleet(3).form()
    fleet.create("t", 3)
    ledger = Ledger(fleet, "t", 3)
    ledger.produce(20)
    fleet.settle()
    group = place(fleet).group
    box = lose(fleet, 3)
    begun: dict[int, bool] = {}
    for _ in range(600):
        ledger.produce()
        fleet.advance(20)
        for number in (METADATA_GROUP, group, group + 1, group + 2):
            if box.holds(number) and number not in begun:
                # The moment at which it begins: no majority counts on what it has forgotten, and it knows that it
                # knows nothing.
                others = [raft(other, number) for other in fleet.nodes.values() if other is not box]
                begun[number] = all(3 not in other.configuration.voters for other in others)
                base = raft(box, number).log.configurations[0][1]
                assert 3 not in base.voters
    assert begun == dict.fromkeys((METADATA_GROUP, group, group + 1, group + 2), True)
    fleet.wait(lambda: settled(fleet, "t", 3) and is_still(fleet), LONG_MS)
    fleet.wait(lambda: 3 in raft(fleet.controller(), METADATA_GROUP).configuration.voters)
    ledger.check(least=100)
    # It is a full member: it carries the cluster when another one is gone.
    fleet.kill(1)
    fleet.leader("t")
    ledger.produce(5)
    ledger.check(least=100)


def test_while_a_partition_cannot_agree_the_lost_disk_counts_for_nothing() -> None:
    """Entries that only the leader and the lost replica had: no replica without them may lead."""
    fleet = Fleet(5).form()
    leader = fleet.create("t")
    late, lost = (fleet.nodes[node] for node in place(fleet).replicas if node != leader.node)
    group = place(fleet).group
    fleet.isolate(late.node)
    ledger = Ledger(fleet, "t")
    ledger.produce(5)
    fleet.advance(200)
    assert len(ledger.acked) == 5
    fleet.kill(leader.node)
    fleet.heal(late.node)
    fleet.kill(lost.node)
    fleet.advance(500)
    fleet.wipe(lost.node)
    # The cluster takes it back, the partition cannot say so.
    fleet.wait(lambda: lost.catalog.brokers().get(lost.node) is not None and not lost.membership.is_replaced)
    fleet.advance(20_000)
    assert lost.node in place(fleet).lost
    assert not lost.holds(group)
    assert not _leads(late, "t", 0)
    fleet.restart(leader.node)
    fleet.wait(lambda: settled(fleet, "t") and is_still(fleet), LONG_MS)
    assert lost.holds(group)
    ledger.check(least=5)


def test_repeated_transfers_to_a_lost_replica_do_not_keep_it_out() -> None:
    fleet = Fleet(3).form()
    leader = fleet.create("t")
    ledger = Ledger(fleet, "t")
    ledger.produce(100)
    fleet.advance(500)
    lost = next(fleet.nodes[node] for node in place(fleet).replicas if node != leader.node)
    fleet.kill(lost.node)
    fleet.advance(500)
    fleet.wipe(lost.node)

    def is_back() -> bool:
        if not settled(fleet, "t") or not is_still(fleet):
            for node in fleet.nodes.values():
                node.call(TransferLeadership("t", 0, lost.node))
        return lost.holds(place(fleet).group) and settled(fleet, "t") and is_still(fleet)

    fleet.wait(is_back, LONG_MS)
    ledger.check(least=100)


def test_a_disk_that_is_lost_again_and_again() -> None:
    fleet = Fleet(3).form()
    fleet.create("t")
    ledger = Ledger(fleet, "t")
    for turn in range(4):
        ledger.produce(5)
        lose(fleet, 2)
        # At first before it has got far, later when it is back.
        fleet.advance(400 + 1500 * turn)
    fleet.wait(lambda: settled(fleet, "t") and is_still(fleet), LONG_MS)
    assert fleet.controller().catalog.brokers()[2].incarnation == fleet.nodes[2].incarnation
    ledger.check(least=20)


def test_a_node_that_founds_again_on_an_empty_disk_is_not_let_in() -> None:
    """It believes to be a voter of a new cluster: it must not decide anything with one that was away."""
    fleet = Fleet(3).form()
    leader = fleet.create("t")
    others = [box for box in fleet.nodes.values() if box is not leader]
    # Node 'late' misses what the other two agree on.
    late, lost = others
    fleet.isolate(late.node)
    ledger = Ledger(fleet, "t")
    ledger.produce(5)
    fleet.advance(200)
    assert len(ledger.acked) == 5
    fleet.kill(leader.node)
    fleet.kill(lost.node)
    fleet.heal(late.node)
    lost.renew()
    lost.found({node: peer_address(node) for node in fleet.nodes if node != lost.node})
    for _ in range(200):
        lost.driver.campaign(METADATA_GROUP)
        fleet.advance(50)
        assert not lost.membership.hosts
    assert not any(_leads(box, "t", 0) for box in (late, lost))
    fleet.restart(leader.node)
    fleet.wait(lambda: _leads(leader, "t", 0) or _leads(late, "t", 0), LONG_MS)
    ledger.check(least=5)


def test_an_old_disk_that_comes_back_after_its_node_was_replaced_takes_part_in_nothing() -> None:
    fleet = Fleet(3).form()
    fleet.create("t")
    old_disk, old_incarnation = fleet.nodes[3].disk, fleet.nodes[3].incarnation
    box = lose(fleet, 3)
    fleet.wait(lambda: settled(fleet, "t") and is_still(fleet), LONG_MS)
    fleet.kill(3)
    box.disk, box.incarnation = old_disk, old_incarnation
    fleet.restart(3)
    fleet.advance(5000)
    assert not fleet.is_linked(3, 1)
    assert not fleet.is_linked(3, 2)
    Ledger(fleet, "t").produce()
    fleet.leader("t")


def test_two_nodes_under_one_id_are_refused_while_the_first_one_runs() -> None:
    fleet = Fleet(3).form()
    fleet.create("t")
    twin = JoinCluster(3, "elsewhere:7601", "elsewhere:7600", "", 77)
    if fleet.controller().node != 3:
        assert fleet.controller().call(twin).code == "ALREADY_EXISTS"
    assert fleet.controller().catalog.brokers()[3].incarnation == fleet.nodes[3].incarnation


def test_a_waiting_node_can_be_sent_into_a_cluster() -> None:
    fleet = Fleet(1).form()
    waiting = fleet.add(2)
    assert waiting.call(EnterCluster(["a:1"], b"token")).code == "ClusterReply"
    assert waiting.entering == [(["a:1"], b"token")]
    assert waiting.call(EnterCluster([])).code == "INVALID_ARGUMENT"
    assert waiting.call(EnterCluster(["nonsense"])).code == "INVALID_ARGUMENT"


def test_entering_is_refused_in_another_cluster_and_harmless_in_the_same() -> None:
    box = Fleet(1).form().nodes[1]
    refused = box.call(EnterCluster(["a:1", "b:1"]))
    assert refused.code == "ALREADY_EXISTS"
    assert "node 1 is part of another cluster named 'test', alone" in str(refused.result)
    assert box.call(EnterCluster(["a:1", client_address(1)])).code == "ClusterReply"
    box = Fleet(3).form().nodes[2]
    assert "with nodes 1, 3" in str(box.call(EnterCluster(["a:1"])).result)
    assert box.call(EnterCluster([client_address(3)])).code == "ClusterReply"
    assert box.entering == []


def test_entering_again_is_harmless_for_a_node_that_knows_no_broker_yet() -> None:
    fleet = Fleet(1).form()
    newcomer = fleet.add(2)
    newcomer.learn()
    assert newcomer.call(EnterCluster(["a:1"])).code == "ClusterReply"
    assert newcomer.entering == []


# Everything at once.


@pytest.mark.parametrize("seed", range(5))
def test_moves_crashes_and_lost_disks_in_any_order_lose_nothing(seed: int) -> None:
    random = Random(seed)
    fleet = Fleet(4).form()
    fleet.create("t", 2)
    ledger = Ledger(fleet, "t", 2)
    for _ in range(60):
        ledger.produce()
        fleet.advance(random.randrange(20, 600))
        down = [node for node, box in fleet.nodes.items() if not box.is_running]
        dice = random.random()
        if down:
            # One is away at a time: what is lost beyond that cannot be asked for.
            if dice < 0.7:
                fleet.restart(down[0])
            elif dice < 0.9 and is_still(fleet) and settled(fleet, "t", 2):
                fleet.wipe(down[0])
        elif dice < 0.25:
            if is_still(fleet):
                fleet.advance(500)
            fleet.kill(random.choice(list(fleet.nodes)))
        elif dice < 0.5:
            target = random.sample(list(fleet.nodes), random.choice((3, 3, 4)))
            number = random.randrange(2)
            try:
                plan(fleet, *target, partition=number)
            except FlotillaError:
                continue  # Something has not been removed yet.
    for node, box in fleet.nodes.items():
        if not box.is_running:
            fleet.restart(node)
    fleet.wait(lambda: is_still(fleet) and settled(fleet, "t", 2), LONG_MS)
    ledger.produce(3)
    fleet.settle()
    ledger.check(least=50)
