"""The verbs of `flotilla pipeline`, and the demo's last act, in the shared session."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from flotilla import Client
from flotilla.cli.app import app
from tests.integration.spark.pipeline_ledger import PANDAS, Ledger

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(PANDAS)]


@pytest.fixture
def run(spark: Any, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLOTILLA_SERVERS", servers)
    return lambda *words: CliRunner().invoke(app, ["pipeline", *words])


def found(result: Result) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def test_archive_query_verify_audit(
    run: Callable[..., Result], client: Client, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    ledger = Ledger(name)
    ledger.produce(client, 100)
    done = found(run("archive", name, "--once", "--json"))
    assert (done["rows"], done["rows_total"], done["lake"]) == (100, 100, "flotilla-lake")
    assert (tmp_path / "flotilla-pipelines" / f"archive-{name}" / "commits").is_dir(), "where the command was typed"
    assert found(run("verify", "--json")) == {"topics": 1, "files": done["files"], "rows": 100}
    sql = f"SELECT partition, count(*) AS n, max(CAST(key AS string)) AS k FROM flotilla.`{name}` GROUP BY 1 ORDER BY 1"
    rows = found(run("query", sql, "--lake", "flotilla-lake", "--json"))
    assert [(row["partition"], row["n"], row["k"]) for row in rows] == [(0, 50, "red"), (1, 50, "green")]

    ledger.rows[0, 999] = b"never stored"
    bad = run("audit", str(ledger.write(tmp_path / "acked.jsonl")), "--lake", "flotilla-lake", "--json")
    assert (bad.exit_code, json.loads(bad.stdout)["missing"]) == (1, 1)


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("query", "SELEKT 1"), 2, "Syntax error"),
        (("query", "SELECT * FROM flotilla.nothing"), 3, "there is no topic 'nothing'"),
        (("archive", "no such name", "--once"), 2, "a topic name has"),
        (("replay", "orders"), 2, "a topic or a shadow group"),
        (("rollup", "orders", "--window", "soon"), 2, "a whole number"),
    ],
)
def test_a_mistake_is_one_line(run: Callable[..., Result], words: tuple[str, ...], code: int, expected: str) -> None:
    result = run(*words)
    assert result.exit_code == code, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("flotilla: ")]
    assert expected in line


def test_without_java_it_says_what_to_install(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = run("query", "SELECT 1")
    assert result.exit_code == 2
    assert "Java is not installed" in result.stderr


def test_the_demo_ends_with_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = CliRunner().invoke(app, ["demo", "--phase", "0.5", "--rate", "300", "--json"])
    findings = found(result)
    assert findings["is_good"]
    evidence = findings["evidence"]
    assert evidence["archived"] == evidence["counted"] == findings["acknowledged"]
    assert evidence["queried"] == findings["acknowledged"] + 300
    assert (evidence["missing"], evidence["doubled"], evidence["reordered"]) == (0, 0, 0)
    assert "0 missing, 0 doubled" in result.stderr
    assert "Polars opens the lake as a Delta table" in result.stderr
    # The lake and the report are all that it leaves behind.
    assert [Path(evidence["report"]).parent] == list(tmp_path.iterdir())
    assert Path(evidence["report"]).is_file()
    assert any(Path(evidence["lake"]).rglob("*.parquet"))
