"""The queue groups of a partition at its leader: leases, their ends, retries, and what the log refuses."""

from dataclasses import replace

import pytest

from flotilla.partition.commands.partition_commands import CancelRecords, TrimTo
from flotilla.partition.explain import delivery_states as states
from flotilla.types.errors import NotFoundError, OffsetOutOfRangeError
from flotilla.types.limits import LOSS_COUNT_MAX, REASON_BYTES_MAX
from flotilla.types.operations.queue import ACK, FAIL, REJECT, RELEASE, LeaseRange
from tests.unit.partition.leading import GROUP, RULES, Leading, offsets, runs

# Polls and acks.


def test_a_poll_leases_what_there_is_and_an_ack_settles_it() -> None:
    here = Leading()
    here.append(5)
    leases = here.poll(3)
    assert runs(leases) == [(0, 3)]
    assert leases[0].attempt == 1
    assert runs(here.poll(10)) == [(3, 5)]
    assert here.poll() == []
    assert here.settle(leases) == []
    assert here.state(0) == states.SETTLING
    here.flush()
    assert here.state(0) == states.ACKED
    assert here.floor == 3


def test_lease_ids_hold_the_term() -> None:
    here = Leading(term=7)
    here.append(2)
    first, second = here.poll(1), here.poll(1)
    assert first[0].lease_id >> 40 == second[0].lease_id >> 40 == 7
    assert first[0].lease_id != second[0].lease_id


def test_groups_are_independent() -> None:
    here = Leading()
    here.open("other")
    here.append(3)
    here.settle(here.poll())
    here.flush()
    assert runs(here.poll(group="other")) == [(0, 3)]
    assert here.leader.groups() == ["g", "other"]


def test_messages_from_before_the_term_are_delivered() -> None:
    here = Leading()
    here.append(3)
    here.change_leader()
    assert runs(here.poll()) == [(0, 3)]


def test_one_message_of_many_can_be_acked() -> None:
    here = Leading()
    here.append(5)
    (lease,) = here.poll()
    assert here.settle([LeaseRange(lease.lease_id, 2, 3)]) == []
    here.flush()
    assert [here.state(offset) for offset in range(5)] == [states.LEASED] * 2 + [states.ACKED] + [states.LEASED] * 2
    assert here.settle([lease]) == [LeaseRange(lease.lease_id, 2, 3)], "it is settled, and cannot be settled again"
    here.flush()
    assert here.floor == 5


def test_settlements_of_all_groups_share_a_command() -> None:
    here = Leading()
    here.open("other")
    here.append(2)
    here.settle(here.poll())
    leases = here.poll(group="other")
    here.leader.settle("other", ACK, [LeaseRange(*leases[0][:3])], "", -1, here.now_ms)
    (command,) = here.take()
    assert [each.group for each in command.groups] == ["g", "other"]


def test_acks_one_by_one_are_one_run_in_the_command() -> None:
    here = Leading()
    here.append(100)
    (lease,) = here.poll()
    for offset in (*range(50, 100), *range(50)):
        here.settle([LeaseRange(lease.lease_id, offset, offset + 1)])
    (command,) = here.take()
    assert command.groups[0].acked == ((0, 100),)


def test_a_command_has_bounds() -> None:
    here = Leading()
    here.append(20_000)
    (lease,) = here.poll(20_000)
    here.settle([LeaseRange(lease.lease_id, offset, offset + 1) for offset in range(0, 20_000, 2)])
    commands = here.take()
    assert [len(command.groups[0].acked) for command in commands] == [8_192, 1_808]
    for command in commands:
        here.commit(command)
    assert here.log.machine.groups[GROUP].settled.count == 9_999


def test_a_group_that_does_not_exist() -> None:
    here = Leading()
    held = [LeaseRange(1 << 40 | 1, 0, 1)]
    assert not here.leader.has_group("absent")
    assert here.leader.settle("absent", ACK, held, "", -1, here.now_ms) == held
    assert here.leader.extend("absent", "m", held, 100, here.now_ms) == held
    assert not here.leader.has_ready("absent", here.now_ms)
    assert here.leader.deaths("absent", 10) == []
    with pytest.raises(NotFoundError):
        here.poll(group="absent")


