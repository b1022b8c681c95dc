"""The workloads of one round, one after the other, for one contestant."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean, median

from bench.broker.beside import PAYLOADS_BYTES, synced_rate
from bench.broker.flotilla import FlotillaSubject
from bench.contest import measures
from bench.contest.measures import CONSUMERS, RATE, Measure
from bench.options import BenchOptions
from bench.parts.disk import settle
from bench.peers.apart import Pair
from bench.subject import Contestant
from flotilla.cli.bench.probes import copy_rate, disk_durations, echo_durations
from flotilla.cli.bench.workloads import cuts

_PROBE_BYTES = 20_000_000
_PROBE_COUNT = 200
_SINGLES_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of each workload, so that a round takes well under a minute for every contestant."""

    singles: int
    pipelined: int
    backlog_bytes: int
    #: Peers deliver a message at a time; fewer give the same figure.
    backlog_max: int
    end_to_end_s: int

    @classmethod
    def of(cls, options: BenchOptions) -> "Sizes":
        if options.quick:
            return cls(singles=200, pipelined=10_000, backlog_bytes=2_000_000, backlog_max=10_000, end_to_end_s=1)
        return cls(singles=1_000, pipelined=50_000, backlog_bytes=20_000_000, backlog_max=30_000, end_to_end_s=3)


def probes(options: BenchOptions) -> Iterator[tuple[Measure, float]]:
    settle()
    yield measures.DISK_P50, 1e3 * median(disk_durations(options.folder, 100, _PROBE_COUNT))
    yield measures.DISK_RATE, synced_rate(options.folder) / 1e6
    yield measures.ECHO_P50, 1e3 * median(echo_durations(100, _PROBE_COUNT))
    yield measures.COPY_RATE, copy_rate(_PROBE_BYTES) / 1e6


def run(
    contestant: Contestant, options: BenchOptions, tell: Callable[[str], None] = lambda text: None
) -> Iterator[tuple[Measure, float]]:
    """All workloads; killing the leader comes last."""
    sizes = Sizes.of(options)
    for work in (_one_in_flight, _pipelined, _backlogs, _end_to_end, _apart, _last):
        tell(work.__name__.lstrip("_").replace("_", " "))
        yield from work(contestant, sizes)


def _one_in_flight(contestant: Contestant, sizes: Sizes) -> Iterator[tuple[Measure, float]]:
    for payload_bytes in PAYLOADS_BYTES:
        payload = bytes(payload_bytes)
        contestant.one_by_one(payload, sizes.singles // 10)
        settle()
        durations: list[float] = []
        busy_s = contestant.busy_s()
        # A slow contestant gives the same figure with fewer.
        while len(durations) < sizes.singles and sum(durations) < _SINGLES_S_MAX:
            durations += contestant.one_by_one(payload, sizes.singles // 10)
        share_us = 1e6 * (contestant.busy_s() - busy_s) / len(durations)
        values = (1 / fmean(durations), *(1e3 * cut for cut in cuts(durations)), share_us)
        yield from zip(measures.one_in_flight(payload_bytes), values, strict=True)


def _pipelined(contestant: Contestant, sizes: Sizes) -> Iterator[tuple[Measure, float]]:
    for payload_bytes in PAYLOADS_BYTES:
        payload = bytes(payload_bytes)
        contestant.pipelined(payload, sizes.pipelined // 10)
        settle()
        busy_s = contestant.busy_s()
        rate = contestant.pipelined(payload, sizes.pipelined)
        share_us = 1e6 * (contestant.busy_s() - busy_s) / sizes.pipelined
        yield from zip(measures.pipelined(payload_bytes), (rate, share_us), strict=True)
        if isinstance(contestant, FlotillaSubject):
            settle()
            yield measures.in_bulk(payload_bytes), contestant.in_bulk(payload, sizes.backlog_bytes // payload_bytes)


def _backlogs(contestant: Contestant, sizes: Sizes) -> Iterator[tuple[Measure, float]]:
    for payload_bytes in PAYLOADS_BYTES:
        payload, count = bytes(payload_bytes), sizes.backlog_bytes // payload_bytes
        fewer = min(count, sizes.backlog_max)
        settle()
        is_ours = isinstance(contestant, FlotillaSubject)
        yield measures.replay(payload_bytes), contestant.replay(payload, count if is_ours else fewer)
        for consumers in CONSUMERS:
            rate = contestant.drain(payload, fewer, consumers)
            if rate is not None:
                yield measures.drain(payload_bytes, consumers), rate


def _end_to_end(contestant: Contestant, sizes: Sizes) -> Iterator[tuple[Measure, float]]:
    for payload_bytes in PAYLOADS_BYTES:
        settle()
        durations = contestant.end_to_end(payload_bytes, RATE, RATE * sizes.end_to_end_s)
        yield from zip(measures.end_to_end(payload_bytes), (1e3 * cut for cut in cuts(durations)), strict=True)
        settle()
        pushed = contestant.produce_to_push(payload_bytes, RATE, RATE * sizes.end_to_end_s)
        if pushed is not None:
            yield from zip(measures.produce_to_push(payload_bytes), (1e3 * cut for cut in cuts(pushed)), strict=True)


def _apart(contestant: Contestant, sizes: Sizes) -> Iterator[tuple[Measure, float]]:
    with contestant.apart() as pair:
        for payload_bytes in PAYLOADS_BYTES:
            settle()
            paced = apart_paced(contestant, pair, payload_bytes, RATE * sizes.end_to_end_s)
            yield from zip(measures.apart(payload_bytes), paced, strict=True)
            settle()
            single = apart_one_by_one(contestant, pair, payload_bytes, sizes.singles)
            yield from zip(measures.apart_one_in_flight(payload_bytes), single, strict=True)


def apart_paced(contestant: Contestant, pair: Pair, payload_bytes: int, count: int) -> tuple[float, float, float]:
    """p50 and p99 in milliseconds, and microseconds of processor time of nodes and clients for each message."""
    return _shared_out(contestant, pair, lambda: pair.paced(payload_bytes, RATE, count))


def apart_one_by_one(contestant: Contestant, pair: Pair, payload_bytes: int, count: int) -> tuple[float, float, float]:
    """The same with one message in flight."""
    return _shared_out(contestant, pair, lambda: pair.one_by_one(payload_bytes, count))


def _shared_out(contestant: Contestant, pair: Pair, work: Callable[[], list[float]]) -> tuple[float, float, float]:
    before_s = contestant.busy_s() + pair.busy_s()
    durations = work()
    used_s = contestant.busy_s() + pair.busy_s() - before_s
    p50, p99 = cuts(durations)
    return 1e3 * p50, 1e3 * p99, 1e6 * used_s / len(durations)


def _last(contestant: Contestant, sizes: Sizes) -> Iterator[tuple[Measure, float]]:
    yield measures.RESIDENT, fmean(contestant.resident_bytes()) / 1e6
    found = contestant.fail_over()
    if found is not None:
        yield measures.FAILOVER, found.waited_s
        yield measures.LOST, float(found.lost)
