"""Members that may hold leases: named in the log before their first one, awaited by a new leader, and forgotten."""

import pytest

from flotilla.partition.commands.partition_commands import ChangeHolders
from flotilla.partition.leader import holders
from flotilla.partition.leader.holders import UNNAMED
from flotilla.partition.leader.leases import MEMBER_IDLE_MS
from flotilla.types.errors import OverloadedError
from flotilla.types.operations.queue import FAIL, LeaseRange
from tests.unit.partition.leading import GROUP, Leading, runs

GRACE_MS = 500


def _second_leader(*members: str, messages: int = 4) -> Leading:
    """Each member has a message of the leader before."""
    here = Leading()
    here.append(messages)
    for member in members:
        here.poll(1, member)
    here.grace_ms = GRACE_MS
    here.change_leader()
    return here


def _present(here: Leading, member: str, *offsets: int, term: int = 0) -> None:
    held = [LeaseRange(1 << 40 | 1 + offset, offset, offset + 1) for offset in offsets]
    assert here.leader.extend(GROUP, member, held, 1_000, here.now_ms) == []
    here.leader.present(GROUP, member, term or here.term, here.now_ms)


def _names(here: Leading) -> list[str]:
    return list(here.log.machine.groups[GROUP].holders)


def _polled(here: Leading) -> list[tuple[int, int]]:
    return runs(here.leader.poll(GROUP, "new", 9, 1_000, here.now_ms))


def test_delivery_begins_when_all_that_can_hold_leases_have_presented_them() -> None:
    here = _second_leader("a", "b")
    assert _polled(here) == []
    _present(here, "a", 0)
    assert _polled(here) == []
    _present(here, "b", 1)
    assert not here.leader.advance(here.now_ms), "nothing is due: it has begun"
    assert _polled(here) == [(2, 4)]
    assert here.leader.hand_over(here.now_ms) is not None, "all leases are known here"


def test_what_a_member_does_not_present_is_free() -> None:
    here = _second_leader("a")
    _present(here, "a")
    assert _polled(here) == [(0, 4)]


@pytest.mark.parametrize("term", [1, 3])
def test_a_presentation_to_the_leader_of_another_term_ends_nothing(term: int) -> None:
    here = _second_leader("a")
    _present(here, "a", 0, term=term)
    assert _polled(here) == []
    here.pass_ms(GRACE_MS)
    assert _polled(here) == [(1, 4)]


def test_a_group_without_members_does_not_wait() -> None:
    assert _polled(_second_leader()) == [(0, 4)]


def test_members_without_a_name_are_awaited_to_the_end() -> None:
    here = _second_leader(UNNAMED, "a")
    _present(here, "a", 1)
    assert _polled(here) == []
    here.pass_ms(GRACE_MS)
    assert _polled(here) == [(0, 1), (2, 4)]


def test_members_that_did_not_come_are_forgotten_after_the_grace() -> None:
    here = _second_leader("a", "b")
    here.admit("b")
    here.pass_ms(GRACE_MS)
    assert [(one.joined, one.left) for one in here.change_holders()] == [((), ("a",))]
    assert _names(here) == ["b"]
    here.change_leader()
    _present(here, "b")
    assert _polled(here) == [(0, 4)]


def test_a_member_gets_no_lease_before_its_name_is_in_the_log() -> None:
    here = Leading()
    here.append(1)
    assert not here.leader.admits(GROUP, "a", here.now_ms)
    (command,) = here.leader.take_holder_changes(here.now_ms)
    assert command.joined == ("a",)
    assert not here.leader.admits(GROUP, "a", here.now_ms), "it is in flight"
    assert here.leader.take_holder_changes(here.now_ms) == []
    here.log.command(command)
    here.leader.holders_changed(command)
    assert here.leader.admits(GROUP, "a", here.now_ms)