# Leases that run out.


def test_a_lease_that_runs_out_counts_as_a_failure_and_the_message_comes_again() -> None:
    here = Leading()
    here.append(1)
    here.poll(visibility_ms=500)
    assert here.leader.next_event_ms(here.now_ms) == 1_500
    here.pass_ms(499)
    assert here.state(0) == states.LEASED
    here.pass_ms(1)
    assert here.state(0) == states.SETTLING
    here.flush()
    assert (here.state(0), here.attempts(0)) == (states.RETRYING, 1)
    assert here.explain(0).reason == "lease expired"
    assert here.poll() == []
    assert here.pass_ms(100)
    (lease,) = here.poll()
    assert lease.attempt == 2


def test_a_late_ack_counts_while_the_message_is_free() -> None:
    """Back in ready, waiting for its retry, or with its failure still on the way: the ack takes it from there."""
    for flushes, waits_ms in ((False, 0), (True, 0), (True, 200)):
        here = Leading()
        here.append(1)
        leases = here.poll(visibility_ms=100)
        here.pass_ms(100)
        if flushes:
            here.flush()
        here.pass_ms(waits_ms)
        assert here.settle(leases) == []
        assert here.poll() == []
        here.flush()
        assert here.state(0) == states.ACKED
        here.pass_ms(10_000)
        assert here.poll() == []


def test_an_ack_after_its_failure_was_taken_by_the_log_is_honoured() -> None:
    here = Leading()
    here.append(1)
    leases = here.poll(visibility_ms=100)
    here.pass_ms(100)
    (failure,) = here.take()
    assert here.settle(leases) == []
    (ack,) = here.take()
    here.commit(failure)
    assert here.state(0) == states.SETTLING
    here.pass_ms(10_000)
    assert here.poll() == []
    here.commit(ack)
    assert here.state(0) == states.ACKED


def test_a_late_ack_of_a_message_that_is_leased_again_is_refused() -> None:
    here = Leading()
    here.append(1)
    late = here.poll(visibility_ms=100)
    here.pass_ms(100)
    here.flush()
    here.pass_ms(200)
    again = here.poll(member="n")
    assert runs(again) == [(0, 1)]
    assert here.settle(late) == [LeaseRange(late[0].lease_id, 0, 1)]
    assert here.settle(again) == []
    here.flush()
    assert here.settle(late) == [LeaseRange(late[0].lease_id, 0, 1)]


@pytest.mark.parametrize("kind", [RELEASE, FAIL, REJECT])
def test_only_an_ack_counts_after_a_lease_ran_out(kind: int) -> None:
    """The failure has been counted, and counting it twice would cost the message an attempt."""
    here = Leading()
    here.append(1)
    leases = here.poll(visibility_ms=100)
    here.pass_ms(100)
    here.flush()
    here.pass_ms(200)
    assert here.settle(leases, kind) == [LeaseRange(leases[0].lease_id, 0, 1)]
    assert here.attempts(0) == 1


def test_a_lease_does_not_run_out_while_its_ack_is_on_the_way() -> None:
    here = Leading()
    here.append(1)
    here.settle(here.poll(visibility_ms=100))
    (command,) = here.take()
    here.pass_ms(1_000)
    assert here.take() == []
    here.commit(command)
    assert (here.state(0), here.attempts(0)) == (states.ACKED, 0)


@pytest.mark.parametrize("lease_id", [0, 1, 1 << 40, 1 << 40 | 999, 2 << 40 | 1, -1])
def test_an_unknown_lease_id_is_refused(lease_id: int) -> None:
    here = Leading()
    here.append(1)
    held = [LeaseRange(lease_id, 0, 1)]
    assert here.settle(held) == held
    assert here.leader.extend(GROUP, "m", held, 100, here.now_ms) == held


def test_offsets_outside_of_the_log_are_refused() -> None:
    here = Leading()
    here.append(2)
    (lease,) = here.poll()
    assert here.settle([LeaseRange(lease.lease_id, 0, 10)]) == [LeaseRange(lease.lease_id, 2, 10)]


# Extending.


