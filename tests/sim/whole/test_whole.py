"""Seeds of the whole product: real brokers and real clients in simulated time. Fresh ones every day.

A red run stays red for the rest of the day, and a failure names the command that repeats it at any time. Set WHOLE_SEED
to begin at a seed of your choice.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flotilla.sim.whole.run import simulate_whole
from flotilla.sim.whole.swarm import WholeOrder
from tests.hash_seeds import HASH_SEEDS, printed

#: Simulated seconds of faults in each run here; `flotilla sim --whole` has a minute.
SECONDS = 12
FIRST = int(os.environ.get("WHOLE_SEED", "0")) or datetime.now(UTC).toordinal() * 1_000
COUNT = 102
PORTION = 2
TWICE = range(1, 51)
PROGRAM = """
import sys
from flotilla.sim.whole.run import simulate_whole
from flotilla.sim.whole.swarm import WholeOrder
for seed in range({first}, {end}):
    print(simulate_whole(WholeOrder(duration_s=4).plan(seed)).digest)
"""

#: Lines: the seed, then nodes, seconds, workloads and faults, and what it found.
PINNED = [line for line in (Path(__file__).parent / "seeds.txt").read_text("utf-8").splitlines() if line[:1].isdigit()]


def check(seed: int, order: WholeOrder) -> None:
    result = simulate_whole(order.plan(seed))
    assert result.is_good, f"repeat it with: {order.command(seed)}\n{result.failure}"


@pytest.mark.parametrize("portion", range(COUNT // PORTION))
def test_seeds(portion: int) -> None:
    for seed in range(FIRST + portion * PORTION, FIRST + (portion + 1) * PORTION):
        check(seed, WholeOrder(duration_s=SECONDS))


@pytest.mark.parametrize("line", PINNED)
def test_pinned_seed(line: str) -> None:
    seed, nodes, seconds, workloads, faults, _ = line.split(" ", 5)
    names = () if faults == "none" else tuple(faults.split(","))
    check(
        int(seed),
        WholeOrder(nodes=int(nodes), duration_s=int(seconds), faults=names, workloads=tuple(workloads.split(","))),
    )


@pytest.mark.parametrize("first", TWICE[::5])
def test_the_same_run_under_any_hash_seed(first: int) -> None:
    program = PROGRAM.format(first=first, end=first + 5)
    once, again = (printed(program, hash_seed) for hash_seed in HASH_SEEDS)
    assert once == again
    assert len(set(once)) == 5
