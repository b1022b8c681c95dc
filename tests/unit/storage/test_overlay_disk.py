"""A store that is opened over another disk changes nothing there."""

from random import Random

from flotilla.raft.messages import DATA, Configuration, Entry, HardState
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage.options import StoreOptions
from flotilla.storage.overlay_disk import OverlayDisk
from flotilla.storage.ports import Disk
from flotilla.storage.store import NodeStore

OPTIONS = StoreOptions(journal_bytes=64 * 1024)


def opened(disk: Disk) -> NodeStore:
    return NodeStore.open(disk, OPTIONS, lambda _: None)


def content(disk: SimDisk) -> dict[str, bytes]:
    paths = [f"{folder}/{name}" for folder in ("journal",) for name in disk.list(folder)]
    return {path: disk.open(path).read(0, 1 << 20) for path in paths}


def save(store: NodeStore, index: int) -> None:
    store.save(7, hard_state=HardState(3, 2, index), entries=[Entry(index, 3, DATA, b"x" * 500)])
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)


def test_a_store_is_recovered_and_continued_without_a_trace() -> None:
    disk = SimDisk(Random(1))
    store = opened(disk)
    store.create_group(7, Configuration(voters=(1, 2, 3)))
    for index in range(1, 20):
        save(store, index)
    store.close()
    before = content(disk)
    overlay = OverlayDisk(disk)
    for last in (19, 20, 21):
        copy = opened(overlay)
        assert copy.groups[7].last_index() == last
        assert copy.groups[7].hard_state.term == 3
        save(copy, last + 1)
        copy.close()
    assert content(disk) == before
    assert opened(disk).groups[7].last_index() == 19


def test_names_and_bytes_over_a_file() -> None:
    disk = SimDisk(Random(1))
    disk.make_directory("a")
    file = disk.open("a/one", create=True)
    file.write(0, (b"0123456789",))
    overlay = OverlayDisk(disk)
    above = overlay.open("a/one")
    above.write(8, (b"ab", b"cd"))
    above.write(2, (b"x",))
    assert above.read(0, 99) == b"01x34567abcd"
    above.truncate(4)
    above.allocate(6)
    assert above.read(1, 99) == b"1x3\0\0"
    overlay.rename("a/one", "a/two")
    overlay.open("a/three", create=True)
    assert overlay.list("a") == ["three", "two"]
    assert overlay.open("a/two").read(0, 4) == b"01x3"
    overlay.remove("a/two")
    assert not overlay.exists("a/two")
    assert disk.list("a") == ["one"]
    assert file.read(0, 99) == b"0123456789"
