"""Runs of offsets: what a file has, and what a table has. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flotilla.types.errors import CorruptionError


class Run(NamedTuple):
    """Offsets [first, end) of one partition."""

    partition: int
    first: int
    end: int


class Span(NamedTuple):
    """The offsets [first, end) of a partition that the lake has."""

    first: int
    end: int


def join_runs(runs: Iterable[Run]) -> list[Run]:
    """The same offsets in as few runs as possible. Raises CorruptionError when an offset occurs twice."""
    joined: list[Run] = []
    for run in sorted(runs):
        last = joined[-1] if joined else None
        if last is None or last.partition != run.partition or last.end < run.first:
            joined.append(run)
        elif last.end > run.first:
            raise CorruptionError(f"partition {run.partition} has offset {run.first} twice")
        else:
            joined[-1] = last._replace(end=run.end)
    return joined


def append_runs(runs: list[Run], more: Sequence[Run]) -> list[Run]:
    """Appends runs, and joins the first with the last one if they are adjacent."""
    if runs and more and runs[-1].partition == more[0].partition and runs[-1].end == more[0].first:
        return [*runs[:-1], runs[-1]._replace(end=more[0].end), *more[1:]]
    return [*runs, *more]


def shown(topic: str, runs: Iterable[Run]) -> str:
    return ", ".join(f"{topic}/{run.partition} [{run.first}, {run.end})" for run in runs)
