"""Data directories and backups of every released version load, and have what they had."""

import json
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.types.version import CLUSTER_VERSION_MAX as NEWEST
from tests.upgrade.node_here import node_here
from tests.upgrade.recording import FOLDER, observe

RECORDINGS = sorted(path.name for path in FOLDER.glob("*.tar.gz"))


@pytest.fixture(params=RECORDINGS)
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(FOLDER / request.param) as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path


def expected(recording: Path) -> Any:
    return json.loads((recording / "expected.json").read_text())


def test_there_is_a_recording() -> None:
    assert RECORDINGS


def test_a_data_directory_loads(recording: Path) -> None:
    with node_here(recording / "data") as client:
        assert observe(client) == expected(recording)
        client.produce("orders", b"new")
    with node_here(recording / "data") as client:
        assert client.describe_group("orders", "workers").lag == expected(recording)["group"]["lag"] + 1


def test_the_cluster_of_an_earlier_version_is_upgraded(recording: Path) -> None:
    with node_here(recording / "data") as client:
        deadline_s = time.monotonic() + 20
        # Until the node has registered, its address is that of its last run.
        while (metadata := client.admin.metadata()).brokers[0].client not in repr(client):
            assert time.monotonic() < deadline_s
        assert metadata.cluster_version == 1
        assert "UPGRADE_POSSIBLE" in [warning.code for warning in client.admin.describe_node().warnings]
        runner = CliRunner(env={"FLOTILLA_SERVERS": metadata.brokers[0].client})
        for words, told in (
            (["cluster", "upgrade", "--dry-run"], f"the cluster would go from version 1 to {NEWEST}\n"),
            (["cluster", "upgrade"], f"the cluster went from version 1 to {NEWEST}\n"),
            (["cluster", "upgrade"], f"the cluster is at version {NEWEST}, the highest that all nodes support\n"),
        ):
            assert runner.invoke(app, words).output == told
        assert f"version {NEWEST}: " in runner.invoke(app, ["cluster", "status"]).output
    with node_here(recording / "data") as client:
        assert client.admin.metadata().cluster_version == NEWEST
        assert observe(client) == expected(recording)


def test_a_backup_is_restored(recording: Path) -> None:
    words = ["cluster", "restore", str(recording / "backup"), "--data-dir", str(recording / "restored")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    with node_here(recording / "restored") as client:
        assert observe(client) == expected(recording)


@pytest.mark.parametrize(
    ("file", "now", "later", "complaint"),
    [
        ("format", b"flotilla store 2\n", b"flotilla store 4\n", "is of store version 4, and this version"),
        ("identity.json", b'"version": 1', b'"version": 3', "is of version 3, and this version"),
    ],
)
@pytest.mark.parametrize("verb", ["serve", "check", "repair", "recover"])
def test_a_directory_of_a_later_version_is_refused_and_left_alone(
    recording: Path, verb: str, file: str, now: bytes, later: bytes, complaint: str
) -> None:
    data = recording / "data"
    content = (data / file).read_bytes()
    assert now in content
    (data / file).write_bytes(content.replace(now, later))
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "lock"}
    words = ["serve", "--data-dir", str(data)] if verb == "serve" else ["node", verb, str(data)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2, result.output
    assert complaint in " ".join(result.output.split())
    assert "repair" not in result.output
    assert before == {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "lock"}
