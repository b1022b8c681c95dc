"""The gateways of a proxy: one for each caller, which shows brokers the credentials that its caller sent.

So callers act with their own rights, and the brokers decide. A caller without credentials has the gateway of the proxy
itself. Gateways are kept while they are used, and some of them for a while after that: a log-in costs both sides
milliseconds of hashing, so new ones are bounded in each second, too.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, Final, cast

from flotilla.client.credentials import Credentials, CredentialsProvider
from flotilla.gateway.gateway import Gateway
from flotilla.machine import steady_ms
from flotilla.types.errors import OverloadedError
from flotilla.types.limits import PROXY_CALLER_COUNT_MAX

#: Callers with new credentials in one second.
_NEW_COUNT_MAX: Final = 20


class _Caller:
    """One caller's gateway, and how many of its requests are in flight."""

    def __init__(self, key: bytes, gateway: Gateway) -> None:
        self.key = key
        self.gateway = gateway
        self.count = 0


_CURRENT: ContextVar[_Caller | None] = ContextVar("_CURRENT", default=None)


class CallerGateways:
    def __init__(self, own: Gateway, make: Callable[[CredentialsProvider], Gateway]) -> None:
        """`own` is the gateway of the proxy itself; `make` makes that of a caller."""
        self._own = own
        self._make = make
        #: The least recently used first.
        self._callers: dict[bytes, _Caller] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._second = 0
        self._new_count = 0

    @property
    def gateway(self) -> Gateway:
        """Stands in for a gateway: everything is asked of that of the caller whose request is being served."""
        return cast(Gateway, _PerCaller(self._own))

    @contextmanager
    def serving(self, authorization: str, credentials: Callable[[], Credentials]) -> Iterator[None]:
        """A request of the caller who sent this header; empty: none. Raises UnauthenticatedError, OverloadedError."""
        if not authorization:
            yield
            return
        caller = self._find(sha256(authorization.encode()).digest(), credentials)
        caller.count += 1
        _CURRENT.set(caller)
        try:
            yield
        finally:
            _CURRENT.set(None)
            caller.count -= 1

    def _find(self, key: bytes, credentials: Callable[[], Credentials]) -> _Caller:
        found = self._callers.pop(key, None)
        if found is None:
            self._make_room()
            known = credentials()
            found = _Caller(key, self._make(lambda: known))
        self._callers[key] = found
        return found

    def _make_room(self) -> None:
        second = steady_ms() // 1_000
        if second != self._second:
            self._second, self._new_count = second, 0
        self._new_count += 1
        idle = [caller for caller in self._callers.values() if not caller.count]
        is_full = len(self._callers) >= PROXY_CALLER_COUNT_MAX
        if self._new_count > _NEW_COUNT_MAX or (is_full and not idle):
            error = OverloadedError("too many callers log in at this proxy")
            error.retry_after_ms = 1_000
            raise error
        if is_full:
            del self._callers[idle[0].key]
            task = asyncio.get_running_loop().create_task(idle[0].gateway.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        callers = [caller.gateway.close() for caller in self._callers.values()]
        await asyncio.gather(*callers, *self._closing, self._own.close(), return_exceptions=True)


class _PerCaller:
    def __init__(self, own: Gateway) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        caller = _CURRENT.get()
        return getattr(self._own if caller is None else caller.gateway, name)

    @property
    def caller(self) -> object:
        """Callers that are equal have the same rights: what they ask for may share a request."""
        caller = _CURRENT.get()
        return None if caller is None else caller.key
