"""The books of transactions notice what they should, and nothing else."""

import pytest

from flotilla.codec.batch.header import published
from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.partition.state.transactions import publisher_id
from flotilla.sim.checkers.queue_transactions import NaiveAcks, Registry, StageBooks
from flotilla.sim.checkers.violation import Violation
from flotilla.types.operations.transactions import StagedBatch, TransactionShown
from flotilla.types.records import Record

GROUP = 1
PRODUCER = 7


def batch(value: bytes, sequence: int = 0) -> bytes:
    return encode_batch([Record(value)], producer_id=PRODUCER, sequence=sequence)


def again(value: bytes, name: str = "t", before: int = 0) -> BatchView:
    """As its leader stores it."""
    return BatchView(bytes(published(batch(value), publisher_id(name), before)))


def staged(*values: bytes, is_told: bool = True) -> tuple[StageBooks, Registry]:
    registry = Registry()
    books = StageBooks(GROUP, registry)
    for sequence, value in enumerate(values):
        books.stage("t", batch(value, sequence))
        if is_told:
            registry.told_staged("t", GROUP, PRODUCER, sequence)
    return books, registry


def test_a_transaction_that_goes_well() -> None:
    books, registry = staged(b"a", b"b")
    books.stage("t", batch(b"b", 1))
    assert books.sums() == (("t", 2, 0, 0),)
    registry.decided("t", True, (GROUP,))
    assert books.publish(again(b"a"), 5) is None
    assert books.publish(again(b"b"), 6) is not None
    books.told_outcome("t", TransactionShown(True, [StagedBatch(PRODUCER, 0, 5), StagedBatch(PRODUCER, 1, 6)]))
    books.judge()


def test_one_that_is_aborted() -> None:
    books, registry = staged(b"a")
    registry.decided("t", False, (GROUP,))
    assert books.drop("t") is not None
    assert books.drop("t") is None
    books.told_outcome("t", TransactionShown(False))
    books.judge()


def test_what_was_not_promised_may_be_dropped() -> None:
    books, registry = staged(b"a", is_told=False)
    registry.decided("t", True, (GROUP,))
    books.drop("t")
    books.judge()


@pytest.mark.parametrize("decided", [None, (False, (GROUP,)), (True, (2,))])
def test_what_was_not_committed_here_is_not_shown(decided: tuple[bool, tuple[int, ...]] | None) -> None:
    books, registry = staged(b"a")
    if decided is not None:
        registry.decided("t", *decided)
    with pytest.raises(Violation, match="whole or not at all"):
        books.publish(again(b"a"), 0)


def test_out_of_order() -> None:
    books, registry = staged(b"a", b"b")
    registry.decided("t", True, (GROUP,))
    with pytest.raises(Violation, match="another batch"):
        books.publish(again(b"b"), 0)


def test_a_batch_of_nothing_that_is_open() -> None:
    books, registry = staged(b"a")
    registry.decided("t", True, (GROUP,))
    books.publish(again(b"a"), 0)
    with pytest.raises(Violation, match="not open"):
        books.publish(again(b"a"), 1)


def test_what_was_promised_is_not_dropped_and_not_left_out() -> None:
    books, registry = staged(b"a")
    registry.told_acks_staged("t", GROUP, "work", [3])
    registry.decided("t", True, (GROUP,))
    with pytest.raises(Violation, match="staged and committed"):
        books.drop("t")
    books, registry = staged(b"a")
    registry.told_acks_staged("t", GROUP, "work", [3])
    registry.decided("t", True, (GROUP,))
    with pytest.raises(Violation, match="without the ack"):
        books.publish(again(b"a"), 0)


def test_acks_alone_end_with_a_commit() -> None:
    registry = Registry()
    books = StageBooks(GROUP, registry)
    books.stage_acks("t", NaiveAcks("work", 4, (3, 5)))
    registry.told_acks_staged("t", GROUP, "work", [3, 5])
    with pytest.raises(Violation, match="was not committed"):
        books.conclude("t")
    registry.decided("t", True, (GROUP,))
    with pytest.raises(Violation, match="never ended"):
        books.judge()
    assert books.conclude("t") is not None
    assert books.conclude("t") is None
    books.judge()


def test_one_decision_and_one_answer() -> None:
    books, registry = staged(b"a")
    with pytest.raises(Violation, match="nothing was decided"):
        books.drop("t")
    registry.decided("t", True, (GROUP,))
    registry.decided("t", True, (GROUP,))
    with pytest.raises(Violation, match="two ways"):
        registry.decided("t", False, (GROUP,))
    with pytest.raises(Violation, match="that it is shown"):
        books.told_outcome("t", TransactionShown(True))


def test_what_was_promised_must_be_shown_in_the_end() -> None:
    registry = Registry()
    books = StageBooks(GROUP, registry)
    registry.told_staged("t", GROUP, PRODUCER, 0)
    books.judge()
    registry.decided("t", True, (GROUP,))
    with pytest.raises(Violation, match="does not show"):
        books.judge()
