"""A large partition moves to a new node while producers go on: the cost for them, and the duration.

Four nodes, one partition on three of them, filled first. One of the three is drained, so that the fourth has to fetch
everything; then it moves back. Producers send at half of their speed, as in a cluster with spare capacity, and
the second time as fast as they are answered. The figure is their rate while the move lasts beside the mean of before
and after. All nodes share this machine: a producer that takes all of it must lose to a fourth replica what that one
needs, so the second figure is for information.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from flotilla.cli.bench.probes import scratch
from flotilla.cli.local_cluster import LocalCluster
from flotilla.client.client import Client
from flotilla.types.ids import NodeId

AREA = "moves"
RATE_GOAL = 0.7
TOPIC = "large"
_NODES = 4
_PRODUCERS = 2
_RECORD_BYTES = 1024
_BATCH_RECORDS = 200
_FILL_BATCH_RECORDS = 2_000
_STEADY_S = 10.0
_POLL_S = 0.2
_WAIT_S_MAX = 3_600.0


class Load:
    """Producers at work: as fast as they are answered, or at a pace."""

    def __init__(self, servers: list[str]) -> None:
        self._servers = servers
        self._acked = [0] * _PRODUCERS
        self._is_over = threading.Event()
        self._failures: list[BaseException] = []
        #: Messages a second of all producers together; 0: what they can.
        self.pace = 0.0

    @contextmanager
    def running(self) -> Iterator["Load"]:
        threads = [threading.Thread(target=self._produce, args=(number,)) for number in range(_PRODUCERS)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()
        if self._failures:
            raise self._failures[0]

    def _produce(self, number: int) -> None:
        payloads = [bytes(_RECORD_BYTES)] * _BATCH_RECORDS
        due_s = time.monotonic()
        try:
            with Client(self._servers, timeout_ms=60_000) as client:
                while not self._is_over.is_set():
                    self._acked[number] += len(client.produce_many(TOPIC, payloads, partition=0))
                    now_s = time.monotonic()
                    if self.pace:
                        # A delayed producer may catch up by a batch or two, not by everything it missed.
                        due_s = max(due_s + _BATCH_RECORDS * _PRODUCERS / self.pace, now_s - 0.1)
                        self._is_over.wait(max(0.0, due_s - now_s))
        except BaseException as failure:
            self._failures.append(failure)

    @property
    def acked(self) -> int:
        return sum(self._acked)

    def rate_over(self, seconds: float) -> float:
        before, began = self.acked, time.monotonic()
        time.sleep(seconds)
        return (self.acked - before) / (time.monotonic() - began)


def measure(options: BenchOptions) -> list[Figure]:
    steady_s = 3.0 if options.quick else _STEADY_S
    with scratch(options.folder, "moves") as folder, LocalCluster.on_free_ports(folder, node_count=_NODES) as cluster:
        cluster.start()
        cluster.wait_ready()
        with Client(cluster.servers, timeout_ms=60_000) as client:
            client.create_topic(TOPIC, partitions=1, replication_factor=3)
            _fill(client, 0.05 if options.quick else options.log_gb)
            place = client.describe_topic(TOPIC).partitions[0]
            (newcomer,) = [node for node in cluster.nodes if node not in place.replicas]
            leaver = next(node for node in place.replicas if node != place.leader)
            with Load(cluster.servers).running() as load:
                load.pace = load.rate_over(steady_s) / 2
                there = _move(client, load, leaver, newcomer, steady_s, "at half speed", Goal(RATE_GOAL))
                client.admin.drain_node(leaver, is_draining=False)
                load.pace = 0.0
                back = _move(client, load, newcomer, leaver, steady_s, "at full speed", Goal(None))
            return [*there, *back]


def _fill(client: Client, gigabytes: float) -> None:
    payloads = [bytes(_RECORD_BYTES)] * _FILL_BATCH_RECORDS
    with client.producer(TOPIC, in_flight_max=4) as producer:
        for _ in range(int(gigabytes * 1e9 / (_RECORD_BYTES * _FILL_BATCH_RECORDS))):
            for payload in payloads:
                producer.send(payload, partition=0)
        producer.flush()


def _move(
    client: Client, load: Load, leaver: NodeId, newcomer: NodeId, steady_s: float, how: str, goal: Goal
) -> list[Figure]:
    time.sleep(1)
    before = load.rate_over(steady_s)
    size_bytes = client.admin.describe_replicas(TOPIC, 0).size_bytes
    began, acked = time.monotonic(), load.acked
    client.admin.drain_node(leaver)
    while newcomer not in client.describe_topic(TOPIC).partitions[0].replicas:
        if time.monotonic() > began + _WAIT_S_MAX:
            raise TimeoutError("the partition did not move")
        time.sleep(_POLL_S)
    took_s = time.monotonic() - began
    during = (load.acked - acked) / took_s
    after = load.rate_over(steady_s)
    note = f"{size_bytes / 1e9:.2f} GB in {took_s:.0f} s, beside {during * _RECORD_BYTES / 1e6:.0f} MB/s of new records"
    return [
        relate(
            AREA,
            f"producers {how} while a partition moves",
            "msg/s",
            pairs=[(during, (before + after) / 2)],
            probe_name="before and after",
            goal=goal,
            note=note,
        ),
        relate(
            AREA,
            f"the move beside producers {how}",
            "B/s",
            pairs=[(size_bytes / took_s, during * _RECORD_BYTES)],
            probe_name="what producers write meanwhile",
            goal=Goal(None),
        ),
    ]
