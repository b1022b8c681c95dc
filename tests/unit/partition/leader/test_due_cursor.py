"""Many messages are due at once: each call reads a bounded number, and all are delivered once, by priority.

What is counted is work, not time: stretches that were looked at and runs that were made ready, in one call.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.partition.commands.partition_commands import TrimTo
from flotilla.partition.leader import delays, due_cursor, group_delivery
from flotilla.partition.leader.delays import Delays
from flotilla.partition.leader.due_cursor import DUE_LIMIT
from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.partition.leader.poll_filter import PollFilter
from flotilla.partition.leader.ready_messages import ReadyMessages
from flotilla.partition.state.batch_index import BatchIndex
from flotilla.types.filters import MessageFilter
from flotilla.types.operations.queue import ACK, FAIL, RELEASE, LeaseRange
from tests.unit.partition.leading import GROUP, RULES, Leading, offsets

MANY = 3 * DUE_LIMIT + 7
DUE_MS = 10_000


@dataclass
class Work:
    """What the queue has done since it was asked last."""

    counts: dict[str, int] = field(default_factory=dict)

    def count(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        original = getattr(owner, name)

        def counted(*args: object) -> object:
            self.counts[name] = self.counts.get(name, 0) + 1
            return original(*args)

        monkeypatch.setattr(owner, name, counted)

    def take(self) -> int:
        """The most of any kind."""
        most = max(self.counts.values(), default=0)
        self.counts.clear()
        return most


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    work = Work()
    work.count(monkeypatch, ReadyMessages, "put_due")
    work.count(monkeypatch, ReadyMessages, "first_free")
    work.count(monkeypatch, Delays, "_due_stretch")
    work.count(monkeypatch, BatchIndex, "next_due")
    return work


def append_many(here: Leading, count: int = MANY, *, priority: int = 0) -> list[int]:
    """Each with a time of its own, in no order; all of them before DUE_MS. Their offsets in the order of times."""
    times_ms = [DUE_MS - number for number in range(count)]
    Random(7).shuffle(times_ms)
    found = [(time_ms, here.append(1, priority=priority, deliver_at_ms=time_ms)) for time_ms in times_ms]
    return [offset for _, offset in sorted(found)]


def advance(here: Leading) -> bool:
    """One call of `advance`, if there is anything to do now."""
    if here.leader.next_event_ms(here.now_ms) != here.now_ms:
        return False
    here.leader.advance(here.now_ms)
    return True


def advance_all(here: Leading) -> int:
    """All that are needed."""
    count = 0
    while advance(here):
        count += 1
        assert count < 10_000, "there is always more to do"
    return count


def due_long_ago(*, is_seen: bool = False) -> Leading:
    """Everything came due, and the leader knows it. No group does, or with `is_seen` the one that is there."""
    here = Leading()
    append_many(here)
    if is_seen:
        assert here.poll() == []
    here.now_ms = DUE_MS
    advance_all(here)
    return here


# A bounded part in each call.


def test_many_due_messages_come_in_bounded_steps_and_in_the_order_of_times(work: Work) -> None:
    here = Leading()
    by_time = append_many(here)
    assert here.poll() == []
    here.now_ms = DUE_MS
    seen: list[int] = []
    for number in range(1, 5):
        work.take()
        assert advance(here)
        assert work.take() <= delays._DUE_LIMIT
        due = min(number * delays._DUE_LIMIT, MANY)
        described = here.describe()
        assert (described.ready + described.leased, described.delayed) == (due, MANY - due)
        found = offsets(here.poll(1_000))
        assert sorted(seen + found) == sorted(by_time[:due])
        seen += found
    advance_all(here)
    assert here.poll() == []


def test_the_first_poll_of_a_group_reads_what_it_needs(work: Work) -> None:
    here = due_long_ago()
    work.take()
    assert offsets(here.poll(5)) == [0, 1, 2, 3, 4]
    assert work.take() <= 20
    assert here.describe().ready == MANY - 5
    assert offsets(here.poll(1_000)) == list(range(5, 1_005))


@pytest.mark.parametrize("is_new_leader", [False, True])
def test_a_group_that_is_behind_reads_on_in_bounded_steps(work: Work, is_new_leader: bool) -> None:
    here = due_long_ago(is_seen=True)
    if is_new_leader:
        here.change_leader()
    here.open("late")
    firsts = {group: offsets(here.poll(1, group=group)) for group in (GROUP, "late")}
    count = 0
    work.take()
    while count < 100 and advance(here):
        # Of both groups together: more groups take more steps.
        assert work.take() <= 2 * DUE_LIMIT
        count += 1
    assert count == 2 * ((MANY - 1) // DUE_LIMIT + 1)
    for group, first in firsts.items():
        assert len(first) == 1
        assert sorted(first + offsets(here.poll(2 * MANY, group=group))) == list(range(MANY))


def test_a_poll_finds_messages_after_many_settled_ones(work: Work) -> None:
    """An unacked message holds the floor; a new leader skips all acked messages after it."""
    here = due_long_ago()
    stuck, *others = split(here.poll(MANY - 3))
    here.settle(others)
    here.flush()
    here.change_leader()
    work.take()
    assert offsets(here.poll(2)) == [stuck.first, MANY - 3]
    assert work.take() <= 20


def split(leases: list[LeasedMessages]) -> list[LeaseRange]:
    return [LeaseRange(each.lease_id, offset, offset + 1) for each in leases for offset in range(each.first, each.end)]


def test_one_stretch_in_many_parts_is_read_in_bounded_steps(work: Work) -> None:
    here = Leading()
    here.append(4 * DUE_LIMIT, deliver_at_ms=DUE_MS)
    here.pass_ms(DUE_MS)
    here.settle(split(here.poll(4 * DUE_LIMIT))[1::2])
    here.flush()
    here.change_leader()
    work.take()
    assert offsets(here.poll(3)) == [0, 2, 4]
    assert work.take() <= 20
    for _ in range(2):
        assert advance(here)
        assert work.take() <= DUE_LIMIT + 20
    assert advance_all(here) == 0
    assert offsets(here.poll(4 * DUE_LIMIT)) == list(range(6, 4 * DUE_LIMIT, 2))


def test_a_poll_that_finds_nothing_is_to_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that has looked at enough in vain ends; later calls of `advance` read on until something is ready."""
    monkeypatch.setattr(due_cursor, "_LOOKS_MAX", 10)
    monkeypatch.setattr(due_cursor, "_SKIPS_MAX", 1)
    here = Leading()
    for number in range(100):
        here.append(1, deliver_at_ms=50_000 + number)
    here.append(1, deliver_at_ms=DUE_MS)
    here.pass_ms(DUE_MS)
    here.open("late")
    assert here.poll(group="late") == []
    answers = []
    while here.leader.next_event_ms(here.now_ms) == here.now_ms and len(answers) < 100:
        answers.append(here.leader.advance(here.now_ms))
    assert answers == [False] * 9 + [True]
    assert offsets(here.poll(group="late")) == [100]


