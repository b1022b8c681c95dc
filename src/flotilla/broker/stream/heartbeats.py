"""Parked heartbeats of stream groups: one per member, answered once or given up.

It asks for the answer when a heartbeat has waited long enough, or when its member sends another one.
"""

from collections.abc import Callable
from functools import partial

from flotilla.broker.ports import Cancel, Done, Outside
from flotilla.metadata.stream_sessions import GroupKey
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Reply
from flotilla.types.operations.stream import Heartbeat


class Parked:
    """One parked heartbeat."""

    __slots__ = ("done", "key", "request", "stop_timer")

    def __init__(self, key: GroupKey, request: Heartbeat, done: Done) -> None:
        self.key = key
        self.request = request
        self.done = done
        self.stop_timer: Cancel | None = None


class ParkedHeartbeats:
    def __init__(self, outside: Outside, answer: Callable[[GroupKey, Heartbeat], Reply | FlotillaError]) -> None:
        self._outside = outside
        self._answer = answer
        #: By group and member, in the order of arrival.
        self._groups: dict[GroupKey, dict[str, Parked]] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def groups(self) -> list[GroupKey]:
        return list(self._groups)

    def of(self, key: GroupKey) -> list[Parked]:
        return list(self._groups.get(key, {}).values())

    def park(self, key: GroupKey, request: Heartbeat, wait_ms: int, done: Done) -> Cancel:
        earlier = self._groups.get(key, {}).get(request.member)
        if earlier is not None:
            self._due(earlier)
        parked = Parked(key, request, done)
        self._groups.setdefault(key, {})[request.member] = parked
        parked.stop_timer = self._outside.later(wait_ms, partial(self._due, parked))

        def cancel() -> None:
            self._take(parked)

        return cancel

    def finish(self, parked: Parked, answer: Reply | FlotillaError) -> None:
        if self._take(parked):
            parked.done(answer)

    def refuse_all(self, reason: FlotillaError) -> None:
        for key in self.groups():
            for parked in self.of(key):
                self.finish(parked, reason)

    def _due(self, parked: Parked) -> None:
        if self._take(parked):
            parked.done(self._answer(parked.key, parked.request))

    def _take(self, parked: Parked) -> bool:
        """False: it was not waiting any more."""
        members = self._groups.get(parked.key, {})
        if members.get(parked.request.member) is not parked:
            return False
        del members[parked.request.member]
        if not members:
            del self._groups[parked.key]
        if parked.stop_timer is not None:
            parked.stop_timer()
        return True
