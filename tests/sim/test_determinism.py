"""The same seed takes the same path: twice in a process, and in processes with different hash seeds."""

import os
import subprocess
import sys
from pathlib import Path

from flotilla.sim.plan import FAULTS, draw_plan
from flotilla.sim.run import Result, simulate

SEEDS = (3, 7, 12)
PROGRAM = """
from flotilla.sim.plan import FAULTS, draw_plan
from flotilla.sim.run import simulate
for seed in (3, 7, 12):
    print(simulate(draw_plan(seed, ticks=400, faults=tuple(FAULTS))).digest)
"""


def run(seed: int, *, is_told: bool = False) -> Result:
    return simulate(draw_plan(seed, ticks=400, faults=tuple(FAULTS)), is_told=is_told)


def digests(hash_seed: str) -> list[int]:
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(source)}
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True
    )
    return [int(line) for line in output.stdout.split()]


def test_the_same_path_under_any_hash_seed() -> None:
    here = [run(seed).digest for seed in SEEDS]
    assert digests("1") == here
    assert digests("2") == here
    assert len(set(here)) == len(SEEDS)


def test_telling_the_story_changes_nothing() -> None:
    silent, told = run(3), run(3, is_told=True)
    assert (silent.digest, silent.events) == (told.digest, told.events)
    assert not silent.story
    assert len(told.story) > 10
