"""The core of a stream group's member, under a hand-turned clock: what it is given, what it gives up, how it stays."""

from dataclasses import dataclass, field

import pytest

from flotilla.client.stream._core import BEAT_MS, OwnedPartition, Recall, StreamMember
from flotilla.client.stream.options import StreamOptions
from flotilla.types.errors import (
    FlotillaError,
    GroupModeError,
    NotFoundError,
    StaleGenerationError,
    UnavailableError,
)
from flotilla.types.operations import EARLIEST, LATEST, AlterTopic, Request, TopicReply, TrimPartition
from flotilla.types.operations.queue import FROM_OFFSET, FROM_TIME, Start
from flotilla.types.operations.stream import ClaimPartition, Heartbeat, JoinGroup, LeaveGroup
from flotilla.types.records import Record
from tests.unit.client.stream_brokers import GROUP, TOPIC, StreamBrokers
from tests.unit.client.world import World


@dataclass
class Application:
    """The application of a member: takes over owned partitions, and gives up recalled ones."""

    world: World
    core: StreamMember
    owned: dict[int, OwnedPartition] = field(default_factory=dict)
    recalls: list[tuple[list[int], bool]] = field(default_factory=list)

    def poll(self) -> None:
        """As a consumer does between two messages."""
        self.world.run()
        while (change := self.core.take_change()) is not None:
            if isinstance(change, Recall):
                held = [partition for partition in change.partitions if partition in self.owned]
                self.recalls.append((held, change.is_lost))
                for partition in held:
                    del self.owned[partition]
                self.core.gave_up(change.partitions, self.world.now_ms)
            else:
                for owned in change:
                    assert owned.partition not in self.owned
                    self.owned[owned.partition] = owned
            self.world.run()

    @property
    def partitions(self) -> list[int]:
        return sorted(self.owned)


@pytest.fixture
def cluster() -> StreamBrokers:
    return StreamBrokers(2).form()


def member(cluster: StreamBrokers, name: str = "one", **options: object) -> Application:
    world = World(cluster, seed=len(name))
    core = StreamMember(
        world.session,
        TOPIC,
        GROUP,
        name,
        StreamOptions(**options),  # type: ignore[arg-type]
        client="test",
        news=lambda: None,
    )
    core.begin(world.now_ms)
    application = Application(world, core)
    application.poll()
    return application


def settle(*applications: Application, rounds: int = 6) -> None:
    """Every member polls now and then, and time passes."""
    for _ in range(rounds):
        for application in applications:
            application.world.pass_ms(BEAT_MS)
            application.poll()


# Joining.


def test_a_member_alone_gets_everything_and_begins_where_the_group_stands(cluster: StreamBrokers) -> None:
    cluster.fill(7)
    cluster.commit(2, 7)
    one = member(cluster)
    assert one.partitions == [0, 1, 2, 3]
    assert {owned.offset for owned in one.owned.values()} == {0, 7}
    assert one.owned[2] == OwnedPartition(2, 1, 7, is_committed=True, topic_id=1)
    assert one.owned[0] == OwnedPartition(0, 1, 0, is_committed=False, topic_id=1)
    [heartbeat] = [request for _, request in cluster.requests if isinstance(request, Heartbeat)]
    assert (heartbeat.owned, heartbeat.wait_ms) == ([0, 1, 2, 3], 10_000), "it waits for news at the coordinator"


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (Start(EARLIEST), 2),
        (Start(LATEST), 6),
        (Start(FROM_OFFSET, 4), 4),
        (Start(FROM_TIME, 103), 3),
        (Start(FROM_TIME, 900), 6),
    ],
)
def test_where_a_group_begins_that_never_committed(cluster: StreamBrokers, start: Start, expected: int) -> None:
    for number in range(6):
        cluster.produce(TOPIC, 1, Record(b"x", timestamp_ms=100 + number))
    cluster.answer(TOPIC, 1, TrimPartition(TOPIC, 1, 2))
    assert member(cluster, start=start).owned[1].offset == expected


@pytest.mark.parametrize("error", [GroupModeError("a queue group"), NotFoundError("no such topic")])
def test_a_group_that_cannot_be_joined_is_an_error_and_tried_again(
    cluster: StreamBrokers, error: FlotillaError
) -> None:
    cluster.fault = lambda node, request: error if isinstance(request, JoinGroup) else None
    one = member(cluster)
    assert [type(found) for found in one.core.errors] == [type(error)]
    assert one.core.is_idle
    cluster.fault = lambda node, request: None
    one.core.begin(one.world.now_ms)
    one.core.begin(one.world.now_ms)
    one.poll()
    assert one.partitions == [0, 1, 2, 3]
    assert cluster.count(JoinGroup) == 2


