"""Stream groups at whole brokers: members join, are heard, give partitions up, leave or fall silent."""

from dataclasses import dataclass, field

import pytest

from flotilla.broker.stream.coordinator import HURRY_MS
from flotilla.metadata.stream_sessions import RENEWAL_MS
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Offset
from flotilla.types.operations import AlterTopic, CommitOffset, DeleteTopic, Done, OffsetCommitted, Produce, ReadOffset
from flotilla.types.operations.queue import FROM_OFFSET, GroupReset, ResetGroup, Start
from flotilla.types.operations.stream import (
    NO_OFFSET,
    ROUND_ROBIN,
    STICKY,
    ClaimPartition,
    DescribeStreamGroup,
    FenceGroup,
    ForgetGroup,
    GroupAssignment,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListStreamGroups,
    Owned,
    StreamGroupDescription,
    StreamGroupList,
)
from tests.unit.broker.fleet import Answer, Fleet, Node, batch, single_node, three

TOPIC = "orders"
GROUP = "billing"
SESSION_MS = 3_000


@dataclass
class Member:
    """A consumer that follows its assignment at once."""

    fleet: Fleet
    name: str
    generation: int = 0
    owned: dict[int, int] = field(default_factory=dict)
    waiting: Answer | None = None

    def join(self, **settings: object) -> "Member":
        request = JoinGroup(TOPIC, GROUP, self.name, f"test {self.name}", **settings)  # type: ignore[arg-type]
        self._take(self.fleet.controller().call(request).result)
        return self

    def _take(self, answer: object) -> None:
        assert isinstance(answer, GroupAssignment), answer
        self.generation = answer.generation
        self.owned = dict(answer.partitions)

    def heartbeat(self, wait_ms: int = 0) -> Answer:
        return self.fleet.controller().call(
            Heartbeat(TOPIC, GROUP, self.name, self.generation, list(self.owned), wait_ms)
        )

    def beat(self) -> list[int]:
        """One heartbeat, and what it owns then."""
        self._take(self.heartbeat().result)
        return sorted(self.owned)

    def wait(self, wait_ms: int = 60_000) -> "Member":
        self.waiting = self.heartbeat(wait_ms)
        return self

    def woken(self) -> list[int]:
        """What it owns now that its parked heartbeat was answered."""
        assert self.waiting is not None
        self._take(self.waiting.result)
        return sorted(self.owned)

    def leave(self) -> object:
        return self.fleet.controller().call(LeaveGroup(TOPIC, GROUP, self.name)).result


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create(TOPIC, 4)
    return node


def described(fleet: Fleet) -> StreamGroupDescription:
    answer = fleet.controller().call(DescribeStreamGroup(TOPIC, GROUP)).result
    assert isinstance(answer, StreamGroupDescription), answer
    return answer


def shares(fleet: Fleet) -> dict[str, list[int]]:
    return {member.name: member.partitions for member in described(fleet).members}


def position(node: Node, request: ClaimPartition | CommitOffset | ReadOffset) -> Offset:
    """Where the group stands, by the answer to a request."""
    found = node.call(request).result
    assert isinstance(found, OffsetCommitted)
    return found.offset


def settle(*members: Member) -> None:
    """Until no member gets news."""
    for _ in range(3):
        for member in members:
            member.beat()


# Coming and going.


def test_the_first_member_gets_everything(node: Node) -> None:
    one = Member(node.fleet, "one").join(session_ms=SESSION_MS, strategy=ROUND_ROBIN)
    assert one.owned == {0: 1, 1: 1, 2: 1, 3: 1}
    description = described(node.fleet)
    assert (description.generation, description.strategy, description.session_ms) == (1, ROUND_ROBIN, SESSION_MS)
    assert (description.cause, description.moved) == ("one joined", 4)
    (member,) = description.members
    assert (member.name, member.client, member.partitions) == ("one", "test one", [0, 1, 2, 3])


def test_joining_again_is_answered_alike_and_writes_nothing(node: Node) -> None:
    one = Member(node.fleet, "one").join()
    applied = node.machine.applied
    assert one.join().owned == {0: 1, 1: 1, 2: 1, 3: 1}
    assert node.machine.applied == applied


