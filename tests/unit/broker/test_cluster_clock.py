"""Cluster time: it follows a majority of the brokers' clocks, and the jumps of none of them."""

import pytest

from flotilla.broker.cluster_clock import (
    AGREE_MS,
    BELIEVED_MS,
    GRACE_MS,
    JUMP_MS,
    READING_MS,
    ClusterClock,
    agreed,
)
from tests.unit.broker.fleet import Fleet, single_node
from tests.unit.broker.queue_driver import TOPIC, poll, polled, store

DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS
TRUE_MS = 1_700_000_000_000


class Machine:
    """The clocks of one machine, and those of its peers."""

    def __init__(self, size: int = 1) -> None:
        self.passed_ms = 0
        self.size = size
        #: How far each clock is from the true time; node 1 is this machine. A peer that is missing is not heard.
        self.off_ms = dict.fromkeys(range(1, size + 1), 0)
        self.clock = ClusterClock(self, lambda: self.size)

    def now_ms(self) -> int:
        return TRUE_MS + self.passed_ms + self.off_ms[1]

    def uptime_ms(self) -> int:
        return self.passed_ms

    @property
    def error_ms(self) -> int:
        """Cluster time minus the true time."""
        return self.clock.now_ms() - TRUE_MS - self.passed_ms

    def exchange(self) -> None:
        for peer, off_ms in self.off_ms.items():
            if peer != 1:
                self.clock.heard(peer, TRUE_MS + self.passed_ms + off_ms)

    def run(self, ms: int, step_ms: int = 100) -> int:
        """How far cluster time went; it must not go back on the way."""
        self.exchange()
        first = last = self.clock.now_ms()
        for _ in range(ms // step_ms):
            self.passed_ms += step_ms
            self.exchange()
            now_ms = self.clock.now_ms()
            assert now_ms >= last
            last = now_ms
        return last - first


@pytest.fixture
def three() -> Machine:
    machine = Machine(3)
    machine.run(1_000)
    return machine


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_clock_passes_on_the_time_of_day(size: int) -> None:
    machine = Machine(size)
    assert machine.run(70_000) == 70_000
    assert machine.error_ms == 0
    assert machine.clock.is_trusted
    assert machine.clock.jump_count == 0


@pytest.mark.parametrize("node", [1, 2, 3])
@pytest.mark.parametrize("jump_ms", [YEAR_MS, 8 * DAY_MS, -YEAR_MS, -3_600_000])
def test_one_clock_that_jumps_changes_nothing(three: Machine, node: int, jump_ms: int) -> None:
    three.off_ms[node] += jump_ms
    three.run(10 * BELIEVED_MS)
    assert three.error_ms == 0
    assert three.clock.is_trusted
    assert three.clock.is_off == (node == 1)


@pytest.mark.parametrize("jump_ms", [8 * DAY_MS, -8 * DAY_MS])
def test_a_jump_of_the_own_clock_is_counted_once_and_so_is_the_next(three: Machine, jump_ms: int) -> None:
    three.off_ms[1] = jump_ms
    three.run(1_000)
    assert (three.clock.jump_count, three.clock.offset_ms) == (1, jump_ms)
    three.off_ms[1] = 0
    three.run(1_000)
    assert (three.clock.jump_count, three.clock.is_off) == (1, False)
    three.off_ms[1] = jump_ms
    three.run(1_000)
    assert three.clock.jump_count == 2


@pytest.mark.parametrize("jump_ms", [8 * DAY_MS, -8 * DAY_MS])
def test_two_clocks_that_disagree_move_nothing_while_the_third_is_away(three: Machine, jump_ms: int) -> None:
    del three.off_ms[3]
    three.run(2 * READING_MS)
    assert three.clock.has_agreement
    three.off_ms[2] = jump_ms
    assert three.run(10 * BELIEVED_MS) == 10 * BELIEVED_MS
    assert not three.clock.has_agreement
    assert three.clock.is_trusted


def test_a_node_that_hears_no_majority_goes_on_with_its_monotonic_clock(three: Machine) -> None:
    three.off_ms = {1: 0}
    three.run(2 * READING_MS)
    three.off_ms[1] = YEAR_MS
    assert three.run(10 * BELIEVED_MS) == 10 * BELIEVED_MS
    assert three.error_ms == 0


@pytest.mark.parametrize("wrong_ms", [YEAR_MS, -YEAR_MS])
def test_a_node_that_starts_with_a_wrong_clock_begins_with_the_time_of_the_others(wrong_ms: int) -> None:
    machine = Machine(3)
    machine.off_ms[1] = wrong_ms
    assert not machine.clock.may_lead()
    machine.run(100)
    assert machine.clock.may_lead()
    assert machine.error_ms == 0


def test_a_node_that_starts_alone_is_set_after_a_while_and_trusted_when_a_majority_confirms() -> None:
    machine = Machine(3)
    machine.off_ms = {1: -YEAR_MS}
    machine.run(GRACE_MS - 100)
    assert not machine.clock.may_lead()
    machine.run(200)
    assert machine.clock.may_lead()
    assert not machine.clock.is_trusted
    machine.off_ms = {1: -YEAR_MS, 2: 0, 3: 0}
    machine.run(1_000)
    assert machine.error_ms == 0
    assert machine.clock.is_trusted


def test_a_node_that_began_in_the_future_is_not_trusted_while_a_majority_contradicts_it() -> None:
    machine = Machine(3)
    machine.off_ms = {1: YEAR_MS}
    machine.run(GRACE_MS + 1_000)
    assert machine.clock.may_lead()
    machine.off_ms = {1: 0, 2: 0, 3: 0}
    machine.run(10 * BELIEVED_MS)
    assert not machine.clock.is_trusted


@pytest.mark.parametrize("wrong_ms", [YEAR_MS, -YEAR_MS])
def test_a_node_that_was_alone_for_long_begins_with_the_clocks_of_those_that_elect_it(wrong_ms: int) -> None:
    machine = Machine(3)
    machine.off_ms = {1: wrong_ms}
    machine.run(5 * GRACE_MS)
    machine.off_ms[2] = 0
    machine.run(100)
    assert machine.clock.may_lead()
    assert machine.error_ms == min(wrong_ms, 0)
    assert not machine.clock.is_trusted


def test_a_majority_that_is_put_right_after_a_wrong_start_takes_the_trust_away() -> None:
    machine = Machine(3)
    machine.off_ms = {1: YEAR_MS, 2: YEAR_MS, 3: 0}
    machine.run(1_000)
    assert machine.clock.is_trusted
    machine.off_ms = dict.fromkeys((1, 2, 3), 0)
    machine.run(1_000)
    assert not machine.clock.is_trusted


def test_readings_that_were_long_on_their_way_move_nothing(three: Machine) -> None:
    for number in range(600):
        three.passed_ms += 100
        late_ms = 4_000 if number % 3 else 0
        for peer in (2, 3):
            three.clock.heard(peer, TRUE_MS + three.passed_ms - late_ms)
        assert three.error_ms == 0


def test_a_node_outside_of_a_cluster_does_not_settle_for_its_own_clock() -> None:
    machine = Machine(3)
    machine.size = 0
    machine.off_ms = {1: YEAR_MS}
    machine.run(10 * GRACE_MS)
    assert not machine.clock.may_lead()
    machine.size = 3
    machine.off_ms = {1: YEAR_MS, 2: 0, 3: 0}
    machine.exchange()
    assert machine.error_ms == 0


def test_a_majority_that_stays_far_ahead_is_believed(three: Machine) -> None:
    """All machines were suspended, and their monotonic clocks did not count it."""
    three.off_ms = dict.fromkeys((1, 2, 3), 3_600_000)
    three.run(BELIEVED_MS - 2_000)
    assert three.error_ms == 0
    three.run(3_000)
    assert three.error_ms == 3_600_000
    assert three.clock.is_trusted


@pytest.mark.parametrize("off_ms", [3_000, -3_000])
def test_a_small_difference_is_slewed_by_a_tenth_at_most(three: Machine, off_ms: int) -> None:
    three.off_ms = dict.fromkeys((1, 2, 3), off_ms)
    went_ms = three.run(14_000)
    assert 0.9 * 14_000 <= went_ms <= 1.1 * 14_000 + 100
    assert (went_ms > 14_000) == (off_ms > 0)
    three.run(28_000)
    assert three.error_ms == off_ms


def test_the_clock_never_goes_back_however_much_it_may_correct() -> None:
    machine = Machine()
    for number in range(100):
        machine.off_ms[1] += 1 if number % 2 else -1
        machine.run(100)
    machine.off_ms[1] -= JUMP_MS
    machine.run(500, step_ms=1)


def test_a_node_alone_follows_no_jump_ahead_but_runs_at_double_speed_when_it_stays() -> None:
    machine = Machine()
    machine.run(1_000)
    machine.off_ms[1] = 8 * DAY_MS
    assert machine.run(BELIEVED_MS - 1_000) == BELIEVED_MS - 1_000
    went_ms = machine.run(BELIEVED_MS)
    assert went_ms <= 2 * BELIEVED_MS
    machine.off_ms[1] = 120_000
    machine.run(10 * BELIEVED_MS)
    assert machine.error_ms == 120_000


def test_a_node_alone_ages_on_when_its_clock_goes_back() -> None:
    machine = Machine()
    machine.run(1_000)
    machine.off_ms[1] = -YEAR_MS
    assert machine.run(BELIEVED_MS - 1_000) == BELIEVED_MS - 1_000
    assert machine.run(10 * BELIEVED_MS) >= 9 * BELIEVED_MS
    assert machine.clock.is_trusted


@pytest.mark.parametrize(
    ("offsets", "quorum", "expected"),
    [
        ([5], 1, 5),
        ([5], 2, None),
        ([0, YEAR_MS], 2, None),
        ([0, AGREE_MS], 2, AGREE_MS),
        ([-YEAR_MS, 3, 7], 2, 7),
        ([3, 7, YEAR_MS], 2, 7),
        ([0, AGREE_MS, AGREE_MS + 5], 2, AGREE_MS + 5),
        ([-YEAR_MS, 1, 2, 3, YEAR_MS], 3, 2),
    ],
)
def test_the_closest_majority_counts(offsets: list[int], quorum: int, expected: int | None) -> None:
    assert agreed(offsets, quorum) == expected


def test_a_clock_that_is_set_takes_no_lease_away_and_stops_no_queue() -> None:
    node = single_node()
    node.fleet.create(TOPIC)
    store(node, b"a")
    polled(node, poll(visibility_ms=10_000))
    for ahead_ms in (3_600_000, -3_600_000):
        node.fleet.wall_ahead_ms = ahead_ms
        node.fleet.advance(2_000)
        assert polled(node, poll(member="b")) == []
    node.fleet.advance(12_000)
    assert polled(node, poll(member="b"))


@pytest.mark.parametrize("wrong_ms", [YEAR_MS, -YEAR_MS])
def test_a_leader_that_starts_with_a_wrong_clock_stamps_the_time_of_the_others(wrong_ms: int) -> None:
    fleet = Fleet(3).form()
    fleet.create(TOPIC)
    for number in (1, 2, 3):
        fleet.kill(number)
    fleet.nodes[1].wall_ahead_ms = wrong_ms
    for number in (1, 2, 3):
        fleet.restart(number)
    leader = fleet.leader(TOPIC)
    store(leader, b"x")
    fleet.advance(5_000)
    for box in fleet.nodes.values():
        assert abs(box.now_ms() - fleet.clock.now_ms) < 1_000
    assert abs(leader.partition(TOPIC).machine.clock_ms - fleet.clock.now_ms) < 10_000


def test_a_broker_that_does_not_know_the_time_tells_clients_none() -> None:
    """A client keeps the time that a broker told it, and its delays begin by it."""
    fleet = Fleet(3).form()
    for number in (1, 2, 3):
        fleet.kill(number)
    fleet.nodes[1].wall_ahead_ms = -YEAR_MS
    fleet.restart(1)
    fleet.advance(2 * GRACE_MS)
    assert fleet.nodes[1].broker.now_ms() == 0
    for number in (2, 3):
        fleet.restart(number)
    fleet.advance(1_000)
    for box in fleet.nodes.values():
        assert abs(box.broker.now_ms() - fleet.clock.now_ms) < 1_000
