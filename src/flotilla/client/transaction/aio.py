"""Transactions for coroutines: records of several topics that become visible together, or not at all.

Records are staged at the leaders of their partitions; then one decision of the cluster applies to all of them. A
failure before the decision aborts the transaction, and so does a cancelled commit, in the background. If this process
dies before the decision, the cluster aborts the transaction: at once when it has made the id itself and no other
process can know it, else when its time limit is over.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from types import TracebackType
from typing import Any, Final, Self, Unpack

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.closing import TimeLimit, limit_after
from flotilla.client._core.positions import find_topic
from flotilla.client.producer._partition_lane import new_producer_id
from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields, as_records
from flotilla.client.queue.message import Leased
from flotilla.client.transaction._core import (
    BUFFER_BYTES,
    Committed,
    Partition,
    PendingAcks,
    PendingBatch,
    TransactionBuffer,
    choose_partition,
)
from flotilla.machine import here, now_ms
from flotilla.types.errors import (
    FlotillaError,
    ForgottenError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    TransactionEndedError,
    UnavailableError,
)
from flotilla.types.limits import RESULT_BYTES_MAX
from flotilla.types.operations.transactions import (
    ALREADY_DECIDED,
    AbortTransaction,
    CommitTransaction,
    Stage,
    StagedBatch,
    StageSettlement,
    TransactionOutcome,
    TransactionShown,
)
from flotilla.types.records import Record

#: How long one request for the outcome waits at the broker.
_OUTCOME_WAIT_MS: Final = 5_000
#: The event loop has weak references only.
_ABORTING: Final[set[asyncio.Task[None]]] = set()


class AsyncTransaction:
    """Made by `AsyncClient.transaction`. As a context manager it commits at the end, and aborts on an exception."""

    def __init__(
        self,
        opened: Callable[[], Network],
        transaction_id: str | None,
        timeout_ms: int,
        transaction_timeout_ms: int = 0,
    ) -> None:
        self._opened = opened
        self._transaction_timeout_ms = transaction_timeout_ms
        self._is_shared = transaction_id is not None
        self._id = transaction_id or f"{here().chance().getrandbits(128):032x}"
        self._timeout_ms = timeout_ms
        self._gathered: TransactionBuffer | None = None
        #: One flush at a time: the next one stages what was added since.
        self._flushing = asyncio.Lock()
        #: When the first record was staged, by the cluster's clock; 0: none is staged.
        self._begun_ms = 0
        #: The partition of records without a key, by topic.
        self._unkeyed: dict[str, int] = {}
        #: `commit` was called: what is added now would be left out.
        self._is_complete = False
        self._is_over = False
        self._is_repeated = False

    @property
    def transaction_id(self) -> str:
        """The id under which any process may stage more records, commit, or abort."""
        return self._id

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Topic and number of every partition that this process has added records to."""
        return [] if self._gathered is None else self._gathered.partitions

    @property
    def receipts(self) -> list[Receipt]:
        """The receipts of the records, in the order of adding. Raises TransactionEndedError before a commit.

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
        """Adds one record. It may stay in this process until the commit, and is visible to no reader before."""
        limit = TimeLimit(self._timeout_ms)
        gathered = await self._add(topic, [payload], key, partition, fields, limit)
        if gathered.size_bytes >= BUFFER_BYTES:
            await self._flush(limit)

    async def stage(
        self,
        topic: str,
        payloads: Iterable[bytes | Record],
        *,
        key: bytes | None = None,
        partition: int | None = None,
        **fields: Unpack[RecordFields],
    ) -> None:
        """Adds many records, and returns when the cluster has staged them: from then on any process may commit."""
        limit = TimeLimit(self._timeout_ms)
        await self._add(topic, list(payloads), key, partition, fields, limit)
        await self._flush(limit)

    async def ack(self, *messages: Leased[Any], result: bytes | None = None) -> None:
        """Acknowledges messages of queue groups with this transaction: settled when it commits, released if not.

        `result`, up to 64 KiB, is for the callers that wait for this one message; they get it with the commit.

        Raises LeaseExpiredError for a message whose lease is over, as the commit does if that shows later. Until they
        are staged, at the commit or by `stage`, their leases are renewed as before; after that no consumer gets them
        before the decision.
        """
        if result is not None and len(messages) != 1:
            raise InvalidArgumentError("a result is of one message")
        if result is not None and len(result) > RESULT_BYTES_MAX:
            raise InvalidArgumentError(f"a result has at most {RESULT_BYTES_MAX} bytes")
        limit = TimeLimit(self._timeout_ms)
        for message in messages:
            if result is not None and not self._incomplete().has_room(message, result):
                await self._flush(limit)
            self._incomplete().add_ack(message, result)

    async def commit(self, *, application_id: str = "", version: int = 0) -> None:
        """Makes everything visible in all partitions, and returns when it is. After that there are receipts.

        With an application id and a version: only once, however often that version is committed. What is added from
        the call on, by another task, is refused with TransactionEndedError.
        """
        gathered = self._open()
        self._is_complete = True
        limit = TimeLimit(self._timeout_ms)
        await self._stage_rest(limit)
        try:
            committed = await commit_transaction(
                self._opened(),
                self._id,
                application_id,
                version,
                gathered.partitions,
                limit.left_ms or 1,
                begun_ms=self._begun_ms,
                topic_ids=[gathered.topic_id(topic) for topic, _ in gathered.partitions],
            )
        except asyncio.CancelledError:
            self._abort_in_background()
            raise
        except OutcomeUnknownError:
            # The commit may be repeated; by then the outcome is known.
            raise
        except FlotillaError:
            await self._abort_within(limit)
            raise
        self._is_over = True
        self._is_repeated = committed.is_repeated
        for place, batches in committed.batches.items():
            gathered.shown(place, batches)

    async def abort(self) -> None:
        """Drops everything. Raises TransactionEndedError when it was committed."""
        await abort_transaction(self._opened(), self._id, self.partitions, self._timeout_ms, self._begun_ms)
        self._is_over = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self._abort_quietly(limit_after(error))
        elif not self._is_over:
            await self.commit()

    # Internal.

    def _open(self) -> TransactionBuffer:
        if self._is_over:
            raise TransactionEndedError(f"transaction {self._id} is over")
        if self._gathered is None:
            self._gathered = TransactionBuffer(new_producer_id(self._opened().session))
        return self._gathered

    def _incomplete(self) -> TransactionBuffer:
        gathered = self._open()
        if self._is_complete:
            raise TransactionEndedError(f"transaction {self._id} is being committed, and takes nothing more")
        return gathered

    async def _add(
        self,
        topic: str,
        payloads: Sequence[bytes | Record],
        key: bytes | None,
        partition: int | None,
        fields: RecordFields,
        limit: TimeLimit,
    ) -> TransactionBuffer:
        time_ms = now_ms()
        # Records that every broker would refuse are refused before one is asked.
        as_records(payloads, key, fields, time_ms)
        self._incomplete()
        network = self._opened()
        found = await find_topic(network, topic, limit.left_ms or 1, create=True)
        # Delays count by the time of a broker, which the broker that described the topic has sent.
        records = as_records(payloads, key, fields, time_ms, network.difference)
        unkeyed = self._unkeyed.setdefault(topic, network.session.chance.getrandbits(31))
        gathered = self._incomplete()
        gathered.topic_ids.setdefault(topic, found.topic_id)
        for record in records:
            gathered.add(topic, choose_partition(record, partition, found, unkeyed), record)
        return gathered

    async def _flush(self, limit: TimeLimit) -> None:
        """Stages partitions in parallel, and the batches of one partition one after the other, to keep their order."""
        async with self._flushing:
            await self._stage_all(limit)

    async def _stage_all(self, limit: TimeLimit) -> None:
        assert self._gathered is not None
        rows: dict[Partition, list[PendingBatch | PendingAcks]] = {}
        for acks in self._gathered.unstaged_acks():
            rows.setdefault(acks.partition, []).append(acks)
        for batch in self._gathered.unstaged():
            rows.setdefault(batch.partition, []).append(batch)
        outcomes = await asyncio.gather(*[self._stage_row(row, limit) for row in rows.values()], return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _stage_rest(self, limit: TimeLimit) -> None:
        """Stages what a commit needs. Any failure ends the transaction: nothing was decided yet."""
        try:
            await self._flush(limit)
        except asyncio.CancelledError:
            self._abort_in_background()
            raise
        except OutcomeUnknownError as error:
            self._abort_in_background()
            raise UnavailableError(
                f"transaction {self._id} is aborted: a broker did not say whether it has staged a part of it"
            ) from error
        except FlotillaError:
            await self._abort_within(limit)
            raise

    async def _stage_row(self, row: list[PendingBatch | PendingAcks], limit: TimeLimit) -> None:
        gathered = self._gathered
        assert gathered is not None
        for part in row:
            topic, number = part.partition
            if isinstance(part, PendingAcks):
                request = StageSettlement(
                    topic, number, part.group, self._id, part.ranges(), part.topic_id, *self._terms(), part.results
                )
                await self._call(request, limit)
                gathered.staged_acks(part)
            else:
                batch = part.encode(gathered.producer_id)
                topic_id = gathered.topic_ids[topic]
                await self._call(Stage(topic, number, self._id, batch, topic_id, *self._terms()), limit)
                gathered.staged(part)

    def _terms(self) -> tuple[int, str]:
        """Time limit and member of a stage. Another process may commit a transaction whose id it was given."""
        return self._transaction_timeout_ms, "" if self._is_shared else self._opened().session.member

    async def _call(self, request: Stage | StageSettlement, limit: TimeLimit) -> None:
        staged = await self._opened().call(request, limit.left_ms or 1)
        self._begun_ms = min(self._begun_ms or staged.begun_ms, staged.begun_ms)

    def _abort_in_background(self) -> None:
        """The caller does not wait any more, and messages whose acks are staged must come back soon."""
        self._is_over = True
        aborting = asyncio.get_running_loop().create_task(self._abort_quietly())
        _ABORTING.add(aborting)
        aborting.add_done_callback(_ABORTING.discard)

    async def _abort_within(self, limit: TimeLimit) -> None:
        """The caller waits for the abort as long as its call may take."""
        left_ms = limit.left_ms
        if left_ms:
            await self._abort_quietly(left_ms)
        else:
            self._abort_in_background()

    async def _abort_quietly(self, timeout_ms: int | None = None) -> None:
        """Raises the first error. A partition that cannot be reached now drops its part later."""
        self._is_over = True
        if self._gathered is not None:
            with suppress(FlotillaError):
                limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
                await abort_transaction(self._opened(), self._id, self.partitions, limit_ms, self._begun_ms)


async def commit_transaction(
    network: Network,
    transaction_id: str,
    application_id: str,
    version: int,
    partitions: Sequence[Partition],
    timeout_ms: int,
    *,
    begun_ms: int = 0,
    topic_ids: Sequence[int] = (),
) -> Committed:
    """Decides, then waits until the part of every partition is visible. begun_ms 0: the partitions are asked.

    With begun_ms, `topic_ids` has the topic of each partition.
    """
    request = CommitTransaction(
        transaction_id, list(partitions), application_id, version, [], begun_ms, topic_ids=list(topic_ids)
    )
    return await _commit(network, request, [(transaction_id, place) for place in dict.fromkeys(partitions)], timeout_ms)


async def commit_together(
    network: Network,
    transaction_id: str,
    application_id: str,
    version: int,
    members: Mapping[str, Sequence[Partition]],
    timeout_ms: int,
) -> Committed:
    """Decides for several transactions at once, then waits until the parts of all partitions are visible."""
    places = {place: at for at, place in enumerate(dict.fromkeys(chain.from_iterable(members.values())))}
    rows = [(name, [places[place] for place in dict.fromkeys(partitions)]) for name, partitions in members.items()]
    request = CommitTransaction(transaction_id, list(places), application_id, version, rows)
    staged = [(name, place) for name, partitions in members.items() for place in dict.fromkeys(partitions)]
    return await _commit(network, request, staged, timeout_ms)


async def _commit(
    network: Network, request: CommitTransaction, staged: Sequence[tuple[str, Partition]], timeout_ms: int
) -> Committed:
    limit = TimeLimit(timeout_ms)
    if not request.begun_ms:
        request.begun_ms, topic_ids = await _begun(network, staged, timeout_ms)
        request.topic_ids = [topic_ids.get(place, 0) for place in request.partitions]
    decided = await network.call(request, limit.left_ms or 1)
    if decided.is_repeated:
        return Committed(True, {})
    asked = [_outcome(network, name, place, limit.left_ms or 1) for name, place in staged]
    try:
        shown = await asyncio.gather(*asked)
    except ForgottenError:
        raise
    except FlotillaError as error:
        raise OutcomeUnknownError(
            f"transaction {request.transaction_id} is committed, but not all partitions have said that they show it"
        ) from error
    batches: dict[Partition, list[StagedBatch]] = {}
    for (_, place), found in zip(staged, shown, strict=True):
        batches.setdefault(place, []).extend(found.batches)
    for each in batches.values():
        each.sort(key=lambda batch: batch.base_offset)
    return Committed(False, batches)


async def _begun(
    network: Network, staged: Sequence[tuple[str, Partition]], timeout_ms: int
) -> tuple[int, dict[Partition, int]]:
    """When the first of these was staged, and in which topics.

    ALREADY_DECIDED: not all of them wait for a decision; 0: there are none.
    """
    asked = [network.call(TransactionOutcome(*place, name), timeout_ms) for name, place in staged]
    found = await asyncio.gather(*asked, return_exceptions=True)
    begun = []
    topic_ids = {}
    for (_, place), answer in zip(staged, found, strict=True):
        if isinstance(answer, NotFoundError):
            # Nothing was staged there, or so long ago that the partition has forgotten it.
            begun.append(ALREADY_DECIDED)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            begun.append(answer.begun_ms or ALREADY_DECIDED)
            topic_ids[place] = answer.topic_id
    return min(begun, default=0), topic_ids


async def _outcome(network: Network, transaction_id: str, place: Partition, timeout_ms: int) -> TransactionShown:
    """The visible part of a partition. Raises ForgottenError when a committed transaction has none there."""
    request = TransactionOutcome(*place, transaction_id, min(_OUTCOME_WAIT_MS, timeout_ms))
    missing = f"transaction {transaction_id} is committed, but partition {place[1]} of {place[0]!r}"
    try:
        shown = await network.call(request, timeout_ms)
    except NotFoundError as error:
        raise ForgottenError(f"{missing} remembers nothing of it: {error}") from error
    if not shown.is_shown:
        raise ForgottenError(f"{missing} has dropped its part")
    return shown


async def abort_transaction(
    network: Network, transaction_id: str, partitions: Sequence[Partition], timeout_ms: int, begun_ms: int = 0
) -> None:
    request = AbortTransaction(transaction_id, list(partitions), begun_ms)
    await network.call(request, timeout_ms)
