"""The store by its interface: saving, reading, maintenance, and failures of the disk."""

from functools import partial
from pathlib import Path
from random import Random

import pytest

from flotilla.codec.log import encode_configuration
from flotilla.raft.messages import CONFIG, DATA, Configuration, Entry, HardState, SnapshotMeta
from flotilla.replica.ports import GroupLog, Store
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage.block import PendingBlock
from flotilla.storage.framing import SECTOR_BYTES
from flotilla.storage.options import StoreOptions
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore
from flotilla.types.errors import DiskFullError, StorageFailedError
from tests.unit.storage.loading import loaded
from tests.unit.storage.shadow import TINY, VOTERS, describe, pending


def _open(disk: SimDisk, options: StoreOptions = TINY) -> NodeStore:
    return NodeStore.open(disk, options, describe)


def _write(store: NodeStore) -> PendingBlock:
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)
    return block


def _maintain(store: NodeStore, *, flush: bool = False) -> None:
    job = store.plan_maintenance(flush=flush)
    assert job is not None
    job.run()
    store.finish_maintenance(job)


def _entry(index: int, term: int = 1, size: int = 50) -> Entry:
    return Entry(index, term, DATA, b"%d 2 %d." % (2 * index, 10 * index) + bytes(size))


def _indexes(entries: list[Entry]) -> list[int]:
    return [entry.index for entry in entries]


def test_the_store_is_what_the_replica_asks_for() -> None:
    store: Store = _open(SimDisk(Random(0)))
    log: GroupLog = store.create_group(1, VOTERS)
    assert (log.first_index(), log.last_index(), log.term(0)) == (1, 0, 0)
    assert log.recovered() == log.recovered()
    assert log.recovered().configuration == VOTERS
    assert log.snapshot() is None
    assert log.read_snapshot() is None


def test_nothing_saved_is_nothing_to_write() -> None:
    store = _open(SimDisk(Random(0)))
    assert store.take_block() is None


def test_a_block_carries_many_groups_in_one_sync() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk, StoreOptions(journal_bytes=1 << 20))
    for group in range(1, 101):
        store.create_group(group, VOTERS)
        store.save(group, entries=[_entry(1)], hard_state=HardState(1, 1, 0))
    before = disk.synced_count
    block = _write(store)
    assert disk.synced_count == before + 1
    assert block.size_bytes % SECTOR_BYTES == 0
    disk.crash()
    store = _open(disk)
    assert [log.last_index() for log in store.groups.values()] == [1] * 100


@pytest.mark.parametrize("flushed", [False, True])
def test_entries_are_read_by_index_within_bytes(flushed: bool) -> None:
    store = _open(SimDisk(Random(0)))
    log = store.create_group(1, VOTERS)
    store.save(1, entries=[_entry(index) for index in range(1, 41)])
    _write(store)
    if flushed:
        _maintain(store, flush=True)
        assert log.durable_index == 40
    size = _entry(11).size_bytes
    assert _indexes(log.entries(11, 41, 3 * size)) == [11, 12, 13]
    assert _indexes(log.entries(11, 41, 3 * size - 1)) == [11, 12]
    assert _indexes(log.entries(11, 41, 0)) == [11]
    assert _indexes(log.entries(38, 40, 1 << 20)) == [38, 39]
    assert log.entries(40, 41, 1 << 20) == [_entry(40)]


@pytest.mark.parametrize("flushed_through", [0, 15, 30])
def test_batches_are_found_by_offset_and_time(flushed_through: int) -> None:
    store = _open(SimDisk(Random(0)))
    log = store.create_group(1, VOTERS)
    for index in range(1, 31):
        store.save(1, entries=[_entry(index, size=600)])
        if index == flushed_through:
            _write(store)
            _maintain(store, flush=True)
    for index in range(1, 31):
        for offset in (2 * index, 2 * index + 1):
            assert _indexes(log.read_from_offset(offset, 1, 31)) == [index]
        assert log.find_time(10 * index) == 2 * index
        assert log.find_time(10 * index - 9) == 2 * index
    assert _indexes(log.read_from_offset(0, 1, 31)) == [1]
    assert log.read_from_offset(62, 1, 31) == []
    assert log.read_from_offset(60, 1000, 30) == []
    assert log.find_time(301) is None


