"""Failover: how long producers and consumers wait when their leader is killed, freezes, or hands over as planned.

The producer has one record in flight all the time. For a leader that is killed or stopped the figure is the time until
a record that was sent afterwards is acknowledged; for a hand-over it is the longest pause between two acknowledgements
around it. At the end every acknowledged record is read back: a missing or doubled one fails the run. Consumers of a
queue group are measured beside a reader (`queue_failover`).
"""

import time
from collections.abc import Callable
from statistics import quantiles

from bench.cluster.queue_failover import QueuePauses, measure_queue
from bench.contest.flotilla import FlotillaContestant, FlotillaPeer
from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from bench.peers.steady import SteadyProducer, missing_and_doubled
from flotilla.cli.bench.probes import scratch
from flotilla.cli.local_cluster import LocalCluster
from flotilla.client.client import Client

AREA = "failover"
KILL_P50_S, KILL_P99_S = 0.3, 1.5
HAND_OVER_S = 0.1
#: Of consumers of a queue group, at p99.
QUEUE_HAND_OVER_S, QUEUE_KILL_S = 0.2, 0.5
_NODES = 3
_STEADY_S = 1.0
_WAIT_S_MAX = 30.0


class Series:
    """One cluster, one topic and one producer, through any number of lost leaders."""

    def __init__(self, cluster: LocalCluster, client: Client, contestant: FlotillaContestant) -> None:
        self._cluster = cluster
        self._client = client
        self._contestant = contestant
        self.topic = contestant.new_topic()
        self.producer = SteadyProducer(lambda payload: client.produce(self.topic, payload))

    def kill(self) -> float:
        return self._lose(lambda node: self._cluster.nodes[node].kill(), self._cluster.restart_node)

    def pause(self) -> float:
        """SIGSTOP: its connections stay open, so only silence shows it."""
        return self._lose(
            lambda node: self._cluster.nodes[node].pause(), lambda node: self._cluster.nodes[node].resume()
        )

    def hand_over(self) -> tuple[float, float]:
        """The longest pause around it, and the longest of a stretch as long before it."""
        before = self._contestant.leader(self.topic)
        time.sleep(_STEADY_S)
        began = time.monotonic()
        self._client.admin.transfer_leadership(self.topic, 0)
        while self._contestant.leader(self.topic) == before:
            if time.monotonic() > began + _WAIT_S_MAX:
                raise TimeoutError("the leadership was not handed over")
            time.sleep(0.01)
        time.sleep(max(began + _STEADY_S - time.monotonic(), 0))
        pause_s = self.producer.longest_pause(began, time.monotonic())
        return pause_s, self.producer.longest_pause(began - _STEADY_S, began)

    def _lose(self, strike: Callable[[int], None], mend: Callable[[int], None]) -> float:
        time.sleep(_STEADY_S)
        victim = int(self._contestant.leader(self.topic))
        struck = time.monotonic()
        strike(victim)
        try:
            return self.producer.wait_acknowledged_after(struck)
        finally:
            mend(victim)
            self._cluster.wait_ready()

    def check(self) -> tuple[int, int]:
        return missing_and_doubled(self.producer.numbers, self._contestant.read_back(self.topic))


def measure(options: BenchOptions) -> list[Figure]:
    times = range(options.failovers)
    with (
        scratch(options.folder, "failover") as folder,
        FlotillaPeer().started(folder, nodes=_NODES, is_synced=True) as contestant,
    ):
        series = Series(contestant.cluster, contestant.client, contestant)
        with series.producer:
            series.producer.wait_acknowledged_after(time.monotonic())
            hand_overs = [series.hand_over() for _ in times]
            pauses = [series.pause() for _ in times]
            kills = [series.kill() for _ in times]
        lost, doubled = series.check()
        queue = measure_queue(contestant, options.failovers)
    numbers = series.producer.numbers
    if lost or doubled:
        raise RuntimeError(f"of {len(numbers)} acknowledged records {lost} were lost and {doubled} doubled")
    note = (
        f"failover: {len(times)} of each kind, {len(numbers):,} records acknowledged, none lost, none doubled, "
        f"{series.producer.errors} errors reached the caller"
    )
    return [
        *_figures("kill -9 to next ack", kills, KILL_P50_S, KILL_P99_S, note),
        *_figures("SIGSTOP to next ack", pauses, None, None, note),
        *_figures("planned hand-over, pause", [pause for pause, _ in hand_overs], HAND_OVER_S, None, note),
        relate(
            AREA,
            "planned hand-over, pause",
            "s",
            pairs=hand_overs,
            probe_name="as long without one",
            goal=Goal(None),
            note=note,
        ),
        *_queue_figures(queue),
    ]


def _queue_figures(queue: QueuePauses) -> list[Figure]:
    note = (
        f"queue group: {len(queue.kills)} of each kind, {queue.records:,} records, "
        f"{queue.added} deliveries of records that had been delivered"
    )
    figures = []
    for name, pauses, wanted in (
        ("planned hand-over", queue.hand_overs, QUEUE_HAND_OVER_S),
        ("kill -9", queue.kills, QUEUE_KILL_S),
    ):
        figures += _figures(f"{name}, queue group", [group for group, _, _ in pauses], None, wanted, note)
        figures += _figures(f"{name}, reader beside it", [reader for _, reader, _ in pauses], None, None, note)
        figures += _figures(f"{name}, producer beside it", [producer for _, _, producer in pauses], None, None, note)
    return figures


def _figures(
    name: str, durations: list[float], p50_wanted: float | None, p99_wanted: float | None, note: str
) -> list[Figure]:
    cuts = quantiles(durations, n=100, method="inclusive")
    figures = []
    for part, value, wanted in (("p50", cuts[49], p50_wanted), ("p99", cuts[98], p99_wanted)):
        goal = Goal(None) if wanted is None else Goal(1.0, at_most=True)
        probe_name = "one second" if wanted is None else "wanted"
        pairs = [(value, wanted or 1.0)]
        figures.append(relate(AREA, f"{name}, {part}", "s", pairs=pairs, probe_name=probe_name, goal=goal, note=note))
    return figures
