"""What a node needs in memory and on its disk for each partition, group and message: the figures of docs/capacity.md.

One node is measured, so every figure is that of one replica, on each node that holds one. Memory is that of the process
when it has come to rest; disk is what the files of the data directory occupy.
"""

from bench.figure import Figure
from bench.options import BenchOptions
from bench.peers.processes import resident_bytes
from bench.scale.cluster import ScaleCluster, started
from flotilla.cli.bench.probes import scratch
from flotilla.cli.bench.workloads import produce_pipelined
from flotilla.client.client import Client
from flotilla.client.queue.sync import QueueMessage

AREA = "capacity"
PAYLOAD = bytes(100)
_POLL = 100
#: Longer than the measurement.
_LEASE_MS = 6 * 3_600_000
_DELAY_MS = 30 * 86_400_000
_MB = 1e6


class Meter:
    """Memory and disk of a node, and what has been added to both since the last look."""

    def __init__(self, cluster: ScaleCluster) -> None:
        self._cluster = cluster
        (self._node,) = cluster.cluster.running
        self._before = self.now()

    def now(self) -> tuple[int, int]:
        self._cluster.wait_at_rest()
        folder = self._cluster.cluster.folder
        disk_bytes = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
        return resident_bytes(self._node.pid), disk_bytes

    def added(self) -> tuple[int, int]:
        before, self._before = self._before, self.now()
        return self._before[0] - before[0], self._before[1] - before[1]


def measure(options: BenchOptions) -> list[Figure]:
    partitions = options.pick(quick=200, full=1_000)
    groups = options.pick(quick=50, full=500)
    messages = options.pick(quick=100_000, full=1_000_000)
    with scratch(options.folder, "capacity") as folder, started(folder / "node", nodes=1) as cluster:
        meter = Meter(cluster)
        memory, disk = meter.now()
        figures = [_figure("a node with nothing", "MB", memory / _MB), _figure("its files", "MB", disk / _MB)]

        cluster.create("many", partitions)
        figures += _each("a partition", "KB", meter.added(), partitions, 1e3)

        client = cluster.client
        client.create_topic("grouped", partitions=1)
        client.produce("grouped", PAYLOAD)
        meter.added()
        for number in range(groups):
            _join(client, "grouped", f"group-{number}")
        figures += _each("a queue group in a partition", "KB", meter.added(), groups, 1e3)

        _begin(client, "ready")
        meter.added()
        produce_pipelined(client, "ready", PAYLOAD, messages)
        figures += _each("a million ready messages of 100 bytes", "MB", meter.added(), messages / 1e6, _MB)
    for name, measured, quick, full in (("leased", _leased, 20_000, 100_000), ("delayed", _delayed, 5_000, 50_000)):
        # On a node of its own: what one before has left goes back to the system in the middle of it.
        with scratch(options.folder, f"capacity-{name}") as folder, started(folder / "node", nodes=1) as cluster:
            figures += measured(cluster.client, Meter(cluster), options.pick(quick=quick, full=full))
    return figures


def _leased(client: Client, meter: Meter, count: int) -> list[Figure]:
    """What leases add to messages that are stored: a lease for each poll, and its messages as a run."""
    figures = []
    for poll, polls in ((_POLL, count // _POLL), (1, count // 10)):
        topic = f"leased-{poll}"
        _begin(client, topic)
        produce_pipelined(client, topic, PAYLOAD, poll * polls)
        meter.added()
        with client.queue(topic, group="workers", visibility_ms=_LEASE_MS) as consumer:
            held: list[QueueMessage] = []
            while len(held) < poll * polls:
                held += consumer.poll(poll)
            figures += _each(f"a million messages leased by polls of {poll}", "MB", meter.added(), len(held) / 1e6, _MB)
    return figures


def _delayed(client: Client, meter: Meter, count: int) -> list[Figure]:
    """Messages of a time of their own, which are batches of their own, with all that they need."""
    _begin(client, "delayed")
    meter.added()
    # The answer to the last one may take longer than a batch may usually wait.
    with client.producer("delayed", timeout_ms=600_000) as producer:
        sent = [producer.send(PAYLOAD, delay_ms=_DELAY_MS + number) for number in range(count)]
        producer.flush()
        for each in sent:
            each.result()
    return _each("a million delayed messages, each with its own time", "MB", meter.added(), count / 1e6, _MB)


def _begin(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=1)
    client.produce(topic, PAYLOAD)
    _join(client, topic, "workers")


def _join(client: Client, topic: str, group: str) -> None:
    """A group exists from the first message that it takes."""
    with client.queue(topic, group=group, prefetch=1) as consumer:
        next(iter(consumer)).ack()


def _each(what: str, unit: str, added: tuple[int, int], count: float, scale: float) -> list[Figure]:
    memory, disk = added
    return [
        _figure(f"{what}, memory", unit, memory / count / scale),
        _figure(f"{what}, disk", unit, disk / count / scale),
    ]


def _figure(name: str, unit: str, value: float) -> Figure:
    return Figure(AREA, name, unit, value, probe_name="", probe=0.0, ratio=0.0, goal=None)