def test_a_new_member_gets_partitions_that_others_have_given_up(node: Node) -> None:
    one = Member(node.fleet, "one").join().wait()
    two = Member(node.fleet, "two").join()
    assert two.owned == {}
    two.wait()
    assert one.woken() == [0, 1]
    assert shares(node.fleet) == {"one": [0, 1, 2, 3], "two": []}, "it has not said that it gave them up"
    assert one.beat() == [0, 1]
    assert two.woken() == [2, 3]
    assert set(two.owned.values()) == {3}
    assert one.owned == {0: 1, 1: 1}, "what stays keeps its epoch"


def test_a_move_answers_only_the_members_concerned(node: Node) -> None:
    one, two = Member(node.fleet, "one").join(), Member(node.fleet, "two").join()
    settle(one, two)
    three_ = Member(node.fleet, "three").join()
    settle(one, two, three_)
    one.wait()
    # A fourth one takes from a member that has two.
    rich = next(member for member in (one, two, three_) if len(member.owned) == 2)
    Member(node.fleet, "four").join()
    assert one.waiting is not None
    assert one.waiting.is_waiting == (rich is not one)


def test_a_leaver_s_partitions_are_spread_at_once(node: Node) -> None:
    one, two = Member(node.fleet, "one").join(), Member(node.fleet, "two").join()
    settle(one, two)
    two.wait()
    assert one.leave() == Done()
    assert two.woken() == [0, 1, 2, 3]
    assert one.leave() == Done()
    assert described(node.fleet).cause == "one left"
    assert one.heartbeat().code == "STALE_GENERATION"


def test_a_waiting_member_that_leaves_is_answered(node: Node) -> None:
    one = Member(node.fleet, "one").join().wait()
    one.leave()
    assert one.waiting is not None
    assert one.waiting.code == "STALE_GENERATION"


def test_a_heartbeat_of_a_stranger_is_refused(node: Node) -> None:
    assert Member(node.fleet, "one").heartbeat().code == "STALE_GENERATION"
    assert node.call(Heartbeat("missing", GROUP, "one", 0)).code == "NOT_FOUND"
    assert node.call(JoinGroup("missing", GROUP, "one")).code == "NOT_FOUND"
    assert node.call(DescribeStreamGroup(TOPIC, GROUP)).code == "NOT_FOUND"
    assert node.call(ListStreamGroups(TOPIC)).result == StreamGroupList([])
    assert node.call(LeaveGroup(TOPIC, GROUP, "one")).result == Done()


@pytest.mark.parametrize(
    "request_",
    [
        JoinGroup(TOPIC, GROUP, ""),
        JoinGroup(TOPIC, "../g", "m"),
        JoinGroup(TOPIC, GROUP, "m", strategy="best"),
        JoinGroup(TOPIC, GROUP, "m", session_ms=1),
        JoinGroup(TOPIC, GROUP, "m", session_ms=-1),
        JoinGroup(TOPIC, GROUP, "m", client="\ud800"),
    ],
)
def test_bad_requests_are_refused_before_they_are_proposed(node: Node, request_: JoinGroup) -> None:
    applied = node.machine.applied
    assert node.call(request_).code == "INVALID_ARGUMENT"
    assert node.machine.applied == applied


def test_groups_without_members_are_listed(node: Node) -> None:
    node.call(JoinGroup(TOPIC, "b", "m"))
    node.call(JoinGroup(TOPIC, "a", "m"))
    node.call(LeaveGroup(TOPIC, "b", "m"))
    assert node.call(ListStreamGroups(TOPIC)).result == StreamGroupList(["a", "b"])
    answer = node.call(DescribeStreamGroup(TOPIC, "b")).result
    assert isinstance(answer, StreamGroupDescription)
    assert (answer.members, answer.strategy) == ([], STICKY)


# Heartbeats.


