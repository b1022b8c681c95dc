"""Bytes that change at rest: never served as data, never silently forgotten."""

from dataclasses import replace
from random import Random

import pytest

from flotilla.codec.log import encode_configuration
from flotilla.raft.messages import CONFIG, Configuration, Entry, HardState, SnapshotMeta
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage import segment as segment_module
from flotilla.storage.framing import FRAME_BYTES, FRAME_GROUP_AT, SECTOR_BYTES
from flotilla.storage.group_log import SegmentedLog
from flotilla.storage.options import StoreOptions
from flotilla.storage.segment import walk_file
from flotilla.storage.store import NodeStore
from flotilla.types.errors import CorruptionError, NotLoadedError
from tests.unit.storage.loading import finish_rewrites, loaded
from tests.unit.storage.shadow import TINY, VOTERS, Driver, Shadow, describe, differences, pending


def _flush(store: NodeStore) -> None:
    finish_rewrites(store)
    job = store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    store.finish_maintenance(job)
    _write(store)


def _write(store: NodeStore) -> None:
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)


def _entry(index: int, size: int = 100) -> Entry:
    return Entry(index, 1, 1, b"%d 1 %d." % (index, index) + bytes([index % 256]) * size)


def _store(disk: SimDisk, *, flushed: int, journaled: int, group: int = 7) -> NodeStore:
    store = NodeStore.open(disk, TINY, describe)
    store.create_group(group, VOTERS)
    store.save(group, entries=[_entry(index) for index in range(1, flushed + 1)], hard_state=HardState(1, 2, 0))
    _flush(store)
    for index in range(flushed + 1, flushed + journaled + 1):
        store.save(group, entries=[_entry(index)], hard_state=HardState(1, 2, index))
        _write(store)
    store.mark_block()
    return store


def _image(disk: SimDisk, part: str) -> tuple[str, bytearray]:
    found = [(path, inode.image) for path, inode in disk.files() if part in path and any(inode.image)]
    assert found
    return found[-1]


def _repair(store: NodeStore, group: int, original: dict[int, Entry]) -> int:
    """What a replica does with peers: fetches damaged entries and stores them in place."""
    log = store.groups[group]
    count = 0
    for low, high in log.recovered().damaged:
        store.save(group, repaired=[original[index] for index in range(low, high)])
        count += high - low
    if count:
        _write(store)
    return count


@pytest.mark.parametrize("stride", [149])
def test_rot_anywhere_in_a_proven_journal_is_found_and_repaired_or_refused(stride: int) -> None:
    reference = SimDisk(Random(1))
    _store(reference, flushed=3, journaled=5)
    _, image = _image(reference, "journal/")
    used = len(image.rstrip(b"\0"))
    outcomes = {"repaired": 0, "clean": 0, "refused": 0}
    for position in range(0, used, stride):
        disk = SimDisk(Random(1))
        _store(disk, flushed=3, journaled=5)
        disk.stop()
        _, image = _image(disk, "journal/")
        image[position] ^= 0x10
        try:
            store = NodeStore.open(disk, TINY, describe)
        except CorruptionError:
            outcomes["refused"] += 1
            continue
        log = store.groups[7]
        assert log.last_index() == 8
        assert log.recovered().hard_state == HardState(1, 2, 8)
        outcomes["repaired" if _repair(store, 7, {index: _entry(index) for index in range(1, 9)}) else "clean"] += 1
        assert log.recovered().damaged == []
        _check_all(store, 8)
        _flush(store)
        _check_all(store, 8)
        disk.crash()
        store = NodeStore.open(disk, TINY, describe)
        assert store.groups[7].recovered().damaged == []
        _check_all(store, 8)
    # One bad sector never hides a directory, since its twin lies in another.
    assert outcomes["refused"] == 0
    assert outcomes["repaired"] > 0
    assert outcomes["clean"] > 0


