"""The search for more damage in a log in which some was found."""

from dataclasses import replace
from random import Random

import pytest

from flotilla.raft.messages import Entry
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage.framing import SECTOR_BYTES
from flotilla.storage.options import StoreOptions
from flotilla.storage.reads.damage_search import DamageSearch
from flotilla.storage.store import NodeStore
from flotilla.types.errors import CorruptionError
from tests.unit.storage.loading import finish_rewrites, loaded
from tests.unit.storage.shadow import TINY, VOTERS, describe

GROUP = 7
COUNT = 40
#: Segments of a few entries, each of them larger than the distance of two points of the index.
OPTIONS: StoreOptions = replace(TINY, segment_bytes=16 * SECTOR_BYTES, index_interval_bytes=64)


def entry(index: int) -> Entry:
    return Entry(index, 1, 1, b"%d 1 %d." % (index, index) + bytes([index]) * 3 * SECTOR_BYTES)


def written(disk: SimDisk) -> NodeStore:
    store = NodeStore.open(disk, OPTIONS, describe)
    store.create_group(GROUP, VOTERS)
    for index in range(1, COUNT + 1):
        store.save(GROUP, entries=[entry(index)])
    settle(store)
    return store


def settle(store: NodeStore) -> None:
    finish_rewrites(store)
    job = store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    store.finish_maintenance(job)
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)


def rot_middles(disk: SimDisk) -> int:
    """The middle of every segment is lost; returns how many there are."""
    images = [inode.image for path, inode in disk.files() if path.endswith(".seg")]
    for image in images:
        third = len(image) // 3
        image[third : 2 * third] = bytes(third)
    return len(images)


def search_all(store: NodeStore) -> int:
    count = 0
    while loads := store.take_loads():
        for load in loads:
            assert isinstance(load, DamageSearch)
            load.run()
            assert not store.finish_scrub(load)
            count += 1
    return count


def test_the_damage_of_later_segments_is_known_before_the_first_is_mended() -> None:
    disk = SimDisk(Random(1))
    store = written(disk)
    segments = rot_middles(disk)
    assert segments > 4
    log = store.groups[GROUP]
    with pytest.raises(CorruptionError):
        loaded(store, lambda: log.entries(3, COUNT + 1, 1 << 20))
    search_all(store)
    found = sum(map(log.is_damaged_in, log.segments))
    assert 1 < found < segments, "the search stays a little ahead of the repair"
    repaired = 0
    while damaged := log.recovered().damaged:
        for low, high in damaged:
            store.save(GROUP, repaired=[entry(index) for index in range(low, high)])
            repaired += high - low
        settle(store)
        search_all(store)
    assert not store.take_loads()
    assert repaired >= segments
    entries = loaded(store, lambda: log.entries(1, COUNT + 1, 1 << 30))
    assert [(one.index, bytes(one.data)) for one in entries] == [
        (index, bytes(entry(index).data)) for index in range(1, COUNT + 1)
    ]


def test_a_search_that_cannot_read_a_file_goes_on_with_the_next() -> None:
    disk = SimDisk(Random(1))
    store = written(disk)
    rot_middles(disk)
    log = store.groups[GROUP]
    with pytest.raises(CorruptionError):
        loaded(store, lambda: log.entries(3, COUNT + 1, 1 << 20))
    (search,) = store.take_loads()
    assert not store.finish_scrub(search), "it was not run: nothing was found"
    (following,) = store.take_loads()
    assert isinstance(following, DamageSearch)
    assert following.path != search.path


def test_a_group_that_is_removed_is_not_searched() -> None:
    disk = SimDisk(Random(1))
    store = written(disk)
    rot_middles(disk)
    log = store.groups[GROUP]
    with pytest.raises(CorruptionError):
        loaded(store, lambda: log.entries(3, COUNT + 1, 1 << 20))
    (search,) = store.take_loads()
    store.remove_group(GROUP)
    search.run()
    assert not store.finish_scrub(search)
    assert not store.take_loads()
