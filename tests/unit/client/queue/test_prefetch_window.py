"""How many messages an iterating consumer keeps: few of a slow handler's, many of a quick one's."""

import pytest

from flotilla.client.queue._prefetch_window import SPAN_MS, WINDOW_MAX, WINDOW_MIN, PrefetchWindow
from flotilla.client.queue.outcome import RELEASED
from tests.unit.client.queue_world import Member, QueueWorld


def paced(window: PrefetchWindow, per_second: int, *, begin_ms: int, handled: int, duration_ms: int) -> tuple[int, int]:
    """A handler at one pace, looked at every millisecond; returns the time and the count of handled messages."""
    end_ms = begin_ms + duration_ms
    for now_ms in range(begin_ms, end_ms + 1):
        window.follow(handled + (now_ms - begin_ms) * per_second // 1000, now_ms)
    return end_ms, handled + duration_ms * per_second // 1000


@pytest.mark.parametrize(
    ("per_second", "low", "high"),
    [
        (0, WINDOW_MIN, WINDOW_MIN),
        (1, WINDOW_MIN, WINDOW_MIN),
        (100, WINDOW_MIN, WINDOW_MIN),
        (1_000, 100, 200),
        (5_000, 500, 1_000),
        (100_000, WINDOW_MAX, WINDOW_MAX),
    ],
)
def test_the_window_holds_the_work_of_one_or_two_spans(per_second, low, high):
    window = PrefetchWindow(None, 0)
    paced(window, per_second, begin_ms=0, handled=0, duration_ms=2_000)
    assert low <= window.size <= high


def test_a_handler_that_becomes_slow_keeps_few_after_its_second_message():
    window = PrefetchWindow(None, 0)
    now_ms, handled = paced(window, 50_000, begin_ms=0, handled=0, duration_ms=1_000)
    assert window.size == WINDOW_MAX
    # What it did before it became slow still counts for the first.
    assert window.follow(handled + 1, now_ms + 1_000)
    assert window.size < WINDOW_MAX // 4
    assert window.follow(handled + 2, now_ms + 2_000)
    assert window.size == WINDOW_MIN


def test_a_quick_handler_after_a_pause_is_trusted_again():
    window = PrefetchWindow(None, 0)
    now_ms, handled = paced(window, 50_000, begin_ms=0, handled=0, duration_ms=500)
    window.follow(handled, now_ms + 60_000)
    assert window.size == WINDOW_MIN
    paced(window, 50_000, begin_ms=now_ms + 60_000, handled=handled, duration_ms=500)
    assert window.size == WINDOW_MAX


@pytest.mark.parametrize("chosen", [1, 16, 7_000])
def test_a_chosen_window_stays(chosen):
    window = PrefetchWindow(chosen, 0)
    assert not window.follow(50_000, SPAN_MS // 2)
    assert not window.follow(50_001, 10 * SPAN_MS)
    assert window.size == chosen


def handle_quickly(consumer: Member, turns: int) -> None:
    for _ in range(turns):
        taken = consumer.reader.take(WINDOW_MAX)
        consumer.ack(taken)


def test_the_window_grows_while_the_handler_is_quick():
    world = QueueWorld()
    world.produce(*[b"%d" % number for number in range(1_000)])
    consumer = world.consumer()
    consumer.flow()
    assert consumer.reader.leases.unsettled_count == WINDOW_MIN
    handle_quickly(consumer, turns=4)
    assert consumer.reader.leases.unsettled_count > 4 * WINDOW_MIN


def test_a_handler_that_becomes_slow_releases_its_excess():
    world = QueueWorld()
    world.produce(*[b"%d" % number for number in range(1_000)])
    consumer = world.consumer()
    consumer.flow()
    handle_quickly(consumer, turns=4)
    kept = consumer.reader.leases.unsettled_count
    taken = consumer.reader.take(1)
    world.pass_ms(1_000)
    consumer.ack(taken)
    assert kept > 4 * WINDOW_MIN
    assert consumer.reader.leases.unsettled_count == WINDOW_MIN
    # It does not count as an attempt, and another consumer gets them at once.
    other = world.consumer("two").poll(1_000)
    assert len(other) > kept - 2 * WINDOW_MIN
    assert {message.attempt for message in other} == {1}


def test_giving_back_is_no_work():
    world = QueueWorld()
    world.produce(*[b"%d" % number for number in range(1_000)])
    consumer = world.consumer()
    consumer.flow()
    for _ in range(8):
        consumer.ack(consumer.reader.take(WINDOW_MAX), RELEASED)
        assert consumer.reader.leases.unsettled_count == WINDOW_MIN


def test_auto_ack_has_a_small_window():
    world = QueueWorld()
    world.produce(*[b"%d" % number for number in range(1_000)])
    consumer = world.consumer(is_auto_ack=True)
    consumer.flow()
    for _ in range(8):
        assert len(consumer.reader.take(1_000)) <= WINDOW_MIN
        consumer.pump()
