"""Deliberate bugs of transactions in the state of partitions and of metadata.

Each makes half of one visible, makes one visible twice, or loses what it held.
"""

from dataclasses import replace
from typing import Any, Final

from flotilla.metadata.transactions import Transaction, TransactionTable
from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.partition_commands import DropStage
from flotilla.partition.leader.group_delivery import GroupDelivery
from flotilla.partition.leader.places import STAGED
from flotilla.partition.leader.transactions import TransactionLeader
from flotilla.partition.state import transaction_snapshot
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.transactions import Concluded, Published, StagedTransactions, Staging
from flotilla.sim.whole.mutants.mutant import WholeMutant
from flotilla.types.ids import Index

# Visibility.


def _show_at_once(original: Any) -> Any:
    def publish(self: StagedTransactions, facts: BatchFacts, index: Index) -> Published:
        held = len(self.held)
        published: Published = original(self, facts, index)
        if not published.batches:
            return replace(published, batches=tuple(self.held[held:]))
        return replace(published, batches=published.batches[held:])

    return publish


def _lose_a_part(original: Any) -> Any:
    def stage(
        self: StagedTransactions,
        transaction_id: str,
        index: Index,
        facts: BatchFacts,
        now_ms: int,
        timeout_ms: int = 0,
    ) -> Staging:
        staging: Staging = original(self, transaction_id, index, facts, now_ms, timeout_ms)
        if len(staging.parts) > 2:
            staging.parts.pop()
        return staging

    return stage


def _drop_by_age(original: Any) -> Any:
    def check(self: TransactionLeader, now_ms: int) -> None:
        original(self, now_ms)
        for staging in list(self._state.open.values()):
            if now_ms - staging.first_staged_ms > self._timeout_ms // 4 and not staging.offsets:
                self._conclude(DropStage(staging.transaction_id, now_ms))

    return check


# Once.


def _stage_twice(original: Any) -> Any:
    return lambda self, facts: False


def _commit_again(original: Any) -> Any:
    return lambda self, application_id, version: False


def _last_decision_stands(original: Any) -> Any:
    def decide(self: TransactionTable, transaction_id: str, *arguments: Any, **named: Any) -> Transaction:
        self.awaited.pop(transaction_id, None)
        self.ended._kinds.pop(transaction_id, None)
        decided: Transaction = original(self, transaction_id, *arguments, **named)
        return decided

    return decide


def _any_decision(original: Any) -> Any:
    return lambda self, *arguments, **named: None


# Acks.


def _settle_nothing(original: Any) -> Any:
    return lambda self, staged: None


def _forget_staged_acks(original: Any) -> Any:
    def __init__(self: GroupDelivery, *arguments: Any, **named: Any) -> None:  # noqa: N807 -- it takes the place of one.
        original(self, *arguments, **named)
        for first, end, place in list(self.taken):
            if place == STAGED:
                self.taken.remove(first, end)

    return __init__


def _keep_aborted(original: Any) -> Any:
    def unstage(self: GroupDelivery, runs: Any, now_ms: int, *, is_committed: bool) -> None:
        if is_committed:
            original(self, runs, now_ms, is_committed=True)

    return unstage


def _ack_dropped(original: Any) -> Any:
    def drop_stage(self: PartitionMachine, command: Any) -> Concluded:
        concluded: Concluded = original(self, command)
        self._settle_staged(concluded.acks)
        return concluded

    return drop_stage


def _restore_no_acks(original: Any) -> Any:
    def read_staging(reader: Any) -> Staging:
        staging: Staging = original(reader)
        staging.acks.clear()
        return staging

    return read_staging


MUTANTS: Final = (
    WholeMutant(
        "show-at-once",
        "batches of a transaction are seen one by one",
        ((StagedTransactions, "publish", _show_at_once),),
        ("transactions",),
        ("kill", "isolate", "transfer"),
    ),
    WholeMutant(
        "lose-a-part",
        "a batch too many is answered and not kept",
        ((StagedTransactions, "stage", _lose_a_part),),
        ("transactions",),
        ("kill", "isolate", "transfer"),
    ),
    WholeMutant(
        "drop-by-age",
        "a replica drops old stages by its clock",
        ((TransactionLeader, "check", _drop_by_age),),
        ("transactions",),
        ("kill", "isolate", "transfer"),
    ),
    WholeMutant(
        "stage-twice",
        "a repeated stage is another one",
        ((Staging, "has", _stage_twice),),
        ("transactions",),
    ),
    WholeMutant(
        "commit-again",
        "a version is committed twice",
        ((TransactionTable, "_is_done", _commit_again),),
        ("transactions",),
    ),
    WholeMutant(
        "last-decision",
        "a later decision takes the place of the first",
        ((TransactionTable, "decide", _last_decision_stands), (TransactionTable, "check", _any_decision)),
        ("transactions",),
        ("kill", "isolate", "transfer"),
        seed=2,
    ),
    WholeMutant(
        "settle-nothing",
        "a commit leaves the messages",
        ((PartitionMachine, "_settle_staged", _settle_nothing),),
        ("transactions",),
        ("kill", "isolate", "transfer"),
    ),
    WholeMutant(
        "forget-staged-acks",
        "a new leader delivers them",
        ((GroupDelivery, "__init__", _forget_staged_acks),),
        ("transactions",),
        ("kill", "isolate", "transfer"),
        seed=4,
    ),
    WholeMutant(
        "keep-aborted",
        "an abort gives nothing back",
        ((GroupDelivery, "unstage", _keep_aborted),),
        ("transactions",),
        ("kill", "isolate", "transfer"),
    ),
    WholeMutant(
        "ack-dropped",
        "an abort settles the messages",
        ((PartitionMachine, "_drop_stage", _ack_dropped),),
        ("transactions",),
        ("kill", "isolate", "transfer"),
    ),
    WholeMutant(
        "restore-no-acks",
        "a snapshot has no acks",
        ((transaction_snapshot, "_read_staging", _restore_no_acks),),
        ("transactions",),
        ("kill", "isolate", "transfer"),
    ),
)
