"""Deliberate bugs of queue groups, in the state and at the leader of a partition: mistakes that queues shipped with."""

from typing import Any, Final

from flotilla.partition.commands.partition_commands import CancelRecords, CommitOffset, GroupSettlement
from flotilla.partition.leader import queue_leader
from flotilla.partition.leader.delays import Delays
from flotilla.partition.leader.delivery_limits import DeliveryLimits
from flotilla.partition.leader.group_delivery import GroupDelivery, LeasedMessages
from flotilla.partition.leader.key_order import KeyOrder
from flotilla.partition.leader.leases import LeaseTable
from flotilla.partition.leader.outcome import Outcome
from flotilla.partition.leader.rate_limit import RateLimit
from flotilla.partition.leader.settlement_outbox import Piece
from flotilla.partition.offset_runs import RunMap, RunSet
from flotilla.partition.queries import Position
from flotilla.partition.state import group_snapshot, snapshot
from flotilla.partition.state.group import Failure, GroupState
from flotilla.partition.state.group_table import GroupTable
from flotilla.partition.state.idempotency_keys import KeyTable, PendingKeys
from flotilla.partition.state.producers import ProducerTable
from flotilla.sim.whole.mutants.mutant import WholeMutant
from flotilla.types.ids import Offset

_EARLY_MS: Final = 300


# Leases.


def _lease_again(original: Any) -> Any:
    def take(self: GroupDelivery, *arguments: Any) -> list[LeasedMessages]:
        leased: list[LeasedMessages] = original(self, *arguments)
        for run in leased[:1] if self._polls % 5 == 4 else ():
            self.taken.remove(run.first, run.first + 1)
            self.ready.put(run.first, run.first + 1, self._delays.now_ms)
        return leased

    return take


def _never_expire(original: Any) -> Any:
    return lambda self, now_ms, limit: []


def _ack_or_fail(original: Any) -> Any:
    def settlement_of(group: str, generation: int, pieces: list[Piece]) -> GroupSettlement:
        kinds = {piece.kind for piece in pieces}
        if len(kinds) > 1:
            pieces = [piece for piece in pieces if piece.kind != min(kinds)]
        made: GroupSettlement = original(group, generation, pieces)
        return made

    return settlement_of


# Attempts and deaths.


def _count_once(original: Any) -> Any:
    def fail(self: GroupState, first: Offset, end: Offset, not_before_ms: int, reason: str) -> int:
        for low, high, attempts in self.by_attempts(first, end):
            self.failures.set(low, high, Failure(max(attempts, 1), not_before_ms, reason))
        return end - first

    return fail


def _always_first(original: Any) -> Any:
    def leased(self: GroupDelivery, lease_id: int, chosen: list[Any]) -> list[LeasedMessages]:
        return [run._replace(attempt=1) for run in original(self, lease_id, chosen)]

    return leased


def _one_more_attempt(original: Any) -> Any:
    def split(self: DeliveryLimits, first: Offset, end: Offset, attempt: int, outcome: Outcome) -> Any:
        return original(self, first, end, attempt - 1, outcome)

    return split


def _forget_failures(original: Any) -> Any:
    def read_failures(reader: Any, queue: GroupState, count: int, reasons: list[str]) -> None:
        original(reader, queue, count, reasons)
        queue.failures.clear()

    return read_failures


# Time, order and rate.


def _come_early(original: Any) -> Any:
    return lambda self, now_ms, log_start: original(self, now_ms + _EARLY_MS, log_start)


def _retry_at_once(original: Any) -> Any:
    def place(self: GroupDelivery, first: Offset, end: Offset, now_ms: int, until_ms: int = 0) -> None:
        for low, high in list(self.state.unsettled(first, end)):
            self.ready.put(low, high, self._delays.now_ms)

    return place


def _forget_reservations(original: Any) -> Any:
    def __init__(self: RateLimit, group: GroupState) -> None:  # noqa: N807 -- it takes the place of one.
        original(self, group)
        self._tat_us = 0

    return __init__


def _always_its_turn(original: Any) -> Any:
    return lambda self, offset, key: True


# Storing once, positions, cancelling.


def _forget_keys(original: Any) -> Any:
    return lambda self, base_offset, keys: None


