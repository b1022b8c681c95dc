"""Options of a session: names, time limits and backoff."""

from dataclasses import field

from flotilla.client._core.backoff import Backoff
from flotilla.client.credentials import CredentialsProvider
from flotilla.types.limits import IDLE_MS_MAX
from flotilla.types.slotted import frozen


@frozen
class SessionOptions:
    #: Name and version of the client, for operators of the broker.
    name: str = ""
    #: The name of this host, to find out which brokers are near.
    host: str = ""
    #: It carries requests of other clients, whose leases outlive a connection of this one.
    is_gateway: bool = False
    #: Who it is, for brokers that ask; None: it does not say.
    credentials: CredentialsProvider | None = None
    backoff: Backoff = field(default_factory=Backoff)
    #: From dialling to Welcome.
    connect_ms_max: int = 5_000
    #: Beyond the wait that a request asks for. A broker that sends nothing for longer is taken for dead,
    answer_ms_max: int = 10_000
    #: and suspected of it after this time.
    suspect_ms: int = 1_000
    #: A broker that sends nothing for this long, while only long polls are in flight, is pinged. An idle consumer costs
    #: each broker two pings a second.
    ping_ms: int = 500
    #: The longest interval at which other brokers are asked who leads in place of a suspect; half of it is random.
    inquiry_ms: int = 500
    #: An idle connection is closed well before the broker closes it.
    idle_ms_max: int = IDLE_MS_MAX // 2
