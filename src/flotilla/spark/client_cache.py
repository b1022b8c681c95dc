"""Clients that stay when a task ends: the next task of the same process finds its connections open and leaders known.

Spark runs one task after the other in a Python process and ends a process that had none for a minute, so what is kept
here does not outlive its use. A client belongs to one borrower at a time. One whose work failed is not kept: the next
borrower begins anew. A process that was forked has none of its parent's.
"""

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Final

from flotilla.client.client import Client
from flotilla.types.errors import FlotillaError

#: Servers and time limit: what makes one client as good as another.
_Key = tuple[tuple[str, ...], int]
#: For a process that works for several clusters in turn.
KEPT_MAX: Final = 4
#: Nothing is under way in a client that is kept, so it is closed at once or not at all.
_CLOSE_MS: Final = 1_000


class _Kept:
    """Clients that nobody has borrowed, the one that came back last at the end."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: dict[_Key, Client] = {}

    def take(self, key: _Key) -> Client | None:
        with self._lock:
            return self._idle.pop(key, None)

    def put(self, key: _Key, client: Client) -> None:
        with self._lock:
            left = [self._idle.pop(key)] if key in self._idle else []
            self._idle[key] = client
            while len(self._idle) > KEPT_MAX:
                left.append(self._idle.pop(next(iter(self._idle))))
        for each in left:
            _close(each)

    def close(self) -> None:
        with self._lock:
            left, self._idle = list(self._idle.values()), {}
        for each in left:
            _close(each)

    def forget(self) -> None:
        """In a process that was forked, where neither the lock nor the clients are of any use."""
        self._lock = Lock()
        self._idle = {}


_kept = _Kept()
atexit.register(_kept.close)
os.register_at_fork(after_in_child=_kept.forget)


@contextmanager
def borrowed_client(servers: Sequence[str], timeout_ms: int) -> Iterator[Client]:
    """A client for the time being: one that was kept, or a new one."""
    key = (tuple(servers), timeout_ms)
    client = _kept.take(key) or Client(list(servers), timeout_ms=timeout_ms, name="spark")
    try:
        yield client
    except GeneratorExit:
        # Whoever reads has enough, as with a limit; that is no fault of the client.
        _kept.put(key, client)
        raise
    except BaseException:
        _close(client)
        raise
    _kept.put(key, client)


def _close(client: Client) -> None:
    with suppress(FlotillaError):
        client.close(timeout_ms=_CLOSE_MS)
