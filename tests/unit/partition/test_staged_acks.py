"""Acks within a transaction: settled with its commit or never, and the messages are not delivered before."""

import pytest

from flotilla.codec.batch.header import patch_base_offset, published
from flotilla.partition.commands.partition_commands import (
    Command,
    ConcludeStage,
    DropStage,
    GroupSettlement,
    StageBatch,
    StageSettlement,
    decode_command,
    encode_command,
)
from flotilla.partition.explain import delivery_states as states
from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.transactions import Concluded, Published, Staging, publisher_id
from flotilla.types.errors import (
    FlotillaError,
    InvalidArgumentError,
    LeaseExpiredError,
    TransactionEndedError,
    UnavailableError,
)
from flotilla.types.operations.queue import ACK, FAIL, LeaseRange
from tests.unit.partition.batches import TERM, batch, describe
from tests.unit.partition.leading import GROUP, Leading, offsets


def held(leases: list[LeasedMessages]) -> list[LeaseRange]:
    return [LeaseRange(each.lease_id, each.first, each.end) for each in leases]


def stage(leading: Leading, leases: list[LeasedMessages], transaction_id: str = "t") -> list[LeaseRange]:
    """Returns the refused ranges."""
    command, refused = leading.leader.stage(transaction_id, GROUP, held(leases), leading.now_ms)
    if command is not None:
        result = leading.log.command(command)
        leading.leader.staged(command, is_refused=isinstance(result, FlotillaError))
    return refused


def end(leading: Leading, command: Command) -> object:
    """A transaction ends in the log, and the leader follows."""
    result = leading.log.command(command)
    if isinstance(result, Concluded):
        for acks in result.acks:
            leading.leader.unstage(acks, is_committed=result.ended.is_committed)
    return result


def polled(leading: Leading, count: int = 3) -> list[LeasedMessages]:
    leading.append(count)
    leases = leading.poll(count)
    assert len(offsets(leases)) == count
    return leases


def test_a_staged_message_outlives_its_lease_and_is_not_delivered():
    leading = Leading()
    leases = polled(leading)
    assert stage(leading, leases) == []
    assert leading.floor == 0
    leading.pass_ms(10 * leading.rules.visibility_ms)
    leading.flush()
    assert leading.poll(member="other") == []
    assert [leading.state(offset) for offset in range(3)] == [states.STAGED] * 3
    assert leading.attempts(0) == 0


def test_a_commit_makes_it_true_and_an_abort_gives_it_back():
    leading = Leading()
    first, second = polled(leading, 1), polled(leading, 1)
    stage(leading, first, "a")
    stage(leading, second, "b")
    concluded = end(leading, ConcludeStage("a", leading.now_ms))
    assert isinstance(concluded, Concluded)
    assert (concluded.ended.acked_count, concluded.ended.is_committed) == (1, True)
    assert (leading.floor, leading.state(0)) == (1, states.ACKED)
    dropped = end(leading, DropStage("b", leading.now_ms))
    assert isinstance(dropped, Concluded)
    assert not dropped.ended.is_committed
    again = leading.poll(member="other")
    assert [(lease.first, lease.attempt) for lease in again] == [(1, 1)]
    assert leading.log.machine.groups[GROUP].totals.acked == 1


def test_acks_are_true_at_the_entry_that_shows_the_last_batch():
    leading = Leading()
    leases = polled(leading, 2)
    stage(leading, leases)
    for sequence in range(2):
        leading.log.command(StageBatch("t", batch(producer=9, sequence=sequence), leading.now_ms))
    assert isinstance(leading.log.command(ConcludeStage("t", leading.now_ms)), InvalidArgumentError)
    for number in range(2):
        assert leading.floor == 0
        data = published(batch(), publisher_id("t"), number)
        patch_base_offset(data, leading.log.machine.end_offset, TERM)
        result = leading.log.apply(bytes(data))
        assert isinstance(result, Published)
        assert bool(result.acks) == bool(number)
    assert (leading.floor, leading.log.machine.next_offset) == (2, 4)


def test_a_new_leader_holds_it_back_as_well():
    leading = Leading()
    stage(leading, polled(leading))
    leading.append(1)
    again = PartitionMachine(describe)
    again.restore(leading.log.machine.snapshot())
    assert again.state_hash() == leading.log.machine.state_hash()
    leading.log.machine = again
    leading.change_leader()
    assert offsets(leading.poll(member="other")) == [3]
    assert leading.extend([LeasedMessages(1 << 40 | 1, 0, 3, 1)]) == [LeaseRange(1 << 40 | 1, 0, 3)], (
        "its holder let go of it"
    )
    end(leading, DropStage("t", leading.now_ms))
    assert offsets(leading.poll(member="other")) == [0, 1, 2]


def test_staging_again_changes_nothing():
    leading = Leading()
    leases = polled(leading)
    assert stage(leading, leases) == []
    before = leading.log.machine.state_hash()
    assert leading.leader.stage("t", GROUP, held(leases), leading.now_ms) == (None, [])
    assert leading.log.machine.state_hash() == before
    assert stage(leading, leases, "other") == held(leases)
    leading.change_leader()
    assert leading.leader.stage("t", GROUP, held(leases), leading.now_ms) == (None, [])


def test_a_repetition_waits_while_the_stage_is_in_flight():
    leading = Leading()
    leases = polled(leading)
    command, _ = leading.leader.stage("t", GROUP, held(leases), leading.now_ms)
    with pytest.raises(UnavailableError):
        leading.leader.stage("t", GROUP, held(leases), leading.now_ms)
    assert command is not None
    leading.leader.staged(command, is_refused=True)
    assert leading.state(0) == states.LEASED
    assert stage(leading, leases) == []


