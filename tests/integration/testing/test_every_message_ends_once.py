"""The promise of a queue group as one property: every message ends in exactly one state, and every counter adds up.

Messages are produced, delayed, retried, failed, rejected, left to expire, cancelled, trimmed, purged, redriven; their
topic grows, is deleted and is made anew, in any order. A model of a few lines knows of each message how it has ended.
"""

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flotilla.client.public import Receipt
from flotilla.testing import LocalBroker
from flotilla.types.errors import FlotillaError, NotFoundError

TOPIC, GROUP = "orders", "workers"
LETTERS = f"dlq.{GROUP}.{TOPIC}"
#: "settled": it has ended, and was removed since.
ENDS = {"acked", "dead", "cancelled", "expired", "trimmed", "settled"}
Place = tuple[int, int]

pytestmark = pytest.mark.slow


class QueueGroup(RuleBasedStateMachine):
    """What happens to one topic, its group, and the dead letters of both."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = LocalBroker()
        self.client = self.broker.client()
        #: Every message of this life of the topic: its payload, and its end once that is certain.
        self.payloads: dict[Place, bytes] = {}
        self.ends: dict[Place, str] = {}
        #: Deaths of all lives, by payload: as many letters must have been stored.
        self.deaths: Counter[bytes] = Counter()
        self.leased: list[Any] = []
        self.number = 0

    @initialize(partitions=st.integers(1, 2))
    def create(self, partitions: int) -> None:
        self.client.create_topic(
            TOPIC, partitions=partitions, max_deliveries=2, visibility_ms=10_000, nack_backoff_ms=1_000
        )
        self.open()

    def open(self) -> None:
        """The group owes all messages of a partition that it has come to. A new consumer knows new ones at once."""
        if hasattr(self, "consumer"):
            self.consumer.close()
            self.leased.clear()
        self.consumer = self.client.queue(TOPIC, group=GROUP, push=False)
        while not self.has_group() or len(self.client.describe_group(TOPIC, GROUP).partitions) < self.partition_count():
            self.poll(1)

    def partition_count(self) -> int:
        return len(self.client.describe_topic(TOPIC).partitions)

    def teardown(self) -> None:
        try:
            if hasattr(self, "consumer"):
                self.settle_all()
        finally:
            self.client.close()
            self.broker.close()

    # What users do.

    @rule(
        count=st.integers(1, 3),
        delay_ms=st.sampled_from([0, 0, 30_000]),
        ttl_ms=st.sampled_from([0, 0, 0, 20_000]),
        priority=st.integers(0, 7),
    )
    def produce(self, count: int, delay_ms: int, ttl_ms: int, priority: int) -> None:
        for _ in range(count):
            self.number += 1
            payload = b"%d" % self.number
            fields = {"ttl_ms": ttl_ms} if ttl_ms else {}
            self.stored(self.client.produce(TOPIC, payload, delay_ms=delay_ms, priority=priority, **fields), payload)

    def stored(self, receipt: Receipt, payload: bytes) -> None:
        self.payloads[receipt.partition, receipt.offset] = payload

    @rule(count=st.integers(1, 4))
    def poll(self, count: int) -> None:
        self.leased += self.polled(count)

    def polled(self, count: int) -> list[Any]:
        messages = self.consumer.poll(count, wait_ms=0)
        for message in messages:
            place = message.partition, message.offset
            self.payloads.setdefault(place, message.payload)
            assert self.payloads[place] == message.payload
            assert place not in self.ends, f"{place} has {self.ends[place]}, and was delivered"
        return messages

    @precondition(lambda self: self.leased)
    @rule(outcome=st.sampled_from(["ack", "ack", "nack", "reject", "forget"]))
    def settle(self, outcome: str) -> None:
        message = self.leased.pop(0)
        place = message.partition, message.offset
        if outcome == "forget":
            return
        try:
            getattr(message, outcome)()
        except FlotillaError:
            # The lease was over, or its topic is gone.
            return
        if place in self.ends or self.payloads.get(place) != message.payload:
            return
        if outcome == "ack":
            self.ends[place] = "acked"
        elif outcome == "reject":
            self.ends[place] = "dead"

    @precondition(lambda self: self.payloads)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        partition, offset = data.draw(st.sampled_from(sorted(self.payloads)))
        for place in self.client.cancel(TOPIC, partition, offset=offset):
            if self.state_of(place) == "cancelled":
                self.ends[place] = "cancelled"

    @rule(seconds=st.sampled_from([1, 11, 40]))
    def wait(self, seconds: int) -> None:
        self.broker.advance(seconds=seconds)

    @rule()
    def purge(self) -> None:
        self.client.purge(TOPIC)
        for place in self.payloads:
            self.ends.setdefault(place, self.state_of(place))

    @precondition(lambda self: self.payloads)
    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        partition, offset = data.draw(st.sampled_from(sorted(self.payloads)))
        self.client.trim(TOPIC, {partition: offset})
        for place in self.payloads:
            if place[0] == partition and place[1] < offset:
                self.ends.setdefault(place, self.state_of(place))

    @rule(more=st.integers(0, 1))
    def grow(self, more: int) -> None:
        before = self.partition_count()
        self.client.alter_topic(TOPIC, partitions=min(before + more, 3))
        if self.partition_count() > before:
            self.open()

    @rule()
    def redrive(self) -> None:
        """Letters come back as new messages, which the next polls show."""
        with suppress(NotFoundError):
            self.client.dead_letters(TOPIC, GROUP).redrive()

    @rule(partitions=st.integers(1, 2))
    def make_anew(self, partitions: int) -> None:
        self.count_deaths()
        self.client.delete_topic(TOPIC)
        self.payloads.clear()
        self.ends.clear()
        self.create(partitions)

    # What holds.

    def state_of(self, place: Place) -> str:
        return str(self.client.explain(TOPIC, GROUP, *place, history=False).state)

    @invariant()
    def known_ends_stay(self) -> None:
        for place in list(self.ends)[-3:]:
            on_its_way = "dying" if self.ends[place] == "dead" else ""
            assert self.state_of(place) in (self.ends[place], "settled", on_its_way), place

    def count_deaths(self) -> None:
        """Before the topic goes: what has died so far in this life."""
        self.broker.advance(seconds=1)
        for place, payload in self.payloads.items():
            self.deaths[payload] += self.state_of(place) == "dead"

    def has_group(self) -> bool:
        return GROUP in self.client.groups(TOPIC)

    def settle_all(self) -> None:
        """Everything that is left is worked off; then each message has ended, once, and is counted once."""
        self.leased.clear()
        while True:
            self.broker.advance(minutes=2)
            for message in self.polled(100):
                message.ack()
                self.ends[message.partition, message.offset] = "acked"
            if self.client.describe_group(TOPIC, GROUP).lag == 0:
                break
        self.find_redriven()
        group = self.client.describe_group(TOPIC, GROUP)
        found = {place: self.state_of(place) for place in self.payloads}
        assert set(found.values()) <= ENDS, found
        for place, end in self.ends.items():
            assert found[place] in (end, "settled"), (place, end, found[place])
        self.count_deaths()
        ended = group.acked_total + group.dead_total + group.cancelled_total + group.expired_total + group.trimmed_total
        assert ended == len(found), (group, found)
        assert self.letters() == +self.deaths

    def letters(self) -> Counter[bytes]:
        """The payloads of all letters that were stored, redriven or not."""
        if all(topic.name != LETTERS for topic in self.client.topics()):
            return Counter()
        return Counter(message.payload for message in self.client.peek(LETTERS, 0, max_messages=1_000))

    def find_redriven(self) -> None:
        """Messages that were redriven and settled by nobody here."""
        for partition in self.client.describe_topic(TOPIC).partitions:
            for message in self.client.peek(TOPIC, partition.number, max_messages=1_000):
                self.payloads.setdefault((message.partition, message.offset), message.payload)


TestQueueGroup = QueueGroup.TestCase
TestQueueGroup.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    # Each step of shrinking starts a broker.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
