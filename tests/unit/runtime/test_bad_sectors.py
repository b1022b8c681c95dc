"""One bad sector in `format`, the identity or the count of starts costs nothing, wherever and whatever it is.

The files are those of a real store in a real directory, unless a test reads thousands of variants of one file.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.codec.two_copies import SECTOR_BYTES, Patch, find_text, text_copies
from flotilla.raft.messages import DATA, Configuration, Entry
from flotilla.runtime.data_dir_identity import (
    COPIED_FILES,
    IDENTITY_FILE,
    PLAIN_STARTS_FILE,
    STARTS_FILE,
    DataDir,
    read_identity,
    read_starts,
    store_problem,
)
from flotilla.runtime.path_folder import PathFolder
from flotilla.sim.devices.crash import SimulatedCrash
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage.disk_folder import DiskFolder
from flotilla.storage.options import StoreOptions
from flotilla.storage.posix import PosixDisk, PosixFile
from flotilla.storage.store import NodeStore
from flotilla.storage.store_format import find_format
from flotilla.types.errors import CorruptionError, DiskFullError, InvalidArgumentError

OWN = (2, "ships")
OPTIONS = StoreOptions(journal_bytes=256 * 1024, reserve_bytes=64 * 1024, copied_texts=COPIED_FILES)
FILES = ("format", *COPIED_FILES)
#: A machine's name may have 253 letters: twenty founders need more than one sector.
FOUNDERS = {node: node * 11 for node in range(10, 30)}
ADDRESSES = {node: f"{'a' * 253}:{node}" for node in FOUNDERS}


def start(path: Path) -> tuple[DataDir, NodeStore, PosixDisk]:
    """What a node does before it takes part in anything."""
    data = DataDir.claim(PathFolder(path), *OWN)
    disk = PosixDisk(str(path))
    try:
        store = NodeStore.open(disk, OPTIONS, lambda entry: None)
        data.count_start()
    except BaseException:
        disk.close()
        raise
    return data, store, disk


def stop(store: NodeStore, disk: PosixDisk) -> None:
    store.close()
    disk.close()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that a node has started on and stored an entry in."""
    path = tmp_path_factory.mktemp("original") / "data"
    data, store, disk = start(path)
    data.entered("ab" * 16, 4)
    data.founded({1: 11, 3: 33}, {1: "one:7", 3: "three:7"})
    store.create_group(7, Configuration(voters=(1, 2, 3)))
    store.save(7, entries=[Entry(1, 1, DATA, b"kept")])
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)
    stop(store, disk)
    return path


@pytest.fixture
def directory(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "data"))


def contents(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in FILES}


def node_command(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["node", *map(str, words)], catch_exceptions=False)
    return result.exit_code, " ".join(result.output.split())


@dataclass
class MemoryFolder:
    """The files of a directory, to damage them quickly."""

    files: dict[str, bytes]

    def __str__(self) -> str:
        return "memory"

    def has(self, name: str) -> bool:
        return name in self.files

    def read(self, name: str, mend: Callable[[bytes], Sequence[Patch]] | None = None) -> bytes | None:
        assert mend is None
        return self.files.get(name)

    def write(self, name: str, *copies: bytes) -> None:
        self.files[name] = b"".join(copies)


# Every place, one file at a time.


def test_people_and_earlier_programs_read_the_files(original: Path) -> None:
    fields = json.loads((original / IDENTITY_FILE).read_bytes())
    assert (fields["node"], fields["cluster"], fields["starts"]) == (2, "ships", 1)
    assert int((original / PLAIN_STARTS_FILE).read_bytes()) == 1
    assert {name: len(content) for name, content in contents(original).items()} == dict.fromkeys(
        FILES, 2 * SECTOR_BYTES
    )


