"""`flotilla sim` refuses what it cannot run: nothing was simulated, so nothing held."""

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app


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