def _check_all(store: NodeStore, last: int, group: int = 7) -> None:
    entries = store.groups[group].entries(1, last + 1, 1 << 20)
    assert [(entry.index, bytes(entry.data)) for entry in entries] == [
        (index, bytes(_entry(index).data)) for index in range(1, last + 1)
    ]


def _directories(image: bytearray) -> list[int]:
    return [at for at in range(0, len(image), SECTOR_BYTES) if image[at : at + 8] == b"FLTBLOCK"]


def test_both_directories_of_a_durable_block_gone_is_refused() -> None:
    disk = SimDisk(Random(1))
    _store(disk, flushed=1, journaled=3)
    disk.stop()
    _, image = _image(disk, "journal/")
    # Two directories belong to each block, and the last one has a mark: these are of the last block but one.
    for at in _directories(image)[-5:-3]:
        image[at + 20] ^= 1
    with pytest.raises(CorruptionError, match="durable and is unreadable"):
        NodeStore.open(disk, TINY, describe)


@pytest.mark.parametrize("is_marked", [True, False])
def test_the_youngest_sector_is_lost_and_nothing_gets_shorter(is_marked: bool) -> None:
    for count in range(1, 12):
        for back in range(3):
            disk = SimDisk(Random(1))
            _store(disk, flushed=1, journaled=count)
            disk.stop()
            _, image = _image(disk, "journal/")
            places = _directories(image)
            if not is_marked:
                del image[places[-1] :]
            sector = len(image.rstrip(b"\0")) // SECTOR_BYTES - back
            image[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES] = bytes(SECTOR_BYTES)
            log = NodeStore.open(disk, TINY, describe).groups[7]
            recovered = log.recovered()
            assert log.last_index() == count + 1
            assert recovered.hard_state == HardState(1, 2, count + 1)
            assert set(recovered.doubtful) <= set(recovered.damaged)
            assert not is_marked or not recovered.doubtful


@pytest.mark.parametrize("bad", ["one sector", "two sectors"])
@pytest.mark.parametrize("is_marked", [True, False])
def test_a_mark_distinguishes_a_rotten_last_block_from_a_torn_one(is_marked: bool, bad: str) -> None:
    disk = SimDisk(Random(1))
    _store(disk, flushed=1, journaled=3)
    disk.stop()
    _, image = _image(disk, "journal/")
    twin, mark = _directories(image)[-2:]
    image[image.rindex(bytes([4]) * 90) + 5] ^= 1
    if bad == "two sectors":
        image[twin + 20] ^= 1
    if not is_marked:
        image[mark : mark + SECTOR_BYTES] = bytes(SECTOR_BYTES)
    store = NodeStore.open(disk, TINY, describe)
    recovered = store.groups[7].recovered()
    is_torn = bad == "two sectors" and not is_marked
    assert store.groups[7].last_index() == (3 if is_torn else 4)
    assert recovered.damaged == ([] if is_torn else [(4, 5)])
    assert recovered.doubtful == ([(4, 5)] if bad == "one sector" and not is_marked else [])
    assert bool(store.dropped_block) == is_torn
    disk.stop()
    store = NodeStore.open(disk, TINY, describe)
    assert store.groups[7].recovered() == recovered, "a second restart knows as much"


def test_a_lost_journal_is_refused() -> None:
    disk = SimDisk(Random(1))
    _store(disk, flushed=1, journaled=1)
    disk.stop()
    for name in disk.list("journal"):
        disk.remove(f"journal/{name}")
    with pytest.raises(CorruptionError, match="lost"):
        NodeStore.open(disk, TINY, describe)


