"""`flotilla node recover`: what it changes, what it says, and what it refuses."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.cli.app import app
from flotilla.codec.batch.facts import span_of
from flotilla.metadata.commands import Command, CreateTopic, InitCluster, RegisterBroker, encode_command
from flotilla.metadata.machine import MetadataMachine
from flotilla.raft.configuration import decode_configuration, encode_configuration
from flotilla.raft.messages import CONFIG, DATA, NOOP, Configuration, Entry, HardState, SnapshotMeta
from flotilla.replica.ports import PendingSnapshot
from flotilla.runtime.data_dir_identity import DataDir, read_identity
from flotilla.runtime.path_folder import PathFolder
from flotilla.storage.options import StoreOptions
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore

THREE = Configuration(voters=(1, 2, 3))
OLD_ID = "ab" * 16
OPTIONS = StoreOptions(journal_bytes=256 * 1024)


class Folder:
    """The data directory of node 2, whose cluster has the topics `all` (at all nodes) and `some` (at one)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        data = DataDir.claim(PathFolder(path), 2, "ships")
        with self.opened() as store:
            data.count_start()
            data.entered(OLD_ID, 1)
            data.founded({1: 11, 3: 33}, {1: "one:7", 3: "three:7"})
            store.create_group(METADATA_GROUP, THREE)
            commands: list[Command] = [InitCluster(OLD_ID, "ships", (1, 2, 3), 1)]
            commands += [
                RegisterBroker("ships", node, f"a:{node}", f"b:{node}", "", "", "1", 0, 0, 1) for node in (1, 2, 3)
            ]
            commands += [CreateTopic("all", 2, 3, (), 1), CreateTopic("some", 3, 1, (), 1)]
            entries = [Entry(at, 4, DATA, encode_command(command)) for at, command in enumerate(commands, 1)]
            store.save(METADATA_GROUP, hard_state=HardState(4, 3, 3), entries=entries)
            store.create_group(16, THREE)
            records = [Entry(index, 4, DATA, b"x" * 600) for index in range(1, 11)]
            store.save(16, hard_state=HardState(5, 1, 8), entries=records)

    def opened(self) -> "Opened":
        return Opened(self.path)

    def content(self) -> dict[str, bytes]:
        files = (path for path in self.path.rglob("*") if path.is_file() and path.name != "lock")
        return {str(path.relative_to(self.path)): path.read_bytes() for path in files}


class Opened:
    """The store, for as long as a block of changes takes."""

    def __init__(self, path: Path) -> None:
        self._disk = PosixDisk(str(path))
        self.store = NodeStore.open(self._disk, OPTIONS, span_of)

    def __enter__(self) -> NodeStore:
        return self.store

    def __exit__(self, *_: object) -> None:
        block = self.store.take_block()
        if block is not None:
            self.store.write_block(block)
            self.store.finish_block(block)
        self.store.mark_block()
        self.store.close()
        self._disk.close()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "data")


def recover(folder: Folder, *flags: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["node", "recover", str(folder.path), *flags])
    return result.exit_code, result.output


def test_without_the_flag_it_only_says_what_it_would_do(folder: Folder) -> None:
    before = folder.content()
    code, output = recover(folder)
    assert code == 1
    assert "nothing was changed" in output
    assert folder.content() == before
    said = json.loads(recover(folder, "--json")[1])
    assert [(kept["name"], kept["last_index"], kept["committed"], kept["voters"]) for kept in said["kept"]] == [
        ("metadata", 6, 3, [1, 2, 3]),
        ("all/0", 10, 8, [1, 2, 3]),
    ]
    assert said["empty"][0] == "all/1"
    assert len(said["empty"]) == 2
    assert len(said["gone"]) == 2


def test_the_node_is_the_only_voter_of_all_its_groups_in_another_cluster(folder: Folder) -> None:
    code, output = recover(folder, "--accept-data-loss", "--json")
    assert code == 0, output
    new_id = json.loads(output)["cluster_id"]
    identity = read_identity(PathFolder(folder.path))
    assert (identity.cluster_id, identity.founders, identity.starts) == (new_id, {}, 1)
    assert new_id != OLD_ID
    machine = MetadataMachine()
    with folder.opened() as store:
        snapshot = store.groups[METADATA_GROUP].read_snapshot()
        assert snapshot is not None
        machine.restore(snapshot.data)
        assert (snapshot.meta.index, snapshot.meta.term, snapshot.meta.configuration.voters) == (7, 5, (2,))
        assert machine.applied == store.groups[METADATA_GROUP].last_index() == 7
        own = machine.state.assignments_to(2)
        assert set(own) <= set(store.groups)
        log = store.groups[16]
        [configured] = log.recovered().configuration_entries
        assert (configured.index, configured.term) == (11, 6)
        assert decode_configuration(configured.data) == Configuration(voters=(2,))
        assert log.hard_state == HardState(6, 2, 8)
        assert [bytes(entry.data) for entry in log.entries(1, 11, 1 << 20)] == [b"x" * 600] * 10
        for group in set(own) - {16}:
            assert store.groups[group].configuration == Configuration(voters=(2,))
    assert machine.state.cluster.cluster_id == new_id
    assert sorted(machine.state.brokers) == [1, 2, 3]
    assert sorted(topic.name for topic in machine.state.topics.values()) == ["all", "some"]


