"""Which waiters are woken, and in which order."""

import pytest

from flotilla.broker.queue.waiting_room import WaitingRoom
from tests.unit.broker.fleet import Clock


class Stock:
    """Messages by group, which waiters take one at a time; a waiter is its name and how many it still wants."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.ready: dict[str, int] = {}
        self.wants: dict[str, int] = {}
        self.taken: list[str] = []
        self.offers = 0
        self.is_serving = True
        self.room: WaitingRoom[str] = WaitingRoom(
            self,  # type: ignore[arg-type]
            lambda: self.is_serving,
            self.offer,
            lambda: None,
        )

    def later(self, delay_ms: int, action: object) -> object:
        return self.clock.later(delay_ms, action)  # type: ignore[arg-type]

    def offer(self, waiter: str) -> bool:
        self.offers += 1
        group = waiter[0]
        if not self.ready.get(group):
            return False
        self.ready[group] -= 1
        self.taken.append(waiter)
        self.wants[waiter] -= 1
        if not self.wants[waiter]:
            self.room.leave(waiter, group)
        return True

    def enter(self, waiter: str, wants: int = 1) -> None:
        self.wants[waiter] = wants
        self.room.enter(waiter, waiter[0])

    def run(self) -> None:
        while (action := self.clock.pop_due()) is not None:
            action()


@pytest.fixture
def stock() -> Stock:
    return Stock()


def test_one_message_wakes_one(stock: Stock) -> None:
    for number in range(1_000):
        stock.enter(f"a{number}")
    for count in range(1, 4):
        stock.ready["a"] = 1
        stock.room.wake_soon("a")
        stock.room.wake_soon("a")
        stock.run()
        assert stock.taken == [f"a{number}" for number in range(count)]
    # One that takes, one that finds nothing, each time.
    assert stock.offers == 6


def test_a_waiter_that_took_something_goes_to_the_end(stock: Stock) -> None:
    stock.enter("a1", 3)
    stock.enter("a2", 3)
    stock.enter("a3", 1)
    stock.ready["a"] = 9
    stock.room.wake_soon()
    stock.run()
    assert stock.taken == ["a1", "a2", "a3", "a1", "a2", "a1", "a2"]
    assert not stock.room


def test_an_event_of_one_group_wakes_no_other(stock: Stock) -> None:
    stock.enter("a1")
    stock.enter("b1")
    stock.ready = {"a": 1, "b": 1}
    stock.room.wake_soon("b")
    stock.run()
    assert stock.taken == ["b1"]
    stock.room.wake_soon()
    stock.run()
    assert stock.taken == ["b1", "a1"]


def test_no_waiter_is_offered_anything_while_the_partition_may_not_serve(stock: Stock) -> None:
    stock.enter("a1")
    stock.ready["a"] = 1
    stock.is_serving = False
    stock.room.wake_soon()
    stock.run()
    assert stock.offers == 0
    stock.is_serving = True
    stock.room.wake_soon()
    stock.run()
    assert stock.taken == ["a1"]


def test_an_empty_room_needs_no_turn(stock: Stock) -> None:
    stock.room.wake_soon()
    assert stock.clock.armed_count == 0
    stock.enter("a1")
    stock.room.leave("a1", "a")
    stock.room.leave("a1", "a")
    stock.room.wake_soon()
    assert stock.clock.armed_count == 0
