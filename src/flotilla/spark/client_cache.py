"""A cache of idle clients: the next task of a process finds connections open and leaders known.

Spark runs tasks one after the other in a Python process and ends a process that is idle for a minute, so cached clients
do not outlive their use. A client has one borrower at a time. A client whose task failed is closed. A forked process
inherits none.
"""

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Final

from flotilla.client.app.environment import LogInFiles
from flotilla.client.client import Client
from flotilla.security.client_tls import Tls
from flotilla.types.errors import FlotillaError

#: Servers, timeout and encryption.
_Key = tuple[tuple[str, ...], int, Tls | None, LogInFiles]
_NOBODY: Final = LogInFiles()
#: For a process that serves several clusters in turn.
CACHED_MAX: Final = 4
#: Nothing is in flight in an idle client.
_CLOSE_MS: Final = 1_000


class _ClientCache:
    """Idle clients, the last returned at the end."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: dict[_Key, Client] = {}

    def take(self, key: _Key) -> Client | None:
        with self._lock:
            return self._idle.pop(key, None)

    def put(self, key: _Key, client: Client) -> None:
        with self._lock:
            surplus = [self._idle.pop(key)] if key in self._idle else []
            self._idle[key] = client
            while len(self._idle) > CACHED_MAX:
                surplus.append(self._idle.pop(next(iter(self._idle))))
        for each in surplus:
            _close(each)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = list(self._idle.values()), {}
        for each in idle:
            _close(each)

    def forget(self) -> None:
        """For a forked process, where neither the lock nor the clients are usable."""
        self._lock = Lock()
        self._idle = {}


_cache = _ClientCache()
atexit.register(_cache.close)
os.register_at_fork(after_in_child=_cache.forget)


@contextmanager
def borrowed_client(
    servers: Sequence[str], timeout_ms: int, tls: Tls | None = None, log_in: LogInFiles = _NOBODY
) -> Iterator[Client]:
    """An idle client, or a new one, for the length of a block."""
    key = (tuple(servers), timeout_ms, tls, log_in)
    client = _cache.take(key) or Client(
        list(servers), timeout_ms=timeout_ms, name="spark", tls=tls, credentials=log_in.credentials()
    )
    try:
        yield client
    except GeneratorExit:
        # The reader stops early, as with a limit; the client is fine.
        _cache.put(key, client)
        raise
    except BaseException:
        _close(client)
        raise
    _cache.put(key, client)


def _close(client: Client) -> None:
    with suppress(FlotillaError):
        client.close(timeout_ms=_CLOSE_MS)
