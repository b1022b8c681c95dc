"""The bound on the memory of all calls that produce records.

A unary call that finds no room is refused with a time to retry after: waiting would keep its records in memory. A
stream waits, because nothing more is read from it meanwhile.
"""

import asyncio
from typing import Final

from flotilla.frontends.tcp.budget import ByteBudget
from flotilla.types.errors import OverloadedError
from flotilla.types.limits import SERVER_REQUEST_BYTES_MAX

_RETRY_MS: Final = 100


class Admission:
    def __init__(self, bytes_max: int = SERVER_REQUEST_BYTES_MAX) -> None:
        self._budget = ByteBudget(bytes_max)

    @property
    def used_bytes(self) -> int:
        return self._budget.used_bytes

    def take(self, size_bytes: int) -> None:
        """Raises OverloadedError."""
        if not self._budget.take(size_bytes):
            error = OverloadedError("too many records are in flight at this node")
            error.retry_after_ms = _RETRY_MS
            raise error

    async def wait(self, size_bytes: int) -> None:
        """Takes the bytes as soon as there is room."""
        if self._budget.take(size_bytes):
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._budget.wait(granted, size_bytes, lambda: granted.set_result(None))
        try:
            await granted
        except asyncio.CancelledError:
            # It may have been granted just before the cancellation.
            if granted.cancelled():
                self._budget.leave(granted)
            else:
                self._budget.give(size_bytes)
            raise

    def give(self, size_bytes: int) -> None:
        self._budget.give(size_bytes)
