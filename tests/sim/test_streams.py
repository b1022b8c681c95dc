"""The cluster serves a stream group: fresh seeds with every run, pinned ones, and bugs that are caught.

Set FLOTILLA_SIM_SEED to begin at a seed of your choice. A failure names the command that repeats it.
"""

import os
import subprocess
import sys
from pathlib import Path
from random import SystemRandom

import pytest

from flotilla.sim.mutants.mutants import MUTANTS
from flotilla.sim.plans.run import FAULTS, STREAM, draw_plan
from flotilla.sim.run import Result, simulate
from flotilla.sim.swarm import Order, Totals, run_swarm

FIRST = int(os.environ.get("FLOTILLA_SIM_SEED", "0")) or SystemRandom().randrange(1, 10**9)
CHUNK = 5
#: Some thirty seeds without these would be a broken generator, whatever the draw.
ALWAYS = (
    "leader elected",
    "leader crashed",
    "snapshot taken",
    "member joined",
    "member left",
    "member crashed",
    "member paused",
    "member fell silent",
    "member found itself out",
    "partition given up",
    "partition declined",
    "late commit refused",
)
#: Which promise each mutant breaks first.
QUICK = {
    "late-commits": "late commits are refused",
    "restore-no-fences": "snapshot equals replay",
    "give-at-once": "given up before given away",
    "keep-the-epoch": "one owner per generation",
    "touch-everything": "what stays is not touched",
    "to-the-first": "the spread is even",
    "judge-at-once": "every member has a session",
    "forget-the-leaver": "every partition has an owner",
}
PROGRAM = """
from flotilla.sim.plans.run import FAULTS, STREAM, draw_plan
from flotilla.sim.run import simulate
print(simulate(draw_plan(3, workload=STREAM, ticks=200, faults=tuple(FAULTS))).digest)
"""


def report(totals: Totals[Result]) -> str:
    return "\n".join(f"{result.command}\n{result.failure}" for result in totals.failures)


@pytest.mark.parametrize("chunk", range(2))
def test_fresh_seeds(chunk: int) -> None:
    first = FIRST + chunk * CHUNK
    totals = run_swarm(range(first, first + CHUNK), Order(ticks=250, workload=STREAM), workers=1)
    assert not totals.failures, report(totals)
    assert totals.operations > 0


def test_the_generator_reaches_what_it_should() -> None:
    totals = run_swarm(range(1, 13), Order(ticks=300, workload=STREAM), workers=1)
    assert not totals.failures, report(totals)
    assert [name for name in ALWAYS if not totals.sometimes.get(name)] == []


@pytest.mark.parametrize(
    ("seed", "ticks"),
    [
        # A heartbeat that says a partition is given up comes again after that move was called off.
        (139, 500),
    ],
)
def test_pinned_seed(seed: int, ticks: int) -> None:
    result = simulate(draw_plan(seed, workload=STREAM, ticks=ticks))
    assert result.is_good, f"{result.command}\n{result.failure}"


def digest_under(hash_seed: str) -> int:
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(source)}
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True
    )
    return int(output.stdout)


def test_the_same_path_under_any_hash_seed() -> None:
    here = simulate(draw_plan(3, workload=STREAM, ticks=200, faults=tuple(FAULTS)))
    assert here.is_good, f"{here.command}\n{here.failure}"
    assert digest_under("1") == digest_under("2") == here.digest


@pytest.mark.parametrize("name", QUICK)
def test_caught(name: str) -> None:
    order = Order(mutant=name, ticks=500, workload=STREAM)
    totals = run_swarm(range(1, 21), order, workers=1, failures_max=1)
    assert totals.failures, f"{MUTANTS[name].mistake}, and no checker noticed"
    assert totals.failures[0].promise == QUICK[name]


def test_there_are_enough_mutants() -> None:
    assert sum(1 for mutant in MUTANTS.values() if mutant.workload == STREAM) >= 8