def test_extending_moves_the_deadline_of_the_named_runs() -> None:
    here = Leading()
    here.append(3)
    (lease,) = here.poll(visibility_ms=100)
    here.pass_ms(50)
    assert here.leader.extend(GROUP, "m", [LeaseRange(lease.lease_id, 1, 2)], 100, here.now_ms) == []
    here.pass_ms(50)
    assert [here.state(offset) for offset in range(3)] == [states.SETTLING, states.LEASED, states.SETTLING]
    here.pass_ms(50)
    assert here.state(1) == states.SETTLING


def test_a_lease_cannot_be_extended_beyond_its_bound() -> None:
    here = Leading()
    here.set(lease_ms_max=1_000)
    here.append(1)
    leases = here.poll(visibility_ms=600)
    here.pass_ms(500)
    assert here.extend(leases, 600) == []
    here.pass_ms(499)
    assert here.state(0) == states.LEASED
    here.pass_ms(1)
    assert here.state(0) == states.SETTLING
    assert here.extend(leases) == [LeaseRange(leases[0].lease_id, 0, 1)]


def test_a_lease_beyond_its_longest_time_is_refused_before_it_expires() -> None:
    """As after a pause of the leader: what came meanwhile is heard before the time is looked at."""
    here = Leading()
    here.set(lease_ms_max=1_000)
    here.append(1)
    leases = here.poll(visibility_ms=600)
    here.now_ms += 1_000
    assert here.extend(leases, 600) == [LeaseRange(leases[0].lease_id, 0, 1)]


def test_visibility_is_bounded_by_the_longest_lease() -> None:
    here = Leading()
    here.set(lease_ms_max=1_000)
    here.append(1)
    here.poll(visibility_ms=5_000)
    here.pass_ms(1_000)
    assert here.state(0) == states.SETTLING


# Failing, giving back, rejecting.


def test_backoff_doubles_with_jitter_and_stops_at_its_bound() -> None:
    here = Leading()
    here.set(max_deliveries=100)
    here.append(1)
    for full_ms in (100, 200, 400, 800, 1_000, 1_000):
        here.settle(here.poll(), FAIL)
        here.flush()
        waits_ms = here.explain(0).remaining_ms
        assert full_ms // 2 <= waits_ms <= full_ms
        here.pass_ms(waits_ms - 1)
        assert here.poll() == []
        assert here.pass_ms(1)


def test_a_delay_of_the_member_overrides_the_backoff() -> None:
    here = Leading()
    here.append(2)
    leases = here.poll(1)
    here.settle(leases, FAIL, delay_ms=0)
    here.flush()
    again = here.poll(1)
    assert (runs(again), again[0].attempt) == ([(0, 1)], 2)
    here.settle(again, FAIL, delay_ms=7)
    here.flush()
    here.pass_ms(6)
    assert runs(here.poll(1)) == [(1, 2)]
    here.pass_ms(1)
    assert runs(here.poll(1)) == [(0, 1)]


def test_giving_back_is_not_counted_and_needs_no_log() -> None:
    here = Leading()
    here.append(2)
    here.settle(here.poll(), RELEASE)
    assert here.take() == []
    leases = here.poll()
    assert (runs(leases), leases[0].attempt) == ([(0, 2)], 1)
    here.settle(leases, RELEASE, delay_ms=50)
    assert here.poll() == []
    here.pass_ms(50)
    assert runs(here.poll()) == [(0, 2)]


def test_messages_of_different_attempts_are_leased_separately() -> None:
    here = Leading()
    here.append(4)
    (lease,) = here.poll()
    here.settle([LeaseRange(lease.lease_id, 1, 2)], FAIL, delay_ms=0)
    here.settle([LeaseRange(lease.lease_id, 0, 1), LeaseRange(lease.lease_id, 2, 4)], RELEASE)
    here.flush()
    leases = here.poll()
    assert [(each.first, each.end, each.attempt) for each in leases] == [(0, 1, 1), (1, 2, 2), (2, 4, 1)]
    assert len({each.lease_id for each in leases}) == 1


