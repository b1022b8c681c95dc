"""The cluster used as a queue: fresh seeds with every run, pinned ones, and the same path for the same seed.

Set FLOTILLA_SIM_SEED to begin at a seed of your choice. A failure names the command that repeats it.
"""

import os
from pathlib import Path
from random import SystemRandom

import pytest

from flotilla.sim.plans.run import FAULTS, LEDGER, QUEUE, STREAM, draw_plan, draw_workload
from flotilla.sim.run import Result, simulate
from flotilla.sim.swarm import Order, Totals, run_swarm
from tests.hash_seeds import HASH_SEEDS, printed

FIRST = int(os.environ.get("FLOTILLA_SIM_SEED", "0")) or SystemRandom().randrange(1, 10**9)
CHUNK = 6
LINES = [line for line in (Path(__file__).parent / "queue_seeds.txt").read_text().splitlines() if line[:1].isdigit()]

#: Some thirty seeds without these would be a broken generator, whatever the draw.
ALWAYS = (
    "leader elected",
    "leader crashed",
    "clock jumped",
    "snapshot taken",
    "delivered",
    "delivered again",
    "duplicate recognised",
    "answered batch sent again",
    "acked before it left",
    "message expired",
    "message cancelled",
    "lease extended",
    "lease refused as expired",
    "lease of an earlier leader settled",
    "settlement refused",
    "consumer crashed",
    "consumer paused",
    "message forgotten by its consumer",
    "log trimmed",
    "garbage in the log",
    "transaction committed",
    "transaction aborted",
    "transaction abandoned",
    "transaction shown",
    "version committed again",
    "acks staged",
    "acks staged again",
)
PROGRAM = """
from flotilla.sim.plans.run import FAULTS, QUEUE, draw_plan
from flotilla.sim.run import simulate
for seed in (3, 7):
    print(simulate(draw_plan(seed, workload=QUEUE, ticks=200, faults=tuple(FAULTS))).digest)
"""


def report(totals: Totals[Result]) -> str:
    return "\n".join(f"{result.command}\n{result.failure}" for result in totals.failures)


@pytest.mark.parametrize("chunk", range(3))
def test_fresh_seeds(chunk: int) -> None:
    first = FIRST + chunk * CHUNK
    totals = run_swarm(range(first, first + CHUNK), Order(ticks=250, workload=QUEUE), workers=1)
    assert not totals.failures, report(totals)
    assert totals.operations > 0


def test_the_generator_reaches_what_it_should() -> None:
    totals = run_swarm(range(1, 26), Order(ticks=300, workload=QUEUE), workers=1)
    assert not totals.failures, report(totals)
    assert [name for name in ALWAYS if not totals.sometimes.get(name)] == []


@pytest.mark.parametrize("line", LINES)
def test_pinned_seed(line: str) -> None:
    seed, ticks, nodes, faults, _ = line.split(" ", 4)
    chosen = None if faults == "-" else tuple(FAULTS) if faults == "all" else tuple(faults.split(","))
    count = None if nodes == "-" else int(nodes)
    result = simulate(draw_plan(int(seed), workload=QUEUE, ticks=int(ticks), nodes=count, faults=chosen))
    assert result.is_good, f"{result.command}\n{result.failure}"


def run(seed: int, *, is_traced: bool = False) -> Result:
    return simulate(draw_plan(seed, workload=QUEUE, ticks=200, faults=tuple(FAULTS)), is_traced=is_traced)


def test_the_same_path_under_any_hash_seed() -> None:
    here = [run(seed).digest for seed in (3, 7)]
    for seed in HASH_SEEDS:
        assert [int(line) for line in printed(PROGRAM, seed)] == here
    assert here[0] != here[1]


def test_tracing_changes_nothing() -> None:
    silent, traced = run(3), run(3, is_traced=True)
    assert (silent.digest, silent.events) == (traced.digest, traced.events)
    assert not silent.trace
    assert any("leases" in line for line in traced.trace)


def test_a_seed_that_is_left_to_itself_draws_any_workload() -> None:
    drawn = [Order(workload="").plan(seed).workload for seed in range(1, 30)]
    assert drawn == [draw_workload(seed) for seed in range(1, 30)]
    assert set(drawn) == {LEDGER, QUEUE, STREAM}
    assert "--workload queue" in run(3).command
