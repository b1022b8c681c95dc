"""Deliberate bugs of transactions, at the broker and in the client: parts that are lost, kept or decided twice."""

from collections.abc import Iterable
from typing import Any, Final

from flotilla.broker.partition.transactions import PartitionTransactions
from flotilla.broker.queue.groups import PartitionQueue
from flotilla.client._core.closing import TimeLimit
from flotilla.client.transaction._core import PendingAcks
from flotilla.client.transaction.aio import AsyncTransaction
from flotilla.partition.leader.transactions import Decision
from flotilla.sim.whole.mutants.mutant import WholeMutant


def _stage_no_acks(original: Any) -> Any:
    async def stage_row(self: AsyncTransaction, row: list[Any], limit: TimeLimit) -> None:
        await original(self, [part for part in row if not isinstance(part, PendingAcks)], limit)

    return stage_row


def _settle_the_aborted(original: Any) -> Any:
    def unstage(self: PartitionQueue, staged: Iterable[Any], *, is_committed: bool) -> None:
        original(self, staged, is_committed=True)

    return unstage


def _release_the_committed(original: Any) -> Any:
    def unstage(self: PartitionQueue, staged: Iterable[Any], *, is_committed: bool) -> None:
        original(self, staged, is_committed=False)

    return unstage


def _commit_everything(original: Any) -> Any:
    def decision(self: PartitionTransactions, transaction_id: str) -> Decision | None:
        found: Decision | None = original(self, transaction_id)
        return None if found is None else Decision(True, True)

    return decision


def _never_block(original: Any) -> Any:
    return property(lambda self: False)


MUTANTS: Final = (
    WholeMutant(
        "stage-no-acks",
        "acknowledgements are not part of the transaction",
        ((AsyncTransaction, "_stage_row", _stage_no_acks),),
        ("transactions",),
    ),
    WholeMutant(
        "settle-the-aborted",
        "an abort settles the messages of its transaction",
        ((PartitionQueue, "unstage", _settle_the_aborted),),
        ("transactions",),
        ("kill", "isolate", "cut-client"),
        60,
    ),
    WholeMutant(
        "release-the-committed",
        "a commit releases the messages of its transaction",
        ((PartitionQueue, "unstage", _release_the_committed),),
        ("transactions",),
    ),
    WholeMutant(
        "commit-everything",
        "a partition takes every decision for a commit",
        ((PartitionTransactions, "decision", _commit_everything),),
        ("transactions",),
    ),
    WholeMutant(
        "never-block",
        "other batches are stored between those of a transaction",
        ((PartitionTransactions, "is_blocking", _never_block),),
        ("transactions",),
    ),
)
