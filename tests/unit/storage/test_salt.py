"""The salt of a store: bytes that a client stores never pass for frames or blocks, and no bad sector loses it."""

from dataclasses import replace
from random import Random

import pytest

from flotilla.raft.messages import DATA, Entry, HardState
from flotilla.sim.devices.crash import SimulatedCrash
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage.block import HEADER_BYTES, PendingBlock
from flotilla.storage.framing import ENTRY, FRAME_BYTES, FRAME_GROUP_AT, SECTOR_BYTES, hard_state_record, seal
from flotilla.storage.options import StoreOptions
from flotilla.storage.store import NodeStore
from flotilla.storage.store_format import Salt, read_salt
from flotilla.types.errors import CorruptionError
from tests.unit.storage.loading import finish_rewrites, loaded
from tests.unit.storage.shadow import TINY, VOTERS, describe

GROUP = 7
#: What a client takes for the salt that it does not know. Without a salt in the checksums any number would do.
GUESS = 0x9E3779B97F4A7C15
ROOMY = StoreOptions(journal_bytes=1 << 20, reserve_bytes=1 << 18, segment_bytes=1 << 20)


def _entry(index: int, size: int = 100) -> Entry:
    return Entry(index, 1, DATA, _start(index) + bytes([index % 256]) * size)


def _start(index: int) -> bytes:
    return b"%d 1 %d." % (index, index)


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


def _image(disk: SimDisk, part: str) -> bytearray:
    [*_, image] = [inode.image for path, inode in disk.files() if part in path and any(inode.image)]
    return image


def _readable(store: NodeStore) -> dict[int, bytes]:
    """The entries that the store returns."""
    log = store.groups[GROUP]
    found: dict[int, bytes] = {}
    for index in range(log.first_index(), log.last_index() + 1):
        try:
            [entry] = loaded(store, lambda index=index: log.entries(index, index + 1, 1 << 20))  # type: ignore[misc]
        except CorruptionError:
            continue
        found[index] = bytes(entry.data)
    return found


def _bodies(entries: list[Entry]) -> dict[int, bytes]:
    return {entry.index: bytes(entry.data) for entry in entries}


# Imitations.


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("salt", [0, GUESS])
@pytest.mark.parametrize("imitated", [3, 4, 6])
def test_a_value_that_holds_a_frame_never_passes_for_an_entry(imitated: int, salt: int, has_index: bool) -> None:
    """The head of the entry around it is lost, so the search for the next frame goes through the value."""
    imitation = Entry(imitated, 1, DATA, _start(imitated) + b"forged " * 10)
    frame = seal(ENTRY, GROUP, imitation, describe(imitation), salt) + bytes(imitation.data)
    start = _start(3)
    carrier = Entry(3, 1, DATA, start + bytes(-(FRAME_BYTES + len(start)) % 8) + frame + bytes(7))
    entries = [_entry(1), _entry(2), carrier, _entry(4), _entry(5), _entry(6)]
    disk = SimDisk(Random(1))
    store = NodeStore.open(disk, replace(TINY, index_interval_bytes=1 << 20), describe)
    store.create_group(GROUP, VOTERS)
    store.save(GROUP, entries=entries)
    _flush(store)
    image = _image(disk, ".seg")
    assert bytes(image).index(frame) % 8 == 0, "where frames may begin"
    head = bytes(image).index(start) - FRAME_BYTES
    image[head + FRAME_GROUP_AT : head + FRAME_GROUP_AT + 8] = bytes(8)
    if not has_index:
        disk.remove(next(path for path, _ in disk.files() if path.endswith(".idx")))
    disk.stop()
    assert _readable(NodeStore.open(disk, TINY, describe)) == _bodies([each for each in entries if each is not carrier])


@pytest.mark.parametrize("salt", [0, GUESS])
def test_a_value_that_holds_a_block_never_passes_for_one(salt: int) -> None:
    """The first directory of the block around it is lost, so the search for the next block goes through the value."""
    disk = SimDisk(Random(1))
    store = NodeStore.open(disk, ROOMY, describe)
    store.create_group(GROUP, VOTERS)
    store.save(GROUP, entries=[_entry(1)], hard_state=HardState(1, 2, 0))
    _write(store)
    number, position = store._journal.number, store._journal._position
    imitation = PendingBlock(store._collector.block.sequence)
    imitation.records.append(hard_state_record(GROUP, HardState(99, 3, 0)))
    imitation.close()
    block = b"".join(imitation.encode(number, position + SECTOR_BYTES, Salt(salt)))
    start = _start(2)
    carrier = Entry(2, 1, DATA, start.ljust(SECTOR_BYTES - HEADER_BYTES - FRAME_BYTES, b".") + block)
    store.save(GROUP, entries=[carrier])
    _write(store)
    image = _image(disk, ".wal")
    assert image.index(block) == position + SECTOR_BYTES, "where blocks may begin"
    image[position : position + 8] = bytes(8)
    disk.stop()
    store = NodeStore.open(disk, ROOMY, describe)
    assert store.groups[GROUP].hard_state == HardState(1, 2, 0)
    assert _readable(store) == _bodies([_entry(1), carrier])


