"""The order of a chaos run: which faults come together, and that blind rules end it before it begins."""

import asyncio
from random import Random
from typing import cast

import pytest

from flotilla.cli.chaos.judge.rules import RULES
from flotilla.cli.chaos.machine.brokers import ChaosCluster
from flotilla.cli.chaos.scenario.run import SCENARIOS, RunPlan, choose_faults, run_scenario


@pytest.mark.parametrize("seed", range(20))
def test_faults_at_the_same_time_act_on_different_parts(seed: int):
    scenario = SCENARIOS["together"]
    waiting = Random(seed).sample(scenario.faults, len(scenario.faults))
    count = 0
    while waiting:
        chosen = choose_faults(waiting, scenario.overlap_max)
        assert chosen[0] == waiting[0]
        assert len(chosen) <= 3
        parts = [part for fault in chosen for part in fault.parts]
        assert len(parts) == len(set(parts))
        count += len(chosen)
        waiting = [fault for fault in waiting if fault not in chosen]
    assert count == len(scenario.faults)


@pytest.mark.parametrize("name", SCENARIOS)
def test_only_together_overlaps(name: str):
    assert SCENARIOS[name].overlap_max == (3 if name == "together" else 1)
    assert choose_faults(list(SCENARIOS[name].faults), 1) == [SCENARIOS[name].faults[0]]


def test_blind_rules_end_a_run_before_it_begins(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(RULES, "lost", lambda history: iter(()))
    told: list[str] = []
    # No broker is started: there is no cluster.
    verdict = asyncio.run(run_scenario(RunPlan("process", 1, 60.0), cast("ChaosCluster", None), told.append))
    assert not verdict.is_good
    assert [finding.text for finding in verdict.findings] == ["lost, in a good history"]
    assert told
