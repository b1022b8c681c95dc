"""Producers of the queue workload: they send a batch until a leader answers with its offset.

Three kinds, by what protects them against storing twice: a producer id with sequences, idempotency keys, or nothing.
The protected ones repeat what was not answered, and now and then what was; the unprotected ones send everything once.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from flotilla.codec.batch.records import encode_batch
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.clock import EPOCH_MS
from flotilla.sim.devices.world import MS
from flotilla.sim.plans.queue import TOPIC
from flotilla.sim.plans.queue_message import BY_KEY, BY_NOTHING, BY_SEQUENCE, message_value
from flotilla.sim.queue.host import QueueApplication
from flotilla.sim.wire import Caller, Outcome
from flotilla.types.errors import OutOfWindowError, SequenceGapError
from flotilla.types.operations import Produce, Produced
from flotilla.types.records import Record

KINDS: Final = (BY_SEQUENCE, BY_KEY, BY_SEQUENCE, BY_NOTHING)
_RETRY_US: Final = 150 * MS


@dataclass(slots=True)
class Identities:
    """Numbers for messages, all different."""

    newest: int = 0

    def new(self) -> int:
        self.newest += 1
        return self.newest


class Producer:
    """A producer with one batch in flight."""

    def __init__(self, number: int, app: QueueApplication, identities: Identities, timeout_us: int) -> None:
        self._app = app
        self._identities = identities
        self._random: Random = app.world.stream(f"producer {number}")
        self._caller = Caller(app.wire, TOPIC, self._random, timeout_us)
        self._protection = KINDS[number % len(KINDS)]
        self._producer_id = number + 1 if self._protection == BY_SEQUENCE else 0
        self._sequence = 0
        #: Batches to make, and the one in flight.
        self.left = 0
        self._records: list[Record] = []
        #: The last batch that was answered: it may be sent again.
        self._last: tuple[list[Record], int] | None = None
        self.acknowledged = 0

    @property
    def is_idle(self) -> bool:
        return self.left == 0 and not self._records

    def give(self, batches: int) -> None:
        """Adds this many batches to send."""
        was_idle = self.is_idle
        self.left += batches
        if was_idle and self.left:
            self._begin()

    def _begin(self) -> None:
        self.left -= 1
        if self._last is not None and self._random.random() < 0.1:
            # It forgets that this was answered.
            self._app.sometimes.seen("answered batch sent again")
            self._records, self._sequence = self._last
            if self._protection == BY_KEY and self._random.random() < 0.5:
                self._records = self._mixed(self._records[0])
        else:
            self._records = self._draw_records()
        self._send()

    def _mixed(self, known: Record) -> list[Record]:
        """New records, and among them one that is stored already."""
        records = self._draw_records()
        place = self._random.randint(0, len(records))
        shared = records[0]
        records.insert(place, known._replace(priority=shared.priority, deliver_at_ms=shared.deliver_at_ms))
        return records

    def _draw_records(self) -> list[Record]:
        """One batch: its records share priority and time of delivery, the rest is their own."""
        random, plan = self._random, self._app.plan
        now_ms = EPOCH_MS + self._app.world.now_us // MS
        is_keyed = random.random() < 0.5
        # Messages of one key have one priority and no delay: then their order is that of their offsets.
        key = random.randrange(plan.key_count)
        priority = key % 3 if is_keyed else random.choice((0, 0, 0, 3, 7))
        deliver_at_ms = 0 if is_keyed or random.random() < 0.8 else now_ms + int(random.random() * 8_000)
        return [
            self._draw_record(b"key %d" % key if is_keyed else None, now_ms, priority, deliver_at_ms)
            for _ in range(random.randint(1, plan.batch_records_max))
        ]

    def _draw_record(self, key: bytes | None, now_ms: int, priority: int, deliver_at_ms: int) -> Record:
        random = self._random
        identity = self._identities.new()
        return Record(
            message_value(identity, self._protection),
            key=key,
            timestamp_ms=now_ms,
            priority=priority,
            deliver_at_ms=deliver_at_ms,
            ttl_ms=random.randint(500, 10_000) if random.random() < 0.1 else 0,
            idempotency_key=b"%d" % identity if self._protection == BY_KEY else b"",
            max_deliveries=random.randint(1, 4) if random.random() < 0.1 else 0,
        )

    def _send(self) -> None:
        batch = encode_batch(self._records, producer_id=self._producer_id, sequence=self._sequence)
        self._caller.ask(Produce("topic", 0, batch), self._answered)

    def _answered(self, outcome: Outcome) -> None:
        if isinstance(outcome, Produced):
            self.acknowledged += 1
            known = [position for position, _ in outcome.known]
            unsent = [record for place, record in enumerate(self._records) if outcome.known and place not in known]
            if unsent:
                self._records = unsent
                self._send()
                return
            self._end()
        elif self._protection == BY_NOTHING:
            self._app.sometimes.seen("produce of unknown outcome")
            self._end()
        else:
            if isinstance(outcome, SequenceGapError | OutOfWindowError):
                raise Violation("sequences are remembered", str(outcome))
            self._app.world.after(_RETRY_US, self._send)

    def _end(self) -> None:
        if self._protection != BY_NOTHING:
            self._last = self._records, self._sequence
        if self._producer_id:
            self._sequence += len(self._records)
        self._records = []
        if self.left:
            self._app.world.after(int(self._random.random() * 50) * MS + 1, self._begin)
