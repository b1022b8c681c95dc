"""What the clients of a queue have in common: its topic and groups, the phase of the run, the record of calls."""

from collections.abc import Coroutine
from typing import Any, Final

from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.history import Call
from flotilla.sim.whole.simulation import Simulation
from flotilla.types.errors import FlotillaError

TOPIC: Final = "jobs"
PARTITIONS: Final = 2
#: Each gets every message and settles it for good.
GROUPS: Final = ("build", "mail")
#: The operator sends this one back at times.
REPLAYED: Final = "replay"
#: Its members get the messages of a key one after the other.
ORDERED: Final = "ledger"
#: Its members get no more than this many messages in a minute.
LIMITED: Final = "courier"
RATE_PER_MINUTE: Final = 240
RATE_BURST: Final = 5
#: Its members get each message at most once.
ONCE: Final = "metrics"
ALL_GROUPS: Final = (*GROUPS, REPLAYED, ORDERED, LIMITED, ONCE)
VISIBILITY_MS: Final = 2_000
#: For how long a consumer renews what its handler holds.
LEASE_MS_MAX: Final = 6_000
MAX_DELIVERIES: Final = 4
TIMEOUT_MS: Final = 8_000
#: Ends of payloads: handlers of the message fail, or forget it, as long as faults last.
FAILING: Final = "/fails"
HANGING: Final = "/hangs"

#: Names of operations in the history.
ENQUEUE: Final = "enqueue"
LEASE: Final = "lease"
SETTLE: Final = "settle"
EXTEND: Final = "extend lease"
CANCEL: Final = "cancel message"
DESCRIBE: Final = "describe group"
LINK_LOST: Final = "link lost"
ENDED: Final = "process ended"


class QueueScene:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.history = simulation.history
        #: Nothing new is begun.
        self.is_calm = False
        #: Every message has its end: consumers go home.
        self.is_drained = False
        #: Producers and operators at work.
        self.busy = 0
        #: Consumers at work, by name.
        self.consumers: dict[str, None] = {}
        #: Delayed messages that an operator may cancel: (partition, offset).
        self.delayed: list[tuple[int, int]] = []

    def client(self, name: str) -> AsyncClient:
        return AsyncClient(self.simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name=name)

    async def attempt(self, call: Call, work: Coroutine[Any, Any, Any]) -> Any:
        """Does it and records how it ended, except for what it returned. None: it failed."""
        try:
            found = await work
        except FlotillaError as error:
            self.history.failed(call, error)
            return None
        self.history.done(call)
        return True if found is None else found

    def happened(self, client: str, operation: str, **arguments: Any) -> None:
        """Records what takes no time."""
        self.history.done(self.history.begin(client, operation, **arguments))