def test_retries_come_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_delivery, "_EXPIRE_LIMIT", 3)
    here = Leading()
    here.append(10)
    for held in split(here.poll()):
        here.settle([held], RELEASE, delay_ms=100 + held.first)
    here.now_ms += 1_000
    found = []
    while advance(here):
        found.append(len(offsets(here.poll())))
    assert found == [3, 3, 3, 1]


def test_a_filter_begins_with_all_that_is_ready_without_looking_through_it(work: Work) -> None:
    here = due_long_ago()
    here.append(2)
    here.settle(here.poll(4), RELEASE, delay_ms=0)
    advance_all(here)
    work.take()
    poll_filter = PollFilter(MessageFilter(("a",)), lambda _, first, end: [True] * (end - first))
    assert offsets(here.leader.poll(GROUP, "m", 3, 0, here.now_ms, None, poll_filter)) == [0, 1, 2]
    assert work.take() <= 20
    rest = offsets(here.leader.poll(GROUP, "m", 2 * MANY, 0, here.now_ms, None, poll_filter))
    assert sorted(rest) == list(range(3, 3 + len(rest)))
    assert sorted(rest + offsets(here.poll(2 * MANY))) == list(range(3, MANY + 2))


def test_a_group_that_was_reset_while_it_read_starts_again() -> None:
    here = due_long_ago()
    here.poll(5)
    assert here.leader.next_event_ms(here.now_ms) == here.now_ms
    here.reset(MANY - 2)
    assert advance_all(here) == 1
    assert offsets(here.poll()) == [MANY - 2, MANY - 1]
    assert advance_all(here) == 0


def test_a_group_that_was_deleted_reads_no_more() -> None:
    here = due_long_ago()
    here.poll(5)
    here.delete()
    assert advance_all(here) == 1


# In the right order.


@pytest.mark.parametrize("is_seen", [False, True])
def test_higher_priorities_come_first_however_much_is_due(is_seen: bool) -> None:
    """For a group that finds everything due, and for one that was there before."""
    here = Leading()
    if is_seen:
        assert here.poll() == []
    append_many(here)
    high = [here.append(1, priority=7, deliver_at_ms=DUE_MS - MANY - number) for number in range(3)]
    middle = [here.append(1, priority=3, deliver_at_ms=DUE_MS)]
    here.now_ms = DUE_MS
    while here.leader.delays.next_due_ms() is not None:
        here.leader.advance(here.now_ms)
    assert offsets(here.poll(3)) == high
    assert offsets(here.poll(1)) == middle
    assert len(offsets(here.poll(1_000))) == 1_000


