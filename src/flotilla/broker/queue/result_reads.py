"""Callers that wait for the results of messages, at the leader of one partition, for one term.

A read is answered when the first of its messages has ended, when its time is over, or when the term is. A settlement
looks at the callers of its own messages only, so thousands may wait.
"""

from collections.abc import Iterable
from typing import Final

from flotilla.broker.ports import Cancel, Done, Outside
from flotilla.partition.commands.partition_commands import GroupSettlement
from flotilla.partition.explain.ended_message import ended_message
from flotilla.partition.offset_runs import Run
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Offset
from flotilla.types.limits import RESULT_ANSWER_BYTES_MAX
from flotilla.types.operations.queue import EndedMessage, ReadResults, ResultsRead

#: Whatever a client asks for.
WAIT_MS_MAX: Final = 300_000


class _Waiting:
    __slots__ = ("done", "is_woken", "request", "stop_timer")

    def __init__(self, request: ReadResults, done: Done) -> None:
        self.request = request
        self.done = done
        self.is_woken = False
        self.stop_timer: Cancel | None = None


class ResultReads:
    def __init__(self, machine: PartitionMachine, outside: Outside) -> None:
        self._machine = machine
        self._outside = outside
        #: By group and offset, in the order of arrival.
        self._waiting: dict[str, dict[Offset, dict[_Waiting, None]]] = {}
        self._log_start = machine.log_start

    def read(self, request: ReadResults, done: Done) -> Cancel | None:
        found = self._find(request)
        if found or not request.wait_ms:
            done(ResultsRead(found))
            return None
        waiting = _Waiting(request, done)
        by_offset = self._waiting.setdefault(request.group, {})
        for offset in request.offsets:
            by_offset.setdefault(offset, {})[waiting] = None
        wait_ms = min(request.wait_ms, WAIT_MS_MAX)
        waiting.stop_timer = self._outside.later(wait_ms, lambda: self._answer(waiting))

        def cancel() -> None:
            self._leave(waiting)

        return cancel

    def _find(self, request: ReadResults) -> list[EndedMessage]:
        found: list[EndedMessage] = []
        room = RESULT_ANSWER_BYTES_MAX
        for offset in request.offsets:
            ended = ended_message(self._machine, request.group, offset)
            if ended is not None:
                found.append(ended)
                room -= len(ended.result) + len(ended.reason)
                if room <= 0:
                    break
        return found

    # Ends.

    def settled(self, settlement: GroupSettlement) -> None:
        """A settlement has committed."""
        if settlement.group in self._waiting:
            runs = [*settlement.acked, *settlement.expired, *settlement.dropped]
            self.ended(settlement.group, [*runs, *[(run.first, run.end) for run in settlement.dead]])

    def ended(self, group: str, runs: Iterable[Run]) -> None:
        """Messages of the group may have ended."""
        by_offset = self._waiting.get(group)
        if by_offset is None:
            return
        woken: dict[_Waiting, None] = {}
        for first, end in runs:
            if end - first < len(by_offset):
                near: Iterable[Offset] = range(first, end)
            else:
                near = [offset for offset in by_offset if first <= offset < end]
            for offset in near:
                woken.update(by_offset.get(offset, {}))
        for waiting in woken:
            self._answer_soon(waiting)

    def look(self) -> None:
        """Messages of any group may have ended: some were cancelled, or a group was reset."""
        for group, by_offset in list(self._waiting.items()):
            self.ended(group, [(offset, offset + 1) for offset in by_offset])

    def check(self) -> None:
        """Called now and then: retention removes messages without another notice."""
        if self._machine.log_start != self._log_start:
            self._log_start = self._machine.log_start
            self.look()

    def end(self, reason: FlotillaError) -> None:
        """The term is over, or the node stops."""
        everyone = {one: None for group in self._waiting.values() for each in group.values() for one in each}
        for waiting in everyone:
            self._leave(waiting)
            waiting.done(reason)

    def _answer_soon(self, waiting: _Waiting) -> None:
        """In a later turn of the loop: everything that ends in this one shares an answer."""
        if not waiting.is_woken and self._find(waiting.request):
            waiting.is_woken = True
            self._outside.later(0, lambda: self._answer(waiting))

    def _answer(self, waiting: _Waiting) -> None:
        if self._leave(waiting):
            waiting.done(ResultsRead(self._find(waiting.request)))

    def _leave(self, waiting: _Waiting) -> bool:
        """False: it was answered before."""
        if waiting.stop_timer is None:
            return False
        waiting.stop_timer()
        waiting.stop_timer = None
        group = waiting.request.group
        by_offset = self._waiting[group]
        for offset in waiting.request.offsets:
            others = by_offset.get(offset)
            if others is not None:
                others.pop(waiting, None)
                if not others:
                    del by_offset[offset]
        if not by_offset:
            del self._waiting[group]
        return True
