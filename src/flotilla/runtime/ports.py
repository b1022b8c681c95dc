"""The links of a node to other nodes, as its runtime uses them. `peers/` implements them."""

from typing import Protocol

from flotilla.raft.messages import Message
from flotilla.replica.ports import LinkEvents
from flotilla.types.ids import GroupId, NodeId


class Links(Protocol):
    async def start(self, events: LinkEvents) -> None: ...

    def close(self) -> None:
        """Closes all links. No event comes afterwards."""

    def send(self, to: NodeId, messages: list[tuple[GroupId, Message]]) -> None:
        """Sends the messages of a turn to one peer in one write. They may be lost; never blocks."""

    def tell_room(self, room: int) -> None:
        """Tells all peers how much room the disk has. It may be lost."""
