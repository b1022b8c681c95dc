"""Any commands in any order: replicas agree, indexes are true, ids are fresh, nothing is removed unasked."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flotilla.metadata.commands import (
    AlterTopic,
    ConfirmRemoved,
    CreateTopic,
    DeleteTopic,
    InitCluster,
    LabelNode,
    RemoveBroker,
    SetBrokerState,
    SetClusterVersion,
    encode_command,
)
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.move_commands import ConfirmLost, FinishMove, PlanMoves, ResizeTopic, SetIncarnation
from flotilla.metadata.placement import Load
from flotilla.metadata.queries import AssignmentsTo, TombstonesFor
from flotilla.metadata.values import ACTIVE, DRAINING, FIRST_PARTITION_GROUP, Assignment, Topic
from flotilla.raft.messages import DATA, Entry
from flotilla.types.errors import FlotillaError
from tests.unit.metadata.entries import CLUSTER, CLUSTER_NAME, register

NODES = st.integers(1, 6)
NAMES = st.sampled_from(["a", "b", "c", "d"])
GROUPS = st.integers(FIRST_PARTITION_GROUP, FIRST_PARTITION_GROUP + 20)
SETTINGS = st.lists(st.tuples(st.sampled_from(["max_deliveries", "retention_bytes"]), st.integers(0, 9)), max_size=2)


class Metadata(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.machine = MetadataMachine()
        #: The same entries, but never restored from a snapshot.
        self.twin = MetadataMachine()
        self.index = 0
        self.seen_groups: set[int] = set()
        self.seen_topics: set[int] = set()
        #: (group, node) that holds data: assigned once, and not confirmed as removed.
        self.holds: set[tuple[int, int]] = set()

    def apply(self, command):
        self.index += 1
        before = self.machine.snapshot()
        refused = self.machine.check(command)
        entry = Entry(self.index, 1, DATA, encode_command(command))
        reply = self.machine.apply(entry)
        twin_reply = self.twin.apply(entry)
        if isinstance(reply, FlotillaError):
            assert type(refused) is type(reply) is type(twin_reply)
            assert str(refused) == str(reply) == str(twin_reply)
            self.machine.applied = self.index - 1
            assert self.machine.snapshot() == before
            self.machine.applied = self.index
        else:
            assert refused is None
            assert reply == twin_reply
        self.note()
        return reply

    def note(self):
        for group, assignment in self.machine.state.assignments.items():
            self.holds |= {(group, node) for node in assignment.place.hosts}

    @initialize()
    def begin(self):
        self.apply(InitCluster(CLUSTER, CLUSTER_NAME, (1, 2, 3), 0))

    @rule(node=NODES)
    def register(self, node):
        self.apply(register(node))

    @rule(node=NODES, machine=st.sampled_from(["", "m"]), zone=st.sampled_from(["", "a", "b"]))
    def label(self, node, machine, zone):
        self.apply(LabelNode(node, machine, zone, 0))

    @rule(version=st.integers(2, 4))
    def upgrade(self, version):
        self.apply(SetClusterVersion(version, tuple(sorted(self.machine.state.brokers)), 0))

    @rule(node=NODES, state=st.sampled_from([ACTIVE, DRAINING]))
    def set_broker_state(self, node, state):
        self.apply(SetBrokerState(node, state, 0))

    @rule(node=NODES)
    def remove_broker(self, node):
        if not isinstance(self.apply(RemoveBroker(node, 0)), FlotillaError):
            self.holds = {(group, holder) for group, holder in self.holds if holder != node}

    @rule(name=NAMES, partitions=st.integers(1, 4), factor=st.integers(1, 4), chosen=SETTINGS)
    def create(self, name, partitions, factor, chosen):
        topic = self.apply(CreateTopic(name, partitions, factor, tuple(chosen), 0))
        if isinstance(topic, Topic):
            groups = {partition.group for partition in topic.partitions}
            assert topic.topic_id not in self.seen_topics
            assert not groups & self.seen_groups
            self.seen_topics.add(topic.topic_id)
            self.seen_groups |= groups

    @rule(name=NAMES, partitions=st.integers(0, 6), chosen=SETTINGS)
    def alter(self, name, partitions, chosen):
        before = self.machine.state.topic(name)
        topic = self.apply(AlterTopic(name, tuple(chosen), (), partitions, 0))
        if isinstance(topic, Topic):
            assert topic.partitions[: len(before.partitions)] == before.partitions
            groups = {partition.group for partition in topic.partitions[len(before.partitions) :]}
            assert not groups & self.seen_groups
            self.seen_groups |= groups

    @rule(name=NAMES)
    def delete(self, name):
        self.apply(DeleteTopic(name, 0, 0))

    @rule(group=GROUPS, replicas=st.lists(NODES, min_size=1, max_size=4))
    def plan_move(self, group, replicas):
        self.apply(PlanMoves(((group, tuple(replicas)),), 0))

    @rule(data=st.data())
    def finish_move(self, data):
        moves = self.machine.state.moves
        if moves:
            move = data.draw(st.sampled_from(sorted(moves)))
            assert not isinstance(self.apply(FinishMove(moves[move], move, 0)), FlotillaError)

    @rule(group=GROUPS, move=st.integers(0, 9))
    def finish_anything(self, group, move):
        self.apply(FinishMove(group, move, 0))

    @rule(name=NAMES, factor=st.integers(0, 5))
    def resize(self, name, factor):
        topic = self.apply(ResizeTopic(name, factor, 0))
        if isinstance(topic, Topic):
            assert all(len(partition.wanted) == factor for partition in topic.partitions)

    @rule(node=NODES, incarnation=st.integers(0, 3), is_replaced=st.booleans())
    def set_incarnation(self, node, incarnation, is_replaced):
        self.apply(SetIncarnation(node, incarnation, is_replaced, 0))

    @rule(group=GROUPS, node=NODES, incarnation=st.integers(0, 3))
    def confirm_lost(self, group, node, incarnation):
        self.apply(ConfirmLost(group, node, incarnation, 0))

    @rule(node=NODES)
    def confirm_what_is_owed(self, node):
        removable = tuple(tombstone.group for tombstone in self.machine.read(TombstonesFor(node)))
        assert self.apply(ConfirmRemoved(node, removable, 0)) is None
        self.holds -= {(group, node) for group in removable}

    @rule(node=NODES, groups=st.lists(GROUPS, max_size=3))
    def confirm_anything(self, node, groups):
        if self.apply(ConfirmRemoved(node, tuple(groups), 0)) is None:
            self.holds -= {(group, node) for group in groups}

    @rule()
    def restore(self):
        data = self.machine.snapshot()
        self.machine.restore(data)
        assert self.machine.snapshot() == data

    @invariant()
    def replicas_agree(self):
        assert self.machine.snapshot() == self.twin.snapshot()
        for node in range(1, 7):
            for query in (AssignmentsTo(node), TombstonesFor(node)):
                mine, other = self.machine.read(query), self.twin.read(query)
                assert mine == other
                assert list(mine) == list(other)

    @invariant()
    def indexes_are_true(self):
        state = self.machine.state
        assignments = {
            partition.group: Assignment(topic.topic_id, partition)
            for topic in state.topics.values()
            for partition in topic.partitions
        }
        assert state.assignments == assignments
        assert state.names == {topic.name: topic.topic_id for topic in state.topics.values()}
        for node in range(1, 7):
            mine = {group: found for group, found in assignments.items() if node in found.place.hosts}
            assert self.machine.read(AssignmentsTo(node)) == mine
            wanted = [found.place.wanted for found in mine.values() if node in found.place.wanted]
            assert state.load(node) == Load(len(wanted), sum(target[0] == node for target in wanted))
            removable = [stone for _, stone in sorted(state.tombstones.items()) if node in stone.waiting]
            assert self.machine.read(TombstonesFor(node)) == removable

    @invariant()
    def moves_are_known_and_no_node_founds_twice(self):
        state = self.machine.state
        places = [assignment.place for assignment in state.assignments.values()]
        assert state.moves == {place.move.number: place.group for place in places if place.move is not None}
        assert all(move < state.next_move for move in state.moves)
        for place in places:
            assert set(place.lost) <= set(place.hosts)
            assert not any(place.may_found(node) for node in place.lost)
            # A node that removed or lost its data must not start as if it never had any.
            assert all(node in place.hosts for node in place.founders if place.may_found(node))

    @invariant()
    def data_is_assigned_or_under_a_tombstone(self):
        """Absence never removes: each node with data has an assignment or a tombstone, and not both."""
        kept = {(group, node) for group, found in self.machine.state.assignments.items() for node in found.place.hosts}
        removed = {(group, node) for group, stone in self.machine.state.tombstones.items() for node in stone.waiting}
        assert not kept & removed
        assert kept | removed == self.holds


Metadata.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
test_metadata_is_consistent_whatever_happens = Metadata.TestCase