@pytest.mark.parametrize("reopened", [True, False])
def test_every_flipped_bit_of_a_segment_is_found_on_reading(reopened: bool) -> None:
    for position in range(0, 1000, 13):
        disk = SimDisk(Random(1))
        store = _store(disk, flushed=6, journaled=0)
        _, image = _image(disk, ".seg")
        image[position] ^= 1 << (position % 8)
        if reopened:
            disk.stop()
            store = NodeStore.open(disk, TINY, describe)
        log = store.groups[7]
        damaged: list[int] = []
        index = 1
        while index <= 6:
            try:
                for entry in log.entries(index, 7, 1 << 20):
                    assert entry == Entry(index, 1, 1, _entry(index).data)
                    index += 1
            except CorruptionError as error:
                damaged += range(index, error.high)
                index = error.high
        # Padding between frames may rot without harm; anything else hits exactly one entry.
        assert len(damaged) <= 1
        assert log.recovered().damaged == [(index, index + 1) for index in damaged]
        _repair(store, 7, {index: _entry(index) for index in range(1, 7)})
        _check_all(store, 6)
        _flush(store)
        _check_all(store, 6)


def test_a_rotten_length_loses_no_later_entry() -> None:
    disk = SimDisk(Random(1))
    store = _store(disk, flushed=6, journaled=0)
    _, image = _image(disk, ".seg")
    stride = len(image) // 6
    # The second frame now claims 256 bytes more, past the head of the third.
    image[stride + 9] += 1
    log = store.groups[7]
    assert [entry.index for entry in log.entries(5, 7, 1 << 20)] == [5, 6]
    assert [entry.index for entry in log.entries(3, 4, 1 << 20)] == [3]
    with pytest.raises(CorruptionError) as caught:
        log.entries(2, 7, 1 << 20)
    assert (caught.value.low, caught.value.high) == (2, 3)


def test_a_body_of_an_earlier_group_of_that_id_is_not_taken() -> None:
    disk = SimDisk(Random(1))
    store = _store(disk, flushed=1, journaled=0, group=9)
    job = store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    # All this happens after the flush, so only the journal has the bodies when the checkpoint comes.
    store.create_group(7, VOTERS)
    store.save(7, entries=[_entry(1)])
    _write(store)
    store.remove_group(7)
    store.create_group(7, VOTERS)
    store.save(7, entries=[Entry(1, 1, 1, b"0 1 0.another")])
    _write(store)
    store.finish_maintenance(job)
    _write(store)
    disk.stop()
    _, image = _image(disk, "journal/")
    image[image.index(b"another")] ^= 1
    log = NodeStore.open(disk, TINY, describe).groups[7]
    assert log.recovered().damaged == [(1, 2)]


