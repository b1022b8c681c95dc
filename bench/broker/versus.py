"""Flotilla against the best peer of the same run that promises as much: a majority's sync before each answer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.broker import end_to_end, one_by_one, pipelined
from bench.broker.beside import figure
from bench.broker.flotilla import FlotillaSubject
from bench.figure import Figure, Goal

_OURS = FlotillaSubject.name


@dataclass(frozen=True, slots=True)
class Contest:
    #: How the figures' names go on after the subject: ours, and the peers'.
    ours: str
    theirs: str
    goal: Goal
    best: Callable[[Iterable[float]], float]


CONTESTS = (
    Contest(f"{one_by_one.NAME} 100 B, p50", f"{one_by_one.NAME} 100 B, p50", Goal(0.8, at_most=True), min),
    Contest(f"{pipelined.NAME} 100 B", f"{pipelined.NAME} 100 B", Goal(4.0), max),
    Contest(f"{pipelined.BULK_NAME} 100 B", f"{pipelined.NAME} 100 B", Goal(12.0), max),
    Contest(
        f"{end_to_end.NAME} at {end_to_end.RATE:,} msg/s 100 B, p50",
        f"{end_to_end.NAME} at {end_to_end.RATE:,} msg/s 100 B, p50",
        Goal(1.0, at_most=True),
        min,
    ),
    Contest(
        f"{end_to_end.NAME} at {end_to_end.RATE:,} msg/s 100 B, p99",
        f"{end_to_end.NAME} at {end_to_end.RATE:,} msg/s 100 B, p99",
        Goal(1.0, at_most=True),
        min,
    ),
)


def contests(figures: Iterable[Figure], peers: Iterable[str]) -> list[Figure]:
    """`peers` are the names of those that sync; without any there is nothing to compare with."""
    values = {each.name: (each.value, each.unit) for each in figures}
    found = []
    for contest in CONTESTS:
        ours = values.get(f"{_OURS} {contest.ours}")
        theirs = {peer: values[f"{peer} {contest.theirs}"][0] for peer in peers if f"{peer} {contest.theirs}" in values}
        if ours is not None and theirs:
            best = contest.best(theirs.values())
            name = next(peer for peer, value in theirs.items() if value == best)
            found.append(figure(f"{_OURS} {contest.ours}", ours[1], [(ours[0], best)], name, contest.goal))
    return found
