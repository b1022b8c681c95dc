"""A queue group whose state has reached a bound gets no new messages, and goes on when some are settled."""

import pytest

from flotilla.partition.state import group as group_module
from flotilla.types.operations.queue import ACK, FAIL, REJECT
from tests.unit.partition.leading import GROUP, Leading, offsets


def test_messages_that_failed_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "GROUP_FAILED_COUNT_MAX", 3)
    here = Leading()
    here.append(10)
    here.append(5, priority=7)
    here.append(2, deliver_at_ms=here.now_ms + 50)
    here.settle(here.poll(3), FAIL, delay_ms=100)
    here.flush()
    assert here.log.machine.groups[GROUP].is_full
    here.pass_ms(60)
    assert here.poll() == []
    assert here.poll_ordered() == []
    # They come back, and only they.
    here.pass_ms(60)
    back = here.poll(member="n")
    assert len(offsets(back)) == 3
    here.settle(back, ACK)
    here.flush()
    assert len(offsets(here.poll())) == 14


def test_dead_messages_that_are_not_buried_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "GROUP_DYING_COUNT_MAX", 2)
    here = Leading()
    here.append(5)
    here.settle(here.poll(2), REJECT, reason="bad")
    here.flush()
    assert here.poll() == []
    here.log.machine.groups[GROUP].bury(1)
    assert offsets(here.poll()) == [2, 3, 4]


def test_separate_runs_of_settled_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "GROUP_SETTLED_RUN_COUNT_MAX", 3)
    here = Leading()
    here.append(20)
    leased = [here.poll(1)[0] for _ in range(8)]
    here.settle(leased[1::2])
    here.flush()
    assert here.poll() == []
    here.settle(leased[0::2])
    here.flush()
    assert offsets(here.poll()) == list(range(8, 20))
