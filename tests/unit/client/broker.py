"""A cluster in memory that behaves towards clients like a real one: leaders, redirections, deduplication.

Each node is a Service, to be put behind a real TCP server or under a hand-turned clock. Batches are checked,
numbered and recognised by the parts that real brokers use. Faults are switches: what happens next is decided
by a function that looks at each request first.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flotilla.broker.ports import Cancel, Done
from flotilla.codec.batch.check import validate
from flotilla.codec.batch.header import patch_base_offset
from flotilla.partition.state.producers import Duplicate, New, ProducerTable
from flotilla.types import operations
from flotilla.types.errors import (
    AlreadyExistsError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    NotLeaderError,
    OffsetOutOfRangeError,
    UnavailableError,
)
from flotilla.types.operations import (
    EARLIEST,
    LATEST,
    BrokerInfo,
    ClusterReply,
    CommitOffset,
    Fetch,
    Fetched,
    ListOffsets,
    Metadata,
    OffsetCommitted,
    OffsetFound,
    PartitionInfo,
    Produce,
    Produced,
    ReadOffset,
    Reply,
    Request,
    TopicInfo,
    TopicReply,
)
from flotilla.types.operations.stream import (
    DescribeStreamGroup,
    FenceGroup,
    ForgetGroup,
    ListStreamGroups,
    StreamGroupList,
)

#: Decides about a request before a node does: None lets it pass.
Fault = Callable[[int, Request], FlotillaError | None]


@dataclass
class Partition:
    #: The leader of the next term.
    leader: int
    batches: list[bytes] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    next_offset: int = 0
    log_start: int = 0
    producers: ProducerTable = field(default_factory=lambda: ProducerTable(10_000, 86_400_000))
    groups: dict[str, int] = field(default_factory=dict)
    term: int = 1

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if name == "leader":
            self.term = getattr(self, "term", 0) + 1

    def append(self, batch: bytes | bytearray | memoryview) -> Produced | FlotillaError:
        header = validate(batch).header
        numbers = (header.producer_id, header.producer_epoch, header.producer_sequence, header.count)
        if header.producer_id:
            checked = self.producers.check(*numbers)
            if isinstance(checked, Duplicate):
                return Produced(checked.first_offset, duplicate=True)
            if not isinstance(checked, New):
                return checked
            self.producers.record(*numbers, self.next_offset)
        base = self.next_offset
        stored = bytearray(batch)
        patch_base_offset(stored, base, 1)
        self.batches.append(bytes(stored))
        self.bases.append(base)
        self.next_offset += header.count
        return Produced(base)

    def values(self) -> list[bytes]:
        return [value for batch in self.batches for value in validate(batch).payloads()]

    def trim(self, log_start: int) -> None:
        """Retention: whole batches below go."""
        keep = [index for index, base in enumerate(self.bases) if base >= log_start]
        self.batches = [self.batches[index] for index in keep]
        self.bases = [self.bases[index] for index in keep]
        self.log_start = log_start

    def read(self, request: Fetch) -> list[bytes | memoryview]:
        found: list[bytes | memoryview] = []
        size = 0
        for base, batch in zip(self.bases, self.batches, strict=True):
            if base + validate(batch).count <= request.offset:
                continue
            if found and size + len(batch) > request.max_bytes:
                break
            found.append(batch)
            size += len(batch)
        return found


class MemoryCluster:
    def __init__(self, nodes: int = 1) -> None:
        self.cluster_id = "memory"
        #: Client addresses; filled in by the code that opens the servers.
        self.addresses = {node: f"node{node}:7600" for node in range(1, nodes + 1)}
        self.alive = dict.fromkeys(self.addresses, True)
        self.topics: dict[str, list[Partition]] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.controller = 1
        self.auto_create = False
        self.metadata_index = 0
        #: How far the nodes' clocks are ahead of the machine's; None: they do not send their time.
        self.ahead_ms: int | None = 0
        self.fault: Fault = lambda node, request: None
        self.requests: list[tuple[int, Request]] = []
        self._parked: list[Callable[[], bool]] = []

    def node(self, number: int) -> "MemoryNode":
        return MemoryNode(self, number)

    def create(self, topic: str, partitions: int = 1) -> None:
        leaders = itertools.cycle(self.addresses)
        self.topics[topic] = [Partition(next(leaders)) for _ in range(partitions)]
        self.settings.setdefault(topic, {})

    def describe(self, topic: str) -> TopicInfo:
        parts = [
            PartitionInfo(number, part.leader, [part.leader], part.term)
            for number, part in enumerate(self.topics[topic])
        ]
        return TopicInfo(topic, 1 + list(self.topics).index(topic), parts, self.settings[topic])

    def stored(self, topic: str) -> list[bytes]:
        return [value for part in self.topics[topic] for value in part.values()]

    def count(self, kind: type[Request]) -> int:
        return sum(isinstance(request, kind) for _, request in self.requests)

    def handle(self, node: int, request: Request, done: Done) -> Cancel | None:
        self.requests.append((node, request))
        refused = self.fault(node, request)
        if refused is not None:
            done(refused)
            return None
        if isinstance(request, Fetch) and request.wait_ms and self._is_at_end(node, request):
            return self._park(node, request, done)
        done(self.answer(node, request))
        return None

    def answer(self, node: int, request: Request) -> Reply | FlotillaError:
        try:
            return self._answer(node, request)
        except FlotillaError as error:
            return error

    def _is_at_end(self, node: int, request: Fetch) -> bool:
        try:
            return self._partition(node, request.topic, request.partition).next_offset == request.offset
        except FlotillaError:
            return False

    def _park(self, node: int, request: Fetch, done: Done) -> Cancel:
        """Waits for records, without a time limit."""

        def wake() -> bool:
            if self._is_at_end(node, request):
                return False
            done(self.answer(node, request))
            return True

        self._parked.append(wake)
        return lambda: self._parked.remove(wake) if wake in self._parked else None

    def _answer(self, node: int, request: Request) -> Reply | FlotillaError:
        if isinstance(request, Produce):
            outcome = self._partition(node, request.topic, request.partition).append(request.batch)
            self._parked = [wake for wake in self._parked if not wake()]
            return outcome
        if isinstance(request, Fetch):
            part = self._partition(node, request.topic, request.partition)
            if not part.log_start <= request.offset <= part.next_offset:
                return OffsetOutOfRangeError(f"{request.offset} is not in {part.log_start} to {part.next_offset}")
            return Fetched(part.read(request), part.log_start, part.next_offset)
        if isinstance(request, ListOffsets):
            return self._list(self._partition(node, request.topic, request.partition), request.timestamp_ms)
        if isinstance(request, CommitOffset):
            groups = self._partition(node, request.topic, request.partition).groups
            position = request.offset if request.reset else max(request.offset, groups.get(request.group, 0))
            groups[request.group] = position
            return OffsetCommitted(position)
        if isinstance(request, ReadOffset):
            groups = self._partition(node, request.topic, request.partition).groups
            if request.group not in groups:
                return NotFoundError("the group never committed")
            return OffsetCommitted(groups[request.group])
        return self._answer_admin(node, request)

    def _answer_admin(self, node: int, request: Request) -> Reply | FlotillaError:
        if isinstance(request, operations.GetMetadata):
            return self._metadata(request) if not request.create else self._create_missing(request)
        if isinstance(request, operations.InitCluster):
            return ClusterReply(self.cluster_id, request.nodes)
        if isinstance(request, operations.TransferLeadership):
            self._partition(node, request.topic, request.partition).leader = request.to
            return operations.Done()
        if node != self.controller:
            return NotLeaderError(self.controller, self.addresses[self.controller])
        if isinstance(request, ListStreamGroups):
            return StreamGroupList([])
        if isinstance(request, DescribeStreamGroup | FenceGroup | ForgetGroup):
            return NotFoundError(f"there is no stream group {request.group!r}")
        if isinstance(request, operations.JoinCluster | operations.RemoveNode):
            return ClusterReply(self.cluster_id, {request.node: "peer:7601"})
        return self._change_topic(request)

    def _change_topic(self, request: Request) -> Reply | FlotillaError:
        if isinstance(request, operations.CreateTopic):
            if request.topic in self.topics:
                return AlreadyExistsError(f"topic {request.topic} exists")
            self.settings[request.topic] = request.settings
            self.create(request.topic, request.partitions or 1)
            return TopicReply(self.describe(request.topic))
        assert isinstance(request, operations.AlterTopic | operations.DeleteTopic)
        if request.topic not in self.topics:
            return NotFoundError(f"there is no topic {request.topic!r}")
        if isinstance(request, operations.AlterTopic):
            self.settings[request.topic].update(request.settings)
            while len(self.topics[request.topic]) < request.partitions:
                self.topics[request.topic].append(Partition(1))
            return TopicReply(self.describe(request.topic))
        before = self.describe(request.topic)
        del self.topics[request.topic]
        return TopicReply(before)

    def _metadata(self, request: operations.GetMetadata) -> Metadata:
        brokers = [BrokerInfo(node, address, "", self.alive[node]) for node, address in self.addresses.items()]
        names = request.topics or list(self.topics)
        known = [self.describe(name) for name in names if name in self.topics]
        return Metadata(self.cluster_id, self.controller, brokers, known)

    def _create_missing(self, request: operations.GetMetadata) -> Reply | FlotillaError:
        missing = [name for name in request.topics if name not in self.topics]
        if missing and not self.auto_create:
            return NotFoundError(f"there is no topic {missing[0]!r}")
        for name in missing:
            self.create(name)
        return UnavailableError(f"{missing[0]!r} is being created") if missing else self._metadata(request)

    def _list(self, part: Partition, timestamp_ms: int) -> OffsetFound:
        if timestamp_ms == EARLIEST:
            return OffsetFound(part.log_start)
        if timestamp_ms == LATEST:
            return OffsetFound(part.next_offset)
        for base, batch in zip(part.bases, part.batches, strict=True):
            view = validate(batch)
            for position in range(view.count):
                if view.timestamp_ms(position) >= timestamp_ms:
                    return OffsetFound(base + position)
        return OffsetFound(-1)

    def now_ms(self) -> int:
        return 0 if self.ahead_ms is None else time.time_ns() // 1_000_000 + self.ahead_ms

    def _partition(self, node: int, topic: str, number: int) -> Partition:
        parts = self.topics.get(topic)
        if parts is None:
            raise NotFoundError(f"there is no topic {topic!r}")
        if number >= len(parts):
            raise InvalidArgumentError(f"there is no partition {number}")
        if parts[number].leader != node:
            leader = parts[number].leader
            raise NotLeaderError(leader, self.addresses.get(leader, ""))
        return parts[number]


class MemoryNode:
    """One node of the cluster, as a Service."""

    def __init__(self, cluster: MemoryCluster, node: int) -> None:
        self._cluster = cluster
        self.node = node

    @property
    def cluster_id(self) -> str:
        return self._cluster.cluster_id

    @property
    def metadata_index(self) -> int:
        return self._cluster.metadata_index

    def now_ms(self) -> int:
        return self._cluster.now_ms()

    def handle(self, request: Request, done: Done, metadata_index: int = 0) -> Cancel | None:
        if metadata_index > self._cluster.metadata_index:
            done(InvalidArgumentError(f"this cluster has only {self._cluster.metadata_index} entries"))
            return None
        return self._cluster.handle(self.node, request, done)

    def lost(self, members: Sequence[str]) -> None:
        """Nothing is held for members whose connection is gone."""
