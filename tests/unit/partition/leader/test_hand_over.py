"""A leader that gives up its leadership as planned hands its leases over, and the next one goes on at once."""

import pytest

from flotilla.partition.commands import hand_over
from flotilla.partition.commands.hand_over import HandOver, HeldGroup, HeldLease, HeldRun
from flotilla.partition.commands.partition_commands import StampTime, decode_command, encode_command
from flotilla.partition.leader import queue_leader
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.operations.queue import ACK, FAIL, LeaseRange
from tests.unit.partition.leading import GROUP, Leading, offsets, runs

GRACE_MS = 500


def _leading(count: int) -> Leading:
    here = Leading()
    here.append(count)
    here.grace_ms = GRACE_MS
    return here


def test_the_next_leader_delivers_at_once_what_nobody_holds() -> None:
    here = _leading(4)
    held = here.poll(2)
    here.hand_over()
    here.change_leader()
    assert runs(here.poll()) == [(2, 4)]
    assert here.settle(held) == []
    here.flush()
    assert here.floor == 2


def test_without_leases_it_waits_for_nothing() -> None:
    here = _leading(1)
    here.hand_over()
    here.change_leader()
    assert runs(here.poll()) == [(0, 1)]


def test_leases_keep_their_deadlines_and_their_longest_time() -> None:
    here = _leading(1)
    here.set(lease_ms_max=1_500)
    held = here.poll(visibility_ms=1_000)
    here.pass_ms(400)
    here.hand_over()
    here.change_leader()
    here.pass_ms(599)
    assert here.describe().leased == 1
    assert here.extend(held, 1_000) == []
    here.pass_ms(500)
    assert here.describe().leased == 1, "extended"
    here.pass_ms(1)
    assert here.describe().leased == 0, "its longest time counts from when it was given"
    here.flush()
    assert here.attempts(0) == 1


def test_a_leader_that_has_handed_over_leases_nothing_before_it_takes_that_back() -> None:
    here = _leading(2)
    here.poll(1)
    here.hand_over()
    assert here.poll() == []
    here.log.command(HandOver(here.now_ms, is_void=True))
    here.leader.take_back()
    assert runs(here.poll()) == [(1, 2)]
    here.change_leader()
    assert here.poll() == [], "nobody handed over what was leased since"


@pytest.mark.parametrize("after", [HandOver(1_000, is_void=True), StampTime(1_000)])
def test_a_hand_over_that_is_not_the_last_word_of_its_term_does_not_count(after: HandOver | StampTime) -> None:
    here = _leading(2)
    here.admit()
    here.hand_over()
    here.log.command(after)
    here.change_leader()
    assert here.poll() == []


def test_a_hand_over_counts_for_the_next_term_only() -> None:
    """The leader between has leased from it, and nothing in the log tells what."""
    here = _leading(2)
    here.hand_over()
    here.change_leader()
    assert runs(here.poll(1)) == [(0, 1)]
    here.change_leader()
    assert here.poll() == []


def test_inside_the_grace_there_is_nothing_to_hand_over() -> None:
    """Members of an earlier leader may not have presented their leases yet."""
    here = _leading(1)
    here.admit()
    here.change_leader()
    assert here.leader.hand_over(here.now_ms) is None
    here.pass_ms(GRACE_MS)
    assert here.leader.hand_over(here.now_ms) is not None


def test_settlements_that_were_not_proposed_forbid_a_hand_over() -> None:
    here = _leading(1)
    here.settle(here.poll(), FAIL)
    assert here.leader.hand_over(here.now_ms) is None


def test_too_many_leases_are_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_leader, "HANDED_RUNS_MAX", 1)
    here = _leading(3)
    here.poll(1)
    assert here.leader.hand_over(here.now_ms) is not None
    here.leader.take_back()
    here.poll(1)
    assert here.leader.hand_over(here.now_ms) is None


def test_what_was_settled_on_the_way_is_not_leased() -> None:
    here = _leading(3)
    held = here.poll(3)
    here.leader.settle(GROUP, ACK, [LeaseRange(held[0].lease_id, 0, 1)], "", 0, here.now_ms)
    here.hand_over()
    here.change_leader()
    assert here.describe().leased == 2
    assert here.floor == 1


def test_acks_that_are_being_staged_are_handed_over_as_leased() -> None:
    """The log may refuse them yet."""
    here = _leading(1)
    held = here.poll()
    command, _ = here.leader.stage("t", GROUP, [LeaseRange(held[0].lease_id, 0, 1)], here.now_ms)
    assert command is not None
    here.hand_over()
    here.change_leader()
    assert here.poll() == []
    assert here.describe().leased == 1


def test_a_reset_group_inherits_nothing() -> None:
    here = _leading(2)
    here.poll(2)
    command = here.leader.hand_over(here.now_ms)
    assert command is not None
    here.reset(0)
    here.log.command(command)
    here.change_leader()
    assert offsets(here.poll()) == [0, 1]


def test_a_snapshot_does_not_hold_it() -> None:
    here = _leading(1)
    before = here.log.machine.state_hash()
    here.hand_over()
    index = here.log.machine.applied
    assert here.log.machine.hand_over_at(index) is not None
    assert here.log.machine.hand_over_at(index - 1) is None
    for _ in here.log.machine.restore(here.log.machine.snapshot()):
        pass
    assert here.log.machine.hand_over_at(index) is None
    assert before != "", "the applied index is part of the state"


HELD = (
    HeldGroup("g", 7, (HeldLease(1 << 40 | 3, "m", 20, (HeldRun(1, 4, 900), HeldRun(6, 7, 0))),)),
    HeldGroup("ö", 2**63, (HeldLease(5, "n" * 256, 0, ()),)),
)


def test_bytes_and_back() -> None:
    for command in (HandOver(5, HELD), HandOver(6), HandOver(7, is_void=True)):
        assert decode_command(encode_command(command)) == command


def test_garbled_bytes_are_refused() -> None:
    data = hand_over.encode_held(HELD)
    for cut in range(len(data)):
        with pytest.raises(InvalidArgumentError):
            hand_over.decode_held(data[:cut], 2)
    for garbled, count in ((data + b"x", 2), (data, 3), (data, 2**40), (b"\xff" * 40, 1)):
        with pytest.raises(InvalidArgumentError):
            hand_over.decode_held(garbled, count)
