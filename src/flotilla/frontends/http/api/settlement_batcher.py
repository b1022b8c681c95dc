"""A batcher for settlements: those that arrive while one request is in flight share the next one.

A worker acks one task at a time, and there are many workers: without batches, each ack would cost the leader a
request. The first settlement leaves at once and waits for no others.
"""

import asyncio
from typing import NamedTuple

from flotilla.gateway.gateway import Gateway
from flotilla.types.errors import FlotillaError, InvalidArgumentError, LeaseExpiredError
from flotilla.types.ids import Offset
from flotilla.types.limits import RESULT_BYTES_MAX, RESULT_REQUEST_BYTES_MAX
from flotilla.types.operations.queue import BY_BACKOFF, LeaseRange, MessageResult, Settle

#: Messages in one request.
_SETTLE_MAX = 1_024


class Settlement(NamedTuple):
    """Where and how leases end: those that have it in common share a request."""

    topic: str
    topic_id: int
    partition: int
    group: str
    kind: int
    reason: str = ""
    delay_ms: int = BY_BACKOFF


class _Pending(NamedTuple):
    lease_id: int
    offset: Offset
    member: str
    result: bytes | None
    future: "asyncio.Future[FlotillaError | None]"


class SettlementBatcher:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        #: Each list has a task that sends it.
        self._pending: dict[tuple[Settlement, object], list[_Pending]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def settle(
        self, settlement: Settlement, offset: Offset, *, lease_id: int, member: str, result: bytes | None = None
    ) -> None:
        """Ends the lease of one message; lease_id 0 means the lease of the member. Raises FlotillaError."""
        loop = asyncio.get_running_loop()
        if result is not None and len(result) > RESULT_BYTES_MAX:
            raise InvalidArgumentError(f"a result has at most {RESULT_BYTES_MAX} bytes, not {len(result)}")
        pending = _Pending(lease_id, offset, member, result, loop.create_future())
        # Only callers of the same rights share a request.
        key = (settlement, self._gateway.caller)
        queue = self._pending.get(key)
        if queue is None:
            self._pending[key] = [pending]
            task = loop.create_task(self._send_all(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            queue.append(pending)
        error = await pending.future
        if error is not None:
            raise error

    async def _send_all(self, key: tuple[Settlement, object]) -> None:
        queue = self._pending[key]
        settlement, _ = key
        try:
            while queue:
                batch = _first_of(queue)
                del queue[: len(batch)]
                try:
                    await self._settle(settlement, batch)
                except Exception as fault:
                    # A fault of the program: each of the requests reports it, and none waits for ever.
                    for pending in batch:
                        if not pending.future.done():
                            pending.future.set_exception(fault)
        finally:
            del self._pending[key]
            for pending in queue:
                pending.future.cancel()

    async def _settle(self, settlement: Settlement, batch: list[_Pending]) -> None:
        try:
            refused = await self._ask(settlement, batch)
        except InvalidArgumentError as error:
            if len(batch) > 1:
                # One of them may be invalid: each is sent alone, so that the others succeed.
                for pending in batch:
                    await self._settle(settlement, [pending])
                return
            _resolve(batch, error)
        except FlotillaError as error:
            _resolve(batch, error)
        else:
            _resolve([each for each in batch if each.offset not in refused], None)
            for each in batch:
                if each.offset in refused:
                    # An error for each: one that is raised again and again keeps every traceback.
                    _resolve([each], LeaseExpiredError("the lease has expired, or the task has ended"))

    async def _ask(self, settlement: Settlement, batch: list[_Pending]) -> set[Offset]:
        """The offsets that were refused."""
        request = Settle(
            settlement.topic,
            settlement.partition,
            settlement.group,
            settlement.kind,
            [LeaseRange(each.lease_id, each.offset, each.offset + 1) for each in batch],
            settlement.reason,
            settlement.delay_ms,
            [each.member for each in batch],
            settlement.topic_id,
            [MessageResult(each.offset, each.result) for each in batch if each.result is not None],
        )
        settled = await self._gateway.ask(request)
        return {offset for run in settled.expired for offset in range(run.first, run.end)}


def _first_of(queue: list[_Pending]) -> list[_Pending]:
    """As many as fit into one request."""
    room = RESULT_REQUEST_BYTES_MAX
    for count, pending in enumerate(queue[:_SETTLE_MAX]):
        room -= len(pending.result or b"")
        if room < 0:
            return queue[:count]
    return queue[:_SETTLE_MAX]


def _resolve(batch: list[_Pending], error: FlotillaError | None) -> None:
    for pending in batch:
        if not pending.future.done():
            pending.future.set_result(error)
