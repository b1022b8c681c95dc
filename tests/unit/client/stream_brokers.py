"""Real brokers with a topic that a stream group reads, and what they know of the group."""

from typing import Self

from flotilla.metadata.stream_groups import StreamGroup
from flotilla.types.operations import CommitOffset, Done, OffsetCommitted, ReadOffset
from flotilla.types.operations.stream import ClaimPartition, LeaveGroup
from flotilla.types.records import Record
from tests.unit.broker.fleet import BEGINNING_MS
from tests.unit.client.brokers import Brokers

TOPIC = "orders"
GROUP = "billing"
PARTITIONS = 4


class StreamBrokers(Brokers):
    def form(self, now_ms: int = BEGINNING_MS) -> Self:
        super().form(now_ms)
        self.create(TOPIC, PARTITIONS)
        return self

    def fill(self, count: int = 5) -> None:
        """Records for each partition, in batches of one."""
        for number in range(PARTITIONS):
            for _ in range(count):
                self.produce(TOPIC, number, Record(b"x"))

    # The group.

    def _group(self) -> StreamGroup | None:
        catalog = self.fleet.controller().catalog
        return catalog.machine.state.streams.find(catalog.topic(TOPIC).topic_id, GROUP)

    def owners(self) -> dict[str, list[int]]:
        """What each member may own now."""
        group = self.on(self._group)
        assignments = {} if group is None else group.assignments()
        return {member: [owned.partition for owned in mine] for member, mine in assignments.items()}

    def remove(self, member: str) -> None:
        """Takes a member out that does not know it."""
        left = self.on(lambda: self.fleet.controller().call(LeaveGroup(TOPIC, GROUP, member)).result)
        assert isinstance(left, Done), left

    # Its positions.

    def commit(self, partition: int, offset: int) -> None:
        done = self.answer(TOPIC, partition, CommitOffset(GROUP, TOPIC, partition, offset))
        assert isinstance(done, OffsetCommitted), done

    def committed(self) -> list[int | None]:
        answers = [self.answer(TOPIC, each, ReadOffset(GROUP, TOPIC, each)) for each in range(PARTITIONS)]
        return [answer.offset if isinstance(answer, OffsetCommitted) else None for answer in answers]

    def claim(self, partition: int, epoch: int) -> None:
        """As a later owner does."""
        claimed = self.answer(TOPIC, partition, ClaimPartition(GROUP, TOPIC, partition, epoch))
        assert isinstance(claimed, OffsetCommitted), claimed
