"""Delayed messages that are made due: once, for every group, at every leader."""

import pytest

from flotilla.partition.commands.partition_commands import DeliverNow
from flotilla.partition.explain import delivery_states as states
from flotilla.partition.state.group_table import DueNow
from flotilla.types.errors import FlotillaError, InvalidArgumentError, NotFoundError, OffsetOutOfRangeError
from flotilla.types.limits import DELIVER_COUNT_MAX
from flotilla.types.operations.queue import FAIL, LeaseRange
from tests.unit.partition.leading import GROUP, Leading, offsets

HOUR_MS = 3_600_000


def deliver(here: Leading, *wanted: int, group: str = "") -> tuple[int, ...]:
    due = here.log.command(DeliverNow(wanted, here.now_ms, group))
    assert isinstance(due, DueNow), due
    here.leader.due_now(due)
    here.leader.advance(here.now_ms)
    return due.offsets


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_one_of_a_batch_is_delivered_and_the_others_at_their_time(offset: int) -> None:
    here = Leading()
    here.append(3, deliver_at_ms=here.now_ms + HOUR_MS)
    assert offsets(here.poll()) == []
    assert deliver(here, offset) == (offset,)
    assert offsets(here.poll()) == [offset]
    assert here.describe().delayed == 2
    # A next batch with the same time is of its own: it must not be taken for a part of what was cut.
    here.append(1, deliver_at_ms=1_000 + HOUR_MS)
    here.pass_ms(HOUR_MS)
    assert offsets(here.poll(member="n")) == [each for each in range(4) if each != offset]


def test_it_is_due_in_every_group_and_at_the_next_leader() -> None:
    here = Leading()
    here.open("other")
    here.append(2, deliver_at_ms=here.now_ms + HOUR_MS)
    deliver(here, 1)
    assert offsets(here.poll()) == [1]
    here.change_leader()
    assert offsets(here.poll(group="other")) == [1]
    assert here.state(0) == states.DELAYED


def test_a_message_that_came_due_before_the_command_was_applied_is_not_lost_to_anyone() -> None:
    here = Leading()
    here.append(3, deliver_at_ms=here.now_ms + 50)
    stamped_ms = here.now_ms
    # Due, and listed as one stretch, of which no group has read anything.
    here.pass_ms(60)
    due = here.log.command(DeliverNow((1,), stamped_ms))
    assert isinstance(due, DueNow)
    here.leader.due_now(due)
    here.leader.advance(here.now_ms)
    assert offsets(here.poll()) == [0, 1, 2]


def test_a_retry_comes_at_once_in_its_group_alone() -> None:
    here = Leading()
    here.open("other")
    here.append(2)
    for group in (GROUP, "other"):
        held = [LeaseRange(each.lease_id, each.first, each.end) for each in here.poll(group=group)]
        assert here.leader.settle(group, FAIL, held, "no", HOUR_MS, here.now_ms) == []
    here.flush()
    assert deliver(here, 0) == (0,)
    assert here.state(0) == states.RETRYING
    deliver(here, 0, group=GROUP)
    found = here.poll()
    assert [(each.first, each.end, each.attempt) for each in found] == [(0, 1, 2)]
    assert offsets(here.poll(group="other")) == []
    here.change_leader()
    assert offsets(here.poll(member="n")) == [0]


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (DeliverNow((0,), 5, "absent"), NotFoundError),
        (DeliverNow((7,), 5), OffsetOutOfRangeError),
        (DeliverNow((0,) * (DELIVER_COUNT_MAX + 1), 5), InvalidArgumentError),
    ],
)
def test_what_cannot_be_made_due_is_refused(command: DeliverNow, error: type[FlotillaError]) -> None:
    here = Leading()
    here.append(1, deliver_at_ms=here.now_ms + HOUR_MS)
    assert isinstance(here.log.command(command), error)
    assert here.state(0) == states.DELAYED


def test_what_waits_for_nothing_stays_as_it_is() -> None:
    here = Leading()
    here.append(2)
    assert offsets(here.poll(1)) == [0]
    assert deliver(here, 0, 1, group=GROUP) == (0, 1)
    assert offsets(here.poll()) == [1]
