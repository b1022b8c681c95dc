"""Messages acknowledged within a transaction: consumed and produced together, or neither, at any leader."""

from unittest.mock import ANY

import pytest

from flotilla.partition.leader.transactions import TRANSACTION_TIMEOUT_MS
from flotilla.types.operations import Fetch, Fetched
from flotilla.types.operations.queue import (
    Delivery,
    ExplainMessage,
    Explanation,
    MessageResult,
    ReadResults,
    ResetGroup,
    ResultsRead,
    Settled,
    Start,
)
from flotilla.types.operations.transactions import (
    AbortTransaction,
    CommitTransaction,
    Stage,
    Staged,
    StageSettlement,
    TransactionDecided,
    TransactionOutcome,
    TransactionShown,
)
from tests.unit.broker.fleet import Answer, Node, batch, single_node, three
from tests.unit.broker.queue_driver import GROUP, TOPIC, describe, held, poll, polled, settle, store, values

PRODUCTS = "products"
BOTH = [(TOPIC, 0), (PRODUCTS, 0)]


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create(TOPIC)
    node.fleet.create(PRODUCTS)
    return node


def stage_acks(node: Node, found: list[Delivery], name: str = "t") -> Answer:
    return node.call(StageSettlement(TOPIC, 0, GROUP, name, held(found)))


def stage_product(node: Node, name: str = "t") -> None:
    assert node.call(Stage(PRODUCTS, 0, name, batch(b"product", producer=7))).result == Staged(1, ANY, ANY)


def product_count(node: Node) -> int:
    answer = node.call(Fetch(PRODUCTS, 0, 0, max_bytes=1 << 20)).result
    assert isinstance(answer, Fetched), answer
    return answer.next_offset


def state(node: Node, offset: int = 0) -> str:
    answer = node.call(ExplainMessage(TOPIC, 0, offset, GROUP)).result
    assert isinstance(answer, Explanation), answer
    return answer.state


def test_a_commit_acknowledges_and_shows(node: Node) -> None:
    store(node, b"a", b"b", b"c")
    found = polled(node, poll(2))
    for _ in range(3):
        assert stage_acks(node, found).result == Staged(0, ANY, ANY)
    stage_product(node)
    assert (describe(node).floor, product_count(node), state(node)) == (0, 0, "staged")
    assert node.call(CommitTransaction("t", BOTH, begun_ms=2)).result == TransactionDecided()
    assert (describe(node).floor, product_count(node), state(node)) == (2, 1, "acked")
    assert node.call(TransactionOutcome(TOPIC, 0, "t")).result == TransactionShown(True)
    assert node.fleet.controller().catalog.transactions().get("t").waiting == ()
    assert values(polled(node)) == [b"c"]


def test_an_abort_releases_the_messages_to_a_waiting_poll(node: Node) -> None:
    store(node, b"a")
    assert stage_acks(node, polled(node)).result == Staged(0, ANY, ANY)
    stage_product(node)
    node.fleet.advance(40_000)
    waiting = node.ask(poll(member="b", wait_ms=10_000))
    node.fleet.advance(1_000)
    assert waiting.is_waiting, "its lease would have run out long ago"
    assert node.call(AbortTransaction("t", BOTH)).result == TransactionDecided()
    again = waiting.result.deliveries  # type: ignore[union-attr]
    assert [(one.first, one.attempt) for one in again] == [(0, 1)]
    assert product_count(node) == 0
    assert node.call(settle(again)).result == Settled([])


def test_acks_and_batches_of_one_partition_are_true_together(node: Node) -> None:
    store(node, b"a")
    stage_acks(node, polled(node))
    for sequence in range(3):
        node.call(Stage(TOPIC, 0, "t", batch(b"next", producer=7, sequence=sequence)))
    node.call(CommitTransaction("t", [(TOPIC, 0)], begun_ms=2))
    assert values(polled(node)) == [b"next"] * 3
    assert describe(node).floor == 1


def test_undecided_acks_are_released(node: Node) -> None:
    store(node, b"a")
    stage_acks(node, polled(node))
    node.fleet.advance(TRANSACTION_TIMEOUT_MS - 10_000)
    assert polled(node, poll(member="b")) == []
    node.fleet.advance(30_000)
    assert values(polled(node, poll(member="b"))) == [b"a"]


def test_a_partition_that_the_commit_does_not_name_gives_its_messages_back(node: Node) -> None:
    store(node, b"a")
    stage_acks(node, polled(node))
    stage_product(node)
    node.call(CommitTransaction("t", [(PRODUCTS, 0)], begun_ms=2))
    assert product_count(node) == 1
    assert values(polled(node, poll(member="b"))) == [b"a"]


