"""Polls with a filter: what they get, what they leave, and how far they look."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.partition.leader.poll_filter import LOOK_AHEAD, PollFilter
from flotilla.partition.leader.ready_messages import BRANCHES_MAX
from flotilla.types.errors import CorruptionError, NotLoadedError
from flotilla.types.filters import MessageFilter
from flotilla.types.operations.queue import FAIL, RELEASE
from tests.unit.partition.leading import GROUP, Leading


@dataclass
class Typed:
    """A partition whose messages have types, by offset."""

    here: Leading = field(default_factory=Leading)
    types: list[str] = field(default_factory=list)
    looks: int = 0
    is_broken: bool = False
    #: The last offset of what can be read together; the rest is refused once.
    border: int = -1

    def append(self, *types: str, priority: int = 0) -> None:
        for kind in types:
            self.here.append(1, priority=priority)
            self.types.append(kind)

    def matching(self, wanted: MessageFilter, first: int, end: int) -> list[bool]:
        if self.is_broken:
            raise CorruptionError("cannot be read")
        if first <= self.border < end - 1:
            end = self.border + 1
        elif first == self.border + 1 and first:
            self.border = -1
            raise NotLoadedError()
        self.looks += end - first
        return [kind in wanted.types for kind in self.types[first:end]]

    def poll(self, *types: str, count: int = 100) -> list[LeasedMessages]:
        poll_filter = PollFilter(MessageFilter(types), self.matching) if types else None
        return self.here.leader.poll(GROUP, "m", count, 0, self.here.now_ms, None, poll_filter)

    def has_unseen(self, *types: str) -> bool:
        return self.here.leader.has_unseen(GROUP, PollFilter(MessageFilter(types), self.matching))


def offsets(leases: list[LeasedMessages]) -> list[int]:
    return [offset for lease in leases for offset in range(lease.first, lease.end)]


def test_only_the_filtered_types_are_leased_and_the_rest_stays_in_order() -> None:
    queue = Typed()
    queue.append("a", "b", "a", "c", "b")
    assert offsets(queue.poll("b")) == [1, 4]
    assert offsets(queue.poll("b")) == []
    found = queue.poll()
    assert offsets(found) == [0, 2, 3]
    assert {lease.attempt for lease in found} == {1}


def test_several_types_and_priorities() -> None:
    queue = Typed()
    queue.append("a", "b")
    queue.append("c", "a", priority=5)
    assert offsets(queue.poll("a", "c")) == [2, 3, 0]


def test_each_message_is_looked_at_once_for_a_filter() -> None:
    queue = Typed()
    queue.append(*["a"] * 50)
    for _ in range(10):
        assert queue.poll("b") == []
    assert queue.looks == 50
    queue.append("b")
    assert offsets(queue.poll("b")) == [50]
    assert queue.looks == 51
    # Another filter has to look by itself.
    assert queue.poll("c") == []
    assert queue.looks == 101


def test_messages_that_come_back_are_found_again() -> None:
    queue = Typed()
    queue.append("a", "b", "a", "b")
    taken = queue.poll("b", count=1)
    assert queue.poll("a", count=1)
    queue.here.settle(taken, kind=RELEASE, delay_ms=0)
    assert offsets(queue.poll("b")) == [1, 3]
    others = queue.poll()
    assert offsets(others) == [2]
    queue.here.settle(others, kind=FAIL, delay_ms=0)
    queue.here.flush()
    assert offsets(queue.poll("b")) == []
    found = queue.poll("a")
    assert [(lease.first, lease.attempt) for lease in found] == [(2, 2)]


def test_old_and_new_filters_find_delayed_messages_that_came_due() -> None:
    queue = Typed()
    assert queue.poll("a") == []
    queue.here.append(2, deliver_at_ms=queue.here.now_ms + 100)
    queue.types += ["a", "b"]
    assert queue.poll("a") == []
    queue.here.now_ms += 100
    queue.here.leader.advance(queue.here.now_ms)
    assert offsets(queue.poll("a")) == [0]
    assert offsets(queue.poll("b")) == [1]


def test_a_poll_scans_a_bounded_range_and_the_next_goes_on() -> None:
    queue = Typed()
    queue.here.append(3 * LOOK_AHEAD)
    queue.types += ["a"] * 3 * LOOK_AHEAD
    queue.append("b")
    polls = 0
    while queue.has_unseen("b"):
        found = queue.poll("b", count=1)
        polls += 1
        if found:
            break
    assert offsets(found) == [3 * LOOK_AHEAD]
    assert polls == 3
    assert queue.looks <= polls * (LOOK_AHEAD + 1)
    assert not queue.has_unseen("b")


def test_unreadable_messages_stay_ready() -> None:
    queue = Typed()
    queue.append("a", "b")
    queue.is_broken = True
    with pytest.raises(CorruptionError):
        queue.poll("b")
    queue.is_broken = False
    assert offsets(queue.poll("b")) == [1]
    assert offsets(queue.poll("a")) == [0]


def test_the_oldest_filters_are_forgotten_first() -> None:
    queue = Typed()
    queue.append("a", "b")
    for number in range(BRANCHES_MAX + 1):
        assert queue.poll(f"t{number}") == []
    looks = queue.looks
    assert queue.poll(f"t{BRANCHES_MAX}") == []
    assert queue.looks == looks
    assert queue.poll("t0") == []
    assert queue.looks == looks + 2


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_filters_share_everything_and_lose_nothing(data: st.DataObject) -> None:
    queue = Typed()
    kinds = ("a", "b", "c")
    taken: dict[int, LeasedMessages] = {}
    for _ in range(data.draw(st.integers(5, 25))):
        step = data.draw(st.sampled_from(["append", "poll", "back"]))
        if step == "append":
            new = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))
            queue.append(*new, priority=data.draw(st.integers(0, 7)))
        elif step == "poll":
            types = tuple(sorted(data.draw(st.sets(st.sampled_from(kinds)))))
            leases = queue.poll(*types, count=data.draw(st.integers(1, 5)))
            for lease in leases:
                for offset in range(lease.first, lease.end):
                    assert offset not in taken
                    assert not types or queue.types[offset] in types
                    taken[offset] = lease._replace(first=offset, end=offset + 1)
        elif taken:
            lease = taken.pop(data.draw(st.sampled_from(sorted(taken))))
            assert queue.here.settle([lease], kind=RELEASE, delay_ms=0) == []
    # Each free message is found by its type, and then none is left.
    for kind in kinds:
        found = offsets(queue.poll(kind, count=1_000))
        assert sorted(found) == [at for at, of in enumerate(queue.types) if of == kind and at not in taken]
    assert queue.poll(count=1_000) == []


def test_a_filter_that_can_look_at_a_part_goes_on_behind_it() -> None:
    queue = Typed(border=1)
    queue.append("a", "a", "a", "b", "a")
    with pytest.raises(NotLoadedError):
        queue.poll("b")
    assert queue.looks == 2
    assert offsets(queue.poll("b")) == [3]
    assert queue.looks == 5, "the part was looked at once"


def test_what_matches_in_a_part_is_leased_and_the_rest_stays_ready() -> None:
    queue = Typed(border=1)
    queue.append("a", "b", "b")
    assert offsets(queue.poll("b")) == [1]
    assert offsets(queue.poll("b")) == [2]
    assert offsets(queue.poll()) == [0]
