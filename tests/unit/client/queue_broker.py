"""The cluster in memory with queue groups: the real machine and the real leader of each partition, and a clock.

Everything commits at once. What takes time (leases that run out, parked polls, delays) happens when `tick` is called
after the clock was turned, or at the next request.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from flotilla.broker.ports import Cancel, Done
from flotilla.codec.batch.check import validate
from flotilla.codec.batch.cut import cut
from flotilla.codec.batch.facts import facts_of
from flotilla.codec.batch.header import patch_base_offset
from flotilla.codec.batch.records import encode_batch
from flotilla.partition.commands import partition_commands as commands
from flotilla.partition.explain.explanation import describe_group, explain_message
from flotilla.partition.leader.holders import UNNAMED
from flotilla.partition.leader.produce_admission import Assigned, KnownKeys, ProduceAdmission
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.state.idempotency_keys import digests_of
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.producers import Duplicate
from flotilla.raft.messages import DATA, Entry
from flotilla.types.dead_letters import HEADER_PREFIX, dead_letter_topic
from flotilla.types.errors import FlotillaError, NotFoundError, NotLeaderError
from flotilla.types.group_settings import GROUP_SETTINGS, GroupRules, resolve_rules
from flotilla.types.operations import EARLIEST, LATEST, Produce, Produced, Reply, Request
from flotilla.types.operations import Done as DoneReply
from flotilla.types.operations import queue as ops
from flotilla.types.records import Record
from flotilla.types.topics import SETTINGS, check_settings, resolve_settings
from tests.unit.client.broker import MemoryCluster, Partition

GRACE_MS = 2_000


class QueuePartition(Partition):
    """One partition with its replicated state and what its leader knows."""

    def __init__(self, leader: int, cluster: "QueueCluster", topic: str) -> None:
        super().__init__(leader)
        self._cluster = cluster
        self._topic = topic
        self.machine = PartitionMachine(facts_of)
        self.begin_term(leader)

    def begin_term(self, leader: int) -> None:
        self.leader = leader
        now_ms = self._cluster.now_ms()
        self.admission = ProduceAdmission(self.machine)
        self.queue = QueueLeader(self.machine, self.term, now_ms, Random(1), self._cluster.grace_ms, self.rules_of)

    def rules_of(self, group: str) -> GroupRules:
        return self._cluster.rules_of(self._topic, group)

    def apply(self, command: commands.Command) -> object:
        refused = self.machine.check(command)
        if refused is not None:
            raise refused
        return self._apply(commands.encode_command(command))

    def _apply(self, data: bytes) -> object:
        return self.machine.apply(Entry(self.machine.applied + 1, self.term, DATA, data))

    def append(self, batch: bytes | bytearray | memoryview) -> Produced | FlotillaError:
        header = validate(batch).header
        facts = facts_of(bytes(batch))
        assert facts is not None
        admitted = self.admission.admit(facts, self)
        if isinstance(admitted, KnownKeys):
            return Produced(0, known=list(zip(admitted.positions, admitted.offsets, strict=True)))
        if isinstance(admitted, Duplicate):
            return Produced(admitted.first_offset, duplicate=True)
        if not isinstance(admitted, Assigned):
            assert isinstance(admitted, FlotillaError)
            return admitted
        stored = bytearray(batch)
        patch_base_offset(stored, admitted.base_offset, self.term)
        self.batches.append(bytes(stored))
        self.bases.append(admitted.base_offset)
        self.next_offset += header.count
        self._apply(bytes(stored))
        self.queue.applied(facts_of(bytes(stored)))
        return Produced(admitted.base_offset)

    def open(self, group: str, start: ops.Start) -> None:
        if not self.queue.has_group(group):
            self.apply(commands.OpenGroup(group, self.find(start), self._cluster.now_ms()))

    def find(self, start: ops.Start) -> int:
        if start.kind == EARLIEST:
            return self.log_start
        if start.kind == LATEST:
            return self.next_offset
        if start.kind == ops.FROM_OFFSET:
            return min(max(start.value, self.log_start), self.next_offset)
        found = self._cluster._list(self, start.value).offset
        return self.next_offset if found < 0 else found

    def deliver(self, number: int, leases: list) -> list[ops.Delivery]:
        found = []
        topic_id = 1 + list(self._cluster.topics).index(self._topic)
        for lease in leases:
            for base, batch in zip(self.bases, self.batches, strict=True):
                count = validate(batch).count
                first, end = max(lease.first, base), min(lease.end, base + count)
                if first < end:
                    piece = cut(batch, first - base, end - first)
                    found.append(
                        ops.Delivery(number, lease.lease_id, first, end - first, lease.attempt, piece, topic_id)
                    )
        return found

    def admit(self, group: str, holder: str) -> None:
        """The name of a member is in the log before it gets its first lease."""
        if not self.queue.admits(group, holder, self._cluster.now_ms()):
            for command in self.queue.take_holder_changes(self._cluster.now_ms()):
                self.apply(command)
                self.queue.holders_changed(command)

    def commit(self) -> None:
        """Everything that the leader has gathered is on disk at a majority now."""
        while (command := self.queue.take_outbox(self._cluster.now_ms())) is not None:
            self.apply(command)
            self.queue.committed(command)
        for reservation in self.queue.take_reservations(self._cluster.now_ms()):
            self.apply(reservation)


@dataclass(eq=False)
class _Parked:
    node: int
    request: ops.Poll
    done: Done
    until_ms: int


class QueueCluster(MemoryCluster):
    def __init__(self, nodes: int = 1, now_ms: Callable[[], int] = lambda: 0) -> None:
        super().__init__(nodes)
        self.now_ms = now_ms
        self.grace_ms = GRACE_MS
        self.group_settings: dict[tuple[str, str], dict[str, str]] = {}
        self._waiting: list[_Parked] = []

    def create(self, topic: str, partitions: int = 1) -> None:
        super().create(topic, partitions)
        self.topics[topic] = [QueuePartition(part.leader, self, topic) for part in self.topics[topic]]

    def rules_of(self, topic: str, group: str) -> GroupRules:
        settings = resolve_settings(check_settings(SETTINGS.parse(self.settings[topic])))
        chosen = self.group_settings.get((topic, group), {})
        return resolve_rules(settings, GROUP_SETTINGS.check(GROUP_SETTINGS.parse(chosen)))

    def move(self, topic: str, number: int, node: int) -> None:
        """Another node leads from now on."""
        part = self.topics[topic][number]
        part.begin_term(node)
        for parked in list(self._waiting):
            if parked.request.topic == topic and number in parked.request.partitions:
                self._waiting.remove(parked)
                parked.done(NotLeaderError(node, self.addresses[node]))

    def term(self, topic: str, number: int = 0) -> int:
        return self.topics[topic][number].term

    def drop(self, node: int) -> None:
        """The connections of a node are lost, with their long polls."""
        self._waiting = [parked for parked in self._waiting if parked.node != node]

    def next_event_ms(self) -> int | None:
        """When something happens by itself."""
        now_ms = self.now_ms()
        times = [parked.until_ms for parked in self._waiting]
        events = [part.queue.next_event_ms(now_ms) for parts in self.topics.values() for part in parts]
        return min([*times, *[event_ms for event_ms in events if event_ms is not None]], default=None)

    def tick(self) -> None:
        """What is due happens."""
        now_ms = self.now_ms()
        for topic, parts in list(self.topics.items()):
            for number, part in enumerate(parts):
                part.queue.advance(now_ms)
                part.commit()
                self._bury(topic, number, part)
        for parked in list(self._waiting):
            answer = self._poll_now(parked.node, parked.request)
            if isinstance(answer, FlotillaError) or answer.deliveries or parked.until_ms <= now_ms:
                self._waiting.remove(parked)
                parked.done(answer)

    def handle(self, node: int, request: Request, done: Done) -> Cancel | None:
        if not isinstance(request, ops.Poll):
            cancel = super().handle(node, request, done)
            self.tick()
            return cancel
        self.requests.append((node, request))
        answer = self.fault(node, request) or self._poll_now(node, request)
        if isinstance(answer, FlotillaError) or answer.deliveries or not request.wait_ms:
            done(answer)
            return None
        parked = _Parked(node, request, done, self.now_ms() + request.wait_ms)
        self._waiting.append(parked)
        return lambda: self._waiting.remove(parked) if parked in self._waiting else None

    def _poll_now(self, node: int, request: ops.Poll) -> ops.Polled | FlotillaError:
        try:
            parts = [(number, self._partition(node, request.topic, number)) for number in request.partitions]
        except FlotillaError as error:
            return error
        deliveries: list[ops.Delivery] = []
        visibility_ms = request.visibility_ms or self.rules_of(request.topic, request.group).visibility_ms
        for number, part in parts:
            assert isinstance(part, QueuePartition)
            part.open(request.group, request.start)
            left = request.max_messages - sum(delivery.count for delivery in deliveries)
            part.queue.advance(self.now_ms())
            leases = []
            if not request.is_auto_ack:
                part.admit(request.group, request.member if request.presents else UNNAMED)
            if left:
                leases = part.queue.poll(request.group, request.member, left, visibility_ms, self.now_ms())
            if request.is_auto_ack and leases:
                held = [ops.LeaseRange(lease.lease_id, lease.first, lease.end) for lease in leases]
                part.queue.settle(request.group, ops.ACK, held, "", ops.BY_BACKOFF, self.now_ms())
                leases = [lease._replace(lease_id=0) for lease in leases]
            part.commit()
            deliveries += part.deliver(number, leases)
        return ops.Polled(deliveries, visibility_ms)

    def _answer(self, node: int, request: Request) -> Reply | FlotillaError:
        if isinstance(request, ops.AlterGroup):
            if node != self.controller:
                return NotLeaderError(self.controller, self.addresses[self.controller])
            chosen = self.group_settings.setdefault((request.topic, request.group), {})
            chosen.update(request.settings)
            for name in [name for name, text in chosen.items() if not text]:
                del chosen[name]
            return ops.GroupReply(dict(chosen))
        if type(request).__module__ != ops.__name__:
            return super()._answer(node, request)
        part = self._partition(node, request.topic, request.partition)
        return self._answer_queue(part, request)

    def _answer_queue(self, part: QueuePartition, request: Request) -> Reply | FlotillaError:
        now_ms = self.now_ms()
        queue = part.queue
        if isinstance(request, ops.ListGroups):
            return ops.GroupList(dict.fromkeys(queue.groups(), "queue"))
        if isinstance(request, ops.CancelRecords):
            keys = [part.machine.keys.get(digest) for digest in digests_of(tuple(request.keys))]
            offsets = tuple(sorted([*request.offsets, *[offset for offset in keys if offset is not None]]))
            cancelled = part.apply(commands.CancelRecords(offsets, now_ms)) if offsets else ()
            return ops.RecordsCancelled(list(cancelled))
        if isinstance(request, ops.LeaveQueue):
            return DoneReply()
        if not queue.has_group(request.group):
            return NotFoundError(f"there is no queue group {request.group!r} in this partition")
        if isinstance(request, ops.Settle):
            held = (request.group, request.kind, request.leases, request.reason, request.delay_ms)
            expired = queue.settle(*held, now_ms)
            part.commit()
            return ops.Settled(expired, queue.settled_of(request.group, request.kind, expired))
        if isinstance(request, ops.Extend):
            part.admit(request.group, request.member)
            refused = queue.extend(request.group, request.member, request.leases, request.visibility_ms, now_ms)
            queue.present(request.group, request.member, request.presented_term, now_ms)
            return ops.Settled(refused, term=queue.term)
        if isinstance(request, ops.DescribeGroup):
            return describe_group(queue, request.group, now_ms)
        if isinstance(request, ops.ExplainMessage):
            return explain_message(queue, request.group, request.offset, now_ms)
        if isinstance(request, ops.ResetGroup):
            before, after = describe_group(queue, request.group, now_ms).floor, part.find(request.start)
            if not request.is_dry_run:
                part.apply(commands.ResetGroup(request.group, after, now_ms))
            return ops.GroupReset(before, after)
        assert isinstance(request, ops.DeleteGroup)
        part.apply(commands.DeleteGroup(request.group, now_ms))
        return DoneReply()

    def _bury(self, topic: str, number: int, part: QueuePartition) -> None:
        """Moves the dead to their topic, as a broker does."""
        for group in part.queue.groups():
            for death in part.queue.deaths(group, 100):
                name = dead_letter_topic(group, topic)
                if name not in self.topics:
                    self.create(name)
                (delivery,) = part.deliver(number, [_Whole(0, death.offset, death.offset + 1, 0)])
                record = validate(delivery.batch).record(0)
                story = {
                    "reason": death.reason,
                    "attempts": death.attempts,
                    "topic": topic,
                    "partition": number,
                    "offset": death.offset,
                    "died-time": death.died_ms,
                }
                added = tuple((HEADER_PREFIX + key, str(value).encode()) for key, value in story.items())
                own = tuple(pair for pair in record.headers if not pair[0].startswith(HEADER_PREFIX))
                letter = Record(record.payload, record.key, own + added, priority=record.priority)
                self.topics[name][0].append(encode_batch([letter]))
                part.apply(commands.BuryDeaths(group, death.number + 1, self.now_ms()))


@dataclass
class _Whole:
    lease_id: int
    first: int
    end: int
    attempt: int


def produce(cluster: QueueCluster, topic: str, partition: int, *records: Record) -> None:
    """Stores records without a client."""
    answer = cluster.answer(
        cluster.topics[topic][partition].leader, Produce(topic, partition, encode_batch(list(records)))
    )
    assert isinstance(answer, Produced), answer
    cluster.tick()
