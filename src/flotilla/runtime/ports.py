"""What the runtime of a node needs of its links to other nodes. `peers/` brings the real ones."""

from typing import Protocol

from flotilla.raft.messages import Message
from flotilla.types.ids import GroupId, NodeId


class LinkEvents(Protocol):
    """What links tell a node, on its loop."""

    def receive(self, messages: list[tuple[GroupId, Message]]) -> None: ...

    def peer_up(self, peer: NodeId) -> None: ...

    def peer_down(self, peer: NodeId) -> None:
        """The peer cannot be reached or has fallen silent. A hint: it may be wrong."""

    def peer_refused(self, peer: NodeId, address: str, reason: str) -> None:
        """It was not let in; told once for each reason, not at every attempt. NO_NODE: it did not say who it is."""

    def refused_by_peer(self, peer: NodeId, address: str, reason: str) -> None:
        """It did not let us in, or is not whom we dialled; told likewise."""


class Links(Protocol):
    async def start(self, events: LinkEvents) -> None: ...

    def close(self) -> None:
        """Lets go of all peers. No event comes afterwards."""

    def send(self, to: NodeId, messages: list[tuple[GroupId, Message]]) -> None:
        """All that a turn has for one peer, in one write; may lose, never blocks."""