def test_a_lease_that_is_over_is_refused_and_nothing_is_staged(node: Node) -> None:
    store(node, b"a", b"b")
    first, second = polled(node, poll(1)), polled(node, poll(1))
    node.call(settle(first))
    assert stage_acks(node, first + second).code == "LEASE_EXPIRED"
    assert not node.partition(TOPIC).machine.transactions.open
    assert state(node, 1) == "leased"
    assert stage_acks(node, second).result == Staged(0, ANY, ANY)
    assert stage_acks(node, second, "other").code == "LEASE_EXPIRED"
    assert node.call(settle(second)).result == Settled(held(second))


def test_refused_settlements_leave_the_leases(node: Node) -> None:
    store(node, b"a")
    found = polled(node)
    node.call(AbortTransaction("t", [(TOPIC, 0)]))
    assert stage_acks(node, found).code == "TRANSACTION_ENDED"
    assert stage_acks(node, found, "no id").code == "INVALID_ARGUMENT"
    assert stage_acks(node, [], "empty").code == "INVALID_ARGUMENT"
    assert state(node) == "leased"
    assert node.call(StageSettlement(TOPIC, 0, "absent", "t2", held(found))).code == "NOT_FOUND"
    assert node.call(settle(found)).result == Settled([])


def test_a_reset_makes_it_mean_nothing(node: Node) -> None:
    store(node, b"a")
    stage_acks(node, polled(node))
    node.call(ResetGroup(TOPIC, 0, GROUP, Start()))
    assert values(polled(node, poll(member="b"))) == [b"a"]
    assert node.call(CommitTransaction("t", [(TOPIC, 0)], begun_ms=2)).result == TransactionDecided()
    assert describe(node).floor == 0


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_next_leader_holds_it_back_and_ends_it(is_commit: bool) -> None:
    fleet = three()
    leader = fleet.create(TOPIC)
    store(leader, b"a", b"b")
    found = polled(leader, poll(1))
    assert stage_acks(leader, found).result == Staged(0, ANY, ANY)
    others = [box for box in fleet.nodes.values() if box is not leader]
    fleet.isolate(leader.node)
    fleet.wait(lambda: any(box.partition(TOPIC).replica.is_serving() for box in others))
    (successor,) = [box for box in others if box.partition(TOPIC).replica.is_serving()]
    fleet.advance(60_000)
    assert values(polled(successor, poll(member="b"))) == [b"b"]
    assert stage_acks(successor, found).result == Staged(0, ANY, ANY), "asked for again, at the next leader"
    controller = fleet.controller()
    decision = CommitTransaction("t", [(TOPIC, 0)], begun_ms=2) if is_commit else AbortTransaction("t", [(TOPIC, 0)])
    assert controller.call(decision).result == TransactionDecided()
    fleet.advance(1_000)
    assert values(polled(successor, poll(member="b"))) == ([] if is_commit else [b"a"])


def test_results_come_with_the_commit_at_any_leader() -> None:
    fleet = three()
    node = fleet.create(TOPIC)
    store(node, b"a", b"b")
    found = polled(node, poll(2))
    results = [MessageResult(0, b"four"), MessageResult(1, b"", is_kept=False)]
    assert node.call(StageSettlement(TOPIC, 0, GROUP, "t", held(found), results=results)).code == "Staged"
    for box in fleet.nodes.values():
        box.snapshot(box.partition(TOPIC).group)
    fleet.settle()
    fleet.kill(node.node)
    fleet.wait(lambda: fleet.leader(TOPIC).node != node.node)
    fleet.restart(node.node)
    node = fleet.leader(TOPIC)
    assert node.call(ReadResults(TOPIC, 0, GROUP, [0, 1])).result == ResultsRead([])
    assert fleet.controller().call(CommitTransaction("t", [(TOPIC, 0)], begun_ms=2)).code == "TransactionDecided"
    fleet.wait(lambda: describe(fleet.leader(TOPIC)).floor == 2)
    answer = fleet.leader(TOPIC).call(ReadResults(TOPIC, 0, GROUP, [0, 1])).result
    assert isinstance(answer, ResultsRead), answer
    assert [(each.state, each.result) for each in answer.ended] == [("acked", b"four"), ("forgotten", b"")]


def test_a_result_is_of_a_message_that_is_staged(node: Node) -> None:
    store(node, b"a", b"b")
    found = polled(node, poll(1))
    wrong = StageSettlement(TOPIC, 0, GROUP, "t", held(found), results=[MessageResult(1, b"x")])
    assert node.call(wrong).code == "INVALID_ARGUMENT"
