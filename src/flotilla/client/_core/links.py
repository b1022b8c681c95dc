"""Connections as the session keeps them, and what it asks its driver to do about them."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from flotilla.client._core.calls import ClientCall
from flotilla.client._core.connection import ClientConnection
from flotilla.types.address import Address

LinkId: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Dial:
    """Connect, then report `dialled`, or `lost` if that fails."""

    link: LinkId
    address: Address


@dataclass(frozen=True, slots=True)
class Write:
    link: LinkId
    #: Frames, or on a link within this process what stands for them.
    buffers: list[Any]


@dataclass(frozen=True, slots=True)
class Close:
    """Give the connection up. Nothing needs to be reported any more."""

    link: LinkId


Action: TypeAlias = Dial | Write | Close


class Link:
    """One connection, from dialling to its end."""

    __slots__ = ("address", "connection", "greeted_ms", "heard_ms", "link", "open_by_ms", "orphans", "output", "queue")

    def __init__(self, link: LinkId, address: Address, now_ms: int, open_by_ms: int) -> None:
        self.link = link
        self.address = address
        self.connection: ClientConnection[ClientCall] = ClientConnection()
        #: Calls that wait for Welcome or for room, in order.
        self.queue: dict[ClientCall, None] = {}
        self.output: list[Any] = []
        self.open_by_ms = open_by_ms
        #: When Hello was sent.
        self.greeted_ms = now_ms
        #: When it last carried a byte to us, or was dialled.
        self.heard_ms = now_ms
        #: Requests that nobody waits for any more: by correlation id, since when the broker owes their answer.
        self.orphans: dict[int, int] = {}

    @property
    def owed_ms(self) -> int | None:
        """Since when the broker has been silent although it should have spoken; None: it owes nothing."""
        connection = self.connection
        if not connection.is_open:
            return self.heard_ms
        self.orphans = {number: due_ms for number, due_ms in self.orphans.items() if connection.is_waiting(number)}
        due = [*self.orphans.values(), *[call.due_ms for call in connection.pending()]]
        return max(min(due), self.heard_ms) if due else None

    def calls(self) -> list[ClientCall]:
        """Every call that somebody waits for, sent or not."""
        return [*self.connection.pending(), *self.queue]
