"""The bound on the answers that clients of gRPC calls have not read.

The library holds an answer, and a copy of it, until the flow control of HTTP/2 lets it leave, and that is when `write`
returns. Until then its bytes count against the budget of all endpoints. Small answers are not counted: the number of
calls bounds them.
"""

import asyncio
from typing import Final

import grpc

from flotilla.frontends.grpc.errors import Context
from flotilla.frontends.grpc.pace import LARGE_BYTES_MIN
from flotilla.frontends.tcp.budget import OutputBudget
from flotilla.types.errors import OverloadedError
from flotilla.types.limits import MIB, SERVER_OUTPUT_BYTES_MAX, TRANSFER_BYTES_PER_SECOND_MIN, TRANSFER_MS_MAX

_LARGE_BYTES: Final = 4 * MIB
#: The bytes of an answer, and their copy.
_COPIES: Final = 2
_RETRY_MS: Final = 100


class UnreadAnswers:
    def __init__(self, budget: OutputBudget | None = None) -> None:
        """`budget`: that of all endpoints of a node; None: of its own."""
        self._budget = budget or OutputBudget(SERVER_OUTPUT_BYTES_MAX)
        #: Of each connection, by what the library calls the other end.
        self._held: dict[str, int] = {}

    def check(self, context: Context, size_bytes: int = _LARGE_BYTES) -> None:
        """Raises OverloadedError when there is no room for an answer of this size.

        Also before the answer is made, which costs more than a refusal: then it is taken for a large one.
        """
        if not self._budget.has_room(self._held.get(context.peer(), 0), _COPIES * size_bytes):
            error = OverloadedError("too many answers of this node are unread")
            error.retry_after_ms = _RETRY_MS
            raise error

    async def write(self, context: Context, data: bytes, *, is_repeatable: bool = False) -> None:
        """Raises OverloadedError when there is no room for an answer that can be asked for again.

        A call whose client does not read its answer in time is cancelled.
        """
        if len(data) <= LARGE_BYTES_MIN:
            await context.write(data)
            return
        if is_repeatable:
            self.check(context, len(data))
        peer, size_bytes = context.peer(), _COPIES * len(data)
        self._hold(peer, size_bytes)
        try:
            async with asyncio.timeout(TRANSFER_MS_MAX / 1000 + len(data) / TRANSFER_BYTES_PER_SECOND_MIN):
                await context.write(data)
        except (TimeoutError, grpc.aio.InternalError):
            # Too slow, or gone. The library drops a call whose task is cancelled, and what it holds of it.
            raise asyncio.CancelledError from None
        finally:
            self._hold(peer, -size_bytes)

    def _hold(self, peer: str, change: int) -> None:
        self._budget.hold(change)
        held = self._held.get(peer, 0) + change
        if held:
            self._held[peer] = held
        else:
            del self._held[peer]
