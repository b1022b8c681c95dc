"""When delayed messages come due: the histogram counts each message that waits for a time, and no other."""

from flotilla.partition.commands.partition_commands import CancelRecords
from flotilla.partition.explain.waiting import due_times
from flotilla.types.operations.queue import FAIL
from flotilla.types.operations.waiting import DUE_EDGES_MS
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
    assert shown(here, "") == {60_000: 3}


def test_beyond_the_bound_it_extrapolates() -> None:
    here = Leading()
    for number in range(100):
        here.append(1, deliver_at_ms=here.now_ms + 60_000 + number)
    found = due_times(here.leader, here.log.machine, GROUP, here.now_ms, 30)
    assert found.is_estimated
    assert sum(found.counts) == 100
