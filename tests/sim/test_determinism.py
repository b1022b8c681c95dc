"""The same seed takes the same path: twice in a process, and in processes with different hash seeds."""

from flotilla.sim.plan import FAULTS, draw_plan
from flotilla.sim.run import Result, simulate
from tests.hash_seeds import HASH_SEEDS, printed

SEEDS = (3, 7, 12)
PROGRAM = """
from flotilla.sim.plan import FAULTS, draw_plan
from flotilla.sim.run import simulate
for seed in (3, 7, 12):
    print(simulate(draw_plan(seed, ticks=400, faults=tuple(FAULTS))).digest)
"""


def run(seed: int, *, is_traced: bool = False) -> Result:
    return simulate(draw_plan(seed, ticks=400, faults=tuple(FAULTS)), is_traced=is_traced)


def test_the_same_path_under_any_hash_seed() -> None:
    here = [run(seed).digest for seed in SEEDS]
    for seed in HASH_SEEDS:
        assert [int(line) for line in printed(PROGRAM, seed)] == here
    assert len(set(here)) == len(SEEDS)


def test_tracing_changes_nothing() -> None:
    silent, traced = run(3), run(3, is_traced=True)
    assert (silent.digest, silent.events) == (traced.digest, traced.events)
    assert not silent.trace
    assert len(traced.trace) > 10
