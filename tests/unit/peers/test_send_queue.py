"""The queue in front of a slow socket: order, bound, and what is dropped first."""

from hypothesis import given
from hypothesis import strategies as st

from flotilla.peers.send_queue import SendQueue


def test_frames_leave_in_order_and_within_the_asked_size() -> None:
    queue = SendQueue(1_000)
    for number in range(5):
        queue.push([bytes([number]) * 10], 10)
    assert queue.pop(25) == [b"\0" * 10, b"\1" * 10]
    assert queue.pop(1) == [b"\2" * 10], "one frame goes in any case"
    assert queue.pop(1_000) == [b"\3" * 10, b"\4" * 10]
    assert queue.pop(1_000) == []
    assert queue.size_bytes == 0


def test_the_oldest_frame_is_dropped() -> None:
    queue = SendQueue(25)
    for number in range(4):
        queue.push([bytes([number]) * 10], 10)
    assert (queue.dropped_count, queue.dropped_bytes, queue.size_bytes) == (2, 20, 20)
    assert queue.pop(1_000) == [b"\2" * 10, b"\3" * 10]


def test_a_frame_above_the_bound_is_dropped_itself() -> None:
    queue = SendQueue(25)
    queue.push([b"x" * 26], 26)
    assert len(queue) == 0
    assert queue.size_bytes == 0


def test_clear_counts_what_it_drops() -> None:
    queue = SendQueue(100)
    queue.push([b"ab"], 2)
    queue.clear()
    assert (len(queue), queue.size_bytes, queue.dropped_count, queue.dropped_bytes) == (0, 0, 1, 2)


@given(st.lists(st.one_of(st.integers(1, 60), st.none()), max_size=50))
def test_size_is_the_sum_of_what_is_queued_and_never_above_the_bound(steps: list[int | None]) -> None:
    queue = SendQueue(100)
    pushed = popped = 0
    for step in steps:
        if step is None:
            popped += sum(map(len, queue.pop(50)))
        else:
            queue.push([b"x" * step], step)
            pushed += step
        assert queue.size_bytes <= 100
        assert pushed == popped + queue.dropped_bytes + queue.size_bytes