@pytest.mark.parametrize("flushed_through", [0, 15, 30])
@pytest.mark.parametrize("kept", [0, 1, 7, 29, 30, 40])
def test_the_newest_bytes_begin_at_an_offset(flushed_through: int, kept: int) -> None:
    """About there: in segments the heads of frames count too, and points of the index are sparse."""
    store = _open(SimDisk(Random(0)))
    log = store.create_group(1, VOTERS)
    for index in range(1, 31):
        store.save(1, entries=[_entry(index, size=600)])
        if index == flushed_through:
            _write(store)
            _maintain(store, flush=True)
    size_bytes = len(_entry(10, size=600).data)
    offset = log.offset_within(kept * size_bytes)
    asked = 2 * (31 - kept)
    assert offset <= max(asked + 4, -1)
    assert offset >= asked - 2 * (TINY.index_interval_bytes // size_bytes + 3) or offset == -1
    assert offset >= 0 or kept > 20


def test_a_conflict_replaces_the_suffix_also_in_segments() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    log = store.create_group(1, VOTERS)
    store.save(1, entries=[_entry(index) for index in range(1, 11)])
    _write(store)
    _maintain(store, flush=True)
    store.save(1, entries=[_entry(6, term=2), _entry(7, term=2)])
    assert [(entry.index, entry.term) for entry in log.entries(4, 8, 1 << 20)] == [(4, 1), (5, 1), (6, 2), (7, 2)]
    assert (log.term(5), log.term(6), log.last_index()) == (1, 2, 7)
    _write(store)
    _maintain(store, flush=True)
    _write(store)
    disk.crash()
    log = _open(disk).groups[1]
    assert [entry.term for entry in log.entries(1, 8, 1 << 20)] == [1] * 5 + [2] * 2


def test_compaction_removes_whole_segments_after_their_block_is_durable() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    log = store.create_group(1, VOTERS)
    store.save(1, entries=[_entry(index, size=1000) for index in range(1, 31)])
    _write(store)
    _maintain(store, flush=True)
    _write(store)
    segments = [name for name in disk.list("groups/1") if name.endswith(".seg")]
    assert len(segments) > 2
    size = log.size_bytes()
    log.compact(20, 1)
    assert (log.first_index(), log.term(19)) == (20, 1)
    _maintain(store, flush=True)
    assert [name for name in disk.list("groups/1") if name.endswith(".seg")] == segments
    _write(store)
    _maintain(store)
    assert len([name for name in disk.list("groups/1") if name.endswith(".seg")]) < len(segments)
    assert log.size_bytes() < size
    assert _indexes(log.entries(20, 31, 1 << 20)) == list(range(20, 31))


def test_journal_files_are_removed_once_their_entries_are_in_segments() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    store.create_group(1, VOTERS)
    for index in range(1, 101):
        store.save(1, entries=[_entry(index, size=900)])
        _write(store)
        job = store.plan_maintenance()
        if job is not None:
            job.run()
            store.finish_maintenance(job)
    assert len(disk.list("journal")) <= 3
    assert store.groups[1].last_index() - store.groups[1].durable_index < 40
    disk.crash()
    assert _open(disk).groups[1].last_index() == 100


def test_a_block_larger_than_a_journal_file_is_written_whole() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    store.create_group(1, VOTERS)
    _write(store)
    store.save(1, entries=[_entry(1, size=100_000)])
    _write(store)
    store.save(1, entries=[_entry(2)])
    _write(store)
    disk.crash()
    log = _open(disk).groups[1]
    assert [len(entry.data) for entry in log.entries(1, 3, 1 << 20)] == [len(_entry(1, size=100_000).data), 57]


def test_a_removed_group_leaves_nothing() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    store.create_group(1, VOTERS)
    store.save(1, entries=[_entry(1)])
    _write(store)
    _maintain(store, flush=True)
    store.remove_group(1)
    _write(store)
    _maintain(store)
    assert disk.list("groups/1") == []
    disk.crash()
    store = _open(disk)
    assert dict(store.groups) == {}
    assert disk.list("groups") == []


def test_configurations_survive_with_and_without_a_snapshot() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    store.create_group(1, VOTERS)
    changes = [encode_configuration(Configuration(voters=(1, 2, number))) for number in (4, 5, 6)]
    store.save(1, entries=[Entry(index, 1, CONFIG, data) for index, data in enumerate(changes, 1)])
    _write(store)
    disk.crash()
    store = _open(disk)
    recovered = store.groups[1].recovered()
    assert recovered.configuration == VOTERS
    assert [bytes(entry.data) for entry in recovered.configuration_entries] == changes
    newer = Configuration(voters=(1, 2, 5))
    job = store.plan_snapshot(1, pending(SnapshotMeta(2, 1, 0, 0, newer), b"state"))
    job.run()
    meta = store.finish_snapshot(job)
    assert meta.size_bytes == 5
    store.groups[1].compact(3, 1)
    _write(store)
    disk.crash()
    recovered = _open(disk).groups[1].recovered()
    assert (recovered.snapshot, recovered.configuration) == (meta, newer)
    assert [bytes(entry.data) for entry in recovered.configuration_entries] == changes[2:]


def _install(store: NodeStore, meta: SnapshotMeta, data: bytes, *, marked: bool) -> None:
    job = store.plan_snapshot(1, pending(meta, data))
    job.run()
    store.finish_snapshot(job)
    if marked:
        store.save(1, snapshot=meta)
        _write(store)


@pytest.mark.parametrize("marked", [True, False])
def test_an_installed_snapshot_is_valid_from_its_mark_on(marked: bool) -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    store.create_group(1, VOTERS)
    store.save(1, entries=[_entry(index) for index in range(1, 6)])
    _write(store)
    meta = SnapshotMeta(50, 3, 47, 3, VOTERS, 6)
    _install(store, meta, b"state!", marked=marked)
    disk.crash()
    store = _open(disk)
    log = store.groups[1]
    if marked:
        assert (log.first_index(), log.last_index(), log.term(47)) == (48, 47, 3)
        assert log.snapshot() == meta
        assert loaded(store, lambda: log.snapshot_chunk(50, 2, 3)) == b"ate"
        assert log.snapshot_chunk(49, 0, 3) is None
    else:
        assert (log.first_index(), log.last_index(), log.snapshot()) == (1, 5, None)
        assert _indexes(log.entries(1, 6, 1 << 20)) == [1, 2, 3, 4, 5]


def test_snapshots_of_many_pieces_are_read_in_any_range() -> None:
    store = _open(SimDisk(Random(0)))
    store.create_group(1, VOTERS)
    store.save(1, entries=[_entry(1)])
    data = Random(5).randbytes(600_000)
    job = store.plan_snapshot(1, pending(SnapshotMeta(1, 1, 0, 0, VOTERS, len(data)), data))
    job.run()
    store.finish_snapshot(job)
    log = store.groups[1]
    for offset, length in ((0, 10), (262_100, 100), (0, 600_000), (599_999, 100), (100_000, 400_000), (600_000, 5)):
        chunk = loaded(store, partial(log.snapshot_chunk, 1, offset, length))
        assert chunk == data[offset : offset + length]


def test_a_failed_sync_sends_the_same_block_to_another_file() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    store.create_group(1, VOTERS)
    _write(store)
    used = store._journal.number
    store.save(1, entries=[_entry(1)], hard_state=HardState(1, 3, 0))
    block = store.take_block()
    assert block is not None
    disk.fail_next_sync()
    with pytest.raises(StorageFailedError):
        store.write_block(block)
    store.save(1, entries=[_entry(2)])
    store.write_block(block)
    store.finish_block(block)
    assert store._journal.number > used
    disk.crash()
    log = _open(disk).groups[1]
    assert (log.last_index(), log.recovered().hard_state) == (1, HardState(1, 3, 0))


def test_a_full_disk_changes_nothing_and_goes_on_with_space() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    store.create_group(1, VOTERS)
    _write(store)
    store.save(1, entries=[_entry(1, size=200_000)])
    block = store.take_block()
    assert block is not None
    disk.set_capacity(disk.used_bytes)
    for _ in range(3):
        with pytest.raises(DiskFullError):
            store.write_block(block)
    disk.set_capacity(1 << 40)
    store.write_block(block)
    store.finish_block(block)
    disk.crash()
    assert _open(disk).groups[1].last_index() == 1


def test_maintenance_that_failed_runs_again_with_other_files() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    store.create_group(1, VOTERS)
    store.save(1, entries=[_entry(1)])
    _write(store)
    _maintain(store, flush=True)
    store.save(1, entries=[_entry(2)])
    _write(store)
    job = store.plan_maintenance(flush=True)
    assert job is not None
    disk.fail_next_sync()
    with pytest.raises(StorageFailedError):
        job.run()
    assert store.plan_maintenance() is None
    job.run()
    store.finish_maintenance(job)
    _write(store)
    disk.crash()
    log = _open(disk).groups[1]
    assert len(log.segments) == 2
    assert log.entries(1, 3, 1 << 20) == [_entry(1), _entry(2)]


def test_a_file_that_cannot_be_written_stops_no_other_group() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    for group in (1, 2, 3):
        store.create_group(group, VOTERS)
        store.save(group, entries=[_entry(1)])
    _write(store)
    job = store.plan_maintenance(flush=True)
    assert job is not None
    disk.fail_next_sync()
    with pytest.raises(StorageFailedError):
        job.run()
    assert [bool(flush.appended) for flush in job.flushes or ()] == [False, True, True]
    written = [path for path, _ in disk.files() if path.endswith(".seg")]
    job.run()
    # The second run writes only what failed in the first.
    assert set(written) <= {path for path, _ in disk.files()}
    store.finish_maintenance(job)
    _write(store)
    disk.crash()
    assert [log.entries(1, 2, 1 << 20) for log in _open(disk).groups.values()] == [[_entry(1)]] * 3


def test_torn_tails_of_every_length_drop_the_last_block_only() -> None:
    reference = SimDisk(Random(0))
    store = _open(reference)
    store.create_group(1, VOTERS)
    store.save(1, entries=[_entry(1)], hard_state=HardState(1, 1, 0))
    _write(store)
    [(path, inode)] = [(path, inode) for path, inode in reference.files() if path.endswith(".wal")][:1]
    before = bytes(inode.image)
    [store_format] = [bytes(inode.image) for name, inode in reference.files() if name == "format"]
    store.save(1, entries=[_entry(2, size=900)], hard_state=HardState(2, 2, 1))
    block = _write(store)
    start = before.rindex(b"FLTBLOCK") + SECTOR_BYTES
    after = bytes(inode.image)
    for length in range(0, block.size_bytes, 37):
        disk = SimDisk(Random(0))
        disk.make_directory("journal")
        disk.open("format", create=True).write(0, [store_format])
        file = disk.open(path, create=True)
        noise = Random(length).randbytes(block.size_bytes) if length % 2 else bytes(block.size_bytes)
        # A lost sector may hold noise as well as zeros; the mark after it was never written.
        content = after[: start + length] + noise[length:] + bytes(2048)
        file.write(0, [content])
        log = _open(disk).groups[1]
        if content[start : start + block.size_bytes] == after[start : start + block.size_bytes]:
            assert log.last_index() == 2
        else:
            assert log.last_index() in (1, 2)
            if log.last_index() == 2:
                # One directory and all bodies were there: nothing was lost after all.
                assert log.entries(1, 3, 1 << 20)[1] == _entry(2, size=900)
            else:
                assert log.recovered().hard_state == HardState(1, 1, 0)
        assert log.recovered().damaged == []


def test_truncation_during_a_running_flush_is_reconciled_at_its_end() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    log = store.create_group(1, VOTERS)
    store.save(1, entries=[_entry(index) for index in range(1, 11)])
    _write(store)
    job = store.plan_maintenance(flush=True)
    assert job is not None
    store.save(1, entries=[_entry(4, term=2)])
    job.run()
    store.save(1, entries=[_entry(5, term=2)])
    store.finish_maintenance(job)
    assert [entry.term for entry in log.entries(1, 6, 1 << 20)] == [1, 1, 1, 2, 2]
    _write(store)
    disk.crash()
    assert [entry.term for entry in _open(disk).groups[1].entries(1, 6, 1 << 20)] == [1, 1, 1, 2, 2]


def test_a_log_that_was_reset_takes_nothing_of_an_older_flush() -> None:
    disk = SimDisk(Random(0))
    store = _open(disk)
    log = store.create_group(1, VOTERS)
    store.save(1, entries=[_entry(index) for index in range(1, 11)])
    _write(store)
    job = store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    _install(store, SnapshotMeta(8, 5, 3, 5, VOTERS, 1), b"s", marked=True)
    store.finish_maintenance(job)
    assert (log.first_index(), log.last_index(), log.segments) == (4, 3, [])
    store.save(1, entries=[_entry(4, term=5)])
    _write(store)
    _maintain(store)
    disk.crash()
    assert _open(disk).groups[1].entries(4, 5, 1 << 20) == [_entry(4, term=5)]


def test_an_index_file_is_not_authoritative() -> None:
    for damage in ("absent", "flipped", "empty"):
        disk = SimDisk(Random(0))
        store = _open(disk)
        store.create_group(1, VOTERS)
        store.save(1, entries=[_entry(index, size=700) for index in range(1, 31)])
        _write(store)
        _maintain(store, flush=True)
        _write(store)
        disk.stop()
        for path, inode in list(disk.files()):
            if path.endswith(".idx"):
                if damage == "absent":
                    disk.remove(path)
                elif damage == "flipped":
                    inode.image[len(inode.image) // 2] ^= 4
                else:
                    inode.image.clear()
        log = _open(disk).groups[1]
        assert _indexes(log.entries(1, 31, 1 << 20)) == list(range(1, 31))
        assert _indexes(log.read_from_offset(31, 1, 31)) == [15]
        assert log.recovered().damaged == []


def test_the_real_disk_serves_the_same(tmp_path: Path) -> None:
    disk = PosixDisk(str(tmp_path))
    store = NodeStore.open(disk, StoreOptions(journal_bytes=1 << 20), describe)
    store.create_group(1, VOTERS)
    store.save(1, entries=[_entry(index, size=10_000) for index in range(1, 201)], hard_state=HardState(1, 1, 200))
    _write(store)
    store.close()
    store = NodeStore.open(disk, StoreOptions(journal_bytes=1 << 20), describe)
    assert _indexes(loaded(store, lambda: store.groups[1].entries(1, 201, 1 << 30))) == list(range(1, 201))
    store.close()
    disk.close()
