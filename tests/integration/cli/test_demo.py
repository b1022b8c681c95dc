"""The demo: a leader is killed, nothing is lost, and no files stay."""

import json
import os
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app

pytestmark = pytest.mark.slow


def test_the_demo_kills_a_leader_and_balances_its_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = CliRunner().invoke(app, ["demo", "failover", "--phase", "0.5", "--rate", "300", "--json"])
    assert result.exit_code == 0, result.output
    findings = json.loads(result.stdout)
    assert findings["is_good"]
    assert findings["acknowledged"] == findings["read"] > 100
    assert (findings["lost"], findings["doubled"], findings["refused"]) == (0, 0, 0)
    assert 0 < findings["recovery_s"] < 30
    assert "kill -9 of node" in result.stderr
    assert os.listdir(tmp_path) == []