def test_the_last_attempt_makes_a_dead_letter() -> None:
    here = Leading()
    here.set(max_deliveries=2)
    here.append(1)
    here.settle(here.poll(), FAIL, delay_ms=0)
    here.flush()
    here.settle(here.poll(), FAIL, reason="bad")
    here.flush()
    assert here.state(0) == states.DYING
    (death,) = here.leader.deaths(GROUP, 10)
    assert (death.offset, death.attempts, death.reason) == (0, 2, "bad")
    assert here.poll() == []


def test_a_lease_that_runs_out_for_the_last_time_makes_a_dead_letter() -> None:
    here = Leading()
    here.set(max_deliveries=1)
    here.append(1)
    here.poll(visibility_ms=100)
    here.pass_ms(100)
    here.flush()
    assert [death.reason for death in here.leader.deaths(GROUP, 10)] == ["lease expired"]


def test_a_message_can_have_a_bound_of_its_own() -> None:
    here = Leading()
    here.append(3)
    here.poll(visibility_ms=100)
    here.leader.limit_deliveries(GROUP, 1, 2, 1)
    here.pass_ms(100)
    here.flush()
    assert [here.state(offset) for offset in range(3)] == [states.RETRYING, states.DYING, states.RETRYING]


def test_the_caller_may_give_the_bound_of_each_message() -> None:
    here = Leading()
    here.append(3)
    (lease,) = here.poll()
    held = [LeaseRange(lease.lease_id, 0, 3)]
    here.leader.settle(GROUP, FAIL, held, "", 0, here.now_ms, lambda offset: 1 if offset == 1 else 5)
    here.flush()
    assert [death.offset for death in here.leader.deaths(GROUP, 10)] == [1]


def test_a_rejected_message_is_dead_at_once() -> None:
    here = Leading()
    here.append(1)
    here.settle(here.poll(), REJECT, reason="garbled")
    here.flush()
    assert [(death.attempts, death.reason) for death in here.leader.deaths(GROUP, 10)] == [(1, "garbled")]


def test_a_group_without_dead_letters_drops() -> None:
    here = Leading()
    here.set(dead_letters=0)
    here.append(1)
    here.settle(here.poll(), REJECT)
    here.flush()
    assert here.leader.deaths(GROUP, 10) == []
    assert (here.state(0), here.floor) == (states.DROPPED, 1)
    assert here.log.machine.groups[GROUP].totals.dropped == 1


