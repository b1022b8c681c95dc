"""Rate limits: one bucket for a topic, for all its partitions and leaders."""

from collections.abc import Callable

import pytest

from flotilla.broker.queue.rate_limit import LASTS_MS, TokenShares
from flotilla.types.errors import FlotillaError, UnavailableError
from flotilla.types.operations import EARLIEST, LATEST, AlterTopic, Reply
from flotilla.types.operations.queue import (
    FROM_EARLIEST,
    FROM_OFFSET,
    AlterGroup,
    Start,
    Subscribe,
    TakeTokens,
    TokensGranted,
)
from tests.unit.broker.fleet import Clock, Fleet, Node, single_node, three
from tests.unit.broker.queue_driver import GROUP, TOPIC, deliveries, poll, polled, store, values


def delivered(node: Node, ms: int, step_ms: int = 100) -> list[int]:
    """A subscriber with much credit: how many messages it has by the end of each step."""
    answer = node.call(Subscribe(TOPIC, GROUP, "s", credit=10_000))
    counts = []
    for _ in range(ms // step_ms):
        node.fleet.advance(step_ms)
        counts.append(len(values(deliveries(answer))))
    return counts


def check_pace(counts: list[int], per_second: float, burst: int, step_ms: int = 100) -> None:
    """Never more than burst and rate allow in any window, and not much less either."""
    times = [step_ms * (place + 1) for place in range(len(counts))]
    before = [0, *counts]
    for place, start in enumerate(before):
        for later in range(place, len(counts)):
            window_ms = times[later] - (times[place - 1] if place else 0)
            assert counts[later] - start <= burst + per_second * window_ms / 1000 + 1, (place, later)
    assert counts[-1] >= 0.7 * per_second * times[-1] / 1000


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_limit_holds_over_all_partitions(partitions: int) -> None:
    node = single_node()
    node.fleet.create(TOPIC, partitions, rate_limit_per_minute="600", rate_limit_burst="5")
    for partition in range(partitions):
        node.fleet.leader(TOPIC, partition)
        for _ in range(20):
            store(node, *[b"x"] * 10, partition=partition)
    check_pace(delivered(node, 10_000), 10, 5)


def test_a_limit_below_one_a_second() -> None:
    node = single_node()
    node.fleet.create(TOPIC, rate_limit_per_minute="20")
    store(node, *[b"x"] * 10)
    counts = delivered(node, 20_000, step_ms=500)
    assert counts[-1] in (7, 8)
    check_pace(counts, 1 / 3, 1, step_ms=500)


def test_a_waiting_poll_waits_for_tokens_and_an_empty_one_says_how_long() -> None:
    node = single_node()
    node.fleet.create(TOPIC, rate_limit_per_minute="6")
    store(node, b"a", b"b")
    first = node.ask(poll(wait_ms=5_000))
    node.fleet.advance(200)
    assert values(deliveries(first)) == [b"a"]
    empty = node.call(poll()).result
    assert 0 < empty.retry_after_ms <= 10_000  # type: ignore[union-attr]
    waiting = node.ask(poll(wait_ms=60_000))
    node.fleet.advance(9_000)
    assert waiting.is_waiting
    node.fleet.advance(2_000)
    assert values(deliveries(waiting)) == [b"b"]


def test_a_failover_never_delivers_more_than_the_limit() -> None:
    fleet = three()
    fleet.create(TOPIC, rate_limit_per_minute="600", rate_limit_burst="10")
    old = fleet.leader(TOPIC)
    store(old, *[b"x"] * 1_000)
    began_ms = fleet.clock.now_ms
    before = delivered(old, 3_000)[-1]
    fleet.isolate(old.node)
    new = _other_leader(fleet, old)
    after = delivered(new, 5_000)[-1]
    elapsed_s = (fleet.clock.now_ms - began_ms) / 1000
    assert after > 0
    assert before + after <= 10 + 10 * elapsed_s


def _other_leader(fleet: Fleet, old: Node) -> Node:
    def leading() -> list[Node]:
        others = [box for box in fleet.nodes.values() if box is not old]
        return [box for box in others if box.partition(TOPIC).replica.is_serving()]

    fleet.wait(lambda: bool(leading()))
    return leading()[0]


def test_partitions_at_several_nodes_share_one_limit() -> None:
    fleet = three()
    fleet.create(TOPIC, 3, rate_limit_per_minute="600", rate_limit_burst="5")
    leaders = [fleet.leader(TOPIC, partition) for partition in range(3)]
    fleet.advance(1_000)
    for partition, leader in enumerate(leaders):
        store(leader, *[b"x"] * 100, partition=partition)
    answers = [leader.call(Subscribe(TOPIC, GROUP, "s", credit=1_000)) for leader in dict.fromkeys(leaders)]
    counts = []
    for _ in range(100):
        fleet.advance(100)
        counts.append(sum(len(values(deliveries(answer))) for answer in answers))
    check_pace(counts, 10, 5)


def test_without_the_keeper_nothing_is_delivered_elsewhere() -> None:
    node = single_node()
    node.fleet.create(TOPIC, 2, rate_limit_per_minute="600", rate_limit_burst="5")
    node.fleet.leader(TOPIC, 1)
    store(node, b"x", partition=1)
    elsewhere = node.elsewhere
    ask = elsewhere.ask
    elsewhere.ask = lambda request, done: None  # type: ignore[method-assign]
    waiting = node.ask(poll(partitions=[1], wait_ms=60_000))
    node.fleet.advance(5_000)
    assert waiting.is_waiting
    elsewhere.ask = ask  # type: ignore[method-assign]


def test_a_limit_that_is_taken_away_lets_everything_go() -> None:
    node = single_node()
    node.fleet.create(TOPIC, 2, rate_limit_per_minute="1")
    for partition in range(2):
        node.fleet.leader(TOPIC, partition)
        store(node, *[b"x"] * 10, partition=partition)
    assert len(values(polled(node, poll(100)))) <= 1
    answer = node.call(Subscribe(TOPIC, GROUP, "s", credit=100))
    node.call(AlterGroup(TOPIC, GROUP, {"rate_limit_per_minute": "0"}))
    node.fleet.advance(2_000)
    assert len(values(deliveries(answer))) >= 19
    node.call(AlterTopic(TOPIC, settings={"rate_limit_per_minute": ""}))


class TokenTaker:
    """Elsewhere and Outside of a partition that asks for tokens."""

    def __init__(self) -> None:
        self.asked: list[tuple[TakeTokens, Callable[[Reply | FlotillaError], None]]] = []
        self.clock = Clock()
        self.woken = 0
        self.shares = TokenShares(self, self, lambda: self.clock.now_ms, lambda: TOPIC, self.wake)  # type: ignore[arg-type]

    def ask(self, request: TakeTokens, done: Callable[[Reply | FlotillaError], None]) -> None:
        self.asked.append((request, done))

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        return self.clock.later(delay_ms, action)

    def wake(self) -> None:
        self.woken += 1

    def take(self, wanted: int) -> int:
        return self.shares.take(GROUP, wanted, FROM_EARLIEST, self.clock.now_ms)

    def answer(self, result: Reply | FlotillaError) -> None:
        self.asked.pop()[1](result)

    def run(self, ms: int) -> None:
        self.clock.now_ms += ms
        while (action := self.clock.pop_due()) is not None:
            action()


def test_tokens_are_asked_for_as_many_as_there_are_messages_and_once_at_a_time() -> None:
    taker = TokenTaker()
    assert taker.take(7) == 0
    assert taker.take(5) == 0
    assert [request.tokens for request, _ in taker.asked] == [7]
    taker.answer(TokensGranted(3))
    assert taker.woken == 1
    assert taker.take(2) == 2
    assert taker.asked == []
    taker.shares.give_back(GROUP, 1)
    assert taker.take(5) == 2
    assert [request.tokens for request, _ in taker.asked] == [3]


def test_unused_tokens_expire_after_a_second() -> None:
    taker = TokenTaker()
    taker.take(5)
    taker.answer(TokensGranted(5))
    taker.run(LASTS_MS - 1)
    assert taker.take(1) == 1
    taker.run(1)
    assert taker.take(1) == 0


@pytest.mark.parametrize(
    ("answer", "delay_ms"), [(TokensGranted(0, 200), 200), (TokensGranted(0), 10), (UnavailableError("away"), 500)]
)
def test_a_partition_without_tokens_asks_again_later(answer: Reply | FlotillaError, delay_ms: int) -> None:
    taker = TokenTaker()
    taker.take(5)
    taker.answer(answer)
    assert taker.shares.retry_after_ms(GROUP, taker.clock.now_ms) == delay_ms
    taker.run(delay_ms - 1)
    assert taker.take(5) == 0
    assert (taker.asked, taker.woken) == ([], 0)
    taker.run(1)
    assert taker.woken == 1
    taker.take(5)
    assert len(taker.asked) == 1


def test_tokens_are_taken_of_a_group_that_is_there() -> None:
    node = single_node()
    node.fleet.create(TOPIC, rate_limit_per_minute="60", rate_limit_burst="3")
    polled(node)
    # The first ones have to be reserved in the log.
    node.call(TakeTokens(TOPIC, GROUP, 2))
    assert node.call(TakeTokens(TOPIC, GROUP, 2)).result == TokensGranted(2)
    assert node.call(TakeTokens(TOPIC, GROUP, 0)).code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("start", "floor"),
    [(Start(EARLIEST), 0), (Start(LATEST), 3), (Start(FROM_OFFSET, 1), 1), (Start(FROM_OFFSET, 9), 3)],
)
def test_a_group_that_never_polls_the_keeper_has_its_tokens_there(start: Start, floor: int) -> None:
    node = single_node()
    node.fleet.create(TOPIC, 2, rate_limit_per_minute="600", rate_limit_burst="5")
    node.fleet.leader(TOPIC, 1)
    store(node, *[b"elsewhere"] * 3)
    first = store(node, *[b"x"] * 40, partition=1)
    assert first == 0
    found: list[bytes] = []
    for _ in range(60):
        found += values(polled(node, poll(partitions=[1], start=start)))
        node.fleet.advance(100)
    expected = 40 if start.kind == EARLIEST else {LATEST: 0}.get(start.kind, 40 - start.value)
    assert len(found) == expected
    if found:
        assert node.partition(TOPIC, 0).machine.groups[GROUP].floor == floor
