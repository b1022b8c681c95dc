"""The pauses of Python's garbage collector in a busy broker with a million leases.

Three brokers, and two kinds of work one after the other:

    leased   a member of a queue group leases messages in hundreds and acknowledges none of them, so that its leases
             stay in the leader's memory; then others produce to the same partition, and take and acknowledge what
             comes, all at the same time
    singly   messages that have a batch each, which makes many small entries of the log

Each broker times every run of its collector (`usage.COLLECTOR`) and exports the longest in /metrics. A full
collection happens only after millions of new objects, which may take hours. So under each kind of work every broker is
also forced to run one, which has a figure of its own.
"""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from bench.broker.flotilla import started_cluster
from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from flotilla.cli.bench import workloads
from flotilla.cli.bench.probes import scratch
from flotilla.cli.local_cluster import HOST, LocalCluster, LocalNode
from flotilla.client.client import Client
from flotilla.runtime.observability import metrics

AREA = "pauses"
PAUSE_MS_MAX = 20.0
_TOPIC = "work"
_SINGLES_TOPIC = "singles"
_GROUP = "workers"
_PAYLOAD = bytes(100)
_LEASE_COUNT = 100
#: Longer than any run: nothing is renewed meanwhile.
_LEASE_MS = 12 * 3_600_000
_FILL_COUNT = 100_000
#: Produced while as many are taken.
_STEP_COUNT = 10_000
_POLL_COUNT = 1_000
_FORCED_S_MAX = 30.0
_FORCED_EVERY_S = 0.5
#: Found by every Python that starts with its folder in PYTHONPATH: a broker has no such hook.
_FORCE = """\
import gc
import signal

signal.signal(signal.SIGUSR1, lambda *_: gc.collect())
"""


@dataclass(frozen=True, slots=True)
class Pauses:
    """One broker's collector metrics since its start."""

    count: int
    max_s: float


def pauses_of(node: LocalNode) -> Pauses:
    with urlopen(f"http://{HOST}:{node.ports.http}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    count = _sample(text, f"{metrics.GC_PAUSE_SECONDS.name}_count")
    return Pauses(int(count), _sample(text, metrics.GC_PAUSE_MAX_SECONDS.name))


def _sample(text: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


class Load:
    """One group with leases that are never settled, and with other work."""

    def __init__(self, cluster: LocalCluster, client: Client) -> None:
        self._servers = cluster.servers
        self._client = client
        for topic in (_TOPIC, _SINGLES_TOPIC):
            client.create_topic(topic, partitions=1)

    def lease(self, count: int) -> None:
        """The leases stay until the client is closed."""
        for first in range(0, count, _FILL_COUNT):
            self._client.produce_many(_TOPIC, [_PAYLOAD] * min(_FILL_COUNT, count - first))
        consumer = self._client.queue(_TOPIC, group=_GROUP, visibility_ms=_LEASE_MS)
        left = count
        while left > 0:
            left -= len(consumer.poll(min(_LEASE_COUNT, left)))
        leased = self._client.describe_group(_TOPIC, _GROUP).leased
        if leased != count:
            raise RuntimeError(f"{leased} messages are leased, not {count}")

    def work(self, seconds: float) -> float:
        """Produces and drains at the same time. Returns messages per second."""
        count = 0
        began = time.monotonic()
        with (
            ThreadPoolExecutor(1) as producing,
            Client(self._servers) as other,
            self._client.queue(_TOPIC, group=_GROUP) as consumer,
        ):
            while time.monotonic() < began + seconds:
                sending = producing.submit(workloads.produce_pipelined, other, _TOPIC, _PAYLOAD, _STEP_COUNT)
                left = _STEP_COUNT
                while left > 0:
                    messages = consumer.poll(_POLL_COUNT)
                    consumer.ack(messages)
                    left -= len(messages)
                sending.result()
                count += _STEP_COUNT
            return count / (time.monotonic() - began)

    def store_singly(self, count: int) -> float:
        """Messages a second, none of which shares a batch."""
        began = time.monotonic()
        with self._client.producer(_SINGLES_TOPIC, batch_records=1, linger_ms=0) as producer:
            for number in range(1, count + 1):
                producer.send(_PAYLOAD)
                # What waits in the client for longer than its time limit would fail.
                if number % _STEP_COUNT == 0 or number == count:
                    producer.flush()
        return count / (time.monotonic() - began)


@contextmanager
def started_load(options: BenchOptions) -> Iterator[tuple[LocalCluster, Load]]:
    with (
        scratch(options.folder, "pauses") as folder,
        brokers_that_can_be_forced(folder) as cluster,
        Client(cluster.servers, timeout_ms=60_000) as client,
    ):
        yield cluster, Load(cluster, client)


@contextmanager
def brokers_that_can_be_forced(folder: Path) -> Iterator[LocalCluster]:
    """SIGUSR1 has them collect everything."""
    hooks = folder / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(_FORCE)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(hooks), before]))
    try:
        with started_cluster(folder) as cluster:
            yield cluster
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def force(node: LocalNode) -> None:
    """Forces a full collection in a broker, and waits for it."""
    before = pauses_of(node)
    os.kill(node.pid, signal.SIGUSR1)
    deadline = time.monotonic() + _FORCED_S_MAX
    while pauses_of(node).count == before.count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"node {node.node} does not collect")


def force_meanwhile(cluster: LocalCluster, work: Callable[[], object]) -> None:
    """Every node in turn, again and again, while the work goes on."""
    with ThreadPoolExecutor(1) as working:
        rest = working.submit(work)
        while not rest.done():
            for node in cluster.running:
                force(node)
            time.sleep(_FORCED_EVERY_S)
        rest.result()


def measure(options: BenchOptions) -> list[Figure]:
    return [*_measure_leased(options), *_measure_singly(options)]


def _measure_leased(options: BenchOptions) -> list[Figure]:
    leased = options.pick(quick=10_000, full=1_000_000)
    work_s = options.pick(quick=5, full=60)
    with started_load(options) as (cluster, load):
        load.lease(leased)
        return _figures(cluster, f"{leased:,} leased", lambda: load.work(work_s))


def _measure_singly(options: BenchOptions) -> list[Figure]:
    count = options.pick(quick=5_000, full=150_000)
    with started_load(options) as (cluster, load):
        return _figures(cluster, f"{count:,} stored singly", lambda: load.store_singly(count))


def _figures(cluster: LocalCluster, name: str, work: Callable[[], float]) -> list[Figure]:
    """The work is done twice, forced the second time: the metric counts since the node's start."""
    rate = work()
    alone = [pauses_of(node) for node in cluster.running]
    force_meanwhile(cluster, work)
    forced = [pauses_of(node) for node in cluster.running]
    runs = ", ".join(str(each.count) for each in alone)
    note = f"pauses, {name}: {rate:,.0f} msg/s; the nodes' collectors ran {runs} times by themselves"
    return [
        _longest(f"longest run of the collector, {name}", alone, note),
        _longest(f"a run over all objects, {name}", forced, note),
    ]


def _longest(name: str, found: list[Pauses], note: str) -> Figure:
    """The worst node counts: a median would hide what its clients see."""
    worst_ms = 1e3 * max(each.max_s for each in found)
    return relate(
        AREA,
        f"{name}, worst node",
        "ms",
        pairs=[(worst_ms, PAUSE_MS_MAX)],
        probe_name="allowed",
        goal=Goal(1.0, at_most=True),
        note=note,
    )
