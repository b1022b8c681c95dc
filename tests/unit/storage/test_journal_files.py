"""The life of journal files: made, filled, retired, used again; and which of them a restart reads and keeps."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from flotilla.raft.messages import DATA, Entry, HardState
from flotilla.sim.devices.disk import Inode, SimDisk, SimFile
from flotilla.storage.framing import SECTOR_BYTES
from flotilla.storage.journal import RESERVE_PATH, journal_path
from flotilla.storage.journal_scan import JournalScan, list_journal
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Buffer, File
from flotilla.storage.store import NodeStore
from flotilla.storage.store_format import read_salt
from flotilla.types.errors import DiskFullError, StorageFailedError
from tests.unit.storage.shadow import TINY, VOTERS, describe

GROUP = 1


class WatchedFile(SimFile):
    """Notes writes to sectors of the journal that hold durable bytes."""

    __slots__ = ("_watch", "path")

    def __init__(self, disk: "WatchedDisk", inode: Inode, path: str) -> None:
        super().__init__(disk, inode)
        self._watch = disk
        self.path = path

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        end = offset + sum(map(len, buffers))
        sectors = {(self.path, at // SECTOR_BYTES) for at in range(offset, end, SECTOR_BYTES)}
        self._watch.overwritten |= sectors & self._watch.written
        self._watch.written |= sectors if self.path.endswith(".wal") else set()
        super().write(offset, buffers)


class WatchedDisk(SimDisk):
    """Notes what is opened, renamed, removed and overwritten."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.opened: list[str] = []
        self.renamed: list[tuple[str, str]] = []
        self.removed: list[str] = []
        #: Paths that begin like one of these cannot be removed.
        self.keeps: tuple[str, ...] = ()
        self.written: set[tuple[str, int]] = set()
        self.overwritten: set[tuple[str, int]] = set()

    def open(self, path: str, *, create: bool = False) -> File:
        self.opened.append(path)
        super().open(path, create=create)
        return WatchedFile(self, dict(self.files())[path], path)

    def rename(self, source: str, target: str) -> None:
        self.renamed.append((source, target))
        self.written = {(path, sector) for path, sector in self.written if path != source}
        super().rename(source, target)

    def remove(self, path: str) -> None:
        if path.startswith(self.keeps):
            raise StorageFailedError(f"remove {path}: Operation not permitted")
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


def _new(disk: SimDisk, options: StoreOptions = TINY) -> NodeStore:
    store = _open(disk, options)
    store.create_group(GROUP, VOTERS)
    store.save(GROUP, hard_state=HardState(1, 1, 0))
    _write(store)
    return store


def _create_groups(store: NodeStore, count: int) -> None:
    """So that a checkpoint is large."""
    for group in range(GROUP + 1, GROUP + 1 + count):
        store.create_group(group, VOTERS)
    _write(store)


def _indexes(store: NodeStore) -> list[int]:
    log = store.groups[GROUP]
    return [entry.index for entry in log.entries(1, log.last_index() + 1, 1 << 30)]


def _journal(disk: SimDisk) -> list[str]:
    return disk.list("journal")


def test_full_files_are_reused_under_new_numbers() -> None:
    disk = WatchedDisk()
    store = _new(disk)
    _fill(store, 1, 200)
    assert len(disk.renamed) > 5
    assert not [path for path in disk.removed if path.startswith("journal")], "in step, no file is made or removed"
    for source, target in disk.renamed:
        assert source < target or target == "format"
    assert len(list_journal(disk)) <= 3
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


def _proven(disk: SimDisk) -> int:
    """The sequence of the last block that the journal proves to be durable."""
    return JournalScan.of(disk, list_journal(disk), read_salt(disk)).proven


def _last(store: NodeStore) -> int:
    return store._collector.block.sequence - 1


