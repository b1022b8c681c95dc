"""The simulated disk keeps its own promises: what is synced stays, what is not may go, in parts."""

from random import Random

import pytest

from flotilla.sim.devices.crash import SimulatedCrash
from flotilla.sim.devices.disk import SECTOR_BYTES, SimDisk
from flotilla.types.errors import DiskFullError, StorageFailedError

SEEDS = range(60)


def durable_file(disk: SimDisk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.write(0, [data])
    file.sync()
    disk.sync_directory(path.rpartition("/")[0])


def content(disk: SimDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read(0, file.size())


def test_reads_what_was_written() -> None:
    disk = SimDisk(Random(1))
    file = disk.open("a", create=True)
    file.write(0, [b"hello ", bytearray(b"wor"), memoryview(b"ld")])
    file.write(14, [b"!"])
    assert file.read(0, 100) == b"hello world\0\0\0!"
    assert file.read(6, 5) == b"world"
    file.truncate(5)
    file.allocate(8)
    assert file.size() == 8
    assert content(disk, "a") == b"hello\0\0\0"


def test_allocate_never_shrinks() -> None:
    disk = SimDisk(Random(1))
    durable_file(disk, "a", b"12345678")
    disk.open("a").allocate(4)
    assert content(disk, "a") == b"12345678"


@pytest.mark.parametrize("seed", SEEDS)
def test_synced_bytes_survive_every_crash(seed: int) -> None:
    disk = SimDisk(Random(seed))
    durable_file(disk, "a", b"x" * 3000)
    file = disk.open("a")
    file.write(3000, [b"y" * 3000])
    disk.crash()
    assert content(disk, "a")[:3000] == b"x" * 3000


def test_unsynced_bytes_survive_as_any_subset_of_sectors() -> None:
    outcomes = set()
    noise_count = 0
    for seed in range(1000):
        disk = SimDisk(Random(seed))
        words = SECTOR_BYTES // 4
        durable_file(disk, "a", b"old!" * 3 * words)
        disk.open("a").write(0, [b"new!" * 4 * words])
        disk.crash()
        after = content(disk, "a")
        sectors = [after[start : start + SECTOR_BYTES] for start in range(0, len(after), SECTOR_BYTES)]
        for number, sector in enumerate(sectors):
            is_whole = sector in (b"new!" * words, b"old!" * words if number < 3 else bytes(SECTOR_BYTES))
            is_noise = len(set(sector)) > 200
            assert is_whole or is_noise
            noise_count += is_noise
        if all(sector[:4] in (b"new!", b"old!", bytes(4)) for sector in sectors):
            outcomes.add(tuple(sector[:3] for sector in sectors))
    # Three overwritten sectors and one appended (absent, zeros or new): 2 * 2 * 2 * 3 outcomes.
    assert len(outcomes) == 24
    assert noise_count > 100


def test_truncation_is_undone_or_kept() -> None:
    sizes = set()
    for seed in SEEDS:
        disk = SimDisk(Random(seed))
        durable_file(disk, "a", b"x" * 100)
        disk.open("a").truncate(40)
        disk.crash()
        sizes.add(content(disk, "a"))
    assert sizes == {b"x" * 100, b"x" * 40}


def test_names_last_only_after_their_folder_was_synced() -> None:
    seen = set()
    for seed in SEEDS:
        disk = SimDisk(Random(seed))
        disk.make_directory("d")
        disk.sync_directory("")
        durable_file(disk, "d/state", b"old")
        file = disk.open("d/state.new", create=True)
        file.write(0, [b"new"])
        file.sync()
        disk.rename("d/state.new", "d/state")
        disk.crash()
        seen.add((tuple(disk.list("d")), content(disk, "d/state")))
    assert seen == {
        (("state",), b"old"),
        (("state",), b"new"),
        (("state", "state.new"), b"old"),
    }


def test_removal_is_pending_until_synced() -> None:
    left = set()
    for seed in SEEDS:
        disk = SimDisk(Random(seed))
        durable_file(disk, "a", b"1")
        disk.remove("a")
        assert not disk.exists("a")
        disk.crash()
        left.add(disk.exists("a"))
    assert left == {True, False}


def test_a_folder_that_was_not_synced_takes_its_files_with_it() -> None:
    for seed in SEEDS:
        disk = SimDisk(Random(seed))
        disk.make_directory("x/y")
        durable_file(disk, "x/y/f", b"1")
        disk.crash()
        assert disk.exists("x/y/f") == (disk.list("x/y") == ["f"])
        if not disk.exists("x"):
            break
    else:
        pytest.fail("the unsynced folder survived every time")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_failed_sync_loses_the_pages_although_they_read_back(seed: int) -> None:
    disk = SimDisk(Random(seed))
    durable_file(disk, "a", b"x" * 600)
    file = disk.open("a")
    file.write(600, [b"y" * 600])
    disk.fail_next_sync()
    with pytest.raises(StorageFailedError):
        file.sync()
    assert file.read(600, 600) == b"y" * 600
    file.sync()
    disk.crash()
    assert content(disk, "a") == b"x" * 600


def test_later_syncs_keep_later_writes_after_a_failed_one() -> None:
    disk = SimDisk(Random(3))
    durable_file(disk, "a", b"x" * 10)
    file = disk.open("a")
    file.write(0, [b"lost"])
    disk.fail_next_sync()
    with pytest.raises(StorageFailedError):
        file.sync()
    file.write(10, [b"kept"])
    file.sync()
    disk.crash()
    assert content(disk, "a") == b"x" * 10 + b"kept"


def test_full_disk_refuses_growth_and_goes_on_after_removal() -> None:
    disk = SimDisk(Random(1), capacity_bytes=1000)
    durable_file(disk, "a", b"x" * 900)
    file = disk.open("b", create=True)
    with pytest.raises(DiskFullError):
        file.write(0, [b"y" * 200])
    assert file.size() <= 100
    with pytest.raises(DiskFullError):
        file.allocate(200)
    disk.open("a").write(0, [b"z" * 900])
    disk.remove("a")
    file.write(0, [b"y" * 200])
    assert disk.used_bytes == 200


def test_used_room_is_known_after_a_crash() -> None:
    for seed in SEEDS:
        disk = SimDisk(Random(seed), capacity_bytes=10_000)
        durable_file(disk, "a", b"x" * 100)
        disk.open("b", create=True).write(0, [b"y" * 1000])
        disk.open("a").truncate(10)
        disk.crash()
        assert disk.used_bytes == sum(len(inode.image) for _, inode in disk.files())


def test_rot_spares_the_last_synced_write_and_unsynced_bytes() -> None:
    hit = set()
    size = 2 * SECTOR_BYTES
    for seed in range(400):
        disk = SimDisk(Random(seed))
        durable_file(disk, "a", b"x" * size)
        file = disk.open("a")
        file.write(size, [b"x" * size])
        file.sync()
        file.write(2 * size, [b"x" * size])
        rot = disk.rot()
        if rot is None:
            continue
        assert rot.path == "a"
        after = file.read(0, 3 * size)
        assert after[:size] != b"x" * size
        assert after[size:] == b"x" * 2 * size
        hit.add(rot.length == 1)
        disk.crash()
        assert content(disk, "a")[:size] == after[:size], "rot is durable"
    assert hit == {True, False}


def test_rot_spares_the_last_sync_also_after_a_crash() -> None:
    for seed in SEEDS:
        disk = SimDisk(Random(seed))
        durable_file(disk, "a", b"x" * 1000)
        disk.open("a").write(1000, [b"x" * 10])
        disk.crash()
        assert disk.rot() is None


def test_a_file_renamed_into_its_place_ages() -> None:
    disk = SimDisk(Random(1))
    durable_file(disk, "new", b"x" * 100)
    assert disk.rot() is None
    disk.rename("new", "final")
    disk.sync_directory("")
    assert disk.rot() is not None


def test_interruption_stops_between_and_within_operations() -> None:
    points = []
    for operations in range(4):
        disk = SimDisk(Random(operations))
        disk.interrupt_after(operations)
        with pytest.raises(SimulatedCrash) as raised:
            durable_file(disk, "a", b"x" * 100)
        points.append(raised.value.point)
        disk.crash()
        durable_file(disk, "b", b"1")
    assert points == ["disk.create", "disk.write", "disk.sync", "disk.sync_directory"]


def test_files_of_a_dead_process_are_void() -> None:
    disk = SimDisk(Random(1))
    file = disk.open("a", create=True)
    disk.crash()
    with pytest.raises(AssertionError):
        file.write(0, [b"1"])


def test_a_stopped_process_leaves_everything() -> None:
    disk = SimDisk(Random(1))
    disk.open("a", create=True).write(0, [b"1"])
    disk.stop()
    assert content(disk, "a") == b"1"


@pytest.mark.parametrize(
    "call",
    [
        lambda disk: disk.open("absent"),
        lambda disk: disk.open("absent/file", create=True),
        lambda disk: disk.rename("absent", "b"),
        lambda disk: disk.sync_directory("absent"),
        lambda disk: disk.remove("d"),
        lambda disk: disk.make_directory("d/f/g"),
    ],
)
def test_impossible_calls_are_typed_errors(call) -> None:  # type: ignore[no-untyped-def]
    disk = SimDisk(Random(1))
    disk.make_directory("d")
    disk.open("d/f", create=True)
    with pytest.raises(StorageFailedError):
        call(disk)


def test_absent_names_are_no_error_where_the_port_says_so() -> None:
    disk = SimDisk(Random(1))
    disk.remove("absent")
    assert disk.list("absent") == []
    assert not disk.exists("absent")


def test_the_same_calls_give_the_same_disk() -> None:
    def run() -> list[tuple[str, bytes]]:
        disk = SimDisk(Random(7))
        for number in range(20):
            disk.open(f"f{number}", create=True).write(0, [b"x" * (number * 300)])
            if number % 3 == 0:
                disk.open(f"f{number}").sync()
                disk.sync_directory("")
        disk.rot()
        disk.crash()
        return [(path, bytes(inode.image)) for path, inode in disk.files()]

    assert run() == run()


def test_a_copy_of_everything_durable_is_put_back() -> None:
    disk = SimDisk(Random(1))
    disk.make_directory("folder")
    disk.sync_directory("")
    file = disk.open("folder/file", create=True)
    file.write(0, [b"old"])
    file.sync()
    disk.sync_directory("folder")
    file.write(0, [b"new"])
    image = disk.durable_image()
    file.sync()
    disk.put_back(image)
    assert disk.open("folder/file").read(0, 3) == b"old", "the later write was not durable when the copy was made"


def test_rot_may_hit_the_last_sync_and_be_undone() -> None:
    disk = SimDisk(Random(1))
    file = disk.open("file", create=True)
    file.write(0, [b"x" * 100])
    file.sync()
    assert disk.rot() is None
    rot = disk.rot(spares_young=False)
    assert rot is not None
    assert file.read(0, 100) != b"x" * 100
    disk.undo(rot)
    assert file.read(0, 100) == b"x" * 100


def test_reads_fail_for_a_while() -> None:
    disk = SimDisk(Random(1))
    file = disk.open("file", create=True)
    file.write(0, [b"x"])
    disk.is_unreadable = True
    with pytest.raises(StorageFailedError):
        file.read(0, 1)
    disk.is_unreadable = False
    disk.is_out_of_descriptors = True
    assert file.read(0, 1) == b"x"
    with pytest.raises(StorageFailedError):
        disk.open("file")
    disk.stop()
    assert disk.open("file").read(0, 1) == b"x", "another process has its own descriptors"