def test_a_member_is_assigned_once_it_has_claimed_all_its_partitions(cluster: StreamBrokers) -> None:
    cluster.fault = lambda node, request: (
        UnavailableError("not now") if isinstance(request, ClaimPartition) and request.partition == 3 else None
    )
    one = member(cluster)
    assert one.partitions == [0, 1, 2]
    assert not one.core.is_assigned
    cluster.fault = lambda node, request: None
    settle(one, rounds=60)
    assert one.partitions == [0, 1, 2, 3]
    assert one.core.is_assigned


# Others come and go.


def test_a_newcomer_gets_its_share_and_no_other_member_stops(cluster: StreamBrokers) -> None:
    one = member(cluster)
    two = member(cluster, "two")
    assert two.partitions == []
    one.poll()
    two.poll()
    assert len(one.partitions) == len(two.partitions) == 2
    assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3]
    assert one.recalls == [(two.partitions, False)], "what it keeps was never asked for"
    assert min(owned.epoch for owned in two.owned.values()) > max(owned.epoch for owned in one.owned.values())


def test_a_leavers_partitions_go_to_the_others(cluster: StreamBrokers) -> None:
    one, two = member(cluster), member(cluster, "two")
    settle(one, two)
    ended: list[FlotillaError | None] = []
    two.core.leave(ended.append, 1_000, two.world.now_ms)
    two.world.run()
    assert ended == [None]
    one.poll()
    assert one.partitions == [0, 1, 2, 3]
    settle(one, two, rounds=20)
    assert cluster.owners() == {"one": [0, 1, 2, 3]}, "a member that left stays away"


def test_a_member_that_never_joined_leaves_without_a_request(cluster: StreamBrokers) -> None:
    world = World(cluster)
    core = StreamMember(world.session, TOPIC, GROUP, "one", StreamOptions(), client="", news=lambda: None)
    ended: list[FlotillaError | None] = []
    core.leave(ended.append, 1_000, world.now_ms)
    assert ended == [None]
    assert cluster.count(LeaveGroup) == 0


def test_a_partition_waits_for_a_slow_application_and_heartbeats_go_on(cluster: StreamBrokers) -> None:
    one, two = member(cluster, poll_ms_max=60_000), member(cluster, "two")
    before = cluster.count(Heartbeat)
    one.world.pass_ms(10_000)
    two.poll()
    assert two.partitions == []
    assert 10 <= cluster.count(Heartbeat) - before <= 30, "often enough to be heard, no storm"
    one.poll()
    two.poll()
    assert len(two.partitions) == 2


def test_an_application_that_does_not_poll_loses_recalled_partitions(cluster: StreamBrokers) -> None:
    one, two = member(cluster, poll_ms_max=5_000), member(cluster, "two")
    one.world.pass_ms(6_000)
    two.poll()
    assert len(two.partitions) == 2
    one.poll()
    assert one.recalls == [(two.partitions, True)]
    settle(one, two)
    assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3]


def test_a_partition_assigned_and_recalled_before_the_application_looks(cluster: StreamBrokers) -> None:
    world = World(cluster)
    core = StreamMember(world.session, TOPIC, GROUP, "one", StreamOptions(), client="", news=lambda: None)
    core.begin(world.now_ms)
    world.run()
    two = member(cluster, "two")
    world.run()
    one = Application(world, core)
    one.poll()
    two.poll()
    assert len(one.partitions) == len(two.partitions) == 2
    assert one.recalls == [(two.partitions, False)]


def test_a_claim_that_is_not_answered_yet_is_given_up_without_the_application(cluster: StreamBrokers) -> None:
    held: list[Request] = []

    def hold(node: int, request: Request) -> FlotillaError | None:
        if isinstance(request, ClaimPartition) and not held_back:
            held.append(request)
            return UnavailableError("later")
        return None

    held_back: list[bool] = []
    cluster.fault = hold
    one = member(cluster)
    two = member(cluster, "two")
    settle(one, two)
    held_back.append(True)
    settle(one, two)
    assert len(one.partitions) == len(two.partitions) == 2
    assert one.recalls == []


def test_a_move_that_is_called_off_costs_nothing_but_another_claim(cluster: StreamBrokers) -> None:
    one = member(cluster)
    two = member(cluster, "two")
    two.core.leave(lambda error: None, 1_000, two.world.now_ms)
    two.world.run()
    settle(one)
    assert one.partitions == [0, 1, 2, 3]
    assert all(not is_lost for _, is_lost in one.recalls)


# Being removed.


def test_a_member_that_was_removed_gives_everything_up_and_joins_again(cluster: StreamBrokers) -> None:
    one, two = member(cluster), member(cluster, "two")
    settle(one, two)
    before = one.partitions
    cluster.remove("one")
    one.poll()
    assert one.recalls[-1] == (before, True)
    settle(one, two)
    assert len(one.partitions) == len(two.partitions) == 2
    assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3]