def test_a_block_proves_the_one_before_and_a_mark_the_last() -> None:
    disk = SimDisk(Random(0))
    store = _new(disk)
    _fill(store, 1, 3, is_maintained=False)
    assert _proven(disk) == _last(store) - 1
    syncs = disk.synced_count
    store.mark_block()
    assert _proven(disk) == _last(store)
    written_bytes = disk.written_bytes
    store.mark_block()
    assert disk.written_bytes == written_bytes
    assert disk.synced_count == syncs
    _fill(store, 4, 2, is_maintained=False)
    assert _proven(disk) == _last(store) - 1
    disk.crash()
    assert _indexes(_open(disk)) == [1, 2, 3, 4, 5]


def test_the_first_block_after_recovery_proves_nothing() -> None:
    disk = SimDisk(Random(0))
    store = _new(disk)
    _fill(store, 1, 3, is_maintained=False)
    proven = _proven(disk)
    disk.stop()
    store = _open(disk)
    assert _proven(disk) == proven
    _fill(store, 4, 1, is_maintained=False)
    assert _proven(disk) == _last(store) - 1


def test_the_first_block_of_a_file_proves_the_last_of_the_one_before() -> None:
    disk = SimDisk(Random(0))
    store = _new(disk)
    first = store._journal.number
    index = 1
    while store._journal.number == first:
        _fill(store, index, 1, is_maintained=False)
        index += 1
    assert _proven(disk) == _last(store) - 1


@pytest.mark.parametrize("how", ["write fails", "sync fails"])
def test_a_block_that_failed_is_not_proven_before_it_is_synced(how: str) -> None:
    disk = SimDisk(Random(0))
    store = _new(disk)
    _fill(store, 1, 2, is_maintained=False)
    store.save(GROUP, entries=[Entry(3, 1, DATA, b"3 1 3.")])
    block = store.take_block()
    assert block is not None
    disk.failing_writes, disk.failing_syncs = (1, 0) if how == "write fails" else (0, 1)
    with pytest.raises(StorageFailedError):
        store.write_block(block)
    # Nothing is known of the block: whatever its file holds, no mark says that it is durable.
    store.mark_block()
    assert _proven(disk) < block.sequence
    store.write_block(block)
    store.finish_block(block)
    assert _proven(disk) < block.sequence
    store.mark_block()
    assert _proven(disk) == block.sequence
    disk.crash()
    assert _indexes(_open(disk)) == [1, 2, 3]


def test_a_mark_that_fails_is_harmless() -> None:
    disk = SimDisk(Random(0))
    store = _new(disk)
    _fill(store, 1, 2, is_maintained=False)
    disk.failing_writes = 1
    store.mark_block()
    assert disk.failing_writes == 0
    _fill(store, 3, 1, is_maintained=False)
    assert _proven(disk) == _last(store) - 1
    disk.crash()
    assert _indexes(_open(disk)) == [1, 2, 3]


def test_no_write_touches_a_sector_with_durable_bytes() -> None:
    disk = WatchedDisk()
    store = _new(disk)
    for index in range(1, 60):
        _fill(store, index, 1)
        if index % 7 == 0:
            store.mark_block()
        if index % 20 == 0:
            disk.stop()
            store = _open(disk)
    assert len(disk.written) > 20
    assert disk.overwritten == set()


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_before_the_mark_loses_nothing(seed: int) -> None:
    disk = SimDisk(Random(seed))
    store = _new(disk)
    _fill(store, 1, 3, is_maintained=False)
    if seed % 2:
        store.mark_block()
    disk.crash()
    assert _indexes(_open(disk)) == [1, 2, 3]


def test_a_block_without_space_leaves_its_file_unchanged() -> None:
    disk = WatchedDisk()
    store = _new(disk)
    store.save(GROUP, entries=[Entry(1, 1, DATA, b"1 1 1." + bytes(200_000))])
    block = store.take_block()
    assert block is not None
    disk.capacity_bytes = disk.used_bytes
    for _ in range(3):
        with pytest.raises(DiskFullError):
            store.write_block(block)
    assert len(_journal(disk)) <= 3
    disk.capacity_bytes = 1 << 40
    store.write_block(block)
    store.finish_block(block)
    disk.crash()
    assert _indexes(_open(disk)) == [1]


