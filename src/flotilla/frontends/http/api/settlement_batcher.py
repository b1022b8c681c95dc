"""Ends of leases from many requests, gathered: what comes while one settlement is under way shares the next one.

A worker acknowledges one task at a time, and there are many workers: without this, each of them would cost the leader
a request of its own. Nobody waits for company: the first one leaves at once.
"""

import asyncio
from typing import NamedTuple

from flotilla.gateway.gateway import Gateway
from flotilla.types.errors import FlotillaError, InvalidArgumentError, LeaseExpiredError
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import BY_BACKOFF, LeaseRange, Settle

#: Messages of one settlement.
_SETTLE_MAX = 1_024


class Verdict(NamedTuple):
    """What settlements must have in common to travel together."""

    topic: str
    topic_id: int
    partition: int
    group: str
    kind: int
    reason: str = ""
    delay_ms: int = BY_BACKOFF


class _Waiting(NamedTuple):
    lease_id: int
    offset: Offset
    member: str
    future: "asyncio.Future[FlotillaError | None]"


class Settler:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        #: While something is there, a task works it off.
        self._waiting: dict[Verdict, list[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def settle(self, verdict: Verdict, offset: Offset, *, lease_id: int, member: str) -> None:
        """Ends the lease of one message. With lease_id 0: whatever the member holds of it. Raises FlotillaError."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(lease_id, offset, member, loop.create_future())
        pile = self._waiting.get(verdict)
        if pile is None:
            self._waiting[verdict] = [waiting]
            task = loop.create_task(self._work_off(verdict))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            pile.append(waiting)
        error = await waiting.future
        if error is not None:
            raise error

    async def _work_off(self, verdict: Verdict) -> None:
        pile = self._waiting[verdict]
        try:
            while pile:
                batch = pile[:_SETTLE_MAX]
                del pile[:_SETTLE_MAX]
                await self._settle(verdict, batch)
        finally:
            del self._waiting[verdict]
            for waiting in pile:
                waiting.future.cancel()

    async def _settle(self, verdict: Verdict, batch: list[_Waiting]) -> None:
        try:
            refused = await self._ask(verdict, batch)
        except InvalidArgumentError as error:
            if len(batch) > 1:
                # One of them may name what is not there, and the others must not suffer for it.
                for waiting in batch:
                    await self._settle(verdict, [waiting])
                return
            _resolve(batch, error)
        except FlotillaError as error:
            _resolve(batch, error)
        else:
            _resolve([each for each in batch if each.offset not in refused], None)
            _resolve([each for each in batch if each.offset in refused], _EXPIRED)

    async def _ask(self, verdict: Verdict, batch: list[_Waiting]) -> set[Offset]:
        """The offsets that were refused."""
        request = Settle(
            verdict.topic,
            verdict.partition,
            verdict.group,
            verdict.kind,
            [LeaseRange(each.lease_id, each.offset, each.offset + 1) for each in batch],
            verdict.reason,
            verdict.delay_ms,
            [each.member for each in batch],
            verdict.topic_id,
        )
        settled = await self._gateway.ask(request)
        return {offset for run in settled.expired for offset in range(run.first, run.end)}


_EXPIRED = LeaseExpiredError("this lease is not held any more: it ran out, or the task has ended")


def _resolve(batch: list[_Waiting], error: FlotillaError | None) -> None:
    for waiting in batch:
        if not waiting.future.done():
            waiting.future.set_result(error)
