"""The shadow of transactions notice what they should, and nothing else."""

import pytest

from flotilla.codec.batch.header import published
from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.partition.state.transactions import publisher_id
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.models.queue_transactions import NaiveAcks, Registry, StageShadow
from flotilla.types.operations.transactions import StagedBatch, TransactionShown
from flotilla.types.records import Record

GROUP = 1
PRODUCER = 7


def batch(value: bytes, sequence: int = 0) -> bytes:
    return encode_batch([Record(value)], producer_id=PRODUCER, sequence=sequence)


def again(value: bytes, name: str = "t", before: int = 0) -> BatchView:
    """As its leader stores it."""
    return BatchView(bytes(published(batch(value), publisher_id(name), before)))


def staged(*values: bytes, is_traced: bool = True) -> tuple[StageShadow, Registry]:
    registry = Registry()
    shadow = StageShadow(GROUP, registry)
    for sequence, value in enumerate(values):
        shadow.stage("t", batch(value, sequence))
        if is_traced:
            registry.answered_staged("t", GROUP, PRODUCER, sequence)
    return shadow, registry


def test_a_transaction_that_goes_well() -> None:
    shadow, registry = staged(b"a", b"b")
    shadow.stage("t", batch(b"b", 1))
    assert shadow.sums() == {"t": (2, 0, 0)}
    registry.decided("t", True, (GROUP,))
    assert shadow.publish(again(b"a"), 5) is None
    assert shadow.publish(again(b"b"), 6) is not None
    shadow.answered_outcome("t", TransactionShown(True, [StagedBatch(PRODUCER, 0, 5), StagedBatch(PRODUCER, 1, 6)]))
    shadow.judge()


def test_an_aborted_transaction() -> None:
    shadow, registry = staged(b"a")
    registry.decided("t", False, (GROUP,))
    assert shadow.drop("t") is not None
    assert shadow.drop("t") is None
    shadow.answered_outcome("t", TransactionShown(False))
    shadow.judge()


def test_an_unanswered_batch_may_be_dropped() -> None:
    shadow, registry = staged(b"a", is_traced=False)
    registry.decided("t", True, (GROUP,))
    shadow.drop("t")
    shadow.judge()


@pytest.mark.parametrize("decided", [None, (False, (GROUP,)), (True, (2,))])
def test_an_uncommitted_batch_must_not_become_visible(decided: tuple[bool, tuple[int, ...]] | None) -> None:
    shadow, registry = staged(b"a")
    if decided is not None:
        registry.decided("t", *decided)
    with pytest.raises(Violation, match="whole or not at all"):
        shadow.publish(again(b"a"), 0)


def test_out_of_order() -> None:
    shadow, registry = staged(b"a", b"b")
    registry.decided("t", True, (GROUP,))
    with pytest.raises(Violation, match="another batch"):
        shadow.publish(again(b"b"), 0)


def test_a_batch_of_nothing_that_is_open() -> None:
    shadow, registry = staged(b"a")
    registry.decided("t", True, (GROUP,))
    shadow.publish(again(b"a"), 0)
    with pytest.raises(Violation, match="not open"):
        shadow.publish(again(b"a"), 1)


def test_an_answered_batch_must_not_be_dropped_or_left_out() -> None:
    shadow, registry = staged(b"a")
    registry.answered_acks_staged("t", GROUP, "work", [3])
    registry.decided("t", True, (GROUP,))
    with pytest.raises(Violation, match="staged and committed"):
        shadow.drop("t")
    shadow, registry = staged(b"a")
    registry.answered_acks_staged("t", GROUP, "work", [3])
    registry.decided("t", True, (GROUP,))
    with pytest.raises(Violation, match="without the ack"):
        shadow.publish(again(b"a"), 0)


def test_acks_alone_end_with_a_commit() -> None:
    registry = Registry()
    shadow = StageShadow(GROUP, registry)
    shadow.stage_acks("t", NaiveAcks("work", 4, (3, 5)))
    registry.answered_acks_staged("t", GROUP, "work", [3, 5])
    with pytest.raises(Violation, match="was not committed"):
        shadow.conclude("t")
    registry.decided("t", True, (GROUP,))
    with pytest.raises(Violation, match="never ended"):
        shadow.judge()
    assert shadow.conclude("t") is not None
    assert shadow.conclude("t") is None
    shadow.judge()


def test_one_decision_and_one_answer() -> None:
    shadow, registry = staged(b"a")
    with pytest.raises(Violation, match="nothing was decided"):
        shadow.drop("t")
    registry.decided("t", True, (GROUP,))
    registry.decided("t", True, (GROUP,))
    with pytest.raises(Violation, match="two ways"):
        registry.decided("t", False, (GROUP,))
    with pytest.raises(Violation, match="that it is shown"):
        shadow.answered_outcome("t", TransactionShown(True))


def test_an_answered_batch_must_become_visible_in_the_end() -> None:
    registry = Registry()
    shadow = StageShadow(GROUP, registry)
    registry.answered_staged("t", GROUP, PRODUCER, 0)
    shadow.judge()
    registry.decided("t", True, (GROUP,))
    with pytest.raises(Violation, match="does not show"):
        shadow.judge()
