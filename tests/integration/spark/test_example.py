"""The example script for Spark runs to its end against the cluster, in the shared session."""

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "spark_table.py"


def test_the_example_runs_to_its_end(
    spark: Any, servers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLOTILLA_SERVERS", servers)
    # Other tests need the session.
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == ["rows: 100", "keys: 10", "first message of a worker: True"]