def test_a_full_disk_takes_the_reserve_and_leaves_it_with_space() -> None:
    disk = SimDisk(Random(0))
    store = _new(disk)
    _maintain(store)
    disk.capacity_bytes = disk.used_bytes
    index = 0
    while not store.is_low:
        index += 1
        _fill(store, index, 1, is_maintained=False)
    assert not disk.exists(RESERVE_PATH)
    assert store.plan_maintenance(is_retry=True) is not None, "space is looked for again"
    _finish_job(store)
    disk.capacity_bytes = 1 << 40
    store.plan_maintenance(is_retry=True)
    _finish_job(store)
    assert disk.exists(RESERVE_PATH)
    assert not store.is_low, "a follower that refuses records has nothing to write first"
    _fill(store, index + 1, 1)
    disk.crash()
    assert _indexes(_open(disk)) == list(range(1, index + 2))


def test_a_start_with_room_has_a_reserve_before_its_first_new_block() -> None:
    disk = SimDisk(Random(0))
    store = _new(disk)
    _maintain(store)
    disk.capacity_bytes = disk.used_bytes
    index = 0
    while not store.is_low:
        index += 1
        _fill(store, index, 1, is_maintained=False)
    disk.stop()
    disk.capacity_bytes = 1 << 40
    store = _open(disk)
    # The disk is full again before maintenance has run.
    disk.capacity_bytes = disk.used_bytes
    while not store.is_low:
        index += 1
        _fill(store, index, 1, is_maintained=False)
    disk.stop()
    assert _indexes(_open(disk)) == list(range(1, index + 1))


@pytest.mark.parametrize("is_full", [False, True])
def test_a_reserve_without_its_space_is_none(is_full: bool) -> None:
    disk = SimDisk(Random(0))
    store = _new(disk)
    _fill(store, 1, 5)
    # The process was killed while it created the file.
    disk.open(RESERVE_PATH).truncate(0)
    disk.stop()
    if is_full:
        disk.capacity_bytes = disk.used_bytes
    store = _open(disk)
    assert _indexes(store) == [1, 2, 3, 4, 5]
    assert store._journal.has_reserve == disk.exists(RESERVE_PATH) == (not is_full)
    assert is_full or disk.open(RESERVE_PATH).size() == TINY.reserve_bytes
    assert store.is_low == is_full, "nothing is left when this file is full"
    disk.capacity_bytes = 1 << 40
    if is_full:
        store.plan_maintenance(is_retry=True)
        _finish_job(store)
    assert disk.exists(RESERVE_PATH)
    assert not store.is_low


def _finish_job(store: NodeStore) -> None:
    job = store._job
    assert job is not None
    try:
        job.run()
    except DiskFullError:
        # The driver runs it again.
        return
    store.finish_maintenance(job)


@pytest.mark.parametrize("missing", ["nothing", "the spare", "the reserve as well"])
@pytest.mark.parametrize("way", ["stop", "crash"])
def test_a_node_starts_with_no_byte_free(missing: str, way: str) -> None:
    disk = SimDisk(Random(0))
    store = _new(disk)
    _fill(store, 1, 20)
    if missing != "nothing" and store._journal.spare is not None:
        disk.remove(journal_path(store._journal.spare.number))
    if missing == "the reserve as well":
        disk.remove(RESERVE_PATH)
    disk.sync_directory("journal")
    for start in range(3):
        getattr(disk, way)()
        disk.capacity_bytes = disk.used_bytes
        store = _open(disk)
        assert _indexes(store) == list(range(1, 21 + min(start, 1)))
        if start == 0 and missing != "the reserve as well":
            # There is room for a command that frees space.
            _fill(store, 21, 1, is_maintained=False)
        elif start == 0:
            break
    disk.capacity_bytes = 1 << 40
    getattr(disk, way)()
    _fill(_open(disk), store.groups[GROUP].last_index() + 1, 10)