@pytest.mark.parametrize("name", FILES)
def test_any_flipped_bit_is_noticed_and_loses_nothing(original: Path, name: str) -> None:
    content = contents(original)[name]
    find = find_format if name == "format" else find_text
    intact = find(content)
    assert intact.content is not None
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << position % 8
        found = find(bytes(flipped))
        assert (found.content, found.damaged) == (intact.content, (position // SECTOR_BYTES + 1,))
        [(at, copy)] = found.patches()
        flipped[at : at + len(copy)] = copy
        assert flipped == content


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_any_length_is_read_right_or_not_at_all(original: Path, name: str) -> None:
    content = contents(original)[name]
    find = find_format if name == "format" else find_text
    intact = find(content).content
    for length in range(len(content)):
        found = find(content[:length])
        assert found.content in (intact, None)
        assert found.content is not None or length < SECTOR_BYTES


@pytest.mark.parametrize("name", COPIED_FILES)
def test_two_flipped_bits_are_never_believed(original: Path, name: str) -> None:
    """One in each copy, or one that makes a text without a checksum out of it."""
    folder = MemoryFolder(contents(original))
    content = folder.files[name]
    identity = read_identity(folder)
    used = len(content[:SECTOR_BYTES].rstrip())
    for position in range(used):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[position] ^= 1 << bit
            flipped[SECTOR_BYTES + position] ^= 1 << bit
            folder.files[name] = bytes(flipped)
            try:
                assert read_identity(folder) == identity
                assert read_starts(folder, identity) in (1, None)
            except (CorruptionError, InvalidArgumentError):
                # The latter where a bit of the version was hit.
                continue


# Every sector, on the real store.


def zeros(path: Path, sector: int) -> None:
    _overwrite(path, sector, bytes(SECTOR_BYTES))


def noise(path: Path, sector: int) -> None:
    _overwrite(path, sector, Random(sector).randbytes(SECTOR_BYTES))


def one_bit(path: Path, sector: int) -> None:
    _overwrite(path, sector, bytes([path.read_bytes()[sector * SECTOR_BYTES + 30] ^ 4]), at=30)


def _overwrite(path: Path, sector: int, content: bytes, at: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(sector * SECTOR_BYTES + at)
        file.write(content)


def cut(path: Path, sector: int) -> None:
    os.truncate(path, sector * SECTOR_BYTES + 100)


@pytest.mark.parametrize(
    ("damage", "sector"), [*((damage, sector) for damage in (zeros, noise, one_bit) for sector in (0, 1)), (cut, 1)]
)
@pytest.mark.parametrize("name", FILES)
def test_a_node_starts_with_any_one_sector_lost(
    directory: Path, name: str, damage: Callable[[Path, int], None], sector: int
) -> None:
    identity = read_identity(PathFolder(directory))
    damage(directory / name, sector)
    damaged = contents(directory)
    code, output = node_command("check", directory)
    assert code == 0, output
    assert f"damaged: copy {sector + 1} of {name}; the other one is intact problem: none" in output
    assert contents(directory) == damaged, "it only reads"
    data, store, disk = start(directory)
    assert store.mended_copies == [f"copy {sector + 1} of {name}"]
    assert data.identity == replace(identity, starts=2)
    assert store.groups[7].last_index() == 1
    stop(store, disk)
    assert "damaged:" not in node_command("check", directory)[1]


@pytest.mark.parametrize("sector", [0, 1])
@pytest.mark.parametrize("name", FILES)
def test_the_command_mends_a_copy_and_changes_nothing_else(directory: Path, name: str, sector: int) -> None:
    before = contents(directory)
    noise(directory / name, sector)
    code, output = node_command("repair", directory)
    assert code == 0, output
    assert output.startswith(f"mended: copy {sector + 1} of {name} the node can start")
    assert contents(directory) == before
    assert not (directory / "set-aside-1").exists()


@pytest.mark.parametrize("name", COPIED_FILES)
def test_a_sector_that_the_disk_does_not_return_is_lost_like_any_other(
    directory: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = read_identity(PathFolder(directory))
    inode = (directory / name).stat().st_ino
    read = os.pread

    def pread(descriptor: int, length: int, position: int) -> bytes:
        if os.fstat(descriptor).st_ino == inode and position < SECTOR_BYTES:
            raise OSError(errno.EIO, "Input/output error")
        return read(descriptor, length, position)

    monkeypatch.setattr(os, "pread", pread)
    data, store, disk = start(directory)
    assert store.mended_copies == [f"copy 1 of {name}"]
    assert data.identity == replace(identity, starts=2)
    stop(store, disk)


@pytest.mark.parametrize("sector", range(4))
def test_an_identity_of_several_sectors_loses_any_of_them(directory: Path, sector: int) -> None:
    data = DataDir(PathFolder(directory), read_identity(PathFolder(directory)))
    data.founded(FOUNDERS, ADDRESSES)
    content = (directory / IDENTITY_FILE).read_bytes()
    assert len(content) == 4 * SECTOR_BYTES
    noise(directory / IDENTITY_FILE, sector)
    assert read_identity(PathFolder(directory)) == data.identity
    assert node_command("repair", directory)[1].startswith(f"mended: copy {1 + sector // 2} of {IDENTITY_FILE}")
    assert (directory / IDENTITY_FILE).read_bytes() == content


# While the node runs.


def scrub(store: NodeStore) -> int:
    """One full pass; returns the damaged places that it found."""
    before = store.scrubbed
    while (piece := store.plan_scrub()) is not None:
        piece.run()
        store.finish_scrub(piece)
    assert store.scrubbed.passes == before.passes + 1
    return store.scrubbed.damage - before.damage


@pytest.mark.parametrize("sector", [0, 1])
@pytest.mark.parametrize("name", FILES)
def test_the_scrubber_finds_and_mends_a_damaged_copy(directory: Path, name: str, sector: int) -> None:
    _, store, disk = start(directory)
    before = contents(directory)
    assert scrub(store) == 0
    noise(directory / name, sector)
    assert scrub(store) == 1
    assert contents(directory) == before
    assert scrub(store) == 0
    stop(store, disk)


@pytest.mark.parametrize("name", FILES)
def test_the_scrubber_reports_a_file_without_an_intact_copy_and_leaves_it_alone(directory: Path, name: str) -> None:
    _, store, disk = start(directory)
    for sector in (0, 1):
        noise(directory / name, sector)
    before = contents(directory)
    assert scrub(store) == 2
    assert contents(directory) == before
    stop(store, disk)


def test_the_scrubber_takes_no_file_of_an_earlier_program_for_damage(directory: Path) -> None:
    """As on a disk that was full when the node started."""
    _, store, disk = start(directory)
    earlier_program(directory)
    (directory / STARTS_FILE).unlink()
    assert scrub(store) == 0
    stop(store, disk)


def test_damage_that_cannot_be_mended_is_reported(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, store, disk = start(directory)
    noise(directory / IDENTITY_FILE, 1)
    monkeypatch.setattr(PosixFile, "write_synced", lambda file, offset, buffers: _refuse())
    while (piece := store.plan_scrub()) is not None:
        try:
            piece.run()
        except DiskFullError:
            assert piece.path == IDENTITY_FILE
        store.finish_scrub(piece)
    assert store.scrubbed.damage == 1
    stop(store, disk)


def _refuse() -> None:
    raise DiskFullError("no room")


@pytest.mark.parametrize("is_posix", [True, False])
def test_an_identity_that_is_replaced_while_it_is_mended_stays_as_it_is(directory: Path, is_posix: bool) -> None:
    disk = PosixDisk(str(directory))
    folder = DiskFolder(disk) if is_posix else PathFolder(directory)
    noise(directory / IDENTITY_FILE, 1)
    data = DataDir(PathFolder(directory), read_identity(PathFolder(directory)))

    def mend(content: bytes) -> list[Patch]:
        data.recovered("cd" * 16)
        return find_text(content).patches()

    folder.read(IDENTITY_FILE, mend)
    found = find_text((directory / IDENTITY_FILE).read_bytes())
    assert json.loads(found.content or b"")["cluster_id"] == "cd" * 16
    assert not found.damaged
    disk.close()


# Both copies.


def test_a_node_without_an_identity_comes_back_by_the_command_that_is_named(directory: Path) -> None:
    for sector in (0, 1):
        zeros(directory / IDENTITY_FILE, sector)
    with pytest.raises(CorruptionError, match=f"`flotilla node repair {directory}` sets the data aside.*--join"):
        DataDir.claim(PathFolder(directory), *OWN)
    code, output = node_command("check", directory)
    assert code == 1
    assert f"{IDENTITY_FILE} is damaged" in output
    assert f"to do: `flotilla node repair {directory}`, then start the node with --join" in output
    assert "1-1" in output, "the groups are there"
    assert json.loads(node_command("check", directory, "--json")[1])["node"] is None
    code, output = node_command("repair", directory)
    assert code == 0, output
    assert "start the node, with its --node-id, with --data-dir" in output
    aside = directory / "set-aside-1"
    assert sorted(path.name for path in aside.iterdir()) == ["format", "groups", IDENTITY_FILE, "journal"]
    data, store, disk = start(directory)
    assert (data.identity.starts, data.identity.cluster_id) == (1, "")
    stop(store, disk)


def test_a_store_whose_identity_is_gone_is_set_aside_as_well(directory: Path) -> None:
    (directory / IDENTITY_FILE).unlink()
    with pytest.raises(CorruptionError, match="has a store, but no identity"):
        DataDir.claim(PathFolder(directory), *OWN)
    assert node_command("repair", directory)[0] == 0
    stop(*start(directory)[1:])


def test_a_store_whose_count_is_lost_is_set_aside(directory: Path) -> None:
    for sector in (0, 1):
        zeros(directory / STARTS_FILE, sector)
    with pytest.raises(CorruptionError, match=f"{STARTS_FILE} is damaged.*`flotilla node repair {directory}`"):
        DataDir.claim(PathFolder(directory), *OWN)
    assert node_command("check", directory)[0] == 1
    assert node_command("repair", directory)[0] == 0
    stop(*start(directory)[1:])


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 59])
def test_a_format_that_was_cut_off_does_not_pass_for_that_of_an_earlier_version(directory: Path, length: int) -> None:
    os.truncate(directory / "format", length)
    before = contents(directory)
    disk = PosixDisk(str(directory))
    with pytest.raises(CorruptionError, match="format"):
        NodeStore.open(disk, OPTIONS, lambda entry: None)
    disk.close()
    assert contents(directory) == before


# Writing.


def filled(seed: int) -> tuple[SimDisk, DataDir]:
    disk = SimDisk(Random(seed))
    data = DataDir.claim(DiskFolder(disk), *OWN)
    NodeStore.open(disk, OPTIONS, lambda entry: None)
    data.count_start()
    return disk, data


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.count_start(),
        lambda data: data.entered("ab" * 16, 4),
        lambda data: data.founded(FOUNDERS, ADDRESSES),
    ],
    ids=["start", "enter", "found"],
)
def test_a_power_cut_at_any_step_leaves_intact_copies(change: Callable[[DataDir], None], seed: int) -> None:
    for steps in range(100):
        disk, data = filled(seed)
        before = data.identity
        disk.interrupt_after(steps)
        try:
            change(data)
        except SimulatedCrash:
            disk.crash()
            folder = DiskFolder(disk)
            found = read_identity(folder)
            assert found == before or steps > 3
            assert not store_problem(folder, found)
            assert [find_text(folder.read(name) or b"").damaged for name in COPIED_FILES] == [(), ()]
        else:
            break
    assert 3 < steps < 99


@pytest.mark.parametrize("name", FILES)
def test_a_power_cut_while_a_copy_is_mended_leaves_the_other(name: str) -> None:
    for steps in range(100):
        disk, data = filled(steps)
        [image] = [inode.image for path, inode in disk.files() if path == name]
        before = bytes(image)
        image[:SECTOR_BYTES] = bytes(SECTOR_BYTES)
        disk.stop()
        disk.interrupt_after(steps)
        try:
            NodeStore.open(disk, OPTIONS, lambda entry: None)
        except SimulatedCrash:
            disk.crash()
            assert read_identity(DiskFolder(disk)) == data.identity
            NodeStore.open(disk, OPTIONS, lambda entry: None)
            assert DiskFolder(disk).read(name) == before
        else:
            break
    assert 1 < steps < 99


def test_no_write_has_bytes_of_both_copies(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[int, int]] = []
    write = os.pwrite

    def pwrite(descriptor: int, content: bytes, position: int) -> int:
        written.append((position, position + len(content)))
        return write(descriptor, content, position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    data = DataDir.claim(PathFolder(directory), *OWN)
    data.count_start()
    assert written.count((0, SECTOR_BYTES)) == written.count((SECTOR_BYTES, 2 * SECTOR_BYTES)) == 2


def test_a_copy_is_mended_without_room() -> None:
    disk, data = filled(1)
    for name in FILES:
        [image] = [inode.image for path, inode in disk.files() if path == name]
        image[SECTOR_BYTES:] = bytes(SECTOR_BYTES)
    disk.stop()
    disk.capacity_bytes = disk.used_bytes
    assert len(NodeStore.open(disk, OPTIONS, lambda entry: None).mended_copies) == 3
    disk.capacity_bytes = disk.used_bytes
    with pytest.raises(DiskFullError):
        data.count_start()
    assert not store_problem(DiskFolder(disk), read_identity(DiskFolder(disk)))


# Earlier programs.


def earlier_program(path: Path) -> None:
    """Counts a start as a program without copies does."""
    fields = json.loads((path / IDENTITY_FILE).read_bytes())
    counted = int((path / PLAIN_STARTS_FILE).read_bytes())
    assert counted >= fields["starts"], "else it refuses the store"
    fields.pop("crc32c", None)
    fields["starts"] = counted + 1
    (path / PLAIN_STARTS_FILE).write_bytes(b"%d\n" % fields["starts"])
    (path / IDENTITY_FILE).write_bytes(json.dumps(fields).encode())


def test_a_directory_of_an_earlier_program_is_taken_over(directory: Path) -> None:
    earlier_program(directory)
    (directory / STARTS_FILE).unlink()
    before = read_identity(PathFolder(directory))
    data, store, disk = start(directory)
    assert (data.identity, data.identity.starts) == (replace(before, starts=3), 3)
    stop(store, disk)
    for name in COPIED_FILES:
        assert find_text((directory / name).read_bytes()).content


def test_a_node_goes_back_to_an_earlier_program_and_forth(directory: Path) -> None:
    for starts in (3, 5, 7):
        earlier_program(directory)
        data, store, disk = start(directory)
        assert data.identity.starts == starts
        stop(store, disk)


def test_a_store_of_an_earlier_start_is_noticed_after_an_earlier_program_as_well(directory: Path) -> None:
    shutil.copytree(directory / "journal", directory / "old")
    earlier_program(directory)
    shutil.rmtree(directory / "journal")
    (directory / "old").rename(directory / "journal")
    with pytest.raises(CorruptionError, match="of start 1, and its identity of start 2"):
        DataDir.claim(PathFolder(directory), *OWN)


def test_the_count_of_an_earlier_program_is_kept_when_the_identity_changes(directory: Path) -> None:
    """Without it the store would look older than its identity."""
    earlier_program(directory)
    data = DataDir(PathFolder(directory), read_identity(PathFolder(directory)))
    data.recovered("cd" * 16)
    assert DataDir.claim(PathFolder(directory), *OWN).identity.cluster_id == "cd" * 16


def test_a_rotten_count_for_earlier_programs_is_not_believed(directory: Path) -> None:
    (directory / PLAIN_STARTS_FILE).write_bytes(b"9\n")
    data, store, disk = start(directory)
    assert data.identity.starts == 2
    stop(store, disk)


def test_a_text_may_hold_anything() -> None:
    text = json.dumps({"name": 'x", "crc32c": "00000000"}\n', "more": "é"}).encode()
    first, second = text_copies(text)
    assert find_text(first + second).content == text
    assert find_text(bytes(len(first)) + second).content == text
