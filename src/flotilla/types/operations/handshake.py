"""Exchanges about a TCP connection itself: Hello and Welcome, the log-in, and Ping. The endpoint answers them."""

from dataclasses import field

from flotilla.types.access import ANYBODY
from flotilla.types.ids import NodeId
from flotilla.types.operations.request import CONNECTION, READ, Done, Request
from flotilla.types.slotted import slotted


@slotted
class Hello:
    """The protocol versions that the client speaks."""

    version_min: int
    version_max: int
    #: Name and version of the client library, for people.
    client: str = ""
    #: It forwards requests of members elsewhere: when the connection closes, they may still be alive.
    is_gateway: bool = False


@slotted
class Welcome:
    """The version that both will speak, the node that answered, and the limits of this connection."""

    version: int
    node: NodeId
    cluster_id: str
    frame_bytes_max: int
    #: Requests in flight.
    requests_max: int
    #: The broker's time of day; 0: it does not say.
    time_ms: int = 0
    #: Ways to log in; empty: the broker does not ask who the client is, or knows it by its certificate.
    mechanisms: list[str] = field(default_factory=list)


@slotted
class Authenticate:
    """A step of a log-in, after Welcome: the first of a mechanism, or the answer to a Challenge.

    The broker answers with a Challenge, or with UNAUTHENTICATED and ends the connection.
    """

    mechanism: str
    data: bytes


@slotted
class Challenge:
    """What the client has to answer; or, when it is done, the broker's own proof."""

    data: bytes
    is_done: bool = False


@slotted
class Ping(Request[Done], to=CONNECTION, effect=READ, needs=ANYBODY):
    """Is answered at once, before requests that wait: it tells a silent broker from a dead one."""
