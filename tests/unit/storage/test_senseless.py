"""Stored content that makes no sense, with checksums that are right: refused as damage, by no other error."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.codec.checksum import crc32c
from flotilla.raft.messages import DATA, Entry, HardState, SnapshotMeta
from flotilla.replica.ports import PendingSnapshot
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage import block as blocks
from flotilla.storage.block import HEADER_BYTES, MARK, find_directory
from flotilla.storage.framing import FRAME_BYTES, SECTOR_BYTES, TRUNCATE, record, salted
from flotilla.storage.segment_index import SparseIndex, decode_index
from flotilla.storage.snapshots import SnapshotFile
from flotilla.storage.store import NodeStore
from flotilla.storage.store_format import read_salt
from flotilla.types.errors import CorruptionError
from tests.unit.storage.loading import loaded
from tests.unit.storage.shadow import TINY, VOTERS, describe

GROUP = 7
#: What takes the place of a stored number.
NUMBERS = (0, 1, 2, 3, 5, 6, 40, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


def _write(store: NodeStore) -> None:
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)


def _entry(index: int) -> Entry:
    return Entry(index, 1, DATA, b"%d 1 %d." % (index, index) + bytes(50))


@cache
def _reference() -> SimDisk:
    """A disk with records of every kind in its journal, and with segments and a snapshot."""
    disk = SimDisk(Random(1))
    store = NodeStore.open(disk, TINY, describe)
    store.create_group(GROUP, VOTERS)
    store.create_group(8, VOTERS)
    store.save(GROUP, entries=[_entry(index) for index in range(1, 6)], hard_state=HardState(1, 2, 0))
    job = store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    store.finish_maintenance(job)
    _write(store)
    taken = store.plan_snapshot(GROUP, PendingSnapshot(SnapshotMeta(3, 1, 3, 1, VOTERS, 0), lambda: [b"state"]))
    taken.run()
    store.finish_snapshot(taken)
    store.groups[GROUP].compact(3, 1)
    store.save(GROUP, entries=[_entry(6), _entry(7)])
    _write(store)
    store.save(GROUP, truncate_from=7, repaired=[_entry(5)])
    store.remove_group(8)
    _write(store)
    store.mark_block()
    disk.stop()
    return disk


def _disk() -> SimDisk:
    disk = SimDisk(Random(0))
    disk.put_back(_reference().durable_image())
    return disk


def _change(disk: SimDisk, which: int, at: int, number: int, width: int) -> None:
    """Puts a number into the `which`th block of the journal, in both directories, and makes its checksums right."""
    salt = read_salt(disk)
    places = []
    for path, inode in disk.files():
        if path.endswith(".wal"):
            file_number = int(path[-20:-4])
            data = memoryview(bytes(inode.image))
            for position in range(0, len(data), SECTOR_BYTES):
                found = find_directory(data, position, file_number, salt)
                if found is not None and found.copy != MARK:
                    places.append((found.sequence, inode.image, position, len(found.records)))
    sequences = sorted({sequence for sequence, *_ in places})
    chosen = sequences[which % len(sequences)]
    for sequence, image, position, size in places:
        if sequence == chosen:
            # Behind magic, checksum and version: what the header says of itself can be changed as well.
            offset = position + 16 + at % (HEADER_BYTES - 16 + size - width)
            image[offset : offset + width] = (number % (1 << 8 * width)).to_bytes(width, "little")
            records = bytes(image[position + HEADER_BYTES : position + HEADER_BYTES + size])
            rest = bytes(image[position + 12 : position + HEADER_BYTES])
            checksum = crc32c(rest, crc32c(records, salted(salt.value, len(records))))
            image[position + 8 : position + 12] = checksum.to_bytes(4, "little")


def open_changed(which: int, at: int, number: int, width: int) -> None:
    """Opens the store and reads what is there. CorruptionError is the only error."""
    disk = _disk()
    _change(disk, which, at, number, width)
    try:
        store = NodeStore.open(disk, TINY, describe)
    except CorruptionError:
        return
    for log in store.groups.values():
        low, high = log.first_index(), log.last_index() + 1
        if low < high:
            try:
                loaded(store, lambda: log.entries(low, high, 1 << 20))  # noqa: B023
            except CorruptionError:
                continue


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10), st.integers(0, 2_000), st.sampled_from(NUMBERS), st.sampled_from((1, 4, 8)))
def test_a_block_that_makes_no_sense_is_refused(which: int, at: int, number: int, width: int) -> None:
    open_changed(which, at, number, width)


def test_nothing_rests_on_assertions() -> None:
    """The same without them, as `python -O` runs."""
    script = """
