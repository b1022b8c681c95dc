"""Deliberate bugs that a simulated cluster seldom shows, and a test of the part itself always does.

Each needs an order of events that faults bring about once in many runs: a late copy of a heartbeat, a log that refuses
a settlement that nobody asked for, a question to a leader that was replaced and does not know it yet. The test that is
named beside it brings that order about itself, and must fail.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from flotilla.broker import cluster_clock as broker_clock
from flotilla.broker.cluster.transaction_decisions import TransactionDecisions
from flotilla.broker.cluster_clock import ClusterClock
from flotilla.broker.partition.host import PartitionHost
from flotilla.broker.partition.pending_batch import PendingBatch
from flotilla.broker.ports import Done
from flotilla.broker.queue.dead_letters import DeadLetters
from flotilla.broker.queue.settlement_log import _Shipment
from flotilla.broker.queue.waiters import QueueWaiter
from flotilla.client._core.calls import CallResult, ClientCall, deadline_passed
from flotilla.client.admin.dead_letter import DeadLetter
from flotilla.client.admin.dead_letters import AsyncDeadLetters
from flotilla.client.client import Client
from flotilla.client.producer._batch import Batch
from flotilla.client.producer._partition_lane import PartitionLane
from flotilla.client.queue._settlements import Settlements
from flotilla.client.stream._core import StreamMember, _Partition
from flotilla.client.transaction.aio import AsyncTransaction
from flotilla.machine import Lane
from flotilla.metadata.stream_groups import StreamGroup, StreamGroupTable
from flotilla.metadata.transactions import TransactionTable
from flotilla.partition.commands.partition_commands import SettleRuns
from flotilla.partition.leader.group_delivery import GroupDelivery
from flotilla.partition.leader.key_order import KeyOrder
from flotilla.partition.leader.settlement_outbox import Piece
from flotilla.partition.offset_runs import Run
from flotilla.partition.state.group import Death, GroupState
from flotilla.partition.state.group_table import GroupTable
from flotilla.partition.state.transactions import Part, Staging
from flotilla.replica.ports import Load
from flotilla.runtime.confirmations import Confirmations
from flotilla.runtime.load_pool import LoadPool
from flotilla.runtime.pause_detector import PauseDetector
from flotilla.sim.mutants.replacement import Replacement, replaced
from flotilla.storage import block, framing
from flotilla.types import dead_letters as types_of_letters
from flotilla.types.errors import FlotillaError, NotFoundError, OutcomeUnknownError, TransactionEndedError
from flotilla.types.ids import Offset
from flotilla.types.operations import ONCE, OffsetCommitted, OffsetFound, ReadOffset
from flotilla.types.operations.queue import Settled
from flotilla.types.operations.stream import NO_OFFSET
from flotilla.types.operations.transactions import TransactionDecided
from flotilla.types.records import Record
from tests.unit.broker import test_cluster_clock as cluster_clock
from tests.unit.broker.fleet import Node, single_node
from tests.unit.broker.partition import test_host as host
from tests.unit.broker.partition import test_transactions as transactions
from tests.unit.broker.queue import test_dead_letters as dead_letters
from tests.unit.broker.queue import test_polls as polls
from tests.unit.broker.queue import test_settlement_log as settlement_log
from tests.unit.broker.queue_driver import TOPIC
from tests.unit.client.broker_servers import broker_servers
from tests.unit.client.brokers import Brokers
from tests.unit.client.core import test_session as session
from tests.unit.client.producer import test_partition_lane as partition_lane
from tests.unit.client.queue import test_settlements as settlements
from tests.unit.client.queue import test_shells as shells
from tests.unit.client.shells import Shell, run_at_once
from tests.unit.client.stream import test_core as stream_member
from tests.unit.client.stream_brokers import StreamBrokers
from tests.unit.client.transaction import test_cancelled_commits as cancelled_commits
from tests.unit.metadata import test_stream_groups as stream_groups
from tests.unit.metadata import test_transactions as table_of_transactions
from tests.unit.partition.batches import new_log
from tests.unit.partition.leader import test_key_order as key_order
from tests.unit.partition.leader import test_queue_leader as queue_leader
from tests.unit.partition.state import test_fences as fences
from tests.unit.partition.state import test_group as group
from tests.unit.runtime import test_load_pool as load_pool
from tests.unit.runtime import test_node as node
from tests.unit.storage import test_salt as salt


def _take_late_commits(original: Any) -> Any:
    """Commits of earlier epochs are taken."""
    return lambda self, name, epoch: None


def _call_off_quietly(original: Any) -> Any:
    """A move is cancelled, and a member that had given the partition up owns it again under the same epoch."""

    def given_up(self: StreamGroup, member: str, generation: int, owned: Iterable[int]) -> tuple[int, ...]:
        found: tuple[int, ...] = original(self, member, generation, owned)
        return tuple(number for number in found if self.shares[number].target != member)

    return given_up


def _believe_old_heartbeats(original: Any) -> Any:
    """A partition that a member does not name counts as given up, even if the member did not know of it."""

    def given_up(self: StreamGroup, member: str, generation: int, owned: Iterable[int]) -> tuple[int, ...]:
        found: tuple[int, ...] = original(self, member, self.generation, owned)
        return found

    return given_up


def _begin_again(original: Any) -> Any:
    """A group that all members have left starts again with its first generation."""

    def rebalance(self: StreamGroupTable, group: StreamGroup, *arguments: Any) -> StreamGroup:
        made: StreamGroup = original(self, replace(group, generation=0) if not group.members else group, *arguments)
        return made

    return rebalance


def _any_lease_settles(original: Any) -> Any:
    """An old lease ends what another member has."""

    def free(self: GroupDelivery, first: Offset, end: Offset, kind: int) -> list[Run]:
        return list(self.state.unsettled(first, min(end, self._machine.next_offset)))

    return free


def _name_letters_by_the_time(original: Any) -> Any:
    """A letter that is sent again counts as another one."""

    def producer(self: DeadLetters, group: str, born: int, death: Death) -> int:
        found: int = original(self, group, born, death)
        return found ^ (self._source.now_ms() & 0xFFFFFF)

    return producer


def _leave_letters(original: Any) -> Any:
    """A new leader leaves letters that its predecessor did not send."""
    return lambda self: None


def _stay_when_cancelled(original: Any) -> Any:
    """A poll that was given up takes messages."""
    return lambda self: None


def _begin_unclaimed(original: Any) -> Any:
    """A member asks for the position of a partition, and shuts no earlier owner out."""

    def claim(self: StreamMember, partition: int, epoch: int) -> None:
        part = self._parts[partition] = _Partition(partition, epoch, self._topic_id)

        def found(result: CallResult) -> None:
            self._claimed(part, OffsetCommitted(NO_OFFSET) if isinstance(result, NotFoundError) else result)

        part.call = self._submit(ReadOffset(self._group, self._topic, partition), found, self._options.timeout_ms)

    return claim


def _ignore_failed_stages(original: Any) -> Any:
    """A commit goes on when a part could not be staged."""

    async def flush(self: AsyncTransaction, *arguments: Any) -> None:
        try:
            await original(self, *arguments)
        except FlotillaError:
            return

    return flush


def _agree_with_everybody(original: Any) -> Any:
    """A decision that came too late is answered as done."""

    def decide(self: TransactionDecisions, command: Any, done: Done) -> None:
        try:
            original(self, command, done)
        except TransactionEndedError:
            done(TransactionDecided(False))

    return decide


def _bury_too_many(original: Any) -> Any:
    """A death is buried before its letter is there."""
    return lambda self, below_number, first=0: original(self, min(below_number + 1, self.next_death), first)


def _never_unsure(original: Any) -> Any:
    """A lost connection counts as a refusal."""
    return lambda self, error, *, is_unsure: original(self, error, is_unsure=False)


def _read_no_refusals(original: Any) -> Any:
    """A settlement that a broker refused counts as done."""

    def returned(self: Settlements, call: Any, place: Any, settled: Any, result: Any) -> None:
        original(self, call, place, settled, Settled([]) if isinstance(result, Settled) else result)

    return returned


def _believe_the_latest_clock(original: Any) -> Any:
    """One clock that is ahead leads all of them."""
    return lambda offsets, quorum: offsets[-1] if len(offsets) >= quorum else None


def _forget_refused(original: Any) -> Any:
    """What the log refused is forgotten, where no member will ask again."""

    def refuse(self: GroupDelivery, pieces: Sequence[Piece], now_ms: int) -> None:
        original(self, [piece for piece in pieces if not piece.is_unasked], now_ms)

    return refuse


def _forget_busy_keys(original: Any) -> Any:
    """A new leader knows no busy keys."""
    return lambda self, first, end, keys_of: end


def _start_over(original: Any) -> Any:
    """A new leader stores all of a transaction again of which a part is stored."""

    def rest(self: Staging) -> list[tuple[Part, int]]:
        offsets, self.offsets = self.offsets, []
        parts: list[tuple[Part, int]] = original(self)
        self.offsets = offsets
        return parts

    return rest


def _settle_after_reset(original: Any) -> Any:
    """Leases outlive a reset."""

    def settle(self: GroupTable, command: SettleRuns) -> int:
        anew = tuple([replace(settlement, generation=0) for settlement in command.groups])
        count: int = original(self, SettleRuns(command.now_ms, anew))
        return count

    return settle


def _ignore_lost_links(original: Any) -> Any:
    """A leader answers by itself after its links left no quorum."""
    return lambda self: None


def _ignore_pauses(original: Any) -> Any:
    """A leader answers by itself after a pause in which it was replaced."""
    return lambda self: 0


def _ignore_salt(original: Any) -> Any:
    """Checksums have no salt."""
    return lambda salt, length: 0


def _begin_all_alike(original: Any) -> Any:
    """Checksums of every length begin with the same value."""
    return lambda salt, length: original(salt, 0)


def _answer_repeats_unstored(original: Any) -> Any:
    """A repeated produce is answered before its batch is stored."""
    return lambda self, done, reply: done(reply)


def _find_offsets_alone(original: Any) -> Any:
    """A leader finds ends and times of the log without asking a quorum."""
    return lambda self, offset, done: done(OffsetFound(offset))


def _find_positions_alone(original: Any) -> Any:
    """A leader tells positions of groups without asking a quorum."""

    def read_offset(self: PartitionHost, request: ReadOffset, done: Done) -> None:
        self._serving()
        position = self.machine.positions.get(request.group)
        done(NotFoundError("no position") if position is None else OffsetCommitted(position.offset))

    return read_offset


def _own_beginning(original: Any) -> Any:
    """A node begins with its own wall clock."""

    def may_lead(self: ClusterClock) -> bool:
        self.now_ms()
        if not self._is_set:
            self._is_set = self._is_confirmed = True
            self._now_ms = self._machine.now_ms()
        return True

    return may_lead


def _refused_is_done(original: Any) -> Any:
    """A settlement that was refused is answered as done."""
    return lambda self, error: original(self, None)


def _overdue_is_not_done(original: Any) -> Any:
    """A call without an answer in time counts as not done."""
    return lambda self: deadline_passed(self.last_error)


def _overtake(original: Any) -> Any:
    """New batches leave before one that must be sent again."""

    def next_to_send(self: PartitionLane) -> Batch | None:
        found: Batch | None = original(self)
        return next(iter(self._unsent), found) if found is not None and not self._is_broken else found

    return next_to_send


def _lose_failed_loads(original: Any) -> Any:
    """A load that failed is never reported."""

    def deliver(self: LoadPool, thread: Lane, load: Load, error: FlotillaError | None) -> None:
        if error is None:
            original(self, thread, load, error)

    return deliver


def _ambiguous_names(original: Any) -> Any:
    """Two groups have one dead-letter topic."""
    return lambda prefix, group, topic: f"{prefix}{group}.{topic}"


def _decide_anew(original: Any) -> Any:
    """A decision that may be forgotten is made once more."""
    return lambda self, begun_ms: False


def _redrive_without_a_key(original: Any) -> Any:
    """A redrive that is repeated has another key."""
    sent = count()

    def record(self: AsyncDeadLetters, letter: DeadLetter, topic_id: int) -> Record:
        found: Record = original(self, letter, topic_id)
        return found._replace(idempotency_key=b"%b/%d" % (found.idempotency_key, next(sent)))

    return record


def _log() -> Any:
    log = new_log()
    log.append(count=10)
    return log


def _group() -> Any:
    return stream_groups.Group(StreamGroupTable())


def _commit_without_an_answer() -> None:
    with pytest.MonkeyPatch.context() as patch:
        cancelled_commits.test_a_stage_without_an_answer_ends_the_transaction(patch)


def _interrupted_redrive() -> None:
    with broker_servers(Brokers(2)) as servers, Client(servers.addresses) as client:
        servers.cluster.create("orders", nack_backoff_ms="1ms", nack_backoff_max_ms="1ms", max_deliveries="3")
        shells.test_an_interrupted_redrive_stores_nothing_twice(Shell(client, run_at_once), servers)


def _node(topic: str = TOPIC) -> Node:
    node = single_node()
    node.fleet.create(topic)
    return node


def _three_clocks() -> cluster_clock.Machine:
    machine = cluster_clock.Machine(3)
    machine.run(1_000)
    return machine


#: What takes whose place, and the test that must fail then.
MUTANTS: dict[str, tuple[Replacement, Callable[[], None]]] = {
    "late-commits": (
        (GroupTable, "_check_epoch", _take_late_commits),
        lambda: fences.test_a_commit_raises_the_fence_too(_log()),
    ),
    "call-off-quietly": (
        (StreamGroup, "given_up", _call_off_quietly),
        lambda: stream_groups.test_a_released_partition_that_stays_gets_a_new_epoch(_group()),
    ),
    "old-heartbeats": (
        (StreamGroup, "given_up", _believe_old_heartbeats),
        lambda: stream_groups.test_a_member_releases_only_partitions_that_it_knew_of(_group(), 0, ()),
    ),
    "begin-again": (
        (StreamGroupTable, "_rebalance", _begin_again),
        lambda: stream_groups.test_any_walk_keeps_one_owner_for_each_partition(1),
    ),
    "agree-with-everybody": (
        (TransactionDecisions, "_decide", _agree_with_everybody),
        lambda: transactions.test_every_request_can_be_repeated(_node(transactions.ORDERS)),
    ),
    "bury-too-many": ((GroupState, "bury", _bury_too_many), group.test_the_buried_are_forgotten_in_order),
    "never-unsure": (
        (ClientCall, "failed", _never_unsure),
        lambda: session.test_a_connection_lost_with_a_request_on_it(ONCE, True, OutcomeUnknownError),
    ),
    "read-no-refusals": (
        (Settlements, "_returned", _read_no_refusals),
        settlements.test_a_lease_of_another_consumer_is_refused_by_name,
    ),
    "latest-clock": (
        (broker_clock, "agreed", _believe_the_latest_clock),
        lambda: cluster_clock.test_one_clock_that_jumps_changes_nothing(_three_clocks(), 2, cluster_clock.YEAR_MS),
    ),
    "begin-unclaimed": (
        (StreamMember, "_claim", _begin_unclaimed),
        lambda: stream_member.test_a_claim_that_is_refused_is_asked_for_again(StreamBrokers(2).form()),
    ),
    "ignore-failed-stages": ((AsyncTransaction, "_flush", _ignore_failed_stages), _commit_without_an_answer),
    "any-lease-settles": (
        (GroupDelivery, "_free", _any_lease_settles),
        queue_leader.test_a_late_ack_of_a_message_that_is_leased_again_is_refused,
    ),
    "letters-anew": (
        (DeadLetters, "_producer", _name_letters_by_the_time),
        dead_letters.test_a_crash_between_arrival_and_burial_buries_once,
    ),
    "letters-left": (
        (DeadLetters, "look", _leave_letters),
        dead_letters.test_a_new_leader_continues_what_the_old_one_did_not_finish,
    ),
    "cancelled-polls-take": (
        (QueueWaiter, "__call__", _stay_when_cancelled),
        lambda: polls.test_a_poll_that_is_given_up_takes_nothing(_node()),
    ),
    "forget-refused": (
        (GroupDelivery, "refuse", _forget_refused),
        queue_leader.test_a_refused_failure_of_a_lost_lease_is_proposed_again,
    ),
    "forget-busy-keys": (
        (KeyOrder, "learn", _forget_busy_keys),
        key_order.test_the_order_holds_over_a_failover,
    ),
    "settle-after-reset": (
        (GroupTable, "_settle", _settle_after_reset),
        queue_leader.test_a_reset_drops_leases_and_settlements_in_flight,
    ),
    "frames-without-salt": (
        (framing, "salted", _ignore_salt),
        lambda: salt.test_a_value_that_holds_a_frame_never_passes_for_an_entry(4, salt.GUESS, has_index=True),
    ),
    "blocks-without-salt": (
        (block, "salted", _ignore_salt),
        lambda: salt.test_a_value_that_holds_a_block_never_passes_for_one(salt.GUESS),
    ),
    "salt-cancels-out": (
        (framing, "salted", _begin_all_alike),
        salt.test_a_frame_around_a_checksum_cannot_be_computed_without_the_salt,
    ),
    "answer-repeats-unstored": (
        (PendingBatch, "join", _answer_repeats_unstored),
        host.test_every_waiter_is_answered_when_leadership_is_lost,
    ),
    "offsets-alone": (
        (PartitionHost, "_confirm_offset", _find_offsets_alone),
        host.test_every_waiter_is_answered_when_leadership_is_lost,
    ),
    "positions-alone": (
        (PartitionHost, "read_offset", _find_positions_alone),
        host.test_every_waiter_is_answered_when_leadership_is_lost,
    ),
    "refused-is-done": (
        (_Shipment, "answer", _refused_is_done),
        settlement_log.test_refused_settlements_are_proposed_again_after_a_pause,
    ),
    "overdue-is-not-done": (
        (ClientCall, "overdue", _overdue_is_not_done),
        session.test_a_request_without_an_answer_ends_by_its_deadline_as_unknown,
    ),
    "overtake": (
        (PartitionLane, "_next_to_send", _overtake),
        partition_lane.test_a_batch_that_comes_back_leaves_before_those_that_wait,
    ),
    "lose-failed-loads": (
        (LoadPool, "_deliver", _lose_failed_loads),
        load_pool.test_a_load_that_failed_is_reported_and_the_next_one_runs,
    ),
    "ambiguous-names": (
        (types_of_letters, "_join", _ambiguous_names),
        dead_letters.test_no_two_groups_share_a_dead_letter_topic_by_accident,
    ),
    "redrive-without-a-key": ((AsyncDeadLetters, "_record", _redrive_without_a_key), _interrupted_redrive),
    "decide-anew": (
        (TransactionTable, "may_be_forgotten", _decide_anew),
        lambda: table_of_transactions.test_what_may_be_forgotten_is_not_decided_again(False),
    ),
    "own-beginning": (
        (ClusterClock, "may_lead", _own_beginning),
        lambda: cluster_clock.test_a_node_that_starts_with_a_wrong_clock_begins_with_the_time_of_the_others(1 << 40),
    ),
    "start-over": (
        (Staging, "rest", _start_over),
        lambda: transactions.test_the_next_leader_finishes_the_decision(1, is_known=True),
    ),
}


#: The same for a node that leads: tests that need a folder.
OF_LEADERS: dict[str, tuple[Replacement, Callable[[Path, pytest.MonkeyPatch], None]]] = {
    "answer-cut-off": (
        (Confirmations, "link_lost", _ignore_lost_links),
        lambda folder, _: node.test_a_leader_whose_links_leave_no_quorum_is_not_believed(folder),
    ),
    "answer-after-pause": (
        (PauseDetector, "pauses", _ignore_pauses),
        node.test_a_leader_that_was_paused_is_confirmed_by_a_quorum,
    ),
}


@pytest.mark.parametrize("name", OF_LEADERS)
def test_leaders_that_are_not_confirmed_are_caught(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replacement, test = OF_LEADERS[name]
    with replaced([replacement]), pytest.raises(AssertionError):
        test(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", MUTANTS)
def test_caught(name: str) -> None:
    replacement, test = MUTANTS[name]
    test()
    with replaced([replacement]), pytest.raises((AssertionError, KeyError, pytest.fail.Exception)):
        test()
