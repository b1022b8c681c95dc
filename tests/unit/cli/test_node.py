"""`flotilla node check` and `repair`, on a real data directory."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.codec.batch.facts import span_of
from flotilla.raft.messages import DATA, Configuration, Entry, HardState, SnapshotMeta
from flotilla.replica.ports import PendingSnapshot
from flotilla.runtime.data_dir_identity import DataDir, read_identity
from flotilla.runtime.path_folder import PathFolder
from flotilla.storage.options import StoreOptions
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore

VOTERS = Configuration(voters=(1, 2, 3))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of node 2, which has started once and stored ten entries of one partition."""
    data = DataDir.claim(PathFolder(tmp_path / "data"), 2, "ships")
    disk = PosixDisk(str(tmp_path / "data"))
    store = NodeStore.open(disk, StoreOptions(journal_bytes=256 * 1024), span_of)
    data.count_start()
    data.entered("ab" * 16, 1)
    for group in (1, 16):
        store.create_group(group, VOTERS)
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


class Opened:
    """The store of the directory. What is saved in a `with` block is one block of the journal."""

    def __init__(self, directory: Path) -> None:
        self._disk = PosixDisk(str(directory))
        self.store = NodeStore.open(self._disk, StoreOptions(journal_bytes=256 * 1024), span_of)
        self.write()

    def write(self) -> None:
        block = self.store.take_block()
        if block is not None:
            self.store.write_block(block)
            self.store.finish_block(block)

    def __enter__(self) -> NodeStore:
        return self.store

    def __exit__(self, *_: object) -> None:
        self.write()
        self.store.close()
        self._disk.close()


def changed(directory: Path, pattern: str, *contents: bytes) -> None:
    """Changes a byte of each content, where it is last in the files."""
    for found in contents:
        [path] = [path for path in directory.glob(pattern) if found in path.read_bytes()]
        stored = bytearray(path.read_bytes())
        stored[stored.rindex(found)] ^= 1
        path.write_bytes(stored)


@pytest.mark.parametrize("has_log", [True, False])
def test_a_damaged_snapshot_is_named(directory: Path, has_log: bool) -> None:
    states = [b"earlier state" * 100, b"later state" * 100]
    for index, state in zip((4, 8), states, strict=True):
        meta = SnapshotMeta(index, 4, 0 if has_log else index, 0 if has_log else 4, VOTERS)
        with Opened(directory) as store:
            job = store.plan_snapshot(16, PendingSnapshot(meta, lambda state=state: (state,)))  # type: ignore[misc]
            job.run()
            written = store.finish_snapshot(job)
            if not has_log:
                store.save(16, snapshot=written)
    [path] = directory.glob("groups/16/*08-*.snap")
    changed(directory, "groups/16/*.snap", states[1])
    found = json.loads(flotilla("check", directory, "--json")[1])
    name = str(path.relative_to(directory))
    assert (found["damaged_snapshots"], found["can_start"]) == ([name], True)
    assert found["advice"].startswith("start the node: it ")
    assert f"damaged: {name}" in flotilla("check", directory)[1]


def test_a_torn_last_write_is_named(directory: Path) -> None:
    with Opened(directory) as store:
        bodies = [letter * 9000 for letter in (b"y", b"-", b"z")]
        store.save(16, entries=[Entry(index, 4, DATA, body) for index, body in enumerate(bodies, 11)])
    # No single sector explains both.
    changed(directory, "journal/*.wal", b"y" * 9000, b"z" * 9000)
    code, output = flotilla("check", directory, "--json")
    found = json.loads(output)
    assert (code, found["damaged_entries"]) == (0, 0)
    assert found["dropped_block"].startswith("block ")
    assert f"torn: {found['dropped_block']}, the last write" in flotilla("check", directory)[1]


def test_an_entry_that_may_be_torn_is_told_from_one_that_was_durable(directory: Path) -> None:
    with Opened(directory) as store:
        store.save(16, entries=[Entry(11, 4, DATA, b"y" * 9000)])
    changed(directory, "journal/*.wal", b"y" * 9000)
    found = json.loads(flotilla("check", directory, "--json")[1])
    assert [(group["damaged"], group["doubtful"], group["members"]) for group in found["groups"]] == [
        ([], [], [1, 2, 3]),
        ([[11, 12]], [[11, 12]], [1, 2, 3]),
    ]
    assert "perhaps torn" in flotilla("check", directory)[1]


@pytest.mark.parametrize("is_doubtful", [True, False])
def test_a_lone_node_is_not_told_to_fetch_from_others(directory: Path, is_doubtful: bool) -> None:
    opened = Opened(directory)
    with opened as store:
        store.create_group(17, Configuration(voters=(2,)))
        store.save(17, hard_state=HardState(4, 2, 0), entries=[Entry(1, 4, DATA, b"y" * 600)])
        opened.write()
        if not is_doubtful:
            store.mark_block()
    changed(directory, "journal/*.wal", b"y" * 600)
    found = json.loads(flotilla("check", directory, "--json")[1])
    assert found["damaged_entries"] == 1
    assert found["advice"].startswith("start the node" if is_doubtful else "restore a backup, or delete the topic")


def test_a_node_of_no_other_is_told_what_can_be_cut(tmp_path: Path) -> None:
    data = DataDir.claim(PathFolder(tmp_path), 2, "ships")
    opened = Opened(tmp_path)
    with opened as store:
        data.count_start()
        store.create_group(1, Configuration(voters=(2,)))
        store.save(1, hard_state=HardState(4, 2, 0), entries=[Entry(1, 4, DATA, b"y" * 600)])
        opened.write()
        store.mark_block()
    changed(tmp_path, "journal/*.wal", b"y" * 600)
    assert f"flotilla node recover {tmp_path} --cut-damaged" in flotilla("check", tmp_path)[1].replace("\n", "")


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