from random import Random
from tests.unit.storage.test_senseless import NUMBERS, open_changed
chance = Random(1)
for _ in range(100):
    open_changed(chance.randrange(10), chance.randrange(2_000), chance.choice(NUMBERS), chance.choice((1, 4, 8)))
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-O", "-c", script], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([b"\0\0\0"], "a record is cut off"),
        ([record(TRUNCATE, b"short")], "makes no sense"),
        ([record(TRUNCATE, (99).to_bytes(8, "little") + (1).to_bytes(8, "little"))], "makes no sense: 99"),
        ([record(TRUNCATE, (7).to_bytes(8, "little") + (1).to_bytes(8, "little"))], "before the start of a log"),
        ([record(77, b"")], "a record of kind 77"),
    ],
)
def test_the_error_says_what_makes_no_sense(records: list[bytes], complaint: str) -> None:
    disk = _disk()
    store = NodeStore.open(disk, TINY, describe)
    store._collector.block.records += records
    _write(store)
    disk.stop()
    with pytest.raises(CorruptionError, match=complaint):
        NodeStore.open(disk, TINY, describe)


def test_an_entry_that_does_not_follow_is_refused() -> None:
    disk = _disk()
    store = NodeStore.open(disk, TINY, describe)
    [(_, head, _)] = store._seal(1, GROUP, [_entry(40)])
    store._collector.block.records.append(head)
    store._collector.block.bodies.append(_entry(40).data)
    assert len(head) == FRAME_BYTES
    _write(store)
    disk.stop()
    with pytest.raises(CorruptionError, match="entry 40 of group 7 does not follow"):
        NodeStore.open(disk, TINY, describe)


def test_a_block_of_another_size_than_its_content_is_refused() -> None:
    disk = _disk()
    salt = read_salt(disk)
    block = blocks.PendingBlock(1)
    block.records.append(record(TRUNCATE, bytes(16)))
    block.close()
    block.size_bytes = 0
    content = b"".join(block.encode(1, 0, salt))
    with pytest.raises(CorruptionError, match="a block of 0 bytes in journal file 1 makes no sense"):
        find_directory(memoryview(content), 0, 1, salt)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4), st.integers(0, 2**63 - 1))
def test_an_index_that_makes_no_sense_is_built_anew(positions: list[int], end: int) -> None:
    index = SparseIndex(1)
    for place, position in enumerate(positions):
        index.indexes.append(place + 1)
        index.positions.append(position)
        index.offsets.append(0)
        index.times.append(0)
    index.last_index, index.end_position = len(positions), end
    is_sound = positions == sorted(set(positions)) and positions[0] >= 0 and positions[-1] <= end
    assert (decode_index(index.encode(GROUP), GROUP, 1) is not None) == is_sound


def test_a_snapshot_with_fewer_checksums_than_pieces_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = _disk()
    store = NodeStore.open(disk, TINY, describe)
    meta = SnapshotMeta(5, 1, 5, 1, VOTERS, 0)
    job = store.plan_snapshot(GROUP, PendingSnapshot(meta, lambda: [b"state"]))
    with monkeypatch.context() as patch:
        patch.setattr("flotilla.storage.snapshots._pieces", lambda encoded: iter(()))
        job.run()
    file = SnapshotFile(GROUP, job.file.number, replace(meta, size_bytes=0))
    file.verify(disk)
    disk.stop()
    inode = next(inode for path, inode in disk.files() if path == file.path)
    size_at = 12 + 20 + 4 * 8
    inode.image[size_at : size_at + 8] = (5).to_bytes(8, "little")
    inode.image[8:12] = crc32c(bytes(inode.image[12:])).to_bytes(4, "little")
    with pytest.raises(CorruptionError):
        SnapshotFile(GROUP, job.file.number, replace(meta, size_bytes=5)).read(disk, 0, 5)
