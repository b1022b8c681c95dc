"""The faults of the whole product: each can strike, all heal, and a seed gives the same run."""

from flotilla.sim.devices.world import SECOND
from flotilla.sim.whole.faults import FAULTS, WholeFaults
from flotilla.sim.whole.plan import WholePlan
from flotilla.sim.whole.run import simulate_whole
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.workloads.log import LogWorkload


def _plan(seed: int, *faults: str, core_only: bool = False) -> WholePlan:
    return WholePlan(
        seed, nodes=3, duration_us=15 * SECOND, faults=faults, workloads=("log",), heals_core_only=core_only
    )


def test_a_seed_with_all_faults_gives_the_same_run_twice() -> None:
    first, second = simulate_whole(_plan(1, *FAULTS)), simulate_whole(_plan(1, *FAULTS))
    assert first.is_good, first.failure
    assert first.faults
    assert (first.digest, first.calls, first.story) == (second.digest, second.calls, second.story)


def test_every_fault_strikes_and_heals() -> None:
    plan = _plan(2, *FAULTS)
    simulation = Simulation(plan)
    simulation.workloads["log"] = LogWorkload(simulation)
    faults = simulation.faults = WholeFaults(simulation)
    for number, strike in enumerate(faults.actions.values()):
        simulation.world.after(6 * SECOND + number * plan.duration_us // len(FAULTS), strike)
    simulation.go()
    simulation.close()


def test_a_majority_goes_on_while_the_rest_stays_broken() -> None:
    result = simulate_whole(_plan(3, "kill", "pause", core_only=True))
    assert result.is_good, result.failure
    assert result.sometimes["healed a core only"] == 1


def test_two_of_three_brokers_cannot_be_spared() -> None:
    simulation = Simulation(_plan(1, *FAULTS))
    trouble = WholeFaults(simulation).trouble
    simulation.cluster.start()
    assert not trouble.can_spare(set())
    simulation.world.run_until(5 * SECOND)
    assert trouble.can_spare({2})
    assert not trouble.can_spare({2, 3})
    simulation.close()