def test_a_frame_around_a_checksum_cannot_be_computed_without_the_salt() -> None:
    """The imitation reaches into the next frame, whose checksum holds the salt as well, over as many bytes."""

    def checksum(salt: int) -> bytes:
        following = seal(ENTRY, GROUP, _entry(4), None, salt)
        body = bytes(len(_entry(4).data)) + following[:4]
        return seal(ENTRY, GROUP, Entry(4, 1, DATA, body), None, salt)[:4]

    assert checksum(GUESS) != checksum(GUESS ^ 0xFFFF << 40)


def test_every_store_has_a_salt_of_its_own() -> None:
    salts = set()
    for seed in range(3):
        disk = SimDisk(Random(seed))
        NodeStore.open(disk, TINY, describe)
        salts.add(read_salt(disk).value)
    assert len(salts) == 3
    assert 0 not in salts


# The file `format`.


def _filled(disk: SimDisk) -> list[Entry]:
    """A store with entries 1 to 3 in a segment, and 4 and 5 in the journal."""
    entries = [_entry(index) for index in range(1, 6)]
    store = NodeStore.open(disk, TINY, describe)
    store.create_group(GROUP, VOTERS)
    store.save(GROUP, entries=entries[:3])
    _flush(store)
    store.save(GROUP, entries=entries[3:])
    _write(store)
    store.mark_block()
    return entries


def _files(disk: SimDisk) -> dict[str, bytes]:
    return {path: bytes(inode.image) for path, inode in disk.files()}


@pytest.mark.parametrize("sector", [0, 1])
def test_either_sector_of_the_format_may_be_lost(sector: int) -> None:
    disk = SimDisk(Random(1))
    entries = _filled(disk)
    before = bytes(_image(disk, "format"))
    _image(disk, "format")[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES] = bytes(SECTOR_BYTES)
    disk.stop()
    assert _readable(NodeStore.open(disk, TINY, describe)) == _bodies(entries)
    assert bytes(_image(disk, "format")) == before, "both copies are there again"


def test_a_store_without_its_salt_is_refused_and_left_alone() -> None:
    disk = SimDisk(Random(1))
    _filled(disk)
    _image(disk, "format")[:] = bytes(2 * SECTOR_BYTES)
    disk.stop()
    before = _files(disk)
    with pytest.raises(CorruptionError, match="both copies of the file `format` are damaged"):
        NodeStore.open(disk, TINY, describe)
    assert _files(disk) == before
    disk.remove("format")
    del before["format"]
    with pytest.raises(CorruptionError, match="the file `format` is lost"):
        NodeStore.open(disk, TINY, describe)
    assert _files(disk) == before


# Stores of version 2, which had no salt.


def _old_store(disk: SimDisk, monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    with monkeypatch.context() as patch:
        patch.setattr(Salt, "draw", lambda secret, first_segment, first_journal: Salt())
        entries = _filled(disk)
    disk.stop()
    disk.remove("format")
    disk.open("format", create=True).write_synced(0, [b"flotilla store 2\n"])
    disk.sync_directory("")
    return entries


def test_an_old_store_gets_a_salt_and_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk(Random(1))
    entries = _old_store(disk, monkeypatch)
    segment = bytearray(_image(disk, ".seg"))
    store = NodeStore.open(disk, TINY, describe)
    assert read_salt(disk).value
    assert _readable(store) == _bodies(entries)
    entries += [_entry(index) for index in range(6, 9)]
    store.save(GROUP, entries=entries[5:])
    _flush(store)
    assert segment in [inode.image for path, inode in disk.files() if path.endswith(".seg")], "nothing was appended"
    disk.stop()
    assert _readable(NodeStore.open(disk, TINY, describe)) == _bodies(entries)


def test_an_old_segment_is_mended_with_the_salt(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk(Random(1))
    entries = _old_store(disk, monkeypatch)
    image = _image(disk, ".seg")
    image[bytes(image).index(_start(2)) + 20] ^= 1
    store = NodeStore.open(disk, TINY, describe)
    assert _readable(store) == _bodies([entry for entry in entries if entry.index != 2])
    store.save(GROUP, repaired=[entries[1]])
    finish_rewrites(store)
    _flush(store)
    disk.stop()
    store = NodeStore.open(disk, TINY, describe)
    assert _readable(store) == _bodies(entries)
    assert {segment.salt for segment in store.groups[GROUP].segments} == {read_salt(disk).value}


def test_a_crash_anywhere_while_an_old_store_gets_its_salt_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for steps in range(100):
        disk = SimDisk(Random(steps))
        entries = _old_store(disk, monkeypatch)
        disk.interrupt_after(steps)
        try:
            NodeStore.open(disk, TINY, describe)
        except SimulatedCrash:
            disk.crash()
            assert _readable(NodeStore.open(disk, TINY, describe)) == _bodies(entries)
        else:
            break
    assert 5 < steps < 99


def test_an_old_store_on_a_full_disk_goes_on_without_a_salt(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk(Random(1))
    entries = _old_store(disk, monkeypatch)
    disk.capacity_bytes = disk.used_bytes
    assert _readable(NodeStore.open(disk, TINY, describe)) == _bodies(entries)
    assert not read_salt(disk).value
    disk.stop()
    disk.capacity_bytes = 1 << 40
    assert _readable(NodeStore.open(disk, TINY, describe)) == _bodies(entries)
    assert read_salt(disk).value
