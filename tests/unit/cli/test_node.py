"""`flotilla node check` and `repair`, on a real data directory."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.codec.batch.facts import span_of
from flotilla.raft.messages import DATA, Configuration, Entry, HardState
from flotilla.runtime.data_dir_identity import DataDir, PathFolder, read_identity
from flotilla.storage.options import StoreOptions
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of node 2, which has started once and stored ten entries of one partition."""
    data = DataDir.claim(PathFolder(tmp_path / "data"), 2, "ships")
    disk = PosixDisk(str(tmp_path / "data"))
    store = NodeStore.open(disk, StoreOptions(journal_bytes=256 * 1024), span_of)
    data.count_start()
    data.entered("ab" * 16, 1)
    for group in (1, 16):
        store.create_group(group, Configuration(voters=(1, 2, 3)))
    for index in range(1, 11):
        store.save(16, hard_state=HardState(4, 2, index), entries=[Entry(index, 4, DATA, b"x" * 600)])
        block = store.take_block()
        assert block is not None
        store.write_block(block)
        store.finish_block(block)
    store.close()
    disk.close()
    return tmp_path / "data"


def flotilla(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["node", *map(str, arguments)], catch_exceptions=False)
    return result.exit_code, result.output


def content(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_a_good_directory_is_described_and_not_touched(directory: Path) -> None:
    before = content(directory)
    code, output = flotilla("check", directory)
    assert code == 0, output
    assert f"node 2 of cluster ships ({'ab' * 16}), started 1 time(s)" in output
    assert "metadata" in output
    assert "1-10" in output
    assert "problem: none" in output
    code, output = flotilla("check", directory, "--json")
    found = json.loads(output)
    assert (found["node"], found["can_start"], found["damaged_entries"]) == (2, True, 0)
    assert [(group["group"], group["last_index"], group["term"]) for group in found["groups"]] == [
        (1, 0, 0),
        (16, 10, 4),
    ]
    assert flotilla("repair", directory)[0] == 0
    assert content(directory) == before


def test_segments_are_read_from_disk(directory: Path) -> None:
    disk = PosixDisk(str(directory))
    store = NodeStore.open(disk, StoreOptions(journal_bytes=256 * 1024), span_of)
    job = store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    store.finish_maintenance(job)
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)
    store.close()
    disk.close()
    [segment] = (directory / "groups" / "16").glob("*.seg")
    code, output = flotilla("check", directory, "--json")
    assert code == 0, output
    assert json.loads(output)["damaged_entries"] == 0
    stored = bytearray(segment.read_bytes())
    stored[len(stored) // 2] ^= 1
    segment.write_bytes(stored)
    code, output = flotilla("check", directory, "--json")
    assert code == 0, output
    assert json.loads(output)["damaged_entries"] == 1
    assert "fetches the damaged entries" in flotilla("check", directory)[1]


def test_a_directory_without_its_store_is_repaired(directory: Path) -> None:
    shutil.rmtree(directory / "journal")
    code, output = flotilla("check", directory)
    assert code == 1
    assert f"to do: `flotilla node repair {directory}`" in output
    before = read_identity(PathFolder(directory))
    code, output = flotilla("repair", directory, "--json")
    assert code == 0, output
    folder = Path(json.loads(output)["set_aside"])
    assert sorted(path.name for path in folder.iterdir()) == ["format", "groups"]
    after = read_identity(PathFolder(directory))
    assert (after.node, after.cluster_id, after.starts) == (2, before.cluster_id, 0)
    assert after.incarnation != before.incarnation
    assert flotilla("check", directory)[0] == 0


def test_a_lost_journal_is_a_problem(directory: Path) -> None:
    for path in (directory / "journal").glob("*.wal"):
        path.write_bytes(bytes(path.stat().st_size))
    code, output = flotilla("check", directory, "--json")
    found = json.loads(output)
    assert (code, found["can_start"]) == (1, False)
    assert "journal" in found["problem"]


def test_a_good_store_is_set_aside_by_force_only(directory: Path) -> None:
    assert "stays as it is" in flotilla("repair", directory)[1]
    assert flotilla("repair", directory, "--force")[0] == 0
    assert (directory / "set-aside-1" / "journal").exists()


def test_what_is_not_a_data_directory_and_what_is_in_use_are_refused(directory: Path, tmp_path: Path) -> None:
    assert flotilla("check", tmp_path / "nowhere")[0] == 2
    disk = PosixDisk(str(directory))
    try:
        code, output = flotilla("repair", directory, "--force")
        assert code == 1
        assert "in use by another process" in output
    finally:
        disk.close()
