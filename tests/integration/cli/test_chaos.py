"""Chaos in short: a work queue whose leaders are killed, processes that die, and several faults at once.

`make chaos` is the long one.
"""

import json

import pytest

from flotilla.cli.chaos.machine.preload import missing_compiler
from tests.integration.cli.test_processes import command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_nothing_is_lost_while_leaders_are_killed():
    result = command(
        "chaos", "--scenario", "tasks", "--for", "10s", "--every", "3s", "--rate", "60", "--json", timeout_s=240
    )
    assert result.returncode == 0, result.stderr
    findings = json.loads(result.stdout)
    assert findings["is_good"]
    assert findings["kills"] >= 2
    assert findings["acknowledged"] > 200
    assert (findings["lost"], findings["dead_wrongly"], findings["ended"]) == (0, 0, 0)
    assert findings["dead_letters"] >= 1


@pytest.mark.parametrize(
    ("scenario", "faults"),
    [
        ("process", 1),
        pytest.param("together", 2, marks=pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler())),
    ],
)
def test_no_rule_is_broken(scenario: str, faults: int):
    result = command("chaos", "--scenario", scenario, "--for", "12s", "--seed", "1", "--json", timeout_s=280)
    verdict = json.loads(result.stdout)
    assert (result.returncode, verdict["findings"]) == (0, []), result.stderr
    assert sum(verdict["faults"].values()) >= faults
    assert verdict["planted"]["a good history"] >= 12
    assert verdict["judged"]["produces acknowledged"] > 100
    assert verdict["judged"]["replicas compared"] >= 12
