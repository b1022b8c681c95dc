"""Requests that wait for consensus: each is answered once, whatever becomes of it.

A ticket is what consensus calls back. Usually it does; but a group that is removed from the node takes its
proposals and reads with it, and then whoever removes it fails all tickets here. What comes later finds
its ticket closed and is dropped.
"""

from collections.abc import Callable
from typing import TypeAlias

from flotilla.broker.ports import Done
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Offset
from flotilla.types.operations import Produced, Reply

#: Makes what a client sees out of what consensus answered with.
Translate: TypeAlias = Callable[[object], Reply | FlotillaError]


class Ticket:
    """One request; calling it answers it."""

    __slots__ = ("_table", "_translate", "done")

    def __init__(self, table: "PendingRequests", done: Done, translate: Translate) -> None:
        self.done = done
        self._table = table
        self._translate = translate
        table.tickets[self] = None

    def __call__(self, result: object) -> None:
        if self in self._table.tickets:
            del self._table.tickets[self]
            self.close(self._translate(result))

    def close(self, answer: Reply | FlotillaError) -> None:
        self.done(answer)


class CommandTicket:
    """A command that no request waits for alone: whoever proposed it is told what became of it."""

    __slots__ = ("_answered", "_table")

    def __init__(self, table: "PendingRequests", answered: Callable[[object], None]) -> None:
        self._table = table
        self._answered = answered
        table.tickets[self] = None

    def __call__(self, result: object) -> None:
        if self in self._table.tickets:
            del self._table.tickets[self]
            self._answered(result)

    def close(self, reason: Reply | FlotillaError) -> None:
        self._answered(reason)


class BatchTicket:
    """A batch that is being stored, and whoever sent the same one again meanwhile."""

    __slots__ = ("_table", "base_offset", "done", "joined")

    def __init__(self, table: "PendingRequests", done: Done) -> None:
        """Opened by `propose`: not every batch that comes in is proposed."""
        self._table = table
        self.done = done
        self.base_offset: Offset = 0
        #: With what they are told when the batch is stored.
        self.joined: list[tuple[Done, Produced]] | None = None

    def open(self, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self._table.tickets[self] = None

    def join(self, done: Done, reply: Produced) -> None:
        """Somebody who sent some of it again: answered with the first copy, and like it if that fails."""
        assert self in self._table.tickets, "joined a batch that is not under way"
        if self.joined is None:
            self.joined = []
        self.joined.append((done, reply))

    def __call__(self, result: object) -> None:
        table = self._table
        if self in table.tickets:
            del table.tickets[self]
            error = table.explain(result) if isinstance(result, FlotillaError) else None
            self.close(Produced(self.base_offset) if error is None else error)

    def close(self, answer: Reply | FlotillaError) -> None:
        self.done(answer)
        for done, reply in self.joined or ():
            done(answer if isinstance(answer, FlotillaError) else reply)


class PendingRequests:
    """The open tickets of one partition."""

    __slots__ = ("explain", "tickets")

    def __init__(self, explain: Callable[[object], FlotillaError]) -> None:
        self.explain = explain
        #: In the order of opening.
        self.tickets: dict[Ticket | BatchTicket | CommandTicket, None] = {}

    def fail_all(self, reason: FlotillaError) -> None:
        tickets = list(self.tickets)
        self.tickets.clear()
        for ticket in tickets:
            ticket.close(reason)