@pytest.mark.parametrize("kind", [ACK, FAIL])
def test_a_staged_message_cannot_be_settled(kind):
    leading = Leading()
    leases = polled(leading)
    stage(leading, leases)
    assert leading.settle(leases, kind) == held(leases)
    assert leading.take() == []


def test_all_or_none():
    leading = Leading()
    leases = polled(leading, 3)
    lease_id = leases[0].lease_id
    leading.settle([LeaseRange(lease_id, 1, 2)])
    leading.flush()
    assert stage(leading, leases) == [LeaseRange(lease_id, 1, 2)]
    assert [leading.state(offset) for offset in range(3)] == [states.LEASED, states.ACKED, states.LEASED]
    assert leading.log.machine.transactions.open == {}
    leading.pass_ms(leading.rules.visibility_ms)
    leading.flush()
    assert leading.attempts(0) == 1, "its lease goes on as before"


def test_a_late_stage_counts_while_the_message_is_free():
    leading = Leading()
    leases = polled(leading, 1)
    leading.pass_ms(leading.rules.visibility_ms)
    leading.flush()
    assert leading.state(0) == states.RETRYING
    assert stage(leading, leases) == []
    leading.pass_ms(60_000)
    assert leading.poll() == []
    end(leading, DropStage("t", leading.now_ms))
    assert [lease.attempt for lease in leading.poll(member="other")] == [2]
    assert stage(leading, leases, "u") == held(leases), "it is leased to another member now"


def test_an_abort_leaves_the_time_of_the_next_attempt_as_it_was():
    leading = Leading()
    leading.set(nack_backoff_ms=5_000, nack_backoff_max_ms=5_000)
    leases = polled(leading, 1)
    leading.settle(leases, FAIL)
    leading.flush()
    leading.change_leader()
    assert stage(leading, leases) == []
    end(leading, DropStage("t", leading.now_ms))
    assert leading.state(0) == states.RETRYING
    assert leading.poll() == []
    leading.pass_ms(5_000)
    assert offsets(leading.poll()) == [0]


def test_the_next_of_its_key_waits_for_the_decision():
    leading = Leading(keys={0: b"k", 1: b"k"})
    leading.append(2)
    leases = leading.poll_ordered()
    assert offsets(leases) == [0]
    stage(leading, leases)
    assert leading.poll_ordered() == []
    leading.change_leader()
    assert leading.poll_ordered() == []
    end(leading, ConcludeStage("t", leading.now_ms))
    assert offsets(leading.poll_ordered()) == [1]


def test_after_a_reset_it_means_nothing():
    leading = Leading()
    leases = polled(leading)
    stage(leading, leases)
    leading.reset(0)
    assert offsets(leading.poll(member="other")) == [0, 1, 2]
    end(leading, ConcludeStage("t", leading.now_ms))
    assert leading.floor == 0
    assert leading.state(0) == states.LEASED


def test_a_group_may_be_deleted_meanwhile():
    leading = Leading()
    stage(leading, polled(leading))
    leading.delete()
    end(leading, ConcludeStage("t", leading.now_ms))
    assert GROUP not in leading.log.machine.groups


def settlement(*runs: tuple[int, int], generation: int = 0, group: str = GROUP) -> GroupSettlement:
    return GroupSettlement(group, tuple(runs), generation=generation)


def test_invalid_commands_are_refused_and_change_nothing():
    leading = Leading()
    leading.append(5)
    machine = leading.log.machine
    generation = machine.groups[GROUP].generation
    leading.settle(leading.poll(1))
    leading.flush()
    known = StageSettlement("known", settlement((2, 3), generation=generation), 1)
    assert isinstance(leading.log.command(known), Staging)
    leading.log.command(DropStage("over", 1))
    dead = GroupSettlement(GROUP, ((1, 2),), dropped=((1, 2),), generation=generation)
    cases: list[tuple[Command, type[FlotillaError]]] = [
        (StageSettlement("t", settlement(generation=generation), 1), InvalidArgumentError),
        (StageSettlement("t", dead, 1), InvalidArgumentError),
        (StageSettlement("a b", settlement((1, 2), generation=generation), 1), InvalidArgumentError),
        (StageSettlement("t", settlement((2, 3), (1, 2), generation=generation), 1), FlotillaError),
        (StageSettlement("t", settlement((4, 6), generation=generation), 1), FlotillaError),
        (StageSettlement("t", settlement((0, 2), generation=generation), 1), LeaseExpiredError),
        (StageSettlement("t", settlement((1, 4), generation=generation), 1), LeaseExpiredError),
        (StageSettlement("t", settlement((1, 2), generation=generation + 1), 1), LeaseExpiredError),
        (StageSettlement("t", settlement((1, 2), group="absent"), 1), FlotillaError),
        (StageSettlement("over", settlement((1, 2), generation=generation), 1), TransactionEndedError),
        (ConcludeStage("unknown", 1), TransactionEndedError),
    ]
    for command, error in cases:
        before = repr(machine.transactions.open)
        assert isinstance(leading.log.command(command), error), command
        assert repr(machine.transactions.open) == before


@pytest.mark.parametrize(
    "command",
    [
        StageSettlement("t", settlement((1, 2), (5, 9), generation=7), 3),
        ConcludeStage("t", 3),
    ],
)
def test_commands_keep_their_shape(command):
    assert decode_command(encode_command(command)) == command