def test_it_can_be_repeated(folder: Folder) -> None:
    recover(folder, "--accept-data-loss")
    first = read_identity(PathFolder(folder.path)).cluster_id
    assert recover(folder, "--accept-data-loss")[0] == 0
    assert read_identity(PathFolder(folder.path)).cluster_id != first
    with folder.opened() as store:
        assert store.groups[16].last_index() == 12


def test_a_state_ahead_of_its_log_keeps_both(folder: Folder) -> None:
    """A leader's snapshot was installed, and the entries that it covers had not arrived."""
    with folder.opened() as store:
        meta = SnapshotMeta(14, 5, 4, 4, THREE)
        job = store.plan_snapshot(16, PendingSnapshot(meta, lambda: (b"state",)))
        job.run()
        entries = [Entry(index, 4, DATA, b"y") for index in range(5, 9)]
        store.save(16, snapshot=store.finish_snapshot(job), entries=entries, hard_state=HardState(5, 1, 8))
    assert recover(folder, "--accept-data-loss")[0] == 0
    with folder.opened() as store:
        log = store.groups[16]
        kinds = [entry.kind for entry in log.entries(5, log.last_index() + 1, 1 << 20)]
        assert kinds == [DATA] * 4 + [NOOP] * 6 + [3]
        assert log.last_index() == 15
        assert log.recovered().configuration_entries[-1].index == 15


def test_damage_that_nobody_can_repair_is_refused(folder: Folder) -> None:
    [path] = [path for path in (folder.path / "journal").glob("*.wal") if b"x" * 600 in path.read_bytes()]
    damaged = path.read_bytes().replace(b"x" * 600, b"x" * 599 + b"y")
    path.write_bytes(damaged)
    before = read_identity(PathFolder(folder.path))
    code, output = recover(folder, "--accept-data-loss")
    assert code != 0
    assert "no other node is left to repair" in output
    assert read_identity(PathFolder(folder.path)) == before


def test_a_configuration_that_was_stored_once_and_torn_can_be_cut(folder: Folder) -> None:
    """An earlier program stored it once. Without it nobody knows whom to ask, so a lone voter never leads again."""
    growing = encode_configuration(Configuration(voters=(2,), learners=(3,)))
    with folder.opened() as store:
        store.create_group(17, Configuration(voters=(2,)))
        store.save(17, hard_state=HardState(5, 2, 1), entries=[Entry(1, 5, DATA, b"kept")])
    with folder.opened() as store:
        store.save(17, entries=[Entry(2, 5, CONFIG, growing)])
        store._collector.block.copies.clear()
        # The block has no mark either.
        store.mark_block = lambda: None  # type: ignore[method-assign]
    [path] = [path for path in (folder.path / "journal").glob("*.wal") if growing in path.read_bytes()]
    path.write_bytes(path.read_bytes().replace(growing, bytes(len(growing))))
    code, output = recover(folder, "--accept-data-loss")
    assert code != 0
    assert "entries 2 to 2 of group 17 are damaged" in output
    assert "--cut-damaged" in output
    code, output = recover(folder, "--cut-damaged", "--accept-data-loss")
    assert code == 0, output
    with folder.opened() as store:
        log = store.groups[17]
        [configured] = log.recovered().configuration_entries
        assert (log.first_index(), log.last_index(), configured.index, configured.term) == (1, 2, 2, 6)
        assert decode_configuration(configured.data) == Configuration(voters=(2,))
        assert log.recovered().damaged == []


def test_what_is_known_to_be_committed_is_never_cut(folder: Folder) -> None:
    """The entries of the partition are committed up to 8."""
    [path] = [path for path in (folder.path / "journal").glob("*.wal") if b"x" * 600 in path.read_bytes()]
    stored = bytearray(path.read_bytes())
    stored[stored.rindex(b"x" * 600)] ^= 1
    path.write_bytes(stored)
    said = json.loads(recover(folder, "--cut-damaged", "--json")[1])
    assert [(kept["name"], kept["last_index"], kept["cut"]) for kept in said["kept"]] == [
        ("metadata", 6, 0),
        ("all/0", 9, 1),
    ]
    assert "cut: the last 1 entries of all/0 here, from 10 on" in recover(folder, "--cut-damaged")[1]
    stored[stored.index(b"x" * 600)] ^= 1
    path.write_bytes(stored)
    code, output = recover(folder, "--cut-damaged", "--accept-data-loss")
    assert code != 0
    assert "no other node is left to repair" in output
    assert "--cut-damaged" not in output


def test_a_node_without_a_cluster_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    DataDir.claim(PathFolder(path), 2, "ships")
    with Opened(path):
        pass
    result = CliRunner().invoke(app, ["node", "recover", str(path), "--accept-data-loss"])
    assert result.exit_code != 0
    assert "never part of a cluster" in result.output
