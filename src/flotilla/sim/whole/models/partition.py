"""The partitions of real brokers, each with a model that all its replicas must agree with."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NamedTuple

from flotilla.broker.partition.host import WatchedMachine
from flotilla.broker.retention_holds import chosen_holders
from flotilla.metadata.values import Topic
from flotilla.partition.batch_facts import Describe
from flotilla.raft.messages import Entry
from flotilla.sim.devices.clock import DRIFT_PPM_MAX
from flotilla.sim.whole.models.ages import AgeChecker
from flotilla.sim.whole.models.queue_delivery import DeliveryChecker
from flotilla.sim.whole.models.queue_shadow import GroupShadow, QueueShadow, Ways
from flotilla.sim.whole.models.record import WatchRecord
from flotilla.types.dead_letters import HEADER_PREFIX
from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import GroupId, NodeId, Offset
from flotilla.types.records import Record
from flotilla.types.snapshot_data import SnapshotData, whole


class Death(NamedTuple):
    """A message that died in a group."""

    topic: str
    partition: int
    group: str
    offset: Offset
    #: After a reset a message can die again.
    died_ms: int


class PartitionWatch(Ways):
    """One partition of a topic: its model, and the checkers of its leaders."""

    def __init__(self, watch: WatchRecord, group: GroupId, topic_id: int, number: int) -> None:
        self._watch = watch
        self.topic_id = topic_id
        self._number = number
        self.group = group
        self.check = watch.check
        self.note = watch.note
        self.registry = watch.registry
        self.shadow = QueueShadow(group, self, watch.letters, watch.registry)
        world = watch.world
        settings = self.topic.settings
        self.ages = AgeChecker(world, settings.retention_ms, settings.retention_messages, DRIFT_PPM_MAX)
        self.delivery = DeliveryChecker(self.shadow, lambda: world.now_us)

    @property
    def topic(self) -> Topic:
        """As the newest entry of the metadata has it."""
        return self._watch.topics[self.topic_id]

    @property
    def now_us(self) -> int:
        return self._watch.world.now_us

    # What the model asks.

    def rules_of(self, name: str) -> GroupRules:
        return self.topic.rules_of(name)

    def holders(self) -> Iterable[str]:
        return chosen_holders(self.topic)

    def identity_of(self, record: Record) -> tuple[Hashable, bool]:
        """By its idempotency key no other record is stored; equal payloads may be two messages."""
        if record.idempotency_key:
            return (record.idempotency_key,), True
        return record.payload, False

    def letter_in(self, record: Record) -> Hashable | None:
        if not self.topic.settings.holds_dead_letters:
            return None
        told = {
            name.removeprefix(HEADER_PREFIX): value.decode()
            for name, value in record.headers
            if name.startswith(HEADER_PREFIX)
        }
        if "died-time" not in told:
            return None
        return Death(told["topic"], int(told["partition"]), told["group"], int(told["offset"]), int(told["died-time"]))

    def letter_of(self, group: GroupShadow, number: int) -> Hashable:
        return Death(self.topic.name, self._number, group.name, group.deaths[number], group.died_ms[number])

    def died(self, group: GroupShadow) -> None:
        self._watch.deaths[self.letter_of(group, len(group.deaths) - 1)] = None

    def is_copied(self, letter: Hashable) -> bool:
        deleted = self._watch.deleted
        return self.topic_id in deleted or self._watch.letters[letter] in deleted

    def is_dead(self, letter: Hashable) -> bool:
        return letter in self._watch.deaths


class WatchedPartition(WatchedMachine):
    """A replica whose every step is compared with the model."""

    def __init__(self, watch: PartitionWatch, node: NodeId, describe: Describe) -> None:
        self.watch = watch
        self.node = node
        super().__init__(describe)

    def apply(self, entry: Entry) -> object:  # type: ignore[override]
        result = super(WatchedMachine, self).apply(entry)
        # Before the broker hears of it: it may answer at once.
        self.watch.check(self._applied, entry, result)
        self.on_applied(result)
        return result

    def _applied(self, entry: Entry, result: object) -> None:
        self.watch.ages.applied(self.log_start, self.next_offset)
        self.watch.shadow.applied(self.node, entry, result, self)

    def freeze(self) -> Callable[[], Iterator[bytes]]:
        """A snapshot is that of one entry, however many are applied before it is written."""
        encode = super().freeze()
        data = b"".join(encode())
        check, shadow = self.watch.check, self.watch.shadow
        check(shadow.took_snapshot, self.node, self.applied, data)

        def encoded() -> Iterator[bytes]:
            pieces = list(encode())
            check(shadow.wrote_snapshot, self.node, data, b"".join(pieces))
            return iter(pieces)

        return encoded

    def restore(self, data: SnapshotData, decoded: Any = None) -> Iterator[None]:
        remains = super().restore(data, decoded)
        self.watch.check(self._restored, data)
        return remains

    def _restored(self, data: SnapshotData) -> None:
        self.watch.shadow.restored(self.node, self, whole(data))
