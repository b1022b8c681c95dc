"""A consumer of a queue group: it polls or iterates, and its handlers take time, fail, give back and forget."""

import asyncio
from random import Random
from typing import Final, Literal

from flotilla.client.queue.aio import AsyncQueueConsumer, AsyncQueueMessage
from flotilla.sim.whole.history import Call
from flotilla.sim.whole.workloads.queue_ends import FAILED, REJECTED
from flotilla.sim.whole.workloads.queue_scene import (
    ENDED,
    EXTEND,
    FAILING,
    HANGING,
    LEASE,
    LEASE_MS_MAX,
    LINK_LOST,
    SETTLE,
    TIMEOUT_MS,
    TOPIC,
    VISIBILITY_MS,
    QueueScene,
)
from flotilla.types.errors import FlotillaError

_POLL_MS: Final = 1_000
_PAUSE_S: Final = 0.05
#: How long a handler takes, on average; some take longer than a lease lasts without a renewal.
_HANDLE_S: Final = 0.05
_SLOW_S: Final = 1.5 * VISIBILITY_MS / 1_000


class QueueConsumer:
    def __init__(
        self,
        scene: QueueScene,
        group: str,
        *,
        iterates: bool,
        is_dutiful: bool = False,
        ack_mode: Literal["manual", "auto"] = "manual",
        ordered: Literal["none", "key"] = "none",
    ) -> None:
        """`is_dutiful`: acknowledges everything."""
        self._scene = scene
        self._history = scene.history
        self._group = group
        self._iterates = iterates
        self._is_dutiful = is_dutiful
        self._ack_mode = ack_mode
        self._ordered = ordered
        #: Of its present life.
        self._name = ""

    async def run(self, name: str) -> None:
        """One life of it: a new process is a new member."""
        scene = self._scene
        self._name = name
        scene.consumers[name] = None
        chance = scene.simulation.stream(name)
        while not scene.is_drained:
            try:
                await self._serve(chance)
            except FlotillaError:
                await asyncio.sleep(_PAUSE_S)
        del scene.consumers[name]

    def ended(self, name: str) -> None:
        """Its process was killed."""
        self._scene.consumers.pop(name, None)
        self._scene.happened(name, ENDED)

    async def _serve(self, chance: Random) -> None:
        async with self._scene.client(self._name) as client:
            consumer = client.queue(
                TOPIC, self._group, lease_ms_max=LEASE_MS_MAX, ack_mode=self._ack_mode, ordered=self._ordered
            )
            network = client._network
            assert network is not None
            network.session.watchers.append(lambda address: self._scene.happened(self._name, LINK_LOST))
            try:
                while not self._scene.is_drained:
                    for message in await self._lease(consumer, chance):
                        await self._handle(message, chance)
                    await asyncio.sleep(chance.random() * _PAUSE_S)
            finally:
                # Whatever it holds is given back.
                self._scene.happened(self._name, ENDED)

    async def _lease(self, consumer: AsyncQueueConsumer, chance: Random) -> list[AsyncQueueMessage]:
        limit_ms = _POLL_MS + TIMEOUT_MS
        call = self._history.begin(self._name, LEASE, limit_ms, group=self._group)
        messages: list[AsyncQueueMessage] = []
        try:
            if self._iterates:
                async with asyncio.timeout(_POLL_MS / 1_000):
                    messages.append(await anext(consumer))
            else:
                messages = await consumer.poll(chance.randint(1, 8), wait_ms=_POLL_MS)
        except TimeoutError:
            pass
        except FlotillaError as error:
            self._history.failed(call, error)
            raise
        self._history.done(call, messages=[_seen(message) for message in messages])
        return messages

    async def _handle(self, message: AsyncQueueMessage, chance: Random) -> None:
        is_calm = self._scene.is_calm or self._is_dutiful
        await asyncio.sleep(chance.random() * 2 * _HANDLE_S)
        if self._ack_mode == "auto":
            return
        kind = chance.random()
        payload = message.payload.decode()
        if not is_calm and payload.endswith(HANGING):
            return
        if not is_calm and payload.endswith(FAILING):
            await self._settle(message, "nack")
        elif is_calm or kind < 0.6:
            await self._settle(message, "ack")
        elif kind < 0.7:
            await self._extend(message)
            await asyncio.sleep(chance.random())
            await self._settle(message, "ack")
        elif kind < 0.74:
            await asyncio.sleep(_SLOW_S)
            await self._settle(message, "ack")
        elif kind < 0.84:
            await self._settle(message, "nack")
        elif kind < 0.92:
            await self._settle(message, "release")
        elif kind < 0.96:
            await self._settle(message, "reject")
        # The rest is forgotten, and comes again when it is not renewed any more.

    def _begin(self, operation: str, message: AsyncQueueMessage, how: str) -> Call:
        return self._history.begin(
            self._name, operation, TIMEOUT_MS, group=self._group, message=_seen(message), how=how
        )

    async def _settle(self, message: AsyncQueueMessage, how: str) -> None:
        call = self._begin(SETTLE, message, how)
        if how == "nack":
            work = message.nack(reason=FAILED)
        elif how == "release":
            work = message.release(delay_ms=100)
        elif how == "reject":
            work = message.reject(reason=REJECTED)
        else:
            # It tells this ack apart from those of other members, and of earlier deliveries.
            result = f"{message.payload.decode()} by {self._name}, attempt {message.attempt}"
            call.arguments["result"] = result
            work = message.ack(result=result.encode())
        await self._scene.attempt(call, work)

    async def _extend(self, message: AsyncQueueMessage) -> None:
        call = self._begin(EXTEND, message, "extend")
        call.arguments["visibility_ms"] = 2 * VISIBILITY_MS
        await self._scene.attempt(call, message.extend(2 * VISIBILITY_MS))


def _seen(message: AsyncQueueMessage) -> tuple[int, int, str, int, int]:
    """Partition, offset, payload, attempt, lease."""
    lease = message._lease.lease_id
    return (message.partition, message.offset, message.payload.decode(), message.attempt, lease)
