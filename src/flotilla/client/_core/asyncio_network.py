"""The asyncio driver of a session: connections, bytes and timers.

Both shells use it, the blocking one from a thread of its own. Everything here runs on one loop. Requests of one loop
iteration leave in one write per connection.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

from flotilla.client._core.answer import Answer
from flotilla.client._core.broker_clock import (
    AGREED,
    BrokerTime,
    ClockDifference,
    after_jump,
    difference_here,
    difference_of,
)
from flotilla.client._core.calls import CallResult, ClientCall
from flotilla.client._core.links import Close, Dial, LinkId, Write
from flotilla.client._core.local_link import LocalConnection, LocalEndpoint, LocalTransport
from flotilla.client._core.session import Session
from flotilla.codec.client.handover import Answers
from flotilla.machine import now_ms, steady_ms
from flotilla.security.tls_endpoints import TlsDialler
from flotilla.types.address import Address
from flotilla.types.ids import Index
from flotilla.types.limits import KIB
from flotilla.types.operations import Effect, Reply, Request, Route

#: Of one read of small answers.
_SCRATCH_BYTES = 64 * KIB
_NEVER_MS = 2**63

R = TypeVar("R", bound=Reply)


class _Wire(asyncio.BufferedProtocol):
    """The protocol of one connection. A large answer is received into the memory that it stays in.

    Small answers come through a buffer that all connections share, since the loop reads and reports in one step.
    """

    def __init__(self, network: "Network", link: LinkId) -> None:
        self._network = network
        self._link = link
        self._scratch = network.scratch
        #: The last buffer belongs to a frame.
        self._is_direct = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        endpoint = transport.get_extra_info("socket")
        if endpoint is not None:
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A cast: uvloop's transports behave like asyncio's but do not derive from them.
        self._network.connected(self._link, cast(asyncio.Transport, transport))

    def get_buffer(self, sizehint: int) -> memoryview:
        room = self._network.session.room(self._link)
        self._is_direct = room is not None
        return self._scratch if room is None else room

    def buffer_updated(self, nbytes: int) -> None:
        self._network.received(self._link, nbytes if self._is_direct else bytes(self._scratch[:nbytes]))

    def connection_lost(self, error: Exception | None) -> None:
        self._network.disconnected(self._link, "" if error is None else str(error))


class Network:
    def __init__(
        self,
        session: Session,
        local: Callable[[Address], LocalEndpoint | None] | None = None,
        tls: TlsDialler | None = None,
    ) -> None:
        """Belongs to the loop that runs now. `local` finds the broker at an address if it is in this process.

        With `tls` all other connections are encrypted.
        """
        self.session = session
        self._tls = tls
        self._local = local
        self._loop = asyncio.get_running_loop()
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._dials: dict[LinkId, asyncio.Task[None]] = {}
        self._transports: dict[LinkId, asyncio.Transport | LocalTransport] = {}
        #: Set for this time. A timer that is too early stays, and sets the next one.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = _NEVER_MS
        self._is_scheduled = False
        #: The time of day that a broker reported last, and the difference to ours.
        self._broker_time: BrokerTime | None = None
        #: With our wall clock minus our monotonic one, as it was then.
        self._difference = (AGREED, now_ms() - steady_ms())
        #: Set while no connection and no dial exists.
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    # Calls.

    def submit(
        self,
        request: Request,
        timeout_ms: int,
        done: Callable[[CallResult], None],
        *,
        route: Route | None = None,
        effect: Effect | None = None,
        is_single: bool = False,
        metadata_index: Index = 0,
    ) -> ClientCall:
        """Starts a call; `done` is called once, by its deadline at the latest. A single one is attempted once only."""
        time_ms = steady_ms()
        call = ClientCall(
            request,
            time_ms + timeout_ms,
            done,
            route=route,
            effect=effect,
            is_single=is_single,
            metadata_index=metadata_index,
        )
        self.session.submit(call, time_ms)
        self.wake()
        return call

    async def call(self, request: Request[R], timeout_ms: int, *, route: Route | None = None) -> R:
        """Makes a call. Raises FlotillaError. Cancelling the coroutine cancels the call."""
        answer: Answer[Reply] = Answer()
        call = self.submit(request, timeout_ms, answer.set, route=route)
        try:
            # The session lets no other reply pass.
            return cast(R, await answer.wait())
        except BaseException:
            self.session.cancel(call)
            raise

    def wake(self) -> None:
        """Schedules `perform` for the end of this loop iteration, after input to the session."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self.perform)

    @property
    def difference(self) -> ClockDifference:
        """How far the brokers' clock is ahead of ours, as the last Welcome said. Any thread may ask."""
        day_ms = now_ms()
        here = difference_here(self._broker_time, day_ms)
        return here or after_jump(*self._difference, day_ms - steady_ms())

    async def close(self) -> None:
        """Ends every call and connection, and waits until the last one is gone."""
        self.session.close()
        self.perform()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._is_empty.wait()

    # Reports of the connections.

    def connected(
        self,
        link: LinkId,
        transport: asyncio.Transport | LocalTransport,
        connection: LocalConnection[ClientCall] | None = None,
    ) -> None:
        self._transports[link] = transport
        self.session.dialled(link, steady_ms(), connection)
        self.perform()

    def received(self, link: LinkId, data: bytes | int | Answers) -> None:
        self.session.received(link, data, steady_ms())
        broker_time = self.session.broker_time
        if broker_time is not None and broker_time is not self._broker_time:
            self._broker_time = broker_time
            day_ms = now_ms()
            self._difference = (difference_of(broker_time, steady_ms(), day_ms), day_ms - steady_ms())
        self.perform()

    def disconnected(self, link: LinkId, reason: str) -> None:
        self._transports.pop(link, None)
        self.session.lost(link, reason, steady_ms())
        self.perform()
        self._note_empty()

    # Actions.

    def perform(self) -> None:
        """Carries out the session's actions."""
        self._is_scheduled = False
        for action in self.session.take_actions():
            if isinstance(action, Write):
                transport = self._transports.get(action.link)
                if transport is not None:
                    transport.writelines(action.buffers)
            elif isinstance(action, Dial):
                self._start_dial(action)
            else:
                self._hang_up(action)
        wake_ms = self.session.wake_ms
        if wake_ms < self._timer_ms:
            self._set_timer(wake_ms)

    def _hang_up(self, action: Close) -> None:
        dial = self._dials.get(action.link)
        if dial is not None:
            dial.cancel()
        transport = self._transports.get(action.link)
        if transport is not None:
            transport.abort()

    def _start_dial(self, action: Dial) -> None:
        self._is_empty.clear()
        task = self._dials[action.link] = self._loop.create_task(self._dial(action.link, action.address))

        def ended(task: asyncio.Task[None]) -> None:
            # A callback, since a task that is cancelled before its first step never reaches its own end.
            del self._dials[action.link]
            if task.cancelled():
                # uvloop does not report the end of a connection whose dial is cancelled as it succeeds.
                self._transports.pop(action.link, None)
            self._note_empty()

        task.add_done_callback(ended)

    async def _dial(self, link: LinkId, address: Address) -> None:
        endpoint = None if self._local is None else self._local(address)
        if endpoint is not None:
            transport = endpoint.connect(partial(self.received, link), partial(self.disconnected, link))
            self.connected(link, transport, LocalConnection())
            return
        try:
            if self._tls is None:
                await self._loop.create_connection(lambda: _Wire(self, link), address.host, address.port)
            else:
                await self._tls.connect(lambda: _Wire(self, link), address.host, address.port)
        except OSError as error:
            self.session.lost(link, error.strerror or str(error), steady_ms())
            self.perform()

    def _note_empty(self) -> None:
        if not self._dials and not self._transports:
            self._is_empty.set()

    def _set_timer(self, wake_ms: int) -> None:
        if self.session.is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = wake_ms
        self._timer = self._loop.call_later(max(wake_ms - steady_ms(), 0) / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_ms = _NEVER_MS
        self.session.tick(steady_ms())
        self.perform()
