"""Transactions for coroutines: records of several topics that are seen together, or not at all.

Records are staged at the leaders of their partitions; then one decision of the cluster stands for all of them. What
fails before the decision is aborted; what nobody decides about, because this process died, the cluster aborts after
a quarter of an hour.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from secrets import token_hex
from types import TracebackType
from typing import Final, Self, Unpack

from flotilla.client.batches import Receipt
from flotilla.client.calls import READ, REPEATABLE
from flotilla.client.fields import RecordFields, as_record, make_record
from flotilla.client.lane import new_producer_id
from flotilla.client.network import Network, time_of_day_ms
from flotilla.client.positions import find_topic
from flotilla.client.routes import CONTROLLER, Route
from flotilla.client.transaction import (
    BUFFER_BYTES,
    Committed,
    Gathered,
    Partition,
    PendingBatch,
    choose_partition,
)
from flotilla.types.errors import FlotillaError, NotFoundError, OutcomeUnknownError, TransactionEndedError
from flotilla.types.records import Record
from flotilla.types.transaction_operations import (
    AbortTransaction,
    CommitTransaction,
    Stage,
    TransactionDecided,
    TransactionOutcome,
    TransactionShown,
)

#: How long one question for the outcome waits at the broker.
_OUTCOME_WAIT_MS: Final = 5_000


class AsyncTransaction:
    """Made by `AsyncClient.transaction`. As a context manager it commits at the end, and aborts on an exception."""

    def __init__(self, opened: Callable[[], Network], transaction_id: str | None, timeout_ms: int) -> None:
        self._opened = opened
        self._id = transaction_id or token_hex(16)
        self._timeout_ms = timeout_ms
        self._gathered: Gathered | None = None
        #: Where records without a key go, by topic.
        self._unkeyed: dict[str, int] = {}
        self._is_over = False
        self._is_repeated = False

    @property
    def transaction_id(self) -> str:
        """Under which any process may stage more, commit, or abort."""
        return self._id

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Topic and number of every partition for which this process has given records."""
        return [] if self._gathered is None else self._gathered.partitions

    @property
    def receipts(self) -> list[Receipt]:
        """Where the records are, in the order in which they were given. Raises TransactionEndedError before a commit.

        None, if the application had committed this version before: then nothing was stored now.
        """
        return [] if self._gathered is None or self._is_repeated else self._gathered.receipts()

    async def produce(
        self,
        topic: str,
        payload: bytes,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        **fields: Unpack[RecordFields],
    ) -> None:
        """Adds one record. It may stay here until the commit; nobody sees it before."""
        record = make_record(payload, key, fields, time_of_day_ms())
        gathered = self._open()
        await self._add(topic, [record], partition)
        if gathered.size_bytes >= BUFFER_BYTES:
            await self._flush()

    async def stage(
        self,
        topic: str,
        payloads: Iterable[bytes | Record],
        *,
        key: bytes | None = None,
        partition: int | None = None,
        **fields: Unpack[RecordFields],
    ) -> None:
        """Adds many records, and returns when the cluster holds them: now any process may commit."""
        now_ms = time_of_day_ms()
        self._open()
        await self._add(topic, [as_record(payload, key, fields, now_ms) for payload in payloads], partition)
        await self._flush()

    async def commit(self, *, application_id: str = "", version: int = 0) -> None:
        """Has everything be seen, in all partitions, and returns when it is. After that there are receipts.

        With an application's id and a version: once, however often that version is committed.
        """
        gathered = self._open()
        try:
            await self._flush()
            committed = await commit_transaction(
                self._opened(), self._id, application_id, version, gathered.partitions, self._timeout_ms
            )
        except OutcomeUnknownError:
            # It may be asked for again, and then it is known.
            raise
        except FlotillaError:
            await self._abort_quietly()
            raise
        self._is_over = True
        self._is_repeated = committed.is_repeated
        for place, batches in committed.batches.items():
            gathered.shown(place, batches)

    async def abort(self) -> None:
        """Has nothing of it ever be seen. Raises TransactionEndedError when it was committed."""
        await abort_transaction(self._opened(), self._id, self.partitions, self._timeout_ms)
        self._is_over = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self._abort_quietly()
        elif not self._is_over:
            await self.commit()

    # Inside.

    def _open(self) -> Gathered:
        if self._is_over:
            raise TransactionEndedError(f"transaction {self._id} is over")
        if self._gathered is None:
            self._gathered = Gathered(new_producer_id(self._opened().session))
        return self._gathered

    async def _add(self, topic: str, records: Sequence[Record], partition: int | None) -> None:
        network = self._opened()
        found = await find_topic(network, topic, self._timeout_ms, create=True)
        unkeyed = self._unkeyed.setdefault(topic, network.session.chance.getrandbits(31))
        gathered = self._open()
        for record in records:
            gathered.add(topic, choose_partition(record, partition, len(found.partitions), unkeyed), record)

    async def _flush(self) -> None:
        """Partitions side by side; the batches of each one after the other, so that they keep their order."""
        assert self._gathered is not None
        rows: dict[Partition, list[PendingBatch]] = {}
        for batch in self._gathered.unstaged():
            rows.setdefault(batch.partition, []).append(batch)
        outcomes = await asyncio.gather(*[self._stage_row(row) for row in rows.values()], return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _stage_row(self, row: list[PendingBatch]) -> None:
        gathered = self._gathered
        assert gathered is not None
        for batch in row:
            topic, number = batch.partition
            request = Stage(topic, number, self._id, batch.encode(gathered.producer_id))
            await self._opened().call(request, Route(topic, number), self._timeout_ms, REPEATABLE)
            gathered.staged(batch)

    async def _abort_quietly(self) -> None:
        """What went wrong first is what is told. Who cannot be reached now aborts by itself later."""
        self._is_over = True
        if self._gathered is not None:
            with suppress(FlotillaError):
                await abort_transaction(self._opened(), self._id, self.partitions, self._timeout_ms)


async def commit_transaction(
    network: Network,
    transaction_id: str,
    application_id: str,
    version: int,
    partitions: Sequence[Partition],
    timeout_ms: int,
) -> Committed:
    """Decides, then waits until every partition shows its part."""
    request = CommitTransaction(transaction_id, list(partitions), application_id, version)
    decided = await network.call(request, CONTROLLER, timeout_ms, REPEATABLE)
    assert isinstance(decided, TransactionDecided)
    if decided.is_repeated:
        return Committed(True, {})
    places = list(dict.fromkeys(partitions))
    asked = [_outcome(network, transaction_id, place, timeout_ms) for place in places]
    try:
        shown = await asyncio.gather(*asked)
    except FlotillaError as error:
        raise OutcomeUnknownError(
            f"transaction {transaction_id} is committed, but not all partitions have said that they show it"
        ) from error
    return Committed(False, {place: found.batches for place, found in zip(places, shown, strict=True)})


async def _outcome(network: Network, transaction_id: str, place: Partition, timeout_ms: int) -> TransactionShown:
    request = TransactionOutcome(*place, transaction_id, min(_OUTCOME_WAIT_MS, timeout_ms))
    try:
        shown = await network.call(request, Route(*place), timeout_ms, READ)
    except NotFoundError:
        # Nothing was staged there, or so long ago that the partition has forgotten it.
        return TransactionShown(False)
    assert isinstance(shown, TransactionShown)
    return shown


async def abort_transaction(
    network: Network, transaction_id: str, partitions: Sequence[Partition], timeout_ms: int
) -> None:
    request = AbortTransaction(transaction_id, list(partitions))
    await network.call(request, CONTROLLER, timeout_ms, REPEATABLE)
