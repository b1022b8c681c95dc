"""Several transactions by one decision: attempts of tasks that count are seen, all or none, and no others."""

import pytest

from flotilla.types.operations.transactions import AbortTransaction, CommitTransaction, TransactionDecided
from tests.unit.broker.fleet import Node
from tests.unit.broker.partition.test_transactions import BILLING, BOTH, ORDERS, node, seen, stage, waiting

__all__ = ["node"]

#: Task 1 wrote to both topics, task 2 to the second one only.
MEMBERS = [("task-1", [0, 1]), ("task-2", [1])]


def staged(node: Node) -> None:
    stage(node, ORDERS, b"lost", name="task-1-failed")
    stage(node, ORDERS, b"a", name="task-1")
    stage(node, BILLING, b"b", name="task-1")
    stage(node, BILLING, b"c", name="task-2")


def test_the_attempts_that_count_are_seen(node: Node) -> None:
    staged(node)
    for _ in range(2):
        decided = node.call(CommitTransaction("all", BOTH, "job", 1, MEMBERS, begun_ms=2)).result
        assert decided == TransactionDecided()
    assert (seen(node, ORDERS), seen(node, BILLING)) == ([b"a"], [b"b", b"c"])
    assert [waiting(node.fleet, name) for name in ("all", "task-1", "task-2")] == [(), (), ()]


def test_a_version_that_is_done_shows_none_of_them(node: Node) -> None:
    staged(node)
    node.call(CommitTransaction("all", BOTH, "job", 1, MEMBERS, begun_ms=2))
    stage(node, ORDERS, b"a", name="again")
    decided = node.call(CommitTransaction("all-again", [(ORDERS, 0)], "job", 1, [("again", [0])], begun_ms=2)).result
    assert decided == TransactionDecided(is_repeated=True)
    assert seen(node, ORDERS) == [b"a"]


def test_an_aborted_transaction_keeps_the_others_invisible(node: Node) -> None:
    staged(node)
    node.call(AbortTransaction("task-2", [(BILLING, 0)]))
    assert node.call(CommitTransaction("all", BOTH, "job", 1, MEMBERS, begun_ms=2)).code == "TRANSACTION_ENDED"
    assert (seen(node, ORDERS), seen(node, BILLING)) == ([], [])


@pytest.mark.parametrize(
    ("partitions", "members", "code"),
    [
        (BOTH, [("task-1", [2])], "INVALID_ARGUMENT"),
        (BOTH, [("task-1", [0, 0])], "INVALID_ARGUMENT"),
        (BOTH, [("all", [0])], "INVALID_ARGUMENT"),
        ([("nowhere", 0)], [("task-1", [0])], "NOT_FOUND"),
        ([(ORDERS, 9)], [("task-1", [0])], "NOT_FOUND"),
    ],
)
def test_bad_requests_are_refused(
    node: Node, partitions: list[tuple[str, int]], members: list[tuple[str, list[int]]], code: str
) -> None:
    staged(node)
    assert node.call(CommitTransaction("all", partitions, "job", 1, members, begun_ms=2)).code == code
    assert (seen(node, ORDERS), seen(node, BILLING)) == ([], [])
