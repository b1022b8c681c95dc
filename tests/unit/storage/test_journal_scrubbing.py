"""The scrubber reads the journal as well: what is damaged there is written again while memory still has it."""

from dataclasses import replace
from random import Random

import pytest

from flotilla.codec.log import encode_configuration
from flotilla.raft.messages import CONFIG, Configuration, Entry, HardState
from flotilla.replica.ports import Scrubbed
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage.options import StoreOptions
from flotilla.storage.store import NodeStore
from tests.unit.storage.shadow import TINY, VOTERS, describe

#: All of a test fits into one file.
ROOMY = replace(TINY, journal_bytes=256 * 1024)


def entry(index: int, size: int = 100) -> Entry:
    return Entry(index, 1, 1, b"%d 1 %d." % (index, index) + bytes([index % 256]) * size)


def write(store: NodeStore) -> None:
    block = store.take_block()
    if block is not None:
        store.write_block(block)
        store.finish_block(block)


def maintain(store: NodeStore, *, flush: bool = False) -> None:
    """What a node does in the background until nothing is left to do."""
    for _ in range(4):
        write(store)
        job = store.plan_maintenance(flush=flush)
        flush = False
        if job is not None:
            job.run()
            store.finish_maintenance(job)
    write(store)


def scrub(store: NodeStore) -> Scrubbed:
    """One full pass; what it has read and found."""
    before = store.scrubbed
    while (piece := store.plan_scrub()) is not None:
        piece.run()
        store.finish_scrub(piece)
    after = store.scrubbed
    return Scrubbed(after.bytes - before.bytes, after.damage - before.damage, after.passes - before.passes)


def filled(disk: SimDisk, count: int, options: StoreOptions = TINY, size: int = 100) -> NodeStore:
    store = NodeStore.open(disk, options, describe)
    store.create_group(7, VOTERS)
    write(store)
    maintain(store)
    for index in range(1, count + 1):
        store.save(7, entries=[entry(index, size)], hard_state=HardState(1, 2, index))
        write(store)
        if index % 2:
            store.mark_block()
    return store


def journal_files(disk: SimDisk) -> list[str]:
    return sorted(path for path, inode in disk.files() if path.endswith(".wal") and any(inode.image))


def rot(disk: SimDisk, path: str, content: bytes) -> None:
    """Changes a byte where the file holds `content`."""
    image = next(inode.image for name, inode in disk.files() if name == path)
    image[image.index(content)] ^= 1


@pytest.mark.parametrize("size", [100, 3_000_000])
def test_an_intact_journal_is_read_and_nothing_is_found(size: int) -> None:
    disk = SimDisk(Random(1))
    options = StoreOptions(journal_bytes=16 << 20) if size > 100 else TINY
    store = filled(disk, 5, options, size)
    scrubbed = scrub(store)
    assert scrubbed.damage == 0
    assert scrubbed.passes == 1
    assert scrubbed.bytes >= 5 * size
    maintain(store, flush=True)
    for index in range(6, 60):
        # Old blocks follow the new ones in files that are used again.
        store.save(7, entries=[entry(index, 100)])
        maintain(store)
        assert scrub(store).damage == 0
    disk.stop()
    again = NodeStore.open(disk, options, describe)
    assert scrub(again).damage == 0


@pytest.mark.parametrize("content", [b"3 1 3.", b"FLTBLOCK"])
def test_damage_in_the_file_that_is_written_is_gone_before_a_start_meets_it(content: bytes) -> None:
    disk = SimDisk(Random(1))
    store = filled(disk, 5, ROOMY)
    path = journal_files(disk)[-1]
    rot(disk, path, content)
    assert scrub(store).damage == 1
    maintain(store)
    assert path not in journal_files(disk)
    assert scrub(store).damage == 0
    disk.crash()
    again = NodeStore.open(disk, ROOMY, describe)
    log = again.groups[7]
    assert log.recovered().damaged == []
    assert log.recovered().hard_state == HardState(1, 2, 5)
    assert [bytes(found.data) for found in log.entries(1, 6, 1 << 20)] == [bytes(entry(at).data) for at in range(1, 6)]


def test_damage_in_a_file_that_rests_is_gone_before_a_start_meets_it() -> None:
    disk = SimDisk(Random(1))
    store = filled(disk, 3, ROOMY)
    disk.stop()
    # A start leaves what the journal holds where it is.
    store = NodeStore.open(disk, ROOMY, describe)
    resting, current = journal_files(disk)[-2:]
    assert resting < current
    rot(disk, resting, b"2 1 2.")
    assert scrub(store).damage == 1
    maintain(store)
    assert resting not in journal_files(disk)
    disk.crash()
    again = NodeStore.open(disk, ROOMY, describe)
    assert again.groups[7].recovered().damaged == []
    assert again.groups[7].last_index() == 3


@pytest.mark.parametrize("which", [0, 1])
def test_a_bad_copy_of_a_configuration_is_found_before_the_other_one_is_bad(which: int) -> None:
    disk = SimDisk(Random(1))
    store = filled(disk, 2, ROOMY)
    change = encode_configuration(Configuration(voters=(1, 2), learners=(3,)))
    store.save(7, entries=[Entry(3, 1, CONFIG, change)])
    write(store)
    path = journal_files(disk)[-1]
    image = next(inode.image for name, inode in disk.files() if name == path)
    copies = (image.index(change), image.rindex(change))
    image[copies[which]] ^= 1
    assert scrub(store).damage == 1
    maintain(store)
    assert path not in journal_files(disk)


def test_a_group_without_entries_keeps_its_vote() -> None:
    disk = SimDisk(Random(1))
    store = NodeStore.open(disk, ROOMY, describe)
    store.create_group(9, Configuration(voters=(1, 2, 3)))
    store.save(9, hard_state=HardState(8, 3, 0))
    maintain(store)
    path = journal_files(disk)[-1]
    rot(disk, path, b"FLTBLOCK")
    assert scrub(store).damage == 1
    maintain(store)
    assert path not in journal_files(disk)
    disk.crash()
    assert NodeStore.open(disk, ROOMY, describe).groups[9].recovered().hard_state == HardState(8, 3, 0)


def test_a_torn_block_that_a_start_has_dropped_is_no_damage() -> None:
    disk = SimDisk(Random(1))
    store = filled(disk, 2, ROOMY)
    store.save(7, entries=[entry(index, 20_000) for index in (3, 4, 5)], hard_state=HardState(1, 2, 3))
    write(store)
    for index in (3, 5):
        # No single sector explains both.
        rot(disk, journal_files(disk)[-1], bytes(entry(index, 20_000).data)[10_000:])
    disk.stop()
    again = NodeStore.open(disk, ROOMY, describe)
    assert again.dropped_block
    assert again.groups[7].last_index() == 2
    assert scrub(again).damage == 0
