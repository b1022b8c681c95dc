"""A new leader of a partition: the grace, leases of the one before it, and what survives without them."""

import pytest

from flotilla.partition.commands.partition_commands import ResetGroup
from flotilla.partition.explain import delivery_states as states
from flotilla.types.operations.queue import ACK, FAIL, REJECT, RELEASE, LeaseRange
from tests.unit.partition.leading import GROUP, Leading, offsets, runs


def test_inside_the_grace_nothing_is_delivered_and_after_it_everything() -> None:
    here = Leading(grace_ms=0)
    here.append(3)
    here.settle(here.poll(1))
    here.flush()
    here.poll(1)
    here.grace_ms = 500
    here.change_leader()
    assert here.poll() == []
    assert not here.leader.has_ready(GROUP, here.now_ms)
    assert here.leader.next_event_ms(here.now_ms) == here.now_ms + 500
    assert not here.pass_ms(499)
    assert here.pass_ms(1)
    assert runs(here.poll()) == [(1, 3)]


def _second_leader(*, grace_ms: int = 500, messages: int = 2) -> Leading:
    here = Leading()
    here.append(messages)
    here.admit()
    here.grace_ms = grace_ms
    here.change_leader()
    return here


def test_inside_the_grace_new_messages_are_delivered_which_nobody_can_hold() -> None:
    here = _second_leader()
    here.append(3)
    assert here.leader.best_priority(GROUP, here.now_ms) == 0
    assert runs(here.poll(2)) == [(2, 4)]
    assert runs(here.poll()) == [(4, 5)]
    assert here.poll() == []
    assert not here.leader.has_ready(GROUP, here.now_ms)
    here.pass_ms(500)
    assert runs(here.poll()) == [(0, 2)]


@pytest.mark.parametrize("kind", [FAIL, RELEASE])
def test_new_messages_that_come_back_inside_the_grace_are_delivered_again(kind: int) -> None:
    here = _second_leader()
    here.append(2)
    here.settle(here.poll(1), kind, delay_ms=0)
    here.flush()
    assert offsets(here.poll()) == [2, 3]


def test_a_retry_of_an_earlier_message_waits_for_the_end_of_the_grace() -> None:
    """Its member may have it again from the last leader."""
    here = Leading()
    here.append(1)
    here.settle(here.poll(), FAIL, delay_ms=100)
    here.flush()
    here.grace_ms = 500
    here.change_leader()
    here.pass_ms(400)
    assert here.poll() == []
    here.pass_ms(100)
    assert runs(here.poll()) == [(0, 1)]


def test_order_by_key_waits_for_the_end_of_the_grace() -> None:
    """A member may hold an earlier message of the key."""
    here = _second_leader()
    here.keys = dict.fromkeys(range(4), b"k")
    here.append(2)
    assert here.leader.poll(GROUP, "m", 9, 1_000, here.now_ms, here.keys_of) == []
    here.pass_ms(500)
    assert runs(here.leader.poll(GROUP, "m", 9, 1_000, here.now_ms, here.keys_of)) == [(0, 1)]


def test_a_new_group_does_not_wait_for_the_grace() -> None:
    here = Leading()
    here.grace_ms = 500
    here.change_leader()
    here.append(1)
    here.open("new")
    assert runs(here.poll(group="new")) == [(0, 1)]


def test_leases_are_adopted_and_go_on_under_their_old_id() -> None:
    here = Leading()
    here.append(4)
    held = here.poll(2)
    here.grace_ms = 500
    here.change_leader()
    assert here.extend(held, 5_000, "renamed") == []
    assert here.describe().leased == 2
    here.pass_ms(500)
    assert runs(here.poll()) == [(2, 4)], "what was adopted is not delivered again"
    assert here.settle(held) == []
    here.flush()
    assert here.floor == 2