def _forget_keys_in_flight(original: Any) -> Any:
    return lambda self, base_offset, digests, token: None


def _restore_no_keys(original: Any) -> Any:
    def read_keys(reader: Any, entries_max: int) -> KeyTable:
        original(reader, entries_max)
        return KeyTable(entries_max)

    return read_keys


def _share_leaves(original: Any) -> Any:
    return lambda self, number: self._leaves[number]


def _share_producers(original: Any) -> Any:
    return lambda self, producer: producer


def _go_back(original: Any) -> Any:
    def commit_offset(self: GroupTable, command: CommitOffset) -> Position:
        position = Position(command.offset, command.now_ms, command.metadata)
        self.positions[command.group] = position
        return position

    return commit_offset


def _cancel_nowhere(original: Any) -> Any:
    def cancel(self: GroupTable, command: CancelRecords) -> tuple[Offset, ...]:
        for offset in command.offsets:
            self.cancelled.add(offset, offset + 1)
        return command.offsets

    return cancel


MUTANTS: Final = (
    WholeMutant(
        "lease-again",
        "a leased message is ready too",
        ((GroupDelivery, "take", _lease_again),),
        ("queue",),
    ),
    WholeMutant(
        "leases-never-end",
        "a lease outlives its member",
        ((LeaseTable, "expire", _never_expire),),
        ("queue",),
    ),
    WholeMutant(
        "ack-or-fail",
        "a command drops one of two kinds of ends",
        ((queue_leader, "settlement_of", _ack_or_fail),),
        ("queue",),
        seed=3,
    ),
    WholeMutant(
        "count-once",
        "only the first failure is counted",
        ((GroupState, "fail", _count_once),),
        ("queue",),
    ),
    WholeMutant(
        "always-first",
        "every delivery is called the first",
        ((GroupDelivery, "_leased_messages", _always_first),),
        ("queue",),
    ),
    WholeMutant(
        "one-more-attempt",
        "a message dies one attempt late",
        ((DeliveryLimits, "split", _one_more_attempt),),
        ("queue",),
    ),
    WholeMutant(
        "forget-failures",
        "a snapshot has no failures",
        ((group_snapshot, "_read_failures", _forget_failures),),
        ("queue",),
        ("kill", "restart", "power"),
    ),
    WholeMutant(
        "come-early",
        "delayed messages come early",
        ((Delays, "advance", _come_early),),
        ("queue",),
    ),
    WholeMutant(
        "retry-at-once",
        "what failed does not wait",
        ((GroupDelivery, "_place", _retry_at_once),),
        ("queue",),
    ),
    WholeMutant(
        "fresh-tokens",
        "a new leader begins with a full bucket",
        ((RateLimit, "__init__", _forget_reservations),),
        ("queue",),
        ("transfer", "restart", "kill"),
    ),
    WholeMutant(
        "two-of-a-key",
        "messages of one key go together",
        ((KeyOrder, "may_go", _always_its_turn),),
        ("queue",),
    ),
    WholeMutant(
        "forget-keys",
        "idempotency keys are not remembered",
        ((KeyTable, "record", _forget_keys),),
        ("queue",),
    ),
    WholeMutant(
        "keys-in-flight",
        "keys in flight are not looked at",
        ((PendingKeys, "begin", _forget_keys_in_flight),),
        ("queue",),
        seed=2,
    ),
    WholeMutant(
        "restore-no-keys",
        "a snapshot has no keys",
        ((snapshot, "_read_keys", _restore_no_keys),),
        ("queue",),
        ("kill", "restart", "power"),
    ),
    WholeMutant(
        "share-views",
        "a snapshot that is being written sees later changes",
        ((RunSet, "_own", _share_leaves), (RunMap, "_own", _share_leaves), (ProducerTable, "_own", _share_producers)),
        ("queue",),
        ("slow-disk",),
    ),
    WholeMutant(
        "go-back",
        "an older commit moves a position back",
        ((GroupTable, "_commit_offset", _go_back),),
        ("stream",),
        ("isolate", "pause", "cut-client"),
    ),
    WholeMutant(
        "cancel-nowhere",
        "a cancelled message is delivered",
        ((GroupTable, "_cancel", _cancel_nowhere),),
        ("queue",),
    ),
)