def test_a_half_made_file_does_not_keep_a_start_from_the_reserve() -> None:
    disk = SimDisk(Random(0))
    store = _new(disk)
    _fill(store, 1, 20)
    disk.open(journal_path(store._journal.number + 5), create=True)
    disk.stop()
    disk.capacity_bytes = disk.used_bytes
    store = _open(disk)
    assert store.is_low
    assert not disk.exists(RESERVE_PATH), "the reserve was taken, not the room in an old file"
    assert _indexes(store) == list(range(1, 21))


def test_starts_on_a_full_disk_share_all_of_the_reserve() -> None:
    """Also where a journal file is smaller than the reserve: the limit is the size of the file that is there."""
    options = replace(TINY, journal_bytes=16 * 1024)
    disk = SimDisk(Random(0))
    _fill(_new(disk, options), 1, 5)
    disk.capacity_bytes = disk.used_bytes
    for _ in range(3):
        disk.crash()
        assert _indexes(_open(disk, options)) == [1, 2, 3, 4, 5]


def test_a_start_without_a_reserve_does_not_move_to_a_smaller_file() -> None:
    options = replace(TINY, journal_bytes=16 * 1024)
    disk = SimDisk(Random(0))
    store = _new(disk, options)
    _create_groups(store, 40)
    _maintain(store)
    disk.capacity_bytes = disk.used_bytes
    index = 0
    while not store.is_low:
        index += 1
        _fill(store, index, 1, is_maintained=False)
    # Now there is room for a journal file, but not for a reserve.
    disk.capacity_bytes += options.journal_bytes
    for _ in range(3):
        disk.crash()
        assert _indexes(_open(disk, options)) == list(range(1, index + 1))


def test_a_start_takes_the_reserve_for_a_checkpoint_that_is_larger_than_a_file() -> None:
    options = replace(TINY, journal_bytes=16 * 1024)
    disk = SimDisk(Random(0))
    store = _new(disk, options)
    _create_groups(store, 200)
    _fill(store, 1, 5)
    disk.crash()
    disk.capacity_bytes = disk.used_bytes
    store = _open(disk, options)
    assert len(store.groups) == 201
    assert _indexes(store) == [1, 2, 3, 4, 5]
    assert store.is_low


@pytest.mark.parametrize("count", [3, 6])
def test_a_restart_leaves_the_flush_to_maintenance(count: int) -> None:
    disk = WatchedDisk()
    _fill(_new(disk), 1, count, is_maintained=False)
    for _ in range(3):
        disk.crash()
        store = _open(disk)
        assert _indexes(store) == list(range(1, count + 1))
        assert not [path for path in disk.opened if path.endswith(".seg")], "nothing was flushed to be open"
    _fill(store, count + 1, 10)
    assert store.groups[GROUP].durable_index > count
    assert len(list_journal(disk)) <= 3
    disk.crash()
    assert _indexes(_open(disk)) == list(range(1, count + 11))


def test_a_restart_with_many_files_flushes_them_first() -> None:
    disk = WatchedDisk()
    _fill(_new(disk), 1, 100, is_maintained=False)
    assert len(_journal(disk)) > TINY.journal_files_max
    disk.crash()
    store = _open(disk)
    assert store.groups[GROUP].durable_index == 100
    assert len(list_journal(disk)) <= 2
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


def test_an_unproven_last_block_is_written_again() -> None:
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


def test_a_file_that_cannot_be_removed_holds_up_nothing() -> None:
    disk = WatchedDisk()
    store = _new(disk)
    _fill(store, 1, 100)
    disk.keeps = ("groups/",)
    store.groups[GROUP].compact(60, 1)
    _fill(store, 101, 100)
    assert len(list_journal(disk)) <= 3, "the journal is recycled all the same"
    kept = store.unremoved
    assert kept
    disk.stop()
    store = _open(disk)
    assert store.unremoved == sorted(kept), "a start names them"
    assert store.groups[GROUP].last_index() == 200
    disk.keeps = ()
    _fill(store, 201, 100)
    assert set(kept) <= set(disk.removed)
    assert not store.unremoved