def test_a_high_priority_that_comes_due_overtakes_unread_messages() -> None:
    here = due_long_ago()
    here.poll(1)
    newest = here.append(1, priority=5, deliver_at_ms=DUE_MS)
    assert offsets(here.poll(1)) == [newest]


def test_messages_that_are_trimmed_while_a_group_reads_are_skipped() -> None:
    here = due_long_ago()
    here.poll(5)
    here.log.command(TrimTo(MANY - 10, here.now_ms))
    advance_all(here)
    assert offsets(here.poll(2 * MANY)) == list(range(MANY - 10, MANY))


def test_only_stretches_that_all_groups_have_read_are_dropped() -> None:
    here = due_long_ago(is_seen=True)
    known = here.leader.delays
    here.poll(5)
    here.leader._forget_due()
    assert len(known) == MANY - 5
    advance_all(here)
    here.leader._forget_due()
    assert len(known) == 0
    assert len(offsets(here.poll(2 * MANY))) == MANY - 5


# Nothing early, nothing twice, nothing left: whatever the bounds are.


steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3), st.sampled_from([0, 0, 4, 7]), st.integers(0, 40)),
    st.tuples(st.just("poll"), st.integers(1, 4)),
    st.tuples(st.just("pass"), st.integers(0, 30)),
    st.tuples(st.just("settle"), st.sampled_from([FAIL, RELEASE, ACK]), st.integers(0, 10)),
    st.tuples(st.just("lead")),
    st.tuples(st.just("trim"), st.integers(0, 3)),
)


@dataclass
class Life:
    """One group that is polled, and what its member knows."""

    here: Leading = field(default_factory=lambda: Leading(rules=replace(RULES, max_deliveries=1_000)))
    due_ms: dict[int, int] = field(default_factory=dict)
    out: dict[int, LeaseRange] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)

    def append(self, count: int, priority: int, delay_ms: int) -> None:
        deliver_at_ms = self.here.now_ms + delay_ms - 10
        first = self.here.append(count, priority=priority, deliver_at_ms=deliver_at_ms)
        self.due_ms |= dict.fromkeys(range(first, first + count), deliver_at_ms)

    def poll(self, count: int) -> bool:
        leases = self.here.poll(count, visibility_ms=1_000_000)
        for held in split(leases):
            assert held.first not in self.out, f"{held.first} is out twice"
            assert held.first not in self.done, f"{held.first} was done"
            assert self.due_ms[held.first] <= self.here.now_ms, f"{held.first} came early"
            self.out[held.first] = held
        return bool(leases)

    def settle(self, kind: int, delay_ms: int) -> None:
        for offset in sorted(self.out)[::2]:
            assert not self.here.settle([self.out.pop(offset)], kind, delay_ms=delay_ms)
            if kind == ACK:
                self.done.add(offset)
        self.here.flush()

    def lead(self) -> None:
        self.here.change_leader()
        self.out.clear()

    def trim(self, count: int) -> None:
        log_start = min(self.here.log.machine.log_start + count, self.here.log.machine.next_offset)
        self.here.log.command(TrimTo(log_start, self.here.now_ms))
        for offset in [each for each in self.due_ms if each < log_start]:
            del self.due_ms[offset]
            self.out.pop(offset, None)

    def finish(self) -> None:
        self.here.pass_ms(1_000)
        for _ in range(1_000):
            if not self.poll(3) and not advance(self.here):
                break
        assert set(self.due_ms) <= set(self.out) | self.done
        described = self.here.describe()
        assert (described.ready, described.delayed) == (0, 0)


@settings(max_examples=150)
@given(st.lists(steps, max_size=40), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_whatever_happens_all_come_and_none_twice(
    walk: list[tuple[object, ...]], due_limit: int, looks_max: int, skips_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delays, "_DUE_LIMIT", due_limit)
        patch.setattr(due_cursor, "_LOOKS_MAX", looks_max)
        patch.setattr(due_cursor, "_SKIPS_MAX", skips_max)
        life = Life()
        ways: dict[object, Callable[..., object]] = {
            "append": life.append,
            "poll": life.poll,
            "pass": life.here.pass_ms,
            "settle": life.settle,
            "lead": life.lead,
            "trim": life.trim,
        }
        for name, *said in walk:
            ways[name](*said)
        life.finish()