@pytest.mark.parametrize("kind", [ACK, FAIL, REJECT, RELEASE])
def test_leases_of_an_earlier_leader_can_be_settled(kind: int) -> None:
    here = Leading()
    here.append(1)
    held = here.poll()
    here.change_leader()
    assert here.settle(held, kind, delay_ms=0) == []
    here.flush()
    expected = {ACK: states.ACKED, FAIL: states.READY, REJECT: states.DYING, RELEASE: states.READY}
    assert here.state(0) == expected[kind]
    assert here.attempts(0) == (1 if kind == FAIL else 0)


def test_an_earlier_lease_is_refused_when_the_message_is_leased() -> None:
    here = Leading()
    here.append(2)
    held = here.poll()
    here.change_leader()
    here.poll(1)
    assert here.extend(held) == [LeaseRange(held[0].lease_id, 0, 1)]
    assert here.settle(held) == [LeaseRange(held[0].lease_id, 0, 1)]


def test_a_retrying_message_can_be_presented_too() -> None:
    """Its member was slow, and is still at it."""
    here = Leading()
    here.append(1)
    held = here.poll(visibility_ms=100)
    here.pass_ms(100)
    here.flush()
    here.change_leader()
    assert here.extend(held, 5_000) == []
    here.pass_ms(1_000)
    assert here.poll() == []
    assert here.settle(held) == []


def test_a_presented_and_released_message_comes_no_earlier_than_its_next_attempt() -> None:
    here = Leading()
    here.append(1)
    here.settle(held := here.poll(1), FAIL, delay_ms=900)
    here.flush()
    here.change_leader()
    assert here.extend(held, 5_000) == []
    assert here.settle(held, RELEASE, delay_ms=200) == []
    here.pass_ms(899)
    assert here.poll() == []
    here.pass_ms(1)
    assert offsets(here.poll()) == [0]


def test_failures_and_their_times_survive_the_leader() -> None:
    here = Leading()
    here.append(2)
    here.settle(here.poll(1), FAIL, delay_ms=300)
    here.flush()
    here.change_leader()
    assert runs(here.poll()) == [(1, 2)]
    assert not here.pass_ms(299)
    assert here.pass_ms(1)
    assert [(each.first, each.attempt) for each in here.poll()] == [(0, 2)]


# Lives of a group.


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "reset"])
@pytest.mark.parametrize("grace_ms", [0, 500])
def test_no_later_leader_takes_a_lease_of_an_earlier_life_for_its_own(is_deleted: bool, grace_ms: int) -> None:
    here = Leading()
    here.append(3)
    (old,) = here.poll(1, "m")
    if is_deleted:
        here.delete()
        here.open(GROUP)
    else:
        here.reset(0)
    (new,) = here.poll(1, "n")
    assert new.first == old.first
    assert new.lease_id > old.lease_id
    here.grace_ms = grace_ms
    for _ in range(3):
        here.change_leader()
        late = LeaseRange(old.lease_id, old.first, old.end)
        for kind in (ACK, FAIL, REJECT, RELEASE):
            assert here.leader.settle(GROUP, kind, [late], "", 0, here.now_ms) == [late]
        assert here.leader.extend(GROUP, "m", [late], 1_000, here.now_ms) == [late]
        assert here.leader.stage("t", GROUP, [late], here.now_ms) == (None, [late])
    assert here.take() == []
    mine = LeaseRange(new.lease_id, new.first, new.end)
    assert here.leader.extend(GROUP, "n", [mine], 1_000, here.now_ms) == []
    assert here.leader.settle(GROUP, ACK, [mine], "", 0, here.now_ms) == []
    here.flush()
    assert here.state(0) == states.ACKED


def test_while_a_reset_is_on_its_way_nothing_is_leased() -> None:
    """Such a lease would be of before the reset, under an id of after it."""
    here = Leading()
    here.append(1)
    first = here.leader.begin_reset(GROUP)
    second = here.leader.begin_reset(GROUP)
    assert here.poll() == []
    here.log.command(ResetGroup(GROUP, 0, here.now_ms, first))
    here.leader.end_reset(GROUP)
    assert here.poll() == []
    here.log.command(ResetGroup(GROUP, 0, here.now_ms, second))
    here.leader.end_reset(GROUP)
    assert runs(here.poll()) == [(0, 1)]