def test_a_heartbeat_waits_while_there_is_no_news_but_no_longer_than_a_third_of_a_session(node: Node) -> None:
    one = Member(node.fleet, "one").join(session_ms=SESSION_MS).wait()
    assert one.waiting is not None
    node.fleet.advance(SESSION_MS // 3 - 200)
    assert one.waiting.is_waiting
    node.fleet.advance(200)
    assert one.woken() == [0, 1, 2, 3]


def test_a_heartbeat_that_is_given_up_is_not_answered(node: Node) -> None:
    one = Member(node.fleet, "one").join().wait()
    assert one.waiting is not None
    assert one.waiting.cancel is not None
    one.waiting.cancel()
    node.fleet.advance(60_000)
    assert one.waiting.is_waiting


def test_a_second_heartbeat_takes_the_place_of_the_first(node: Node) -> None:
    one = Member(node.fleet, "one").join().wait()
    first = one.waiting
    one.wait()
    assert first is not None
    assert first.code == "GroupAssignment"
    assert one.waiting is not None
    assert one.waiting.is_waiting


def test_a_member_that_is_slow_to_give_up_keeps_its_partitions(node: Node) -> None:
    one = Member(node.fleet, "one").join(session_ms=SESSION_MS)
    two = Member(node.fleet, "two").join()
    assignment = one.heartbeat().result
    assert isinstance(assignment, GroupAssignment)
    one.generation = assignment.generation
    for _ in range(20):
        # It knows, and still uses all four. It is not answered at once again and again.
        slow = one.heartbeat(wait_ms=60_000)
        assert slow.is_waiting
        node.fleet.advance(HURRY_MS)
        assert not slow.is_waiting
        two.beat()
    assert shares(node.fleet) == {"one": [0, 1, 2, 3], "two": []}
    one.owned = dict(assignment.partitions)
    one.beat()
    assert two.beat() == [2, 3]


def test_a_heartbeat_from_before_gives_nothing_up(node: Node) -> None:
    """It was sent before its member heard that it owns something, and comes late."""
    one = Member(node.fleet, "one").join()
    two = Member(node.fleet, "two").join()
    late = Heartbeat(TOPIC, GROUP, "two", two.generation, [])
    settle(one, two)
    assert sorted(two.owned) == [2, 3]
    assert node.call(late).result == GroupAssignment(3, [Owned(2, 3), Owned(3, 3)], 30_000, 1, 4)
    assert shares(node.fleet) == {"one": [0, 1], "two": [2, 3]}


def test_a_move_that_is_called_off_gives_the_partition_anew(node: Node) -> None:
    """Its owner had stopped using it, and said so; that word comes again when it uses it once more."""
    one = Member(node.fleet, "one").join()
    two = Member(node.fleet, "two").join()
    assert one.beat() == [0, 1]
    late = Heartbeat(TOPIC, GROUP, "one", one.generation, [0, 1])
    two.leave()
    one.beat()
    assert one.owned == {0: 1, 1: 1, 2: 4, 3: 4}
    Member(node.fleet, "three").join()
    assert node.call(late).code == "GroupAssignment"
    assert shares(node.fleet) == {"one": [0, 1, 2, 3], "three": []}


def test_a_member_that_was_out_and_in_again_hears_of_its_new_epochs(node: Node) -> None:
    one = Member(node.fleet, "one").join()
    old = Heartbeat(TOPIC, GROUP, "one", one.generation, [0, 1, 2, 3], wait_ms=60_000)
    one.leave()
    node.call(JoinGroup(TOPIC, GROUP, "one"))
    answer = node.call(old).result
    assert isinstance(answer, GroupAssignment)
    assert [owned.epoch for owned in answer.partitions] == [3, 3, 3, 3]


def test_a_generation_that_is_not_known_here_is_not_answered(node: Node) -> None:
    Member(node.fleet, "one").join()
    assert node.call(Heartbeat(TOPIC, GROUP, "one", 99, [])).code == "UNAVAILABLE"


# Partitions that no other member gets.


def test_a_member_that_keeps_declining_does_not_fill_the_log(node: Node) -> None:
    one = Member(node.fleet, "one").join(session_ms=SESSION_MS)
    two = Member(node.fleet, "two").join()
    settle(one, two)
    assert sorted(one.owned) == [0, 1]
    before = node.machine.applied
    epochs = [one.owned[1]]
    for _ in range(40):
        # Its claim failed: it never uses partition 1.
        one.owned.pop(1, None)
        one.beat()
        two.beat()
        epochs += [one.owned[1]] if 1 in one.owned else []
        node.fleet.advance(100)
    assert len(epochs) == len(set(epochs)), "what it has given up never comes again under the same epoch"
    # Four seconds, and the first time at once.
    assert 4 <= len(epochs) - 1 <= 5
    assert node.machine.applied - before <= 5
    assert shares(node.fleet) == {"one": [0, 1], "two": [2, 3]}


def test_a_declined_partition_comes_back_after_a_while(node: Node) -> None:
    one = Member(node.fleet, "one").join(session_ms=30_000)
    for _ in range(2):
        del one.owned[1]
        one.beat()
    assert sorted(one.owned) == [0, 2, 3]
    one.wait()
    node.fleet.advance(RENEWAL_MS - 1)
    assert one.waiting is not None
    assert one.waiting.is_waiting
    node.fleet.advance(1)
    assert one.woken() == [0, 2, 3]
    assert one.beat() == [0, 1, 2, 3]


def test_a_declined_partition_goes_to_another_member_at_once(node: Node) -> None:
    one = Member(node.fleet, "one").join(session_ms=30_000)
    for _ in range(2):
        del one.owned[2], one.owned[3]
        one.beat()
    one.wait()
    two = Member(node.fleet, "two").join().wait()
    # There is nothing new for it, and yet it is answered: what it says next gives both away.
    assert one.woken() == [0, 1]
    assert one.beat() == [0, 1]
    assert two.woken() == [2, 3]


# Silence.


def test_a_silent_member_is_taken_out_after_its_session(node: Node) -> None:
    one = Member(node.fleet, "one").join(session_ms=SESSION_MS)
    two = Member(node.fleet, "two").join()
    settle(one, two)
    for _ in range(SESSION_MS // 500 - 1):
        node.fleet.advance(500)
        two.beat()
    assert len(described(node.fleet).members) == 2
    two.wait()
    node.fleet.wait(lambda: len(described(node.fleet).members) == 1, SESSION_MS)
    assert two.woken() == [0, 1, 2, 3]
    assert described(node.fleet).cause == "one fell silent"
    assert one.heartbeat().code == "STALE_GENERATION"
    one.join()
    settle(one, two)
    assert (sorted(one.owned), sorted(two.owned)) == ([2, 3], [0, 1])


def test_a_member_that_is_stopped_while_its_heartbeat_waits_is_missed_too(node: Node) -> None:
    Member(node.fleet, "one").join(session_ms=SESSION_MS).wait()
    node.fleet.wait(lambda: not described(node.fleet).members, 2 * SESSION_MS)


def test_a_description_has_the_time_since_the_last_heartbeat(node: Node) -> None:
    one = Member(node.fleet, "one").join()
    node.fleet.advance(1_500)
    assert described(node.fleet).members[0].heard_ms_ago == 1_500
    assert described(node.fleet).rebalanced_ms_ago == 1_500
    one.beat()
    assert described(node.fleet).members[0].heard_ms_ago == 0


def test_a_paused_coordinator_does_not_count_its_pause_as_silence(node: Node) -> None:
    Member(node.fleet, "one").join(session_ms=SESSION_MS)
    node.fleet.clock.now_ms += 10 * SESSION_MS
    node.fleet.advance(SESSION_MS - 500)
    assert len(described(node.fleet).members) == 1
    node.fleet.wait(lambda: not described(node.fleet).members, SESSION_MS)


def test_a_node_that_does_not_know_whether_it_leads_says_so(node: Node) -> None:
    one = Member(node.fleet, "one").join(session_ms=SESSION_MS)
    node.is_awake = False
    assert one.heartbeat().code == "UNAVAILABLE"
    node.fleet.advance(3 * SESSION_MS)
    node.is_awake = True
    assert len(described(node.fleet).members) == 1


# Topics.


def test_a_topic_that_grows_gives_every_member_more(node: Node) -> None:
    one, two = Member(node.fleet, "one").join(), Member(node.fleet, "two").join()
    settle(one, two)
    one.wait()
    two.wait()
    assert node.call(AlterTopic(TOPIC, 8)).code == "TopicReply"
    assert (one.woken(), two.woken()) == ([0, 1, 4, 5], [2, 3, 6, 7])
    assert described(node.fleet).cause == "the topic grew from 4 to 8 partitions"


def test_a_topic_that_is_deleted_ends_its_groups(node: Node) -> None:
    one = Member(node.fleet, "one").join().wait()
    node.call(DeleteTopic(TOPIC))
    assert one.waiting is not None
    assert one.waiting.code == "STALE_GENERATION"
    assert one.heartbeat().code == "NOT_FOUND"
    node.fleet.create(TOPIC, 2)
    assert one.heartbeat().code == "STALE_GENERATION"
    assert one.join().owned == {0: 2, 1: 2}, "generations go on"


# Failovers.


def members_of(fleet: Fleet, *names: str) -> list[Member]:
    joined = [Member(fleet, name).join(session_ms=SESSION_MS) for name in names]
    settle(*joined)
    return joined


def test_a_new_coordinator_knows_the_owners_and_gives_every_member_a_session() -> None:
    fleet = three()
    fleet.create(TOPIC, 4)
    one, two = members_of(fleet, "one", "two")
    before = (one.owned, two.owned)
    fleet.advance(SESSION_MS - 600)
    fleet.kill(fleet.controller().node)
    fleet.wait(lambda: bool(fleet.controller()))
    fleet.advance(SESSION_MS - 600)
    settle(one, two)
    assert (one.owned, two.owned) == before
    fleet.wait(lambda: not shares(fleet), 2 * SESSION_MS)


def test_heartbeats_parked_at_an_old_coordinator_are_refused() -> None:
    fleet = three()
    fleet.create(TOPIC, 4)
    (one,) = members_of(fleet, "one")
    old = fleet.controller()
    one.wait(wait_ms=60_000)
    fleet.isolate(old.node)
    assert one.waiting is not None
    waiting = one.waiting
    fleet.wait(lambda: not waiting.is_waiting)
    assert waiting.code in ("NOT_LEADER", "GroupAssignment")
    assert old.ask(Heartbeat(TOPIC, GROUP, "one", one.generation, [])).code == "NOT_LEADER"
    assert one.beat() == [0, 1, 2, 3]


def test_other_brokers_name_the_coordinator() -> None:
    fleet = three()
    fleet.create(TOPIC, 4)
    controller = fleet.controller()
    other = next(box for box in fleet.nodes.values() if box is not controller)
    for request in (
        JoinGroup(TOPIC, GROUP, "one"),
        Heartbeat(TOPIC, GROUP, "one", 0),
        LeaveGroup(TOPIC, GROUP, "one"),
        DescribeStreamGroup(TOPIC, GROUP),
        ListStreamGroups(TOPIC),
    ):
        answer = other.call(request)
        assert answer.code == "NOT_LEADER"
        assert getattr(answer.result, "address", "") == f"node{controller.node}:7600"


def test_a_stopping_node_ends_all_waits(node: Node) -> None:
    one = Member(node.fleet, "one").join().wait()
    node.broker.close()
    assert one.waiting is not None
    assert one.waiting.code == "UNAVAILABLE"


# The fence.


def test_an_owner_claims_its_partition_and_learns_where_the_group_stands(node: Node) -> None:
    node.call(Produce(TOPIC, 0, batch(b"a", b"b", b"c")))
    assert position(node, ClaimPartition(GROUP, TOPIC, 0, 1)) == NO_OFFSET
    assert position(node, CommitOffset(GROUP, TOPIC, 0, 2, epoch=1)) == 2
    assert position(node, ClaimPartition(GROUP, TOPIC, 0, 4)) == 2
    assert node.call(CommitOffset(GROUP, TOPIC, 0, 3, epoch=1)).code == "STALE_GENERATION"
    assert node.call(CommitOffset(GROUP, TOPIC, 0, 3)).code == "STALE_GENERATION"
    assert node.call(ClaimPartition(GROUP, TOPIC, 0, 3)).code == "STALE_GENERATION"
    assert position(node, ReadOffset(GROUP, TOPIC, 0)) == 2
    assert position(node, CommitOffset(GROUP, TOPIC, 0, 3, epoch=4)) == 3


def test_a_fence_survives_a_restart() -> None:
    fleet = three()
    leader = fleet.create(TOPIC)
    leader.call(Produce(TOPIC, 0, batch(b"a", b"b")))
    leader.call(ClaimPartition(GROUP, TOPIC, 0, 7))
    leader.snapshot(leader.partition(TOPIC).group)
    for box in list(fleet.nodes):
        fleet.kill(box)
    for box in list(fleet.nodes):
        fleet.restart(box)
    again = fleet.leader(TOPIC)
    assert again.call(CommitOffset(GROUP, TOPIC, 0, 1, epoch=6)).code == "STALE_GENERATION"
    assert position(again, CommitOffset(GROUP, TOPIC, 0, 1, epoch=7)) == 1


def test_a_claim_that_makes_no_sense_is_refused(node: Node) -> None:
    assert node.call(ClaimPartition(GROUP, TOPIC, 0, 0)).code == "INVALID_ARGUMENT"
    assert node.call(ClaimPartition(GROUP, TOPIC, 9, 1)).code == "NOT_FOUND"
    assert node.call(ClaimPartition("../g", TOPIC, 0, 1)).code == "INVALID_ARGUMENT"
    assert isinstance(node.call(ClaimPartition(GROUP, "missing", 0, 1)).result, FlotillaError)


# Moving and deleting a group.


def test_a_group_with_members_is_neither_fenced_nor_forgotten(node: Node) -> None:
    one = Member(node.fleet, "one").join()
    for request in (FenceGroup(TOPIC, GROUP), ForgetGroup(TOPIC, GROUP)):
        refused = node.call(request)
        assert refused.code == "GROUP_IN_USE"
        assert "one" in str(refused.result)
    one.leave()
    fenced = node.call(FenceGroup(TOPIC, GROUP)).result
    assert isinstance(fenced, GroupAssignment)
    assert (fenced.generation, fenced.partitions) == (3, [])
    assert isinstance(node.call(ForgetGroup(TOPIC, GROUP)).result, Done)
    for again in (FenceGroup(TOPIC, GROUP), ForgetGroup(TOPIC, GROUP), DescribeStreamGroup(TOPIC, GROUP)):
        assert node.call(again).code == "NOT_FOUND"


def test_a_reset_comes_after_earlier_members_and_before_later_ones(node: Node) -> None:
    node.call(Produce(TOPIC, 0, batch(b"a", b"b", b"c")))
    one = Member(node.fleet, "one").join()
    node.call(ClaimPartition(GROUP, TOPIC, 0, one.owned[0]))
    node.call(CommitOffset(GROUP, TOPIC, 0, 2, epoch=one.owned[0]))
    one.leave()
    back = Start(FROM_OFFSET, 1)
    assert node.call(ResetGroup(TOPIC, 0, GROUP, back)).code == "STALE_GENERATION", "without an epoch"
    fenced = node.call(FenceGroup(TOPIC, GROUP)).result
    assert isinstance(fenced, GroupAssignment)
    epoch = fenced.generation
    assert node.call(ResetGroup(TOPIC, 0, GROUP, back, True, epoch)).result == GroupReset(2, 1)
    assert position(node, ReadOffset(GROUP, TOPIC, 0)) == 2, "a dry run changes nothing"
    assert node.call(ResetGroup(TOPIC, 0, GROUP, back, False, epoch)).result == GroupReset(2, 1)
    # An earlier member that does not know of it moves nothing.
    assert node.call(CommitOffset(GROUP, TOPIC, 0, 3, epoch=one.owned[0])).code == "STALE_GENERATION"
    two = Member(node.fleet, "two").join()
    assert position(node, ClaimPartition(GROUP, TOPIC, 0, two.owned[0])) == 1
    # And a reset that was on its way while a member came does not move it.
    assert node.call(ResetGroup(TOPIC, 0, GROUP, back, False, epoch)).code == "STALE_GENERATION"
    # An unclaimed partition can be moved as well.
    assert node.call(ResetGroup(TOPIC, 1, GROUP, Start(FROM_OFFSET, 0), False, epoch)).result == GroupReset(0, 0)


def test_a_group_that_only_commits_offsets_is_moved_without_an_epoch(node: Node) -> None:
    node.call(Produce(TOPIC, 0, batch(b"a", b"b", b"c")))
    node.call(CommitOffset(GROUP, TOPIC, 0, 3))
    assert node.call(ResetGroup(TOPIC, 0, GROUP, Start(FROM_OFFSET, 1))).result == GroupReset(3, 1)
    assert position(node, CommitOffset(GROUP, TOPIC, 0, 2)) == 2
    assert node.call(ResetGroup(TOPIC, 0, "absent", Start(FROM_OFFSET, 1))).code == "NOT_FOUND"