def test_a_long_reason_is_cut_at_a_character() -> None:
    here = Leading()
    here.append(1)
    here.settle(here.poll(), FAIL, reason="a" + "é" * REASON_BYTES_MAX)
    here.flush()
    reason = here.explain(0).reason
    assert reason == "a" + "é" * ((REASON_BYTES_MAX - 4) // 2) + "…"


def test_messages_that_are_too_old_end_as_expired() -> None:
    here = Leading()
    here.append(3)
    here.poll()
    here.leader.expire(GROUP, 1, 2, here.now_ms)
    here.flush()
    assert [here.state(offset) for offset in range(3)] == [states.LEASED, states.EXPIRED, states.LEASED]


def test_unsent_leases_are_released_without_an_attempt() -> None:
    here = Leading()
    here.append(5)
    leases = here.poll()
    here.leader.release_unsent(GROUP, [leases[0]._replace(first=2)], here.now_ms)
    again = here.poll()
    assert (runs(again), again[0].attempt) == ([(2, 5)], 1)


def test_the_leases_of_a_lost_consumer_end_early() -> None:
    here = Leading()
    here.append(4)
    here.poll(2, "lost")
    here.poll(2, "alive")
    assert here.leader.lost_ms_of("lost") == [RULES.lost_ms]
    assert not here.leader.release_member("lost", here.now_ms, RULES.lost_ms - 1)
    assert here.leader.release_member("lost", here.now_ms, RULES.lost_ms)
    assert not here.leader.release_member("lost", here.now_ms, RULES.lost_ms)
    assert here.leader.lost_ms_of("lost") == []
    assert here.take() == []
    assert [here.state(offset) for offset in range(4)] == [states.READY] * 2 + [states.LEASED] * 2
    assert here.explain(0).attempts == 0


def test_a_message_that_kills_its_worker_each_time_fails_in_the_end() -> None:
    here = Leading(rules=replace(RULES, max_deliveries=2))
    here.append(2)
    for _ in range(LOSS_COUNT_MAX):
        (lease,) = here.poll(1, "poor")
        assert (lease.first, lease.attempt) == (0, 1)
        assert here.leader.release_member("poor", here.now_ms, RULES.lost_ms)
    for attempt in (1, 2):
        here.pass_ms(RULES.nack_backoff_max_ms)
        (lease,) = here.poll(1, "poor")
        assert (lease.first, lease.attempt) == (0, attempt)
        assert here.leader.release_member("poor", here.now_ms, RULES.lost_ms)
        here.flush()
    assert here.state(0) == states.DYING
    assert here.explain(0).reason == "consumer lost too often"
    # The count is that of each message.
    (lease,) = here.poll(1, "poor")
    assert (lease.first, lease.attempt) == (1, 1)
    assert here.leader.release_member("poor", here.now_ms, RULES.lost_ms)
    assert here.state(1) == states.READY


# What the log refuses.


def test_a_refused_ack_is_leased_as_before() -> None:
    here = Leading()
    here.append(2)
    leases = here.poll(visibility_ms=100)
    here.settle(leases)
    (command,) = here.take()
    here.leader.failed(command)
    assert [here.state(offset) for offset in range(2)] == [states.LEASED] * 2
    assert here.poll() == []
    assert here.settle(leases) == [], "the member can ask again"
    here.flush()
    assert here.floor == 2


def test_a_refused_ack_whose_lease_is_over_by_then_fails_like_any_other() -> None:
    here = Leading()
    here.append(1)
    here.settle(here.poll(visibility_ms=100))
    (command,) = here.take()
    here.pass_ms(500)
    here.leader.failed(command)
    here.pass_ms(0)
    assert here.state(0) == states.SETTLING
    here.flush()
    assert (here.state(0), here.attempts(0)) == (states.RETRYING, 1)


def test_a_refused_failure_of_a_lost_lease_is_proposed_again() -> None:
    """No member will ask again: dropping it would lose the attempt."""
    here = Leading()
    here.append(1)
    here.poll(visibility_ms=100)
    here.pass_ms(100)
    (command,) = here.take()
    here.leader.failed(command)
    assert here.state(0) == states.SETTLING
    here.flush()
    assert here.attempts(0) == 1


def test_a_refused_late_ack_leaves_the_message_ready() -> None:
    here = Leading()
    here.append(1)
    leases = here.poll(visibility_ms=100)
    here.pass_ms(100)
    here.flush()
    here.pass_ms(200)
    here.settle(leases)
    (command,) = here.take()
    here.leader.failed(command)
    assert here.state(0) == states.READY
    assert runs(here.poll()) == [(0, 1)]


@pytest.mark.parametrize("is_failure_refused", [False, True])
def test_a_refused_late_ack_of_a_failing_message_leaves_it_failing(is_failure_refused: bool) -> None:
    """Its failure is in flight and not in the log yet: ready now would be before its time."""
    here = Leading()
    here.append(1)
    leases = here.poll(visibility_ms=100)
    here.pass_ms(100)
    (failure,) = here.take()
    assert here.settle(leases) == []
    (ack,) = here.take()
    if is_failure_refused:
        here.leader.failed(failure)
    here.leader.failed(ack)
    assert here.state(0) == states.SETTLING
    assert here.poll() == []
    if is_failure_refused:
        here.flush()
    else:
        here.commit(failure)
    assert here.state(0) == states.RETRYING
    assert here.attempts(0) == 1


# Pauses, resets, deletion, cancelling, trimming.


def test_a_paused_group_gets_nothing_but_can_settle() -> None:
    here = Leading()
    here.append(2)
    leases = here.poll(1)
    here.set(paused=1)
    assert here.poll() == []
    assert not here.leader.has_ready(GROUP, here.now_ms)
    assert here.settle(leases) == []
    here.flush()
    assert here.floor == 1
    here.set(paused=0)
    assert runs(here.poll()) == [(1, 2)]


def test_a_reset_drops_leases_and_settlements_in_flight() -> None:
    here = Leading()
    here.append(4)
    acked, held = here.poll(2), here.poll(2)
    here.settle(acked)
    (command,) = here.take()
    here.reset(0)
    here.commit(command)
    assert here.settle(held) == [LeaseRange(held[0].lease_id, 2, 4)]
    assert here.extend(held) == [LeaseRange(held[0].lease_id, 2, 4)]
    assert runs(here.poll()) == [(0, 4)]
    here.pass_ms(0)


def test_a_reset_forgets_leases_of_earlier_terms_too() -> None:
    here = Leading()
    here.append(2)
    held = here.poll()
    here.change_leader()
    here.reset(0)
    assert here.settle(held) == [LeaseRange(held[0].lease_id, 0, 2)]


def test_a_deleted_group_is_gone_and_its_name_can_be_used_again() -> None:
    here = Leading()
    here.append(2)
    held = here.poll()
    here.settle([held[0]._replace(end=1)])
    here.delete()
    assert here.settle(held) == [LeaseRange(held[0].lease_id, 0, 2)]
    assert here.take() == []
    here.open(GROUP)
    assert here.settle(held) == [LeaseRange(held[0].lease_id, 0, 2)]
    assert runs(here.poll()) == [(0, 2)]


def test_cancelled_messages_are_not_delivered() -> None:
    here = Leading()
    here.append(5)
    leased = here.poll(1)
    here.log.command(CancelRecords((0, 2), here.now_ms))
    assert runs(here.poll()) == [(1, 2), (3, 5)]
    assert here.settle(leased) == [], "its member need not know"
    here.flush()
    assert here.state(2) == states.CANCELLED
    assert here.floor == 1


def test_trimmed_messages_are_neither_delivered_nor_come_back_from_leases() -> None:
    here = Leading()
    here.append(6)
    here.settle(here.poll(1), RELEASE)
    here.poll(2, visibility_ms=100)
    here.log.command(TrimTo(4, here.now_ms))
    here.pass_ms(100)
    here.flush()
    here.pass_ms(1_000)
    assert runs(here.poll()) == [(4, 6)]


# For people.


def test_describe_counts_every_message_once() -> None:
    here = Leading()
    here.append(10)
    here.append(2, deliver_at_ms=9_000)
    here.settle(here.poll(2))
    here.flush()
    here.settle(here.poll(1), RELEASE, delay_ms=5_000)
    here.poll(3, "n")
    here.settle(here.poll(1), REJECT)
    here.flush()
    here.pass_ms(40)
    found = here.describe()
    assert (found.lag, found.ready, found.leased, found.delayed, found.dying) == (9, 3, 3, 3, 1)
    assert (found.acked_total, found.dead_total, found.floor, found.next_offset) == (2, 1, 2, 12)
    assert [(member.name, member.leased, member.last_poll_ms_ago) for member in found.members] == [
        ("m", 0, 40),
        ("n", 3, 40),
    ]


def test_explain_names_the_holder_and_the_remaining_time() -> None:
    here = Leading()
    here.append(2)
    here.poll(1, "worker-1", visibility_ms=500)
    here.pass_ms(200)
    found = here.explain(0)
    assert (found.state, found.holder, found.remaining_ms) == (states.LEASED, "worker-1", 300)
    assert here.explain(1).state == states.READY
    with pytest.raises(OffsetOutOfRangeError):
        here.explain(2)


def test_explain_knows_earlier_attempts() -> None:
    here = Leading()
    here.append(1)
    here.settle(here.poll(), FAIL, reason="no such user")
    here.flush()
    found = here.explain(0)
    assert (found.attempts, found.reason) == (1, "no such user")
    assert found.history == ["attempt 1 of 5 failed: no such user"]


def test_clocks_that_go_back_do_no_harm() -> None:
    here = Leading()
    here.append(1, deliver_at_ms=1_500)
    here.pass_ms(500)
    here.now_ms = 10
    assert offsets(here.poll()) == [0]
    assert here.leader.next_event_ms(here.now_ms) == 1_500 + here.rules.visibility_ms


def test_settings_may_change_at_any_time() -> None:
    here = Leading()
    here.append(1)
    here.rules = replace(here.rules, visibility_ms=100)
    here.poll()
    here.pass_ms(100)
    assert here.state(0) == states.SETTLING
