"""Latency beside a peer in short turns, with both clusters up, so that the machine treats both alike.

The contest runs products one after the other, and on a shared machine one minute may be twice as slow as the next: a
ratio of two minutes says little about a latency. Here turns of at most a second alternate, and the figure is the median
of their ratios. The idle cluster costs the other one a little, both alike.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from bench.broker.beside import PAYLOADS_BYTES
from bench.contest import measures
from bench.contest.course import apart_one_by_one, apart_paced
from bench.contest.flotilla import FlotillaPeer
from bench.contest.measures import RATE, Measure
from bench.figure import Absence, Figure, relate
from bench.options import BenchOptions
from bench.peers import PEERS
from bench.peers.apart import Pair
from bench.peers.peer import Peer
from bench.subject import Contestant
from flotilla.cli.bench.probes import scratch
from flotilla.cli.bench.workloads import cuts

AREA = "duel"
#: Replicated, with a sync before each acknowledgement.
_RIVALS = ("nats", "rabbitmq")
_SINGLES = 150
_SINGLES_TURNS = 24
_PACED_TURNS = 8
_APART_TURNS = 24

#: A value for each measure; None: cannot.
Work: TypeAlias = Callable[[Contestant], Sequence[float] | None]
Duel: TypeAlias = Callable[[tuple[Contestant, Contestant], BenchOptions], list[Figure]]


def measure(options: BenchOptions) -> list[Figure | Absence]:
    return _beside(options, (_one_process, _two_processes))


def measure_apart(options: BenchOptions) -> list[Figure | Absence]:
    """Only the workloads with the producer and the worker in processes of their own."""
    return _beside(options, (_two_processes,))


def _beside(options: BenchOptions, duels: Sequence[Duel]) -> list[Figure | Absence]:
    found: list[Figure | Absence] = []
    for peer in PEERS:
        if peer.product not in (_RIVALS if options.peers is None else options.peers):
            continue
        if missing := peer.missing():
            found.append(Absence(AREA, peer.product, "not installed: skipped", f"{peer.product} needs {missing}"))
            continue
        with _both_started(peer, options) as contestants:
            for duel in duels:
                found += duel(contestants, options)
    return found


@contextmanager
def _both_started(peer: Peer, options: BenchOptions) -> Iterator[tuple[Contestant, Contestant]]:
    with (
        scratch(options.folder, "duel-ours") as ours_folder,
        scratch(options.folder, f"duel-{peer.product}") as theirs_folder,
        FlotillaPeer().started(ours_folder, nodes=options.nodes, is_synced=True) as ours,
        peer.started(theirs_folder, nodes=options.nodes, is_synced=True) as theirs,
    ):
        for contestant in (ours, theirs):
            contestant.one_by_one(bytes(100), 2 * _SINGLES)
        yield ours, theirs


def _one_process(contestants: tuple[Contestant, Contestant], options: BenchOptions) -> list[Figure]:
    singles, paced = options.pick(quick=4, full=_SINGLES_TURNS), options.pick(quick=3, full=_PACED_TURNS)
    figures: list[Figure] = []
    for size in PAYLOADS_BYTES:
        _, *one_in_flight = measures.one_in_flight(size)[:3]
        works: list[tuple[Sequence[Measure], Work, int]] = [
            (one_in_flight, partial(_one_by_one, size), singles),
            (measures.end_to_end(size), partial(_end_to_end, size), paced),
            (measures.produce_to_push(size), partial(_produce_to_push, size), paced),
        ]
        for measured, work, turns in works:
            figures += _compare(measured, work, contestants, turns)
    return figures


def _two_processes(contestants: tuple[Contestant, Contestant], options: BenchOptions) -> list[Figure]:
    turns = options.pick(quick=4, full=_APART_TURNS)
    figures: list[Figure] = []
    ours, theirs = contestants
    with ours.apart() as our_pair, theirs.apart() as their_pair:
        pairs: dict[Contestant, Pair] = {ours: our_pair, theirs: their_pair}
        for size in PAYLOADS_BYTES:
            paced, single = partial(_apart_paced, size, pairs), partial(_apart_one_by_one, size, pairs)
            figures += _compare(measures.apart(size), paced, contestants, turns)
            figures += _compare(measures.apart_one_in_flight(size), single, contestants, turns)
    return figures


def _compare(
    measured: Sequence[Measure], work: Work, contestants: tuple[Contestant, Contestant], turns: int
) -> list[Figure]:
    """One figure for each measure."""
    pairs: list[list[tuple[float, float]]] = [[] for _ in measured]
    for turn in range(turns):
        # Each is first in every second turn.
        order = contestants if turn % 2 else contestants[::-1]
        found = {contestant: work(contestant) for contestant in order}
        ours, theirs = (found[contestant] for contestant in contestants)
        if ours is None or theirs is None:
            return []
        for pair, values in zip(pairs, zip(ours, theirs, strict=True), strict=True):
            pair.append(values)
    rival = contestants[1].name
    return [
        relate(AREA, measure.name, measure.unit, pairs=pairs[at], probe_name=rival, goal=measure.goal)
        for at, measure in enumerate(measured)
    ]


def _one_by_one(payload_bytes: int, contestant: Contestant) -> list[float]:
    return _latencies(contestant.one_by_one(bytes(payload_bytes), _SINGLES))


def _end_to_end(payload_bytes: int, contestant: Contestant) -> list[float]:
    return _latencies(contestant.end_to_end(payload_bytes, RATE, RATE))


def _produce_to_push(payload_bytes: int, contestant: Contestant) -> list[float] | None:
    durations = contestant.produce_to_push(payload_bytes, RATE, RATE)
    return None if durations is None else _latencies(durations)


def _apart_paced(payload_bytes: int, pairs: dict[Contestant, Pair], contestant: Contestant) -> Sequence[float]:
    return apart_paced(contestant, pairs[contestant], payload_bytes, RATE)


def _apart_one_by_one(payload_bytes: int, pairs: dict[Contestant, Pair], contestant: Contestant) -> Sequence[float]:
    return apart_one_by_one(contestant, pairs[contestant], payload_bytes, _SINGLES)


def _latencies(durations: list[float]) -> list[float]:
    """p50 and p99 in milliseconds."""
    return [1e3 * cut for cut in cuts(durations)]
