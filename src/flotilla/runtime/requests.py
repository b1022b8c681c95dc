"""Requests that wait for consensus: each is answered once, whatever becomes of its group and its node.

Usually the replica answers. A group that is dropped and a node that stops take their replicas with them;
then what waits is answered here, and truthfully: a read was not served, but a proposal under way may be
in the logs of others already, so nobody can say what becomes of it.
"""

from collections.abc import Callable
from typing import TypeAlias

from flotilla.types.errors import OutcomeUnknownError, UnavailableError
from flotilla.types.ids import GroupId

#: Called once with the result or a FlotillaError, on the loop, after the turn in which it came to be.
Reply: TypeAlias = Callable[[object], None]


class OpenRequest:
    """The token under which the driver knows a request."""

    __slots__ = ("group", "is_read", "reply")

    def __init__(self, group: GroupId, reply: Reply, *, is_read: bool) -> None:
        self.group = group
        self.reply = reply
        self.is_read = is_read


class OpenRequests:
    __slots__ = ("_open",)

    def __init__(self) -> None:
        #: In the order of asking.
        self._open: dict[OpenRequest, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, group: GroupId, reply: Reply, *, is_read: bool) -> OpenRequest:
        request = OpenRequest(group, reply, is_read=is_read)
        self._open[request] = None
        return request

    def answer(self, request: OpenRequest, result: object) -> None:
        """Without effect for a request that was answered before."""
        if request in self._open:
            del self._open[request]
            request.reply(result)

    def of_group(self, group: GroupId) -> list[OpenRequest]:
        return [request for request in self._open if request.group == group]

    def fail_all(self, reason: str) -> None:
        for request in list(self._open):
            self.answer(request, lost(request, reason))


def lost(request: OpenRequest, reason: str) -> UnavailableError | OutcomeUnknownError:
    """The answer to a request that nobody works on any more."""
    return UnavailableError(reason) if request.is_read else OutcomeUnknownError(reason)
