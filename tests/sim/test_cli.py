"""`flotilla sim` refuses what it cannot run: nothing was simulated, so nothing held. Mutants are printed one by one."""

import json

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.cli.sim import command
from flotilla.sim.mutants.mutants import MUTANTS


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--nodes", "0", "Invalid value"),
        ("--nodes", "2", "Invalid value"),
        ("--ticks", "-1", "Invalid value"),
        ("--workers", "0", "Invalid value"),
        ("--seeds", "5:3", "no seed in 5:3"),
        ("--seeds", "5:5", "no seed in 5:5"),
        ("--seeds", "0", "no seed in 0"),
        ("--seeds", "some", "FIRST:END or a count"),
        ("--mutant", "absent", "unknown mutant"),
        ("--workload", "queue", "needs --whole"),
        ("--faults", "rust", "unknown"),
    ],
)
def test_a_bad_parameter(option: str, value: str, reason: str) -> None:
    result = CliRunner().invoke(app, ["sim", f"{option}={value}"])
    assert result.exit_code == 2
    assert option in result.output
    assert reason in result.output
    assert "every promise held" not in result.output


def test_every_mutant_has_a_line_beside_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MUTANTS", {"send-before-sync": MUTANTS["send-before-sync"]})
    result = CliRunner().invoke(app, ["sim", "--mutants", "--workers=1", "--json"])
    assert result.exit_code == 0
    [(name, promise)] = json.loads(result.stdout)["caught_by"].items()
    assert f"({MUTANTS[name].mistake}): seed " in result.stderr
    assert promise in result.stderr
