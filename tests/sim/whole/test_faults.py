"""The faults of the whole product: each can strike, all heal, and a seed gives the same run."""

import asyncio
from dataclasses import replace

import pytest

from flotilla.codec.two_copies import SECTOR_BYTES, find_text
from flotilla.runtime.data_dir_identity import COPIED_FILES
from flotilla.sim.devices.world import SECOND
from flotilla.sim.whole.faults.faults import DRAWN_FAULTS, FAULTS, WholeFaults
from flotilla.sim.whole.plan import WholePlan, draw_whole_plan
from flotilla.sim.whole.run import DRAWN, WORKLOADS, simulate_whole
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.swarm import WholeOrder
from flotilla.sim.whole.workloads.log import LogWorkload
from flotilla.storage.store_format import find_format
from flotilla.testing import SimulatedCluster, simulate


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
    # All before everything heals: what strikes later stays.
    for number, strike in enumerate(faults.actions.values()):
        simulation.world.after(6 * SECOND + number * (plan.duration_us - 6 * SECOND) // len(FAULTS), strike)
    simulation.go()
    simulation.close()


def test_a_majority_goes_on_while_the_rest_stays_broken() -> None:
    result = simulate_whole(_plan(3, "kill", "pause", core_only=True))
    assert result.is_good, result.failure
    assert result.sometimes["healed a core only"] == 1


def test_a_broker_whose_disk_was_put_back_is_refused_and_joins_again() -> None:
    result = simulate_whole(_plan(3, "put-back"))
    assert result.is_good, result.failure
    assert result.sometimes["earlier disk refused"] == 1
    assert result.sometimes["wiped broker came back"] == 1


def test_a_paused_client_goes_on_at_the_end_of_its_pause_or_of_all_faults() -> None:
    simulation = Simulation(_plan(4, "pause-client"))
    worker = simulation.client("worker", asyncio.Event().wait)
    faults = WholeFaults(simulation)
    for action in (lambda: simulation.world.run_until(simulation.world.now_us + 20 * SECOND), faults.heal):
        faults.actions["pause-client"]()
        assert worker.is_paused
        action()
        assert worker.is_running
    assert simulation.sometimes.counts["client paused"] == 2
    simulation.close()


def test_later_faults_and_workloads_change_nothing_else_of_a_plan() -> None:
    plans = [WholeOrder().plan(seed) for seed in range(200)]
    assert {name for plan in plans for name in plan.faults} == set(FAULTS)
    assert {name for plan in plans for name in plan.workloads} == set(WORKLOADS)
    for plan in plans:
        without = draw_whole_plan(plan.seed, known_faults=DRAWN_FAULTS, known_workloads=DRAWN)
        assert tuple(name for name in plan.faults if name in DRAWN_FAULTS) == without.faults
        assert (plan.nodes, plan.is_mixed, plan.heals_core_only) == (
            without.nodes,
            without.is_mixed,
            without.heals_core_only,
        )


def test_one_clock_jumps_forward_and_back_in_every_seed_with_drawn_faults() -> None:
    order = WholeOrder(duration_s=2, workloads=("log",), nodes=3)
    plan = replace(order.plan(5), faults=("dials",))
    assert plan.jumps_clock
    assert not replace(order, faults=("dials",)).plan(5).jumps_clock
    result = simulate_whole(plan)
    assert result.is_good, result.failure
    jumps = [sentence.split()[-2] for _, sentence in result.story if "has its clock set by" in sentence]
    assert sorted(int(jump) > 0 for jump in jumps) == [False, True]


def test_a_fresh_plan_that_is_pinned_by_the_faults_it_prints_is_the_same_plan() -> None:
    fresh = WholeOrder(duration_s=2).plan(5)
    pinned = WholeOrder(duration_s=2, nodes=fresh.nodes, workloads=fresh.workloads, faults=fresh.strikes).plan(5)
    assert "planned-jumps" in fresh.strikes
    assert pinned == fresh


def test_two_of_three_brokers_cannot_be_spared() -> None:
    simulation = Simulation(_plan(1, *FAULTS))
    trouble = WholeFaults(simulation).trouble
    simulation.cluster.start()
    assert not trouble.can_spare(set())
    simulation.world.run_until(5 * SECOND)
    assert trouble.can_spare({2})
    assert not trouble.can_spare({2, 3})
    simulation.close()


@pytest.mark.parametrize("sector", [0, 1])
def test_a_bad_sector_of_each_small_file_at_every_broker_at_once_costs_nothing(sector: int) -> None:
    finds = {"format": find_format, **dict.fromkeys(COPIED_FILES, find_text)}

    async def scenario(cluster: SimulatedCluster) -> None:
        async with cluster.client() as client:
            await client.create_topic("kept", partitions=1)
            await client.produce("kept", b"before")
            for broker in cluster.brokers.values():
                broker.cut_power()
                files = dict(broker.host.disk.files())
                for name in finds:
                    low = sector * SECTOR_BYTES
                    files[name].image[low : low + SECTOR_BYTES] = cluster.random.randbytes(SECTOR_BYTES)
            cluster.heal()
            assert (await client.produce("kept", b"after")).offset == 1
            while not all(broker.is_running for broker in cluster.brokers.values()):
                await asyncio.sleep(0.1)
        for broker in cluster.brokers.values():
            files = dict(broker.host.disk.files())
            found = {name: find(bytes(files[name].image)) for name, find in finds.items()}
            assert all(copies.content is not None and not copies.damaged for copies in found.values())

    simulate(sector, scenario, faults=())
