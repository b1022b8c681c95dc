"""When delayed messages come due: the histogram counts each message that waits for a time, and no other."""

from flotilla.partition.commands.partition_commands import CancelRecords, DeliverNow, TrimTo
from flotilla.partition.explain.waiting import delayed_messages, due_times
from flotilla.types.operations.queue import FAIL
from flotilla.types.operations.waiting import DUE_EDGES_MS, DelayedMessages, DelayedPlace, ListDelayed, delayed_page
from tests.unit.partition.leading import GROUP, Leading


def shown(here: Leading, group: str = GROUP, looks_max: int = 1_000) -> dict[int, int]:
    """Messages by the end of their bucket; 0: it has none."""
    found = due_times(here.leader, here.log.machine, group, here.now_ms, looks_max)
    assert len(found.counts) == len(DUE_EDGES_MS) + 1
    return {edge: count for edge, count in zip((*DUE_EDGES_MS, 0), found.counts, strict=True) if count}


def test_messages_are_counted_by_their_time_from_now() -> None:
    here = Leading()
    here.append(1)
    for count, delay_ms in ((2, 60_000), (3, 60_001), (4, 90 * 86_400_000)):
        here.append(count, deliver_at_ms=here.now_ms + delay_ms)
    assert shown(here) == shown(here, "") == {60_000: 2, 300_000: 3, 0: 4}
    here.pass_ms(50_000)
    assert shown(here) == {10_000: 2, 60_000: 3, 0: 4}
    here.pass_ms(10_001)
    assert shown(here) == {0: 4}


def test_a_group_counts_its_retries_and_not_what_is_settled() -> None:
    here = Leading()
    here.set(nack_backoff_ms=300_000, nack_backoff_max_ms=300_000)
    here.append(1)
    here.append(3, deliver_at_ms=here.now_ms + 60_000)
    here.settle(here.poll(), FAIL, reason="no")
    here.flush()
    here.log.command(CancelRecords((1, 2), here.now_ms))
    retry_ms = here.explain(0).remaining_ms
    assert retry_ms > 60_000
    assert shown(here) == {60_000: 1, 300_000: 1}
    assert shown(here, "") == {60_000: 1}


def test_beyond_the_bound_it_extrapolates() -> None:
    here = Leading()
    for number in range(100):
        here.append(1, deliver_at_ms=here.now_ms + 60_000 + number)
    found = due_times(here.leader, here.log.machine, GROUP, here.now_ms, 30)
    assert found.is_estimated
    assert sum(found.counts) == 100


def listed(
    here: Leading, group: str = GROUP, *, limit: int = 100, after: str = "", looks_max: int = 1_000
) -> DelayedMessages:
    place = DelayedPlace.parse(after).after(0) if after else (0, 0)
    request = ListDelayed("t", 0, group, limit, *place)
    return delayed_messages(here.leader, here.log.machine, request, here.now_ms, looks_max)


def places(found: DelayedMessages) -> list[tuple[int, int]]:
    return [(each.due_ms, each.offset) for each in found.messages]


def test_delayed_messages_are_listed_by_their_time_page_by_page() -> None:
    here = Leading()
    here.append(1)
    for count, delay_ms in ((3, 60_000), (2, 5_000), (1, 60_000), (1, 90_000)):
        here.append(count, deliver_at_ms=here.now_ms + delay_ms)
    expected = [(6_000, 4), (6_000, 5), (61_000, 1), (61_000, 2), (61_000, 3), (61_000, 6), (91_000, 7)]
    assert places(listed(here)) == places(listed(here, "")) == expected
    found, after = [], ""
    while True:
        page = delayed_page({0: listed(here, limit=2, after=after)}, 2)
        found += [(each.due_ms, each.offset) for _, each in page.messages]
        after = page.next
        if not after:
            break
    assert found == expected
    assert not page.is_cut


def test_a_list_has_retries_with_their_reason_and_nothing_that_ended_or_is_due() -> None:
    here = Leading()
    here.set(nack_backoff_ms=30_000, nack_backoff_max_ms=30_000)
    here.append(2)
    here.append(6, deliver_at_ms=here.now_ms + 60_000)
    here.settle(here.poll(1), FAIL, reason="no stock")
    here.flush()
    here.log.command(CancelRecords((3,), here.now_ms))
    due = here.log.command(DeliverNow((2, 6), here.now_ms))
    here.leader.due_now(due)
    retry, *others = listed(here).messages
    assert (retry.offset, retry.attempts, retry.reason) == (0, 1, "no stock")
    assert [(each.due_ms, each.offset, each.attempts) for each in others] == [(61_000, each, 0) for each in (4, 5, 7)]
    assert places(listed(here, "")) == [(61_000, 4), (61_000, 5), (61_000, 7)]
    # Of a stretch that is trimmed in part, the rest is listed.
    here.log.command(TrimTo(5, here.now_ms))
    assert places(listed(here)) == [(61_000, 5), (61_000, 7)]
    here.pass_ms(60_000)
    assert places(listed(here)) == []


def test_a_list_of_too_many_says_that_it_is_cut() -> None:
    here = Leading()
    for number in range(50):
        here.append(1, deliver_at_ms=here.now_ms + 60_000 - number)
    found = listed(here, looks_max=10)
    assert ([each.offset for each in found.messages], found.is_cut) == (list(range(49, 39, -1)), True)
    assert not listed(here, looks_max=50).is_cut


def test_a_page_of_several_partitions_goes_on_behind_its_last_message() -> None:
    here, there = Leading(), Leading()
    for leading in (here, there):
        leading.append(3, deliver_at_ms=7_000)
        leading.append(1, deliver_at_ms=5_000)
    found, after = [], ""
    for _ in range(20):
        place = DelayedPlace.parse(after) if after else None
        parts = {}
        for number, leading in ((0, here), (4, there)):
            begin = place.after(number) if place else (0, 0)
            request = ListDelayed("t", number, GROUP, 3, *begin)
            parts[number] = delayed_messages(leading.leader, leading.log.machine, request, leading.now_ms)
        page = delayed_page(parts, 3)
        found += [(each.due_ms, number, each.offset) for number, each in page.messages]
        after = page.next
        if not after:
            break
    assert found == sorted(found)
    later = [(7_000, number, offset) for number in (0, 4) for offset in range(3)]
    assert found == [(5_000, 0, 3), (5_000, 4, 3), *later]
