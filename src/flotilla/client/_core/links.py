"""Links of a session: its connections, and the actions that it asks of its driver."""

from typing import Any, TypeAlias

from flotilla.client._core.calls import ClientCall
from flotilla.client._core.connection import ClientConnection
from flotilla.client.credentials import CredentialsProvider
from flotilla.types.address import Address
from flotilla.types.errors import UnavailableError
from flotilla.types.slotted import frozen

LinkId: TypeAlias = int


@frozen
class Dial:
    """Connect, then report `dialled`, or `lost` if that fails."""

    link: LinkId
    address: Address


@frozen
class Write:
    link: LinkId
    #: Frames; on a local link the values in place of frames.
    buffers: list[Any]


@frozen
class Close:
    """Close the connection. Nothing is reported any more."""

    link: LinkId


Action: TypeAlias = Dial | Write | Close


class Link:
    """One connection, from dialling to its end."""

    __slots__ = (
        "address",
        "connection",
        "greeted_ms",
        "heard_ms",
        "is_dialled",
        "link",
        "open_by_ms",
        "orphans",
        "output",
        "queue",
    )

    def __init__(
        self,
        link: LinkId,
        address: Address,
        now_ms: int,
        open_by_ms: int,
        credentials: CredentialsProvider | None = None,
    ) -> None:
        self.link = link
        self.address = address
        self.connection: ClientConnection[ClientCall] = ClientConnection(credentials)
        #: Calls that wait for Welcome or for room, in order.
        self.queue: dict[ClientCall, None] = {}
        self.output: list[Any] = []
        self.open_by_ms = open_by_ms
        #: The connection is made; the broker may not have answered yet.
        self.is_dialled = False
        #: When Hello was sent.
        self.greeted_ms = now_ms
        #: When the broker last sent anything, or was dialled.
        self.heard_ms = now_ms
        #: Cancelled requests: by correlation id, the time from which their answer is due.
        self.orphans: dict[int, int] = {}

    @property
    def owed_ms(self) -> int | None:
        """Since when an answer is due and the broker has sent nothing; None: no answer is due."""
        connection = self.connection
        if not connection.is_open:
            return self.heard_ms
        self.orphans = {number: due_ms for number, due_ms in self.orphans.items() if connection.is_waiting(number)}
        due = [*self.orphans.values(), *[call.due_ms for call in connection.pending()]]
        return max(min(due), self.heard_ms) if due else None

    @property
    def silence(self) -> UnavailableError | None:
        """Why nothing came from an endpoint that accepts connections but does not welcome; None: another reason."""
        if not self.is_dialled or self.connection.is_open:
            return None
        text = f"{self.address} accepts connections but does not answer; is it the client port of a Flotilla broker?"
        return UnavailableError(text)

    def calls(self) -> list[ClientCall]:
        """Every call on this link that is not cancelled, sent or not."""
        return [*self.connection.pending(), *self.queue]
