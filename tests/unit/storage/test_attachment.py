"""A store that is open without the files of one log: nothing of that log is lost, and it comes back later."""

from collections.abc import Sequence
from random import Random

import pytest

from flotilla.raft.messages import DATA, Entry, HardState, SnapshotMeta
from flotilla.replica.ports import PendingSnapshot
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage.attachment import Attachment, attach_all
from flotilla.storage.group_log import SegmentedLog
from flotilla.storage.store import NodeStore
from tests.unit.storage.loading import finish_rewrites
from tests.unit.storage.shadow import TINY, VOTERS, describe

LATE = 7
OTHER = 8


def _entry(index: int) -> Entry:
    return Entry(index, 1, DATA, b"%d 1 %d." % (index, index) + bytes([index]) * 100)


ENTRIES = [_entry(index) for index in range(1, 13)]


def _without(group: int, attachments: Sequence[Attachment]) -> None:
    """Runs them all, but one comes too late."""
    for attachment in attachments:
        attachment.run()
    for attachment in attachments:
        if attachment.group != group:
            attachment.finish()


def _open_without_late(disk: SimDisk) -> NodeStore:
    return NodeStore.open(disk, TINY, describe, lambda attachments: _without(LATE, attachments))


def _write(store: NodeStore) -> None:
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)


def _flush(store: NodeStore) -> None:
    job = store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    store.finish_maintenance(job)
    _write(store)


def _read(log: SegmentedLog) -> list[Entry]:
    found: list[Entry] = []
    while len(found) < log.last_index():
        found += log.entries(len(found) + 1, log.last_index() + 1, 1 << 20)
    return [Entry(entry.index, entry.term, entry.kind, bytes(entry.data)) for entry in found]


@pytest.fixture
def disk() -> SimDisk:
    """Both logs have six entries in a segment and the rest in the journal."""
    disk = SimDisk(Random(1))
    store = NodeStore.open(disk, TINY, describe)
    for group in (LATE, OTHER):
        store.create_group(group, VOTERS)
        store.save(group, entries=ENTRIES[:6], hard_state=HardState(1, 2, 6))
    _flush(store)
    for group in (LATE, OTHER):
        store.save(group, entries=ENTRIES[6:10], hard_state=HardState(1, 2, 10))
    _write(store)
    disk.crash()
    return disk


def _attach(store: NodeStore) -> SegmentedLog:
    attachment = store.plan_attachment(LATE)
    assert attachment is not None
    attachment.run()
    store.finish_attachment(attachment)
    assert store.plan_attachment(LATE) is None
    return store.groups[LATE]


def test_the_other_logs_are_open_and_the_late_one_follows(disk: SimDisk) -> None:
    store = _open_without_late(disk)
    assert store.plan_attachment(OTHER) is None
    assert _read(store.groups[OTHER]) == ENTRIES[:10]
    log = _attach(store)
    assert _read(log) == ENTRIES[:10]
    store.save(LATE, entries=ENTRIES[10:])
    _flush(store)
    assert _read(log) == ENTRIES
    disk.crash()
    assert _read(NodeStore.open(disk, TINY, describe).groups[LATE]) == ENTRIES


@pytest.mark.parametrize("attaches", [True, False])
def test_its_tail_moves_out_of_the_journal_meanwhile(disk: SimDisk, attaches: bool) -> None:
    store = _open_without_late(disk)
    [old, *_] = disk.list("journal")
    for _ in range(3):
        _flush(store)
        store.save(OTHER, hard_state=HardState(2, 1, 10))
        _write(store)
    store.plan_maintenance(flush=True).run()  # type: ignore[union-attr]
    assert old not in disk.list("journal"), "the journal let go of it"
    if attaches:
        assert _read(_attach(store)) == ENTRIES[:10]
    disk.crash()
    log = NodeStore.open(disk, TINY, describe).groups[LATE]
    assert _read(log) == ENTRIES[:10]
    assert log.hard_state == HardState(1, 2, 10)
    assert not log.damaged


def _damage(disk: SimDisk) -> None:
    for path, inode in disk.files():
        if path.startswith(f"groups/{LATE}/") and path.endswith(".seg"):
            inode.image[inode.image.find(ENTRIES[2].data)] ^= 1


def test_repaired_entries_outlive_the_journal_files_that_hold_them(disk: SimDisk) -> None:
    _damage(disk)
    store = NodeStore.open(disk, TINY, describe)
    log = store.groups[LATE]
    log.mark_damaged(3, 4)
    store.save(LATE, repaired=[ENTRIES[2]])
    _write(store)
    disk.crash()
    for _ in range(3):
        # The segment on disk is still damaged.
        store = _open_without_late(disk)
        for _ in range(3):
            _flush(store)
        disk.crash()
    store = _open_without_late(disk)
    log = _attach(store)
    assert _read(log) == ENTRIES[:10]
    assert finish_rewrites(store), "the segment is written anew at once"
    _write(store)
    assert not log.overlay
    disk.crash()
    assert _read(NodeStore.open(disk, TINY, describe).groups[LATE]) == ENTRIES[:10]


def test_damage_that_is_found_late_counts(disk: SimDisk) -> None:
    for path in [path for path, _ in disk.files() if path.startswith(f"groups/{LATE}/") and path.endswith(".seg")]:
        disk.remove(path)
    store = _open_without_late(disk)
    assert _attach(store).recovered().damaged == [(1, 7)]


def test_the_scrubber_leaves_it_alone(disk: SimDisk) -> None:
    store = _open_without_late(disk)
    while (load := store.plan_scrub()) is not None:
        assert load.group != LATE
        load.run()
        store.finish_scrub(load)
    assert not store.groups[LATE].damaged


def test_a_log_that_was_removed_or_came_anew_takes_nothing(disk: SimDisk) -> None:
    store = _open_without_late(disk)
    attachment = store.plan_attachment(LATE)
    assert attachment is not None
    store.remove_group(LATE)
    attachment.run()
    store.finish_attachment(attachment)
    assert store.plan_attachment(LATE) is None
    log = store.create_group(LATE, VOTERS)
    store.finish_attachment(attachment)
    assert log.last_index() == 0
    _write(store)
    _flush(store)
    assert LATE in NodeStore.open(disk, TINY, describe).groups


def test_a_damaged_snapshot_gives_way_to_the_one_before_it(disk: SimDisk) -> None:
    store = NodeStore.open(disk, TINY, describe)
    for index in (4, 8):
        meta = SnapshotMeta(index, 1, 0, 0, VOTERS)
        job = store.plan_snapshot(LATE, PendingSnapshot(meta, lambda: [b"state" * 100]))
        job.run()
        store.finish_snapshot(job)
        _write(store)
    disk.crash()
    newest = max(path for path, _ in disk.files() if path.endswith(".snap"))
    image = next(inode.image for path, inode in disk.files() if path == newest)
    image[-1] ^= 1
    store = _open_without_late(disk)
    log = _attach(store)
    snapshot = log.snapshot()
    assert snapshot is not None
    assert snapshot.index == 4
    assert not log.damaged
    store.save(LATE, hard_state=HardState(2, 1, 10))
    _write(store)
    store.plan_maintenance().run()  # type: ignore[union-attr]
    assert not disk.exists(newest)


def test_a_store_waits_for_all_of_its_files_unless_it_is_told_otherwise(disk: SimDisk) -> None:
    store = NodeStore.open(disk, TINY, describe)
    assert store.plan_attachment(LATE) is store.plan_attachment(OTHER) is None
    attach_all([])
