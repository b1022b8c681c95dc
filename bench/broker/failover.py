"""Failover: how long a producer waits when its leader is killed, and when it hands over as planned.

The producer has one record in flight all the time. After `kill -9` the figure is the time until a record that was
sent after the kill is acknowledged; for a hand-over it is the longest pause between two acknowledgements around it.
At the end every acknowledged record is read back: one that is missing or there twice fails the run.
"""

import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

from bench.broker.beside import figure
from bench.broker.flotilla import started_cluster
from bench.figure import Figure, Goal
from bench.options import BenchOptions
from flotilla.cli.local_cluster import LocalCluster
from flotilla.cli.probes import scratch
from flotilla.client.sync import Client
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NO_NODE, NodeId

TOPIC = "failover"
KILL_P50_S, KILL_P99_S = 0.3, 1.5
HAND_OVER_S = 0.1
_STEADY_S = 1.0
_WAIT_S_MAX = 30.0


class SteadyProducer:
    """Produces one record after the other on a thread and keeps when each was sent and acknowledged."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="steady-producer")
        self.acknowledged: list[tuple[float, float]] = []
        self.numbers: list[int] = []
        self.errors: list[FlotillaError] = []

    def __enter__(self) -> "SteadyProducer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping = True
        self._thread.join()

    def wait_acknowledged_after(self, moment: float) -> float:
        """Seconds from the moment until a record that was sent after it had its receipt."""
        deadline = time.monotonic() + _WAIT_S_MAX
        while time.monotonic() < deadline:
            if self.acknowledged and self.acknowledged[-1][0] > moment:
                return next(done for sent, done in self.acknowledged if sent > moment) - moment
            time.sleep(0.005)
        raise TimeoutError(f"no acknowledgement within {_WAIT_S_MAX:.0f} s")

    def longest_pause(self, begin: float, end: float) -> float:
        """Seconds without an acknowledgement, between two of them or up to an end of the stretch."""
        moments = [done for _, done in self.acknowledged if begin < done < end]
        return max(later - earlier for earlier, later in pairwise([begin, *moments, end]))

    def _run(self) -> None:
        number = 0
        while not self._is_stopping:
            sent = time.monotonic()
            try:
                self._client.produce(TOPIC, b"%0100d" % number)
                self.acknowledged.append((sent, time.monotonic()))
                self.numbers.append(number)
            except FlotillaError as error:
                self.errors.append(error)
            number += 1


def measure(options: BenchOptions) -> list[Figure]:
    with scratch(options.folder, "failover") as folder:
        return _measure(folder, options)


def _measure(folder: Path, options: BenchOptions) -> list[Figure]:
    kills = options.pick(quick=3, full=50)
    with started_cluster(folder) as cluster, Client(cluster.servers) as client:
        client.create_topic(TOPIC, partitions=1)
        with SteadyProducer(client) as producer:
            producer.wait_acknowledged_after(time.monotonic())
            pauses = [_hand_over(client, producer) for _ in range(kills)]
            recoveries = [_kill_leader(cluster, client, producer) for _ in range(kills)]
        lost, doubled = _check(client, producer.numbers)
    if lost or doubled:
        raise RuntimeError(f"of {len(producer.numbers)} acknowledged records {lost} were lost and {doubled} doubled")
    note = (
        f"failover: {kills} kills and {kills} hand-overs, {len(producer.numbers):,} records acknowledged, "
        f"none lost, none doubled, {len(producer.errors)} errors reached the caller"
    )
    recoveries.sort()
    p50, highest = recoveries[len(recoveries) // 2], recoveries[-1]
    within = Goal(1.0, at_most=True)
    hand_over = "flotilla@3 planned hand-over, pause"
    return [
        figure("flotilla@3 kill -9 to next ack, p50", "s", [(p50, KILL_P50_S)], "wanted", within, note),
        figure("flotilla@3 kill -9 to next ack, slowest", "s", [(highest, KILL_P99_S)], "wanted", within, note),
        figure(hand_over, "s", [(pause, HAND_OVER_S) for pause, _ in pauses], "wanted", within, note),
        figure(hand_over, "s", pauses, "as long without one", None, note),
    ]


def _leader(client: Client) -> NodeId:
    deadline = time.monotonic() + _WAIT_S_MAX
    while time.monotonic() < deadline:
        topics = client.metadata([TOPIC]).topics
        if topics and topics[0].partitions[0].leader != NO_NODE:
            return topics[0].partitions[0].leader
        time.sleep(0.02)
    raise TimeoutError("the partition has no leader")


def _hand_over(client: Client, producer: SteadyProducer) -> tuple[float, float]:
    """The longest pause around it, and the longest of a stretch as long before it."""
    before = _leader(client)
    time.sleep(_STEADY_S)
    began = time.monotonic()
    client.transfer_leadership(TOPIC, 0)
    while _leader(client) == before:
        if time.monotonic() > began + _WAIT_S_MAX:
            raise TimeoutError("the leadership was not handed over")
        time.sleep(0.01)
    time.sleep(max(began + _STEADY_S - time.monotonic(), 0))
    return producer.longest_pause(began, time.monotonic()), producer.longest_pause(began - _STEADY_S, began)


def _kill_leader(cluster: LocalCluster, client: Client, producer: SteadyProducer) -> float:
    time.sleep(_STEADY_S)
    victim = _leader(client)
    killed = time.monotonic()
    cluster.nodes[victim].kill()
    waited_s = producer.wait_acknowledged_after(killed)
    cluster.restart_node(victim)
    cluster.wait_ready()
    return waited_s


def _check(client: Client, acknowledged: list[int]) -> tuple[int, int]:
    """How many acknowledged records are missing, and how many of all are there more than once."""
    end = client.list_offsets(TOPIC, 0, "latest")
    read: Counter[int] = Counter()
    with client.consumer(TOPIC, mode="manual", offset="earliest") as consumer:
        while consumer.positions()[0] < end:
            read.update(int(message.payload) for message in consumer.poll(10_000))
    return sum(not read[number] for number in acknowledged), sum(times > 1 for times in read.values())
