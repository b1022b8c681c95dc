"""Simulated time per processor time: consensus and storage on simulated disks and links, with faults."""

from time import process_time

from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from flotilla.sim.plan import draw_plan
from flotilla.sim.run import simulate


def measure(options: BenchOptions) -> list[Figure]:
    seeds = range(1, 1 + options.pick(quick=4, full=20))
    ticks = options.pick(quick=1000, full=3000)
    pairs = []
    for seed in seeds:
        started = process_time()
        result = simulate(draw_plan(seed, nodes=3, ticks=ticks))
        elapsed = process_time() - started
        if not result.is_good:
            raise RuntimeError(f"the simulation failed: {result.command}")
        pairs.append((result.simulated_us / 1e6, elapsed))
    return [
        relate(
            "simulator",
            f"three nodes, drawn faults, median of {len(seeds)} seeds",
            "s simulated",
            pairs=pairs,
            probe_name="s of one core",
            goal=Goal(1000.0),
            note="checkers run after every event",
        )
    ]