def test_a_repair_made_during_a_flush_outlives_the_next_checkpoint() -> None:
    disk = SimDisk(Random(1))
    store = _store(disk, flushed=6, journaled=1)
    _, image = _image(disk, ".seg")
    image[len(image) // 2 + 80] ^= 1
    with pytest.raises(CorruptionError):
        store.groups[7].entries(4, 7, 1 << 20)
    job = store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    assert _repair(store, 7, {4: _entry(4)}) == 1
    store.finish_maintenance(job)
    _write(store)
    disk.crash()
    store = NodeStore.open(disk, TINY, describe)
    assert store.groups[7].recovered().damaged == []
    _check_all(store, 7)


@pytest.mark.parametrize("how", ["absent", "short", "zeros"])
def test_a_destroyed_segment_is_reported_and_repaired(how: str) -> None:
    disk = SimDisk(Random(1))
    _store(disk, flushed=6, journaled=2)
    disk.stop()
    path, image = _image(disk, ".seg")
    if how == "absent":
        disk.remove(path)
    elif how == "short":
        del image[300:]
    else:
        image[:] = bytes(len(image))
    store = NodeStore.open(disk, TINY, describe)
    log = store.groups[7]
    while True:
        try:
            assert log.entries(1, 9, 1 << 20)
            break
        except CorruptionError:
            assert _repair(store, 7, {index: _entry(index) for index in range(1, 9)})
    for _ in range(2):
        _repair(store, 7, {index: _entry(index) for index in range(1, 9)})
    _check_all(store, 8)
    _flush(store)
    disk.crash()
    _check_all(NodeStore.open(disk, TINY, describe), 8)


def test_damage_is_known_across_restarts_until_repaired() -> None:
    disk = SimDisk(Random(1))
    _store(disk, flushed=1, journaled=3)
    disk.stop()
    _, image = _image(disk, "journal/")
    image[image.index(bytes([3]) * 90) + 5] ^= 1
    for _ in range(3):
        store = NodeStore.open(disk, TINY, describe)
        assert store.groups[7].recovered().damaged == [(3, 4)]
        assert store.groups[7].term(3) == 1
        with pytest.raises(CorruptionError):
            store.groups[7].entries(3, 5, 1000)
        assert [entry.index for entry in store.groups[7].entries(1, 5, 1 << 20)] == [1, 2]
        with pytest.raises(CorruptionError):
            store.groups[7].read_from_offset(3, 1000, 5)
        assert [entry.index for entry in store.groups[7].read_from_offset(4, 1000, 5)] == [4]
        disk.crash()


def test_a_repaired_entry_must_be_the_lost_one() -> None:
    disk = SimDisk(Random(1))
    store = _store(disk, flushed=1, journaled=1)
    with pytest.raises(AssertionError, match="must be the one that was lost"):
        store.save(7, repaired=[Entry(1, 9, 1, b"0 1 0.")])


def test_a_rotten_snapshot_is_replaced_by_the_one_before() -> None:
    disk = SimDisk(Random(1))
    store = _store(disk, flushed=6, journaled=0)
    for index in (2, 5):
        meta = SnapshotMeta(index, 1, 0, 0, VOTERS, 3000)
        job = store.plan_snapshot(7, pending(meta, bytes([index]) * 3000))
        job.run()
        assert store.finish_snapshot(job) == meta
        _write(store)
    disk.stop()
    _, image = _image(disk, "5-00000003.snap")
    image[1000] ^= 1
    store = NodeStore.open(disk, TINY, describe)
    snapshot = store.groups[7].read_snapshot()
    assert snapshot is not None
    assert (snapshot.meta.index, snapshot.data) == (2, bytes([2]) * 3000)
    assert store.groups[7].recovered().damaged == []


def test_a_lost_configuration_is_listed_again_once_repaired() -> None:
    disk = SimDisk(Random(1))
    store = NodeStore.open(disk, TINY, describe)
    store.create_group(7, VOTERS)
    changes = [Entry(index, 1, CONFIG, encode_configuration(Configuration(voters=(200 + index,)))) for index in (1, 2)]
    store.save(7, entries=changes)
    _write(store)
    store.mark_block()
    disk.stop()
    _, image = _image(disk, "journal/")
    for at in (image.index(changes[0].data), image.rindex(changes[0].data)):
        image[at + 1] ^= 1
    for expected in ([2], [1, 2], [1, 2]):
        store = NodeStore.open(disk, TINY, describe)
        if expected == [1, 2]:
            _repair(store, 7, {1: changes[0]})
        assert [entry.index for entry in store.groups[7].recovered().configuration_entries] == expected
        disk.crash()


def _with_configuration_last(*, is_marked: bool) -> tuple[SimDisk, bytearray, int, int]:
    """The disk of a lone voter that has begun to grow: its journal, and where the last block begins and ends."""
    disk = SimDisk(Random(1))
    store = NodeStore.open(disk, TINY, describe)
    store.create_group(7, Configuration(voters=(1,)))
    store.save(7, entries=[_entry(1)], hard_state=HardState(1, 1, 0))
    _write(store)
    store.mark_block()
    begin = store._journal._position
    store.save(7, entries=[Entry(2, 1, CONFIG, LEARNING)], hard_state=HardState(1, 1, 1))
    _write(store)
    end = store._journal._position
    if is_marked:
        store.mark_block()
    disk.stop()
    return disk, _image(disk, "journal/")[1], begin, end


LEARNING = encode_configuration(Configuration(voters=(1,), learners=(2,)))


@pytest.mark.parametrize("is_marked", [True, False])
def test_no_bad_sector_costs_a_configuration(is_marked: bool) -> None:
    """A replica that does not know its members could not ask for what it lost, and a lone voter could never lead."""
    _, _, begin, end = _with_configuration_last(is_marked=is_marked)
    for at in range(begin, end, SECTOR_BYTES):
        disk, image, _, _ = _with_configuration_last(is_marked=is_marked)
        image[at : at + SECTOR_BYTES] = bytes(SECTOR_BYTES)
        for _ in range(3):
            store = NodeStore.open(disk, TINY, describe)
            recovered = store.groups[7].recovered()
            assert store.dropped_block == ""
            assert recovered.hard_state == HardState(1, 1, 1)
            assert (recovered.damaged, recovered.doubtful) == ([], [])
            assert [(entry.index, entry.data) for entry in recovered.configuration_entries] == [(2, LEARNING)]
            disk.stop()


@pytest.mark.parametrize("is_marked", [True, False])
def test_both_copies_of_a_configuration_are_damage_only_where_they_were_durable(is_marked: bool) -> None:
    disk, image, begin, _ = _with_configuration_last(is_marked=is_marked)
    for at in (image.index(LEARNING, begin), image.rindex(LEARNING)):
        image[at] ^= 1
    store = NodeStore.open(disk, TINY, describe)
    recovered = store.groups[7].recovered()
    assert store.groups[7].last_index() == (2 if is_marked else 1)
    assert (recovered.damaged, recovered.doubtful) == ([(2, 3)] if is_marked else [], [])
    assert bool(store.dropped_block) != is_marked


def test_a_rotten_snapshot_of_a_complete_log_is_not_needed() -> None:
    disk = SimDisk(Random(1))
    store = NodeStore.open(disk, TINY, describe)
    store.create_group(7, VOTERS)
    change = encode_configuration(Configuration(voters=(1, 2, 9)))
    store.save(7, entries=[Entry(1, 1, CONFIG, change), Entry(2, 1, CONFIG, change)])
    job = store.plan_snapshot(7, pending(SnapshotMeta(2, 1, 0, 0, Configuration(voters=(1, 2, 9))), b"state"))
    job.run()
    store.finish_snapshot(job)
    _write(store)
    disk.stop()
    _, image = _image(disk, ".snap")
    image[-1] ^= 1
    recovered = NodeStore.open(disk, TINY, describe).groups[7].recovered()
    assert (recovered.snapshot, recovered.configuration, recovered.damaged) == (None, VOTERS, [])
    assert [entry.index for entry in recovered.configuration_entries] == [1, 2]


def test_a_rotten_snapshot_without_another_is_damage() -> None:
    disk = SimDisk(Random(1))
    store = _store(disk, flushed=6, journaled=0)
    job = store.plan_snapshot(7, pending(SnapshotMeta(5, 1, 0, 0, VOTERS, 3000), bytes(3000)))
    job.run()
    store.finish_snapshot(job)
    store.groups[7].compact(3, 1)
    _write(store)
    _, image = _image(disk, ".snap")
    image[1000] ^= 1
    with pytest.raises(CorruptionError):
        loaded(store, lambda: store.groups[7].snapshot_chunk(5, 0, 100))
    disk.stop()
    store = NodeStore.open(disk, TINY, describe)
    assert store.groups[7].recovered().damaged == [(3, 6)]
    with pytest.raises(CorruptionError):
        store.groups[7].read_snapshot()


@pytest.mark.parametrize("seed", range(40))
def test_random_rot_under_random_work_is_never_served(seed: int) -> None:
    random = Random(seed)
    disk = SimDisk(Random(seed + 1))
    driver = Driver(disk, random)
    for _ in range(150):
        driver.step()
    disk.stop()
    for _ in range(random.randint(1, 3)):
        disk.rot()
    shadows: list[Shadow] = [driver.durable] + ([driver.in_flight] if driver.in_flight is not None else [])
    try:
        store = NodeStore.open(disk, TINY, describe)
    except CorruptionError:
        return
    found = [shadow for shadow in shadows if differences(store, shadow, damage_is_fine=True) == []]
    assert found
    _repair_from(store, found[0])
    assert _other_than_snapshots(store, found[0]) == []
    _flush(store)
    assert _other_than_snapshots(store, found[0]) == []
    disk.crash()
    assert _other_than_snapshots(NodeStore.open(disk, TINY, describe), found[0]) == []


def _repair_from(store: NodeStore, shadow: Shadow) -> None:
    """Every read has been tried by now, so all damage is known."""
    for group, state in shadow.groups.items():
        original = {
            index: Entry(index, term, kind, data)
            for index, (term, kind, data) in enumerate(state.entries, state.base + 1)
        }
        _repair(store, group, original)


def _other_than_snapshots(store: NodeStore, shadow: Shadow) -> list[str]:
    """A group with a rotten snapshot waits for a new one, which is not storage's to take."""
    wrong = differences(store, shadow)
    waiting = [f"{group}:" for group, log in store.groups.items() if not _has_readable_snapshot(log)]
    return [line for line in wrong if "napshot" not in line and not line.startswith(tuple(waiting))]


def _has_readable_snapshot(log: SegmentedLog) -> bool:
    try:
        log.read_snapshot()
    except CorruptionError:
        return False
    return True


def test_a_reader_that_meets_damage_finds_its_neighbours_too() -> None:
    disk = SimDisk(Random(1))
    store = _store(disk, flushed=8, journaled=0)
    _, image = _image(disk, ".seg")
    for index in (3, 4, 5, 7):
        image[image.index(b"%d 1 %d." % (index, index))] ^= 0x10
    disk.stop()
    store = NodeStore.open(disk, TINY, describe)
    log = store.groups[7]
    assert [entry.index for entry in log.entries(1, 9, 1 << 20)] == [1, 2]
    log.damaged.remove(0, 9)
    with pytest.raises(CorruptionError) as found:
        log.entries(3, 9, 1 << 20)
    assert (found.value.low, found.value.high) == (3, 6)
    assert [entry.index for entry in log.entries(6, 9, 1 << 20)] == [6]


def test_damage_is_reported_without_what_was_repaired_meanwhile() -> None:
    store, originals = _damaged_store(SimDisk(Random(1)))
    store.save(7, repaired=[originals[1], originals[4]])
    assert store.take_damage() == [(7, 2, 4), (7, 5, 9)]
    assert store.take_damage() == []


class CountingFile:
    """Counts the bytes that are read."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.read_bytes = 0

    def read(self, offset: int, length: int) -> bytes:
        found = self.content[offset : offset + length]
        self.read_bytes += len(found)
        return found


@pytest.mark.parametrize("is_head", [False, True])
def test_damage_of_every_second_entry_does_not_read_the_rest_of_the_file_each_time(
    is_head: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_module, "_SEARCH_BYTES", 4096)
    disk = SimDisk(Random(1))
    store = NodeStore.open(disk, StoreOptions(journal_bytes=1 << 20, segment_bytes=1 << 20), describe)
    store.create_group(7, VOTERS)
    store.save(7, entries=[_entry(index, size=2_000) for index in range(1, 201)])
    _flush(store)
    (segment,) = store.groups[7].segments
    _, image = _image(disk, segment.path)
    for index in range(2, segment.last_index, 2):
        body = image.index(b"%d 1 %d." % (index, index))
        image[body - FRAME_BYTES + FRAME_GROUP_AT if is_head else body] ^= 0x10
    file = CountingFile(bytes(image))
    walked = list(walk_file(file, segment, segment.index.end_position, 1, 0, 1, 4096))
    lost = [found.index for _, found in walked if found.stored is None]
    assert lost == list(range(2, segment.last_index, 2))
    assert [found.next_index for _, found in walked] == list(range(2, segment.last_index + 2))
    # Each piece of damage costs a few small pieces, not all that follows it.
    assert file.read_bytes < 4 * (4096 + 512) * (len(lost) + 1)


def test_the_loop_does_not_search_far_for_the_next_intact_frame() -> None:
    disk = SimDisk(Random(1))
    store = NodeStore.open(disk, StoreOptions(), describe)
    store.create_group(7, VOTERS)
    originals = {index: _entry(index, 300_000) for index in range(1, 12)}
    store.save(7, entries=list(originals.values()), hard_state=HardState(1, 2, 0))
    _flush(store)
    _, image = _image(disk, ".seg")
    stride = len(image) // 11
    image[2 * stride : 9 * stride] = bytes(7 * stride)
    log = store.groups[7]
    with pytest.raises(NotLoadedError):
        log.entries(3, 12, 1 << 20)
    with pytest.raises(CorruptionError) as caught:
        loaded(store, lambda: log.entries(3, 12, 1 << 20))
    assert caught.value.low == 3
    assert caught.value.high >= 9


def _damaged_store(disk: SimDisk) -> tuple[NodeStore, dict[int, Entry]]:
    """A store whose only segment has lost all its entries, which are repaired past the journal."""
    store = NodeStore.open(disk, _DIRECT, describe)
    store.create_group(7, VOTERS)
    originals = {index: _entry(index) for index in range(1, 9)}
    store.save(7, entries=list(originals.values()), hard_state=HardState(1, 2, 0))
    _flush(store)
    _, image = _image(disk, ".seg")
    image[:] = bytes(len(image))
    with pytest.raises(CorruptionError):
        loaded(store, lambda: store.groups[7].entries(1, 9, 1 << 20))
    assert store.groups[7].recovered().damaged == [(1, 9)]
    return store, originals


_DIRECT = replace(TINY, direct_repair_bytes=1, segment_bytes=1 << 20)


def test_a_large_repair_is_written_once() -> None:
    disk = SimDisk(Random(1))
    store, originals = _damaged_store(disk)
    log = store.groups[7]
    store.save(7, repaired=[originals[index] for index in range(1, 5)])
    assert store.take_block() is None, "nothing goes through the journal"
    assert not store.plan_rewrites(), "a segment is not rewritten while some of it is damaged"
    store.save(7, repaired=[originals[index] for index in range(5, 9)])
    _check_all(store, 8)
    assert finish_rewrites(store)
    assert log.unsaved_repair_bytes() > 0, "no durable block names the new segment"
    _write(store)
    assert log.unsaved_repair_bytes() == 0
    assert not log.overlay
    disk.crash()
    store = NodeStore.open(disk, _DIRECT, describe)
    assert store.groups[7].recovered().damaged == []
    loaded(store, lambda: _check_all(store, 8))


@pytest.mark.parametrize("steps", range(5))
def test_a_crash_during_a_large_repair_costs_no_knowledge(steps: int) -> None:
    disk = SimDisk(Random(steps))
    store, originals = _damaged_store(disk)
    # A checkpoint that lists the damage, as one that comes during the repair does.
    job = store.plan_maintenance(flush=True)
    assert job is not None
    store.save(7, repaired=list(originals.values()))
    job.run()
    store.finish_maintenance(job)
    _write(store)
    [rewrite] = store.plan_rewrites() if steps > 0 else [None]
    if rewrite is not None and steps > 1:
        rewrite.run()
    if rewrite is not None and steps > 2:
        store.finish_rewrite(rewrite)
    if steps > 3:
        _write(store)
    disk.crash()
    store = NodeStore.open(disk, _DIRECT, describe)
    is_saved = steps > 3
    assert store.groups[7].recovered().damaged == ([] if is_saved else [(1, 9)])
    if not is_saved:
        store.save(7, repaired=list(originals.values()))
        _flush(store)
    loaded(store, lambda: _check_all(store, 8))


def test_a_truncated_repair_is_not_waited_for() -> None:
    disk = SimDisk(Random(1))
    store, originals = _damaged_store(disk)
    log = store.groups[7]
    store.save(7, repaired=list(originals.values()))
    store.save(7, truncate_from=5)
    assert log.unsaved_repair_bytes() == sum(originals[index].size_bytes for index in range(1, 5))
    _flush(store)
    assert log.unsaved_repair_bytes() == 0
    _check_all(store, 4)
