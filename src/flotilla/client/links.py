"""Connections as the session keeps them, and what it asks its driver to do about them."""

from dataclasses import dataclass
from typing import TypeAlias

from flotilla.client.calls import Call
from flotilla.client.connection import Connection
from flotilla.codec.client import Buffers
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
    buffers: Buffers


@dataclass(frozen=True, slots=True)
class Close:
    """Give the connection up. Nothing needs to be reported any more."""

    link: LinkId


Action: TypeAlias = Dial | Write | Close


class Link:
    """One connection, from dialling to its end."""

    __slots__ = ("address", "connection", "link", "open_by_ms", "output", "queue", "used_ms")

    def __init__(self, link: LinkId, address: Address, open_by_ms: int) -> None:
        self.link = link
        self.address = address
        self.connection: Connection[Call] = Connection()
        #: Calls that wait for Welcome or for room, in order.
        self.queue: dict[Call, None] = {}
        self.output: Buffers = []
        self.open_by_ms = open_by_ms
        self.used_ms = 0
