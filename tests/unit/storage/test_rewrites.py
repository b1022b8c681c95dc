"""Copies of segments with their repaired entries in place: written piece by piece while the log goes on."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from flotilla.raft.messages import DATA, Entry, SnapshotMeta
from flotilla.replica.ports import Load
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage.store import NodeStore
from flotilla.types.errors import CorruptionError, DiskFullError
from tests.unit.storage.loading import finish_rewrites, loaded
from tests.unit.storage.shadow import TINY, VOTERS, describe, pending

GROUP = 7
COUNT = 60
#: One segment takes several pieces.
OPTIONS = replace(TINY, segment_bytes=64 * 1024)


def entry(index: int, term: int = 1) -> Entry:
    return Entry(index, term, DATA, b"%d 1 %d." % (index, index) + bytes([index, term]) * 500)


def write(store: NodeStore) -> None:
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)


def flush(store: NodeStore) -> None:
    job = store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    store.finish_maintenance(job)
    write(store)


def rot(disk: SimDisk, store: NodeStore, index: int) -> None:
    image = next(inode.image for path, inode in disk.files() if path == store.groups[GROUP].segments[0].path)
    image[image.index(entry(index).data) + 100] ^= 1


def mended(disk: SimDisk, *indexes: int) -> NodeStore:
    """A log in one segment, in which these entries were damaged and came back."""
    store = NodeStore.open(disk, OPTIONS, describe)
    store.create_group(GROUP, VOTERS)
    store.save(GROUP, entries=[entry(index) for index in range(1, COUNT + 1)])
    flush(store)
    for index in indexes:
        rot(disk, store, index)
        with pytest.raises(CorruptionError):
            loaded(store, lambda index=index: store.groups[GROUP].entries(index, index + 1, 1))  # type: ignore[misc]
    store.save(GROUP, repaired=[*map(entry, indexes)])
    write(store)
    return store


def check(store: NodeStore, first: int, last: int, rewritten_term_from: int = COUNT + 100) -> None:
    found = loaded(store, lambda: store.groups[GROUP].entries(first, last + 1, 1 << 30))
    assert [(one.index, one.term, bytes(one.data)) for one in found] == [
        (one.index, one.term, one.data)
        for one in (entry(index, 2 if index >= rewritten_term_from else 1) for index in range(first, last + 1))
    ]


def files(disk: SimDisk) -> set[str]:
    return {path for path, _ in disk.files() if path.startswith("groups/")}


def next_piece(store: NodeStore) -> Load:
    [piece] = store.plan_rewrites()
    return piece


@pytest.mark.parametrize("steps", range(14))
def test_a_crash_at_any_point_of_a_rewrite_loses_nothing(steps: int) -> None:
    disk = SimDisk(Random(steps))
    store = mended(disk, 1, 30, 31, COUNT)
    pieces = 0
    while steps > 0 and (planned := store.plan_rewrites()):
        planned[0].run()
        if steps > 1:
            store.finish_rewrite(planned[0])
        check(store, 1, COUNT)
        steps -= 2
        pieces += 1
    is_complete = steps > 1
    assert not is_complete or pieces > 2
    if is_complete:
        write(store)
        assert not store.groups[GROUP].overlay
    disk.crash()
    store = NodeStore.open(disk, OPTIONS, describe)
    assert not store.groups[GROUP].damaged
    check(store, 1, COUNT)
    assert files(disk) == set(store.groups[GROUP].paths()), "nothing is left of a rewrite that was not completed"


def truncate(store: NodeStore) -> None:
    store.save(GROUP, entries=[entry(40, term=2)])


def truncate_repaired(store: NodeStore) -> None:
    store.save(GROUP, entries=[entry(5, term=2)])


def compact(store: NodeStore) -> None:
    store.groups[GROUP].compact(20, 1)


def compact_all(store: NodeStore) -> None:
    store.groups[GROUP].compact(COUNT + 1, 1)


def reset(store: NodeStore) -> None:
    job = store.plan_snapshot(GROUP, pending(SnapshotMeta(80, 2, 80, 2, VOTERS), b"state"))
    job.run()
    store.save(GROUP, snapshot=store.finish_snapshot(job))


def begin_again(store: NodeStore) -> None:
    store.remove_group(GROUP)
    store.create_group(GROUP, VOTERS)
    store.save(GROUP, entries=[entry(1, term=2)])


def extend(store: NodeStore) -> None:
    store.save(GROUP, entries=[entry(COUNT + 1)])
    flush(store)


@pytest.mark.parametrize("pieces_before", [0, 1, 2])
@pytest.mark.parametrize(
    ("change", "first", "last", "term_from"),
    [
        (truncate, 1, 40, 40),
        (truncate_repaired, 1, 5, 5),
        (compact, 20, COUNT, 200),
        (compact_all, COUNT + 1, COUNT, 200),
        (reset, 81, 80, 200),
        (begin_again, 1, 1, 1),
        (extend, 1, COUNT + 1, 200),
    ],
)
def test_the_log_may_change_while_a_segment_is_rewritten(
    change: Callable[[NodeStore], None], first: int, last: int, term_from: int, pieces_before: int
) -> None:
    disk = SimDisk(Random(1))
    store = mended(disk, 10, 30, 50)
    for _ in range(pieces_before):
        piece = next_piece(store)
        piece.run()
        store.finish_rewrite(piece)
    piece = next_piece(store)
    change(store)
    check(store, first, last, term_from) if last >= first else None
    piece.run()
    store.finish_rewrite(piece)
    finish_rewrites(store)
    flush(store)
    flush(store)
    assert not store._rewrites._running
    log = store.groups[GROUP]
    assert (log.first_index(), log.last_index()) == (first, last)
    assert not log.overlay
    if (job := store.plan_maintenance()) is not None:
        job.run()
        store.finish_maintenance(job)
    assert files(disk) == set(log.paths()), "every other file is removed"
    disk.crash()
    store = NodeStore.open(disk, OPTIONS, describe)
    log = store.groups[GROUP]
    assert (log.first_index(), log.last_index(), bool(log.damaged)) == (first, last, False)
    check(store, first, last, term_from) if last >= first else None


def test_damage_that_a_rewrite_meets_is_reported_and_repaired_first() -> None:
    disk = SimDisk(Random(1))
    store = mended(disk, 10)
    rot(disk, store, 45)
    store.take_damage()
    finish_rewrites(store)
    log = store.groups[GROUP]
    assert store.take_damage() == [(GROUP, 45, 46)]
    assert log.overlay, "the copy was given up"
    store.save(GROUP, repaired=[entry(45)])
    assert finish_rewrites(store)
    write(store)
    assert not log.overlay
    check(store, 1, COUNT)


def test_a_full_disk_ends_a_rewrite_and_takes_no_room_from_others() -> None:
    disk = SimDisk(Random(1))
    store = mended(disk, 10)
    before = disk.used_bytes
    disk.set_capacity(disk.used_bytes + 30_000)
    piece = next_piece(store)
    piece.run()
    store.finish_rewrite(piece)
    piece = next_piece(store)
    with pytest.raises(DiskFullError):
        piece.run()
    store.finish_rewrite(piece)
    assert not store.plan_rewrites(), "it is not tried again at once"
    job = store.plan_maintenance()
    assert job is not None
    job.run()
    store.finish_maintenance(job)
    assert disk.used_bytes <= before
    disk.set_capacity(1 << 40)
    [piece] = store.plan_rewrites(is_retry=True)
    piece.run()
    store.finish_rewrite(piece)
    assert finish_rewrites(store)
    write(store)
    check(store, 1, COUNT)


def test_entries_that_wait_for_a_rewrite_do_not_fill_the_journal_with_each_flush() -> None:
    disk = SimDisk(Random(1))
    store = mended(disk, *range(2, 28, 2))
    log = store.groups[GROUP]
    [hanging] = store.plan_rewrites()
    assert log.unsaved_repair_bytes() == 0
    for index in range(32, COUNT, 2):
        log.report_damage(index, index + 1)
        store.save(GROUP, repaired=[entry(index)])
    assert log.unsaved_repair_bytes() > 10_000, "they are written to their segment alone"
    for _ in range(3):
        job = store.plan_maintenance(flush=True)
        assert job is not None
        job.run()
        store.finish_maintenance(job)
        block = store.take_block()
        assert block is not None
        assert block.size_bytes < OPTIONS.journal_bytes // 2
        store.write_block(block)
        store.finish_block(block)
    hanging.run()
    store.finish_rewrite(hanging)
    assert finish_rewrites(store)
    write(store)
    assert not log.overlay
    assert log.unsaved_repair_bytes() == 0
    check(store, 1, COUNT)
