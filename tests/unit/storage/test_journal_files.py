"""The life of journal files: made, filled, retired, used again; and which of them a restart reads and keeps."""

from random import Random

import pytest

from flotilla.raft.messages import DATA, Entry, HardState
from flotilla.sim.disk import SimDisk
from flotilla.storage.journal import journal_path
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import File
from flotilla.storage.store import NodeStore
from flotilla.types.errors import DiskFullError, StorageFailedError
from tests.unit.storage.shadow import TINY, VOTERS, describe

GROUP = 1


class WatchedDisk(SimDisk):
    """Notes what is opened, renamed and removed."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.opened: list[str] = []
        self.renamed: list[tuple[str, str]] = []
        self.removed: list[str] = []

    def open(self, path: str, *, create: bool = False) -> File:
        self.opened.append(path)
        return super().open(path, create=create)

    def rename(self, source: str, target: str) -> None:
        self.renamed.append((source, target))
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.removed.append(path)
        super().remove(path)


def _open(disk: SimDisk, options: StoreOptions = TINY) -> NodeStore:
    return NodeStore.open(disk, options, describe)


def _write(store: NodeStore) -> None:
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)


def _maintain(store: NodeStore) -> None:
    while (job := store.plan_maintenance()) is not None:
        job.run()
        store.finish_maintenance(job)


def _fill(store: NodeStore, first: int, count: int, *, is_maintained: bool = True) -> None:
    for index in range(first, first + count):
        store.save(GROUP, entries=[Entry(index, 1, DATA, b"%d 1 %d." % (index, index) + bytes(900))])
        _write(store)
        if is_maintained:
            _maintain(store)


def _new(disk: SimDisk) -> NodeStore:
    store = _open(disk)
    store.create_group(GROUP, VOTERS)
    store.save(GROUP, hard_state=HardState(1, 1, 0))
    _write(store)
    return store


def _indexes(store: NodeStore) -> list[int]:
    log = store.groups[GROUP]
    return [entry.index for entry in log.entries(1, log.last_index() + 1, 1 << 30)]


def _journal(disk: SimDisk) -> list[str]:
    return disk.list("journal")


def test_full_files_come_back_under_new_numbers() -> None:
    disk = WatchedDisk()
    store = _new(disk)
    _fill(store, 1, 200)
    assert len(disk.renamed) > 5
    assert not [path for path in disk.removed if path.startswith("journal")], "in step, no file is made or removed"
    for source, target in disk.renamed:
        assert source < target
    assert len(_journal(disk)) <= 3
    disk.crash()
    store = _open(disk)
    assert _indexes(store) == list(range(1, 201)), "what a file held under its old number is not taken for new"


def test_a_file_that_failed_is_never_used_again() -> None:
    disk = WatchedDisk()
    store = _new(disk)
    _fill(store, 1, 30)
    store.save(GROUP, entries=[Entry(31, 1, DATA, b"31 1 31.")])
    block = store.take_block()
    assert block is not None
    failed = journal_path(store._journal.number)
    disk.failing_syncs = 1
    with pytest.raises(StorageFailedError):
        store.write_block(block)
    store.write_block(block)
    store.finish_block(block)
    _fill(store, 32, 100)
    assert failed not in [source for source, _ in disk.renamed]
    assert failed in disk.removed
    disk.crash()
    assert _indexes(_open(disk)) == list(range(1, 132))


def test_a_block_that_finds_no_room_leaves_its_file_as_it_is() -> None:
    disk = WatchedDisk()
    store = _new(disk)
    store.save(GROUP, entries=[Entry(1, 1, DATA, b"1 1 1." + bytes(100_000))])
    block = store.take_block()
    assert block is not None
    disk.capacity_bytes = disk.used_bytes + TINY.journal_bytes
    for _ in range(3):
        with pytest.raises(DiskFullError):
            store.write_block(block)
    assert len(_journal(disk)) <= 3
    disk.capacity_bytes = 1 << 40
    store.write_block(block)
    store.finish_block(block)
    disk.crash()
    assert _indexes(_open(disk)) == [1]


@pytest.mark.parametrize("count", [3, 10])
def test_a_restart_leaves_the_flush_to_maintenance(count: int) -> None:
    disk = WatchedDisk()
    _fill(_new(disk), 1, count, is_maintained=False)
    for _ in range(3):
        disk.crash()
        store = _open(disk)
        assert _indexes(store) == list(range(1, count + 1))
        assert not [path for path in disk.opened if path.endswith(".seg")], "nothing was flushed to be open"
    _fill(store, count + 1, 1)
    assert store.groups[GROUP].durable_index == count + 1
    _fill(store, count + 2, 1)
    assert len(_journal(disk)) <= 3
    disk.crash()
    assert _indexes(_open(disk)) == list(range(1, count + 3))


def test_a_restart_with_many_files_flushes_them_first() -> None:
    disk = WatchedDisk()
    _fill(_new(disk), 1, 100, is_maintained=False)
    assert len(_journal(disk)) > TINY.journal_files_max
    disk.crash()
    store = _open(disk)
    assert store.groups[GROUP].durable_index == 100
    assert len(_journal(disk)) == 1
    assert _indexes(store) == list(range(1, 101))


def test_a_restart_reads_no_file_that_its_checkpoint_does_not_need() -> None:
    disk = WatchedDisk()
    store = _new(disk)
    count = 0
    while not store._retired:
        _maintain(store)
        count += 1
        _fill(store, count, 1, is_maintained=False)
    retired = journal_path(store._retired)
    disk.stop()
    assert retired.rpartition("/")[2] in _journal(disk)
    disk.opened.clear()
    store = _open(disk)
    assert retired not in disk.opened
    assert retired.rpartition("/")[2] not in _journal(disk)
    assert _indexes(store) == list(range(1, count + 1))


def test_a_last_block_that_nothing_proves_is_written_again() -> None:
    disk = SimDisk(Random(0))
    store = _new(disk)
    _fill(store, 1, 3, is_maintained=False)
    store.save(GROUP, entries=[Entry(4, 1, DATA, b"4 1 4.")])
    block = store.take_block()
    assert block is not None
    disk.failing_syncs = 1
    with pytest.raises(StorageFailedError):
        store.write_block(block)
    # The process ends; its pages are still there, though no sync has made them durable.
    disk.stop()
    assert _indexes(_open(disk)) == [1, 2, 3, 4]
    disk.crash()
    assert _indexes(_open(disk)) == [1, 2, 3, 4], "it was believed once, so it must stay"