def test_a_removed_member_gets_no_assignment_before_it_has_seen_the_loss(cluster: StreamBrokers) -> None:
    one = member(cluster)
    cluster.remove("one")
    one.world.pass_ms(3_000)
    one.poll()
    assert one.recalls == [([0, 1, 2, 3], True)]
    settle(one)
    assert one.partitions == [0, 1, 2, 3]
    assert min(owned.epoch for owned in one.owned.values()) > 1


def test_a_partition_that_refuses_our_epoch_is_lost(cluster: StreamBrokers) -> None:
    one = member(cluster)
    one.core.lost(2, one.owned[2].epoch - 1, one.world.now_ms)
    assert not one.core.changes, "that was about an earlier time"
    one.core.lost(2, one.owned[2].epoch, one.world.now_ms)
    one.poll()
    assert one.recalls == [([2], True)]
    settle(one)
    assert one.partitions == [0, 1, 2, 3], "the coordinator says that it is ours, so it is claimed again"


def test_a_lost_partition_says_nothing_about_recalled_ones(cluster: StreamBrokers) -> None:
    one = member(cluster)
    member(cluster, "two")
    one.world.run()
    lost, asked = sorted(set(range(4)) - set(cluster.owners()["one"]))
    one.core.lost(lost, one.owned[lost].epoch, one.world.now_ms)
    one.poll()
    assert sorted(one.recalls) == [([lost], True), ([asked], False)]


def test_giving_up_an_earlier_epoch_changes_nothing(cluster: StreamBrokers) -> None:
    one = member(cluster)
    one.core.gave_up({0: one.owned[0].epoch - 1, 9: 1}, one.world.now_ms)
    one.world.run()
    last = [request for _, request in cluster.requests if isinstance(request, Heartbeat)][-1]
    assert last.owned == [0, 1, 2, 3]


def test_a_claim_that_is_refused_is_asked_for_again(cluster: StreamBrokers) -> None:
    cluster.claim(1, epoch=2)
    one = member(cluster)
    assert one.partitions == [0, 2, 3]
    assert not one.core.errors
    # A rebalance makes a later epoch.
    two = member(cluster, "two")
    settle(one, two)
    assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3]


def test_a_topic_that_is_gone_ends_it(cluster: StreamBrokers) -> None:
    one = member(cluster)
    cluster.fault = lambda node, request: NotFoundError("gone") if isinstance(request, Heartbeat) else None
    one.world.pass_ms(10_000)
    one.poll()
    assert one.recalls == [([0, 1, 2, 3], True)]
    assert [type(error) for error in one.core.errors] == [NotFoundError]


# The coordinator.


def test_another_coordinator_is_found_and_nothing_moves() -> None:
    cluster = StreamBrokers(3).form()
    one = member(cluster)
    first = cluster.fleet.controller().node
    one.world.kill(first)
    settle(one, rounds=12)
    asked = [node for node, request in cluster.requests if isinstance(request, Heartbeat)]
    assert asked[0] == first
    assert asked[-1] == cluster.fleet.controller().node != first
    assert one.recalls == []
    assert one.partitions == [0, 1, 2, 3]


def test_without_a_coordinator_everything_goes_on(cluster: StreamBrokers) -> None:
    one = member(cluster, timeout_ms=1_000)
    cluster.fault = lambda node, request: UnavailableError("absent") if isinstance(request, Heartbeat) else None
    one.world.pass_ms(40_000)
    one.poll()
    assert one.recalls == []
    assert not one.core.errors
    cluster.fault = lambda node, request: None
    settle(one)
    assert one.partitions == [0, 1, 2, 3]


def test_a_stale_answer_after_leaving_changes_nothing(cluster: StreamBrokers) -> None:
    one = member(cluster)
    cluster.fault = lambda node, request: StaleGenerationError("gone") if isinstance(request, Heartbeat) else None
    one.core.leave(lambda error: None, 1_000, one.world.now_ms)
    one.world.pass_ms(5_000)
    assert cluster.count(JoinGroup) == 1


def test_every_member_has_a_share_while_members_come_and_go(cluster: StreamBrokers) -> None:
    assert isinstance(cluster.fleet.controller().call(AlterTopic(TOPIC, 12)).result, TopicReply)
    applications = [member(cluster, name) for name in ("one", "two", "three")]
    settle(*applications)
    assert [len(application.partitions) for application in applications] == [4, 4, 4]
    cluster.remove("two")
    fourth = member(cluster, "four")
    settle(*applications, fourth)
    parts = [application.partitions for application in (*applications, fourth)]
    assert sorted(number for part in parts for number in part) == list(range(12))
    assert [len(part) for part in parts] == [3, 3, 3, 3]
