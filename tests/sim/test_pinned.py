"""Seeds that found a bug once must never find it again."""

from pathlib import Path

import pytest

from flotilla.sim.plan import draw_plan
from flotilla.sim.run import simulate

LINES = [line for line in (Path(__file__).parent / "seeds.txt").read_text().splitlines() if line[:1].isdigit()]


@pytest.mark.parametrize("line", LINES)
def test_pinned_seed(line: str) -> None:
    seed, ticks, _ = line.split(" ", 2)
    result = simulate(draw_plan(int(seed), ticks=int(ticks)))
    assert result.is_good, f"{result.command}\n{result.failure}"
