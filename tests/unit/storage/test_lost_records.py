"""Readers of entries that were lost: none passes by their records, and each of them is repaired and written again.

One sector of a segment is bad, wherever it is, or its end is lost, on the real disk; or bodies in the journal are bad.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from flotilla.raft.messages import DATA, Entry, HardState
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage.framing import SECTOR_BYTES
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore
from flotilla.types.errors import CorruptionError
from tests.unit.storage.loading import finish_rewrites, loaded
from tests.unit.storage.shadow import TINY, VOTERS, describe

GROUP = 7
OPTIONS = replace(TINY, segment_bytes=64 * 1024)
#: Three records in each. Sizes of bodies: small ones, some that end beside a sector's end, and one of several sectors.
SIZES = (5, 40, 300, 9_000, 4_000, 5, 90, 3_300, 5, 5)
ENTRIES = [
    Entry(index, 1, DATA, b"%d 3 %d." % (3 * index, index) + Random(index).randbytes(size))
    for index, size in enumerate(SIZES, 1)
]
LAST = len(ENTRIES)


def zeros(path: Path, at: int) -> None:
    _overwrite(path, at, bytes(min(SECTOR_BYTES, path.stat().st_size - at)))


def noise(path: Path, at: int) -> None:
    _overwrite(path, at, Random(at).randbytes(min(SECTOR_BYTES, path.stat().st_size - at)))


def one_bit(path: Path, at: int) -> None:
    """Of the first byte that is used: that of a frame's checksum, or of a body."""
    content = path.read_bytes()
    used = next(place for place in range(at, len(content)) if content[place])
    _overwrite(path, used, bytes([content[used] ^ 4]))


def cut(path: Path, at: int) -> None:
    os.truncate(path, at + 1)


def _overwrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def flush(store: NodeStore) -> None:
    job = store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    store.finish_maintenance(job)
    write(store)


def write(store: NodeStore) -> None:
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one open segment, to which two flushes have written."""
    path = tmp_path_factory.mktemp("original") / "data"
    disk = PosixDisk(str(path))
    store = NodeStore.open(disk, OPTIONS, describe)
    store.create_group(GROUP, VOTERS)
    store.save(GROUP, entries=ENTRIES[:3], hard_state=HardState(1, 2, 0))
    flush(store)
    store.save(GROUP, entries=ENTRIES[3:])
    flush(store)
    store.close()
    disk.close()
    return path


def read_all(store: NodeStore) -> set[int]:
    """Reads all entries; returns the damaged ones."""
    log, index, damaged = store.groups[GROUP], 1, set[int]()
    while index <= LAST:
        try:
            found = loaded(store, lambda index=index: log.entries(index, LAST + 1, 1 << 20))  # type: ignore[misc]
        except CorruptionError as error:
            damaged.update(range(index, error.high))
            index = error.high
        else:
            assert found == ENTRIES[index - 1 : index - 1 + len(found)]
            index += len(found)
    return damaged


def find_damage(store: NodeStore, entries: list[Entry] = ENTRIES) -> set[int]:
    """Reads every record by its offset, as consumers do; returns the entries that are damaged."""
    log, damaged = store.groups[GROUP], set[int]()
    for offset in range(3 * LAST + 2, 2, -1):
        try:
            found = loaded(store, lambda offset=offset: log.read_from_offset(offset, 1, LAST + 1))  # type: ignore[misc]
        except CorruptionError:
            damaged.add(offset // 3)
        else:
            assert found[0] == entries[offset // 3 - 1], "no record is passed by"
    return damaged


@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize("at", range(0, 24_576, SECTOR_BYTES))
@pytest.mark.parametrize("damage", [zeros, noise, one_bit, cut])
def test_what_a_segment_lost_is_found_repaired_and_written_again(
    original: Path, tmp_path: Path, damage: Callable[[Path, int], None], at: int, is_indexed: bool
) -> None:
    path = shutil.copytree(original, tmp_path / "data")
    [segment] = path.glob(f"groups/{GROUP}/*.seg")
    assert 20_480 < segment.stat().st_size < 24_576, "all its sectors are tried"
    if not is_indexed:
        segment.with_suffix(".idx").unlink()
    damage(segment, at)
    disk = PosixDisk(str(path))
    store = NodeStore.open(disk, OPTIONS, describe)
    damaged = find_damage(store)
    assert read_all(store) == damaged
    assert 0 < len(damaged) < LAST or at == 0
    store.save(GROUP, repaired=[ENTRIES[index - 1] for index in sorted(damaged)])
    assert not find_damage(store)
    finish_rewrites(store)
    flush(store)
    assert segment.relative_to(path).as_posix() not in store.groups[GROUP].paths()
    assert not read_all(store)
    assert not find_damage(store)
    store.close()
    disk.close()


@pytest.mark.parametrize("is_full", [False, True])
def test_no_reader_passes_by_records_that_the_journal_lost_before_its_checkpoint(is_full: bool) -> None:
    """Of such entries only index and term are known. On a full disk they stay in memory, else they go to a segment."""
    disk = SimDisk(Random(1))
    store = NodeStore.open(disk, OPTIONS, describe)
    store.create_group(GROUP, VOTERS)
    entries = [Entry(index, 1, DATA, b"%d 3 %d." % (3 * index, index) + bytes(400)) for index in range(1, LAST + 1)]
    store.save(GROUP, entries=entries, hard_state=HardState(1, 2, 0))
    write(store)
    store.mark_block()
    disk.stop()
    # A start writes a checkpoint, and leaves the entries where they are.
    store = NodeStore.open(disk, OPTIONS, describe)
    store.mark_block()
    disk.stop()
    [image] = [inode.image for path, inode in disk.files() if "journal/" in path and b"9 3 3." in inode.image]
    for body in (b"9 3 3.", b"12 3 4.", b"30 3 10."):
        image[image.index(body)] ^= 1
    if is_full:
        disk.capacity_bytes = disk.used_bytes
    store = NodeStore.open(disk, OPTIONS, describe)
    assert bool(store.groups[GROUP].segments) == (not is_full)
    assert find_damage(store, entries) == {3, 4, 10}
    store.save(GROUP, repaired=[entries[index - 1] for index in (3, 4, 10)])
    assert not find_damage(store, entries)
