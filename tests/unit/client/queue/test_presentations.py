"""Presentations of leases to a new leader: it delivers again when all members have promised that these are all."""

from flotilla.client.queue._presentations import _PROMISE_MS
from flotilla.client.queue.outcome import RELEASED, Outcome
from flotilla.types.errors import UnavailableError
from flotilla.types.operations import Fetch, Fetched
from flotilla.types.operations.queue import FAIL, Delivery, Extend, Polled, Settle
from flotilla.types.timing import Timing
from tests.unit.client.queue.test_core import many
from tests.unit.client.queue_world import Member, QueueWorld, payloads

#: More than requests take here, and far below the grace period.
_SOON_MS = 100


def _presented(world: QueueWorld) -> list[tuple[str, list[tuple[int, int]], int]]:
    return [
        (request.member, [run[1:] for run in request.leases], request.presented_term)
        for request in world.requests(Extend)
    ]


def _fail_over(world: QueueWorld) -> None:
    world.kill(1)


def _two_members(messages: int = 5) -> tuple[QueueWorld, Member, Member]:
    world = QueueWorld(nodes=3)
    world.produce(*many(messages))
    return world, world.consumer("one"), world.consumer("two")


def test_delivery_goes_on_as_soon_as_all_members_have_presented_their_leases() -> None:
    world, one, two = _two_members()
    held = one.poll(2)
    assert two.ack(two.poll(1)) is None
    _fail_over(world)
    assert payloads(two.poll(wait_ms=_SOON_MS + 1_000)) == many(2, first=3)
    assert one.ack(held) is None
    assert world.describe().failed_total == 0
    term = world.cluster.term("orders")
    assert [each for each in _presented(world) if each[2]] == [("one", [(0, 2)], term), ("two", [], term)]


def test_a_member_whose_first_poll_is_parked_presents_too() -> None:
    world = QueueWorld(nodes=3)
    one, two = world.consumer("one"), world.consumer("two")
    for each in (one, two):
        each.reader.want(1, world.now_ms + 60_000, world.now_ms)
    world.run()
    _fail_over(world)
    world.pass_ms(1_000)
    assert sorted(member for member, _, term in _presented(world) if term) == ["one", "two"]


def test_a_member_that_does_not_come_is_awaited_for_the_grace_period() -> None:
    world, one, two = _two_members()
    held = one.poll(2)
    two.ack(two.poll(1))
    world.cluster.fault = lambda node, request: (
        UnavailableError("cut off") if isinstance(request, Extend) and request.member == "one" else None
    )
    began_ms = world.now_ms
    _fail_over(world)
    assert payloads(two.poll(wait_ms=10_000)) == many(2) + many(2, first=3)
    assert world.now_ms - began_ms >= Timing().grace_ms
    assert len(held) == 2


def test_a_delivery_of_a_deposed_leader_is_dropped() -> None:
    world, one, _ = _two_members()
    held = one.poll(1)
    _fail_over(world)
    world.pass_ms(_SOON_MS)
    fetched = world.cluster.answer("orders", 0, Fetch("orders", 0, 0, 1_000))
    assert isinstance(fetched, Fetched)
    (batch,) = fetched.batches
    one.reader._arrived(Polled([Delivery(0, 1 << 40 | 9, 0, 5, 1, batch, 1)]))
    assert one.reader.take(9) == []
    assert one.reader.leases.unsettled_count == len(held)
    # What is delivered at most once has no lease, and nobody delivers it again.
    one.reader._arrived(Polled([Delivery(0, 0, 0, 5, 1, batch, 1)]))
    assert payloads(one.reader.take(9)) == many(5)


def test_a_promise_waits_for_settlements_in_flight_and_includes_those_that_wait() -> None:
    world, one, _ = _two_members()
    first, second, third = one.poll(3)
    is_stuck = True
    world.cluster.fault = lambda node, request: (
        UnavailableError("stuck") if is_stuck and isinstance(request, Settle) else None
    )
    acked = one.settle([first])
    one.pump()
    _fail_over(world)
    world.pass_ms(_SOON_MS)
    assert [each for each in _presented(world) if each[2]] == []
    failed = one.settle([second], Outcome(FAIL, "no", 0))
    one.pump()
    assert failed == []
    is_stuck = False
    world.pass_ms(_PROMISE_MS - 2 * _SOON_MS)
    (promise,) = [each for each in _presented(world) if each[2]]
    assert promise[1] == [(1, 3)]
    assert (acked, failed) == ([None], [None])
    assert world.describe().leased == 1
    assert one.ack([third]) is None


def test_settlements_do_not_wait_for_a_promise_for_long() -> None:
    world, one, _ = _two_members()
    first, second = one.poll(2)
    world.cluster.fault = lambda node, request: (
        UnavailableError("stuck") if isinstance(request, Settle) and request.leases[0].first == 0 else None
    )
    one.settle([first])
    one.pump()
    _fail_over(world)
    world.pass_ms(_SOON_MS)
    released = one.settle([second], RELEASED)
    one.pump()
    assert released == []
    world.pass_ms(_PROMISE_MS + _SOON_MS)
    assert released == [None]
    assert [each for each in _presented(world) if each[2]] == []
