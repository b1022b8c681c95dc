"""Requests that wait for consensus: each is answered once, whatever happens to its group and its node.

Usually the replica answers. A group that is dropped and a node that stops take their replicas with them; then the
pending requests are answered here. A stopped node answers truthfully: a read was not served, but a proposal in
flight may be in the logs of other nodes already, so its outcome is unknown.
"""

from collections.abc import Callable
from typing import TypeAlias

from flotilla.types.errors import OutcomeUnknownError, UnavailableError
from flotilla.types.ids import GroupId

#: Called once with the result or a FlotillaError, on the loop, after the turn that produced it.
Reply: TypeAlias = Callable[[object], None]


class PendingRequest:
    """The token under which the driver knows a request."""

    __slots__ = ("group", "is_read", "reply")

    def __init__(self, group: GroupId, reply: Reply, *, is_read: bool) -> None:
        self.group = group
        self.reply = reply
        self.is_read = is_read


class PendingRequests:
    __slots__ = ("_pending",)

    def __init__(self) -> None:
        #: In the order of asking.
        self._pending: dict[PendingRequest, None] = {}

    def add(self, group: GroupId, reply: Reply, *, is_read: bool) -> PendingRequest:
        request = PendingRequest(group, reply, is_read=is_read)
        self._pending[request] = None
        return request

    def answer(self, request: PendingRequest, result: object) -> None:
        """Has no effect on a request that was answered before."""
        if request in self._pending:
            del self._pending[request]
            request.reply(result)

    def of_group(self, group: GroupId) -> list[PendingRequest]:
        return [request for request in self._pending if request.group == group]

    def fail_all(self, reason: str) -> None:
        """The node stops."""
        for request in list(self._pending):
            self.answer(request, self.broken(request, reason))

    def broken(self, request: PendingRequest, reason: str) -> UnavailableError | OutcomeUnknownError:
        """The truthful answer when its replica is gone: a proposal may be in the logs of other nodes already."""
        return UnavailableError(reason) if request.is_read else OutcomeUnknownError(reason)