def test_a_name_that_was_refused_is_proposed_again() -> None:
    here = Leading()
    here.leader.admits(GROUP, "a", here.now_ms)
    (command,) = here.leader.take_holder_changes(here.now_ms)
    here.leader.holders_changed(command)
    assert not here.leader.admits(GROUP, "a", here.now_ms)
    assert here.change_holders()[0].joined == ("a",)


def test_a_lost_member_is_forgotten_and_gets_nothing_until_it_has_joined_again() -> None:
    here = Leading()
    here.append(2)
    here.poll(1, "a")
    here.leader.release_member("a", here.now_ms, 60_000)
    (command,) = here.leader.take_holder_changes(here.now_ms)
    assert command.left == ("a",)
    assert not here.leader.admits(GROUP, "a", here.now_ms)
    here.log.command(command)
    here.leader.holders_changed(command)
    assert _names(here) == []
    assert here.change_holders()[0].joined == ("a",)


def test_a_lost_member_that_comes_back_in_time_stays() -> None:
    here = Leading()
    here.admit("a")
    here.leader.release_member("a", here.now_ms, 60_000)
    assert here.leader.admits(GROUP, "a", here.now_ms)
    assert here.change_holders() == []


def test_members_are_forgotten_when_they_are_idle_for_long_and_hold_nothing() -> None:
    here = Leading()
    here.append(1)
    here.admit("idle")
    here.poll(1, "holder", visibility_ms=2 * MEMBER_IDLE_MS)
    here.set(lease_ms_max=3 * MEMBER_IDLE_MS)
    here.now_ms += MEMBER_IDLE_MS + 1
    here.admit("new")
    here.change_holders()
    assert _names(here) == ["holder", "new"]


def test_a_lease_that_comes_back_brings_its_member_back() -> None:
    """The log refused what the member did last, and it was forgotten meanwhile."""
    here = Leading()
    here.append(1)
    here.settle(here.poll(1, "a"), FAIL)
    (settlement,) = here.take()
    here.leader.release_member("a", here.now_ms, 60_000)
    here.change_holders()
    assert _names(here) == []
    here.leader.failed(settlement)
    here.change_holders()
    assert _names(here) == ["a"]


def test_members_beyond_the_bound_share_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "HOLDER_COUNT_MAX", 2)
    here = Leading()
    for member in ("a", "b", "c"):
        here.admit(member)
    assert _names(here) == ["a", "b", UNNAMED]
    for member in ("d", "a"):
        assert here.leader.admits(GROUP, member, here.now_ms)


def test_the_log_has_a_bound_of_its_own() -> None:
    here = Leading()
    generation = here.log.machine.groups[GROUP].generation
    names = tuple(map(str, range(1_001)))
    assert isinstance(here.log.command(ChangeHolders(GROUP, generation, 0, names)), OverloadedError)
    assert here.log.command(ChangeHolders(GROUP, generation, 0, (*names[:1_000], UNNAMED))) is None


def test_a_reset_forgets_all_and_a_change_from_before_is_ignored() -> None:
    here = Leading()
    here.admit("a")
    here.leader.admits(GROUP, "b", here.now_ms)
    (command,) = here.leader.take_holder_changes(here.now_ms)
    here.reset(0)
    assert here.log.command(command) is None
    here.leader.holders_changed(command)
    assert _names(here) == []
    here.admit("b")
    assert _names(here) == ["b"]


def test_nothing_is_proposed_after_the_leases_were_handed_over() -> None:
    here = Leading()
    here.hand_over()
    assert here.leader.admits(GROUP, "a", here.now_ms), "it gets nothing anyway"
    assert here.leader.take_holder_changes(here.now_ms) == []


def test_a_member_that_leaves_is_awaited_no_longer_and_forgotten() -> None:
    here = _second_leader("a", "b")
    _present(here, "b", 1)
    assert not here.leader.leave(GROUP, "a", here.now_ms)
    assert [one.left for one in here.change_holders()] == [("a",)]
    assert _polled(here) == [(0, 1), (2, 4)]
