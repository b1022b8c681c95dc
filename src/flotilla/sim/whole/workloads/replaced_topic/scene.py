"""What the clients of a replaced topic have in common: its names, the phase of the run, the record of calls."""

from typing import Any, Final, NamedTuple

from flotilla.client.async_client import AsyncClient
from flotilla.codec.batch.view import BatchView
from flotilla.sim.whole.history import Call
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.workloads.queue_scene import QueueScene
from flotilla.types.dead_letters import dead_letter_topic
from flotilla.types.errors import FlotillaError
from flotilla.types.limits import KIB
from flotilla.types.operations import LATEST, Fetch, ListOffsets, TopicInfo

TOPIC: Final = "orders"
#: Queue groups; the second one begins at `latest`.
PACKING: Final = "packing"
MAILING: Final = "mailing"
QUEUES: Final = (PACKING, MAILING)
#: Stream groups; the second one begins at `latest`.
LEDGER: Final = "ledger"
ALERTS: Final = "alerts"
STREAMS: Final = (LEDGER, ALERTS)
#: Its letters are redriven.
LETTERS: Final = dead_letter_topic(PACKING, TOPIC)
#: Of the topic in each life.
SETTINGS: Final[dict[str, Any]] = {
    "max_deliveries": 3,
    "visibility_ms": 2_000,
    "nack_backoff_ms": 200,
    "nack_backoff_max_ms": 1_000,
}
#: A life begins with one or two partitions, and grows to twice as many.
PARTITIONS_MAX: Final = 4
#: In every life each producer stores this many records without a key, one after the other, before it goes home.
FAREWELL: Final = 12

#: Names of operations in the history.
ORDER: Final = "store order"
LEASE: Final = "lease orders"
SETTLE: Final = "settle order"
READ: Final = "read orders"
BEGIN: Final = "begin reading orders"
COMMIT: Final = "commit orders"
CREATE: Final = "create orders"
GROW: Final = "grow orders"
DELETE: Final = "delete orders"
DELETE_LETTERS: Final = "delete letters"
COPY: Final = "copy orders"
EXPLAIN: Final = "explain orders"
REDRIVE: Final = "redrive letters"

_FETCH_BYTES: Final = 64 * KIB


class Stored(NamedTuple):
    """A record of a copy."""

    payload: str
    key: str
    idempotency_key: bytes


def records_of(call: Call) -> dict[tuple[int, int], Stored]:
    """What a copy found, by partition and offset."""
    return {
        (partition, offset): Stored(payload, key, idempotency_key)
        for partition, offset, payload, key, idempotency_key in call.result.get("records", ())
    }


class TopicScene(QueueScene):
    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        #: Nothing changes the topic any more: this is its last life, unless a deletion comes late.
        self.is_final = False
        #: The life that was judged at the end; 0: not yet.
        self.final_id = 0

    async def describe(self, client: AsyncClient, topic: str = TOPIC) -> TopicInfo | None:
        """None: there is none, or it cannot be known."""
        try:
            return await client.describe_topic(topic)
        except FlotillaError:
            return None

    async def copy(self, client: AsyncClient, name: str, info: TopicInfo) -> Call:
        """Everything that a life holds, as a call of the history."""
        call = self.history.begin(name, COPY, topic_id=info.topic_id, partitions=len(info.partitions))
        try:
            found = await _copy(client, info)
        except FlotillaError as error:
            self.history.failed(call, error)
        else:
            self.history.done(call, records=[(*place, *stored) for place, stored in found.items()])
        return call


async def _copy(client: AsyncClient, info: TopicInfo) -> dict[tuple[int, int], Stored]:
    """By partition and offset. Raises FlotillaError; what it returns is of this life."""
    found: dict[tuple[int, int], Stored] = {}
    for partition in range(len(info.partitions)):
        end = (await client._call(ListOffsets(TOPIC, partition, LATEST, info.topic_id), None)).offset
        position = 0
        while position < end:
            request = Fetch(TOPIC, partition, position, _FETCH_BYTES, is_linearizable=True, topic_id=info.topic_id)
            fetched = await client._call(request, None)
            for view in map(BatchView, fetched.batches):
                for place, record in enumerate(view.records()):
                    position = view.offset(place) + 1
                    key = "" if record.key is None else record.key.decode()
                    found[partition, view.offset(place)] = Stored(
                        bytes(record.payload).decode(), key, record.idempotency_key
                    )
    return found
