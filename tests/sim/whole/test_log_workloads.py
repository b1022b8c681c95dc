"""Workloads of logs, each on a cluster of which nothing breaks but its clients."""

import pytest

from flotilla.sim.whole.plan import WholePlan
from flotilla.sim.whole.run import simulate_whole


@pytest.mark.parametrize("workload", ["stream", "transactions", "readers", "admin", "replaced", "trimmed"])
def test_a_workload_gives_the_same_run_twice(workload: str) -> None:
    plan = WholePlan(1, nodes=3, duration_us=10_000_000, faults=(), workloads=(workload,))
    first, second = simulate_whole(plan), simulate_whole(plan)
    assert first.is_good, first.failure
    assert (first.digest, first.calls) == (second.digest, second.calls)
    assert first.calls > 30
