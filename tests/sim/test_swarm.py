"""Fresh seeds with every run: two hundred short ones, and what they should meet together.

Set FLOTILLA_SIM_SEED to begin at a seed of your choice. A failure names the command that repeats it.
"""

import os
from random import SystemRandom

import pytest

from flotilla.runtime.driver_ports import CRASH_POINTS
from flotilla.sim.coverage import crashed_at
from flotilla.sim.run import Result
from flotilla.sim.swarm import Order, Totals, run_swarm

FIRST = int(os.environ.get("FLOTILLA_SIM_SEED", "0")) or SystemRandom().randrange(1, 10**9)
CHUNK = 25

#: Two hundred seeds without these would be a broken generator, whatever the draw.
ALWAYS = (
    "leader elected",
    "leader crashed",
    "append acknowledged",
    "append of unknown outcome",
    "read acknowledged",
    "quiesced",
    "woken",
    "snapshot taken",
    "joint entered",
    "crashed at a named point",
    "unsynced bytes at a power loss",
    "disk full",
    "disk rotted",
    "partitioned",
)


def report(totals: Totals[Result]) -> str:
    return "\n".join(f"{result.command}\n{result.failure}" for result in totals.failures)


@pytest.mark.parametrize("chunk", range(8))
def test_fresh_seeds(chunk: int) -> None:
    first = FIRST + chunk * CHUNK
    totals = run_swarm(range(first, first + CHUNK), Order(ticks=300), workers=1)
    assert not totals.failures, report(totals)
    assert totals.operations > 0


def test_the_generator_reaches_what_it_should() -> None:
    totals = run_swarm(range(1, 41), Order(ticks=500), workers=1)
    assert not totals.failures, report(totals)
    assert [name for name in ALWAYS if not totals.sometimes.get(name)] == []


def test_the_power_fails_at_every_named_point() -> None:
    # Snapshots are installed where a node was away while the others took theirs.
    order = Order(ticks=1200, faults=("point", "isolate", "snapshot"))
    totals = run_swarm(range(1, 9), order, workers=1)
    assert not totals.failures, report(totals)
    assert [point for point in CRASH_POINTS if not totals.sometimes[crashed_at(point)]] == []
