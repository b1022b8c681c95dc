"""The two ways to a TLS connection: accepting it and dialling it. Handshakes are bounded in time and number.

A handshake costs a server a millisecond and a stranger nothing. When too many are in progress, the address with the
most of them loses its oldest: whoever comes from elsewhere finds a place.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from flotilla.security.contexts import TlsError, explain, is_plain
from flotilla.security.handshake_places import given_up, nobody
from flotilla.security.plain_or_tls import PlainOrTls
from flotilla.security.tls_connection import SCRATCH_BYTES, TlsConnection
from flotilla.types.limits import HANDSHAKE_MS_MAX, TLS_HANDSHAKE_COUNT_MAX


def _anybody(connection: ssl.SSLObject) -> str:
    return ""


class TlsAcceptor:
    """The accepting side of one listener. Belongs to one event loop."""

    def __init__(
        self,
        context: Callable[[], ssl.SSLContext],
        *,
        refused: Callable[[str, str], None] | None = None,
        handshakes_max: int = TLS_HANDSHAKE_COUNT_MAX,
        handshake_ms_max: int = HANDSHAKE_MS_MAX,
        is_optional: bool = False,
        is_member: Callable[[str], bool] = nobody,
    ) -> None:
        """`context` returns the newest context; `refused` gets an address and a reason for each failed handshake.

        `is_optional`: connections without TLS are accepted, too. `is_member`: places are kept for this host.
        """
        self._is_member = is_member
        self._is_optional = is_optional
        self._context = context
        self._refused = refused
        self._handshakes_max = handshakes_max
        self._handshake_s_max = handshake_ms_max / 1000
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        #: Handshakes in progress, the oldest first: the host of the other side, and the timer that ends it.
        self._shaking: dict[TlsConnection | PlainOrTls, tuple[str, asyncio.TimerHandle]] = {}
        self.failed_count = 0

    def accept(self, above: Callable[[], asyncio.BaseProtocol]) -> TlsConnection | PlainOrTls:
        """The protocol for an accepted socket; `above` makes the one for its plain bytes after the handshake."""

        def encrypted() -> TlsConnection:
            return TlsConnection(self, above, self._context(), self._scratch)

        return PlainOrTls(self, encrypted, above) if self._is_optional else encrypted()

    @property
    def handshake_count(self) -> int:
        return len(self._shaking)

    def close(self) -> None:
        """Ends all handshakes; open connections go on."""
        for connection in list(self._shaking):
            connection.abort()

    def give_up(self) -> bool:
        """Ends the handshake that loses its place. False: there is none."""
        if not self._shaking:
            return False
        self._given_up().abort()
        return True

    def _given_up(self) -> TlsConnection | PlainOrTls:
        return given_up({each: host for each, (host, _) in self._shaking.items()}, self._is_member)

    # Called by connections.

    def shaking(self, connection: TlsConnection | PlainOrTls) -> None:
        name = connection.get_extra_info("peername")
        host = str(name[0]) if name else ""
        timer = asyncio.get_running_loop().call_later(self._handshake_s_max, connection.abort)
        self._shaking[connection] = (host, timer)
        if len(self._shaking) > self._handshakes_max:
            self._given_up().abort()

    def judge(self, names: ssl.SSLObject) -> str:
        return ""

    def opened(self, connection: TlsConnection | PlainOrTls) -> None:
        self._shaking.pop(connection)[1].cancel()

    def failed(self, connection: TlsConnection | PlainOrTls, error: Exception) -> None:
        host, timer = self._shaking.pop(connection, ("", None))
        if timer is not None:
            timer.cancel()
        self.failed_count += 1
        if self._refused is not None:
            self._refused(host, explain(error))


class TlsDialler:
    """The dialling side. Belongs to one event loop."""

    def __init__(self, context: Callable[[], ssl.SSLContext]) -> None:
        self._context = context
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))

    async def connect(self, above: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> None:
        """Returns when the protocol that `above` makes has its transport. Raises OSError."""
        await self.open(above, host, port, _anybody)

    async def open(
        self,
        above: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        judge: Callable[[ssl.SSLObject], str],
    ) -> None:
        """The same; `judge` says why a certificate that is valid will not do, or nothing."""
        loop = asyncio.get_running_loop()
        opening = _Opening(loop.create_future(), judge)
        connection = TlsConnection(opening, above, self._context(), self._scratch, host=host)
        try:
            await loop.create_connection(lambda: connection, host, port)
            await opening.outcome
        except BaseException:
            opening.outcome.cancel()
            connection.abort()
            raise


class _Opening:
    """One handshake of the dialling side. Its caller bounds its time."""

    def __init__(self, outcome: "asyncio.Future[None]", judge: Callable[[ssl.SSLObject], str]) -> None:
        self.outcome = outcome
        self.judge: Any = judge

    def shaking(self, connection: TlsConnection) -> None:
        """Nothing to count."""

    def opened(self, connection: TlsConnection) -> None:
        if not self.outcome.done():
            self.outcome.set_result(None)

    def failed(self, connection: TlsConnection, error: Exception) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(TlsError(explain(error), is_plain=is_plain(error)))
