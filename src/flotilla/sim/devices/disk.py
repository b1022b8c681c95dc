"""A simulated disk that keeps only what was synced, and may damage that later.

It implements `storage/ports.py` in memory. A file is its current image plus the operations that are not durable yet.
Each carries what it overwrote, so a sync only forgets them and a power loss undoes them. What survives a power loss
(`crash`):

* of a file: everything synced, and any subset of the unsynced sectors; elsewhere the old bytes, zeros, or noise where
  the power went in the middle of a sector, with the size possibly grown already;
* of a folder: every name as of its last `sync_directory`, and any subset of the later changes, in order.

A failed sync drops the dirty pages as Linux does: they still read as written, no later sync makes
them durable, and a power loss takes them away. Rot hits durable bytes; a caller may spare those of the last sync of
their file. A copy of everything durable can be put back later, as people do with backups and disk images.

Time is not known here: the caller simulates a slow sync. Everything random comes from the injected stream, so the same
calls give the same disk.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, NoReturn, TypeAlias

from flotilla.sim.devices.crash import SimulatedCrash
from flotilla.storage.framing import SECTOR_BYTES
from flotilla.storage.ports import Buffer
from flotilla.types.errors import DiskFullError, StorageFailedError

UNLIMITED_BYTES = 1 << 50
#: How often a sector that was not written whole cannot be read afterwards.
NOISE_CHANCE = 0.2

Names: TypeAlias = list[str]


class Change(NamedTuple):
    """One operation on a file's bytes that is not durable yet: enough to undo it and to do it again."""

    offset: int
    old: bytes
    new: bytes
    size_before: int
    size_after: int


class NameChange(NamedTuple):
    """One operation on a folder that is not durable yet. `node` None: the name was removed."""

    name: str
    node: "Inode | Directory | None"
    #: The name it had before, when this is a rename.
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Rot:
    """Damage done to a file at rest."""

    path: str
    offset: int
    length: int
    #: The file, and what it held there.
    inode: "Inode" = field(repr=False)
    before: bytes = field(repr=False)


class Inode:
    """A file's bytes, whatever its names are."""

    __slots__ = ("durable", "fresh", "image", "pending")

    def __init__(self) -> None:
        self.image = bytearray()
        #: Operations since the last sync, in order.
        self.pending: list[Change] = []
        #: What the last sync made durable: too young to rot.
        self.fresh: list[Change] = []
        #: Kept apart from the image only after a failed sync, when the two differ for good.
        self.durable: bytearray | None = None

    def change(self, offset: int, new: bytes) -> None:
        image = self.image
        size_before = len(image)
        if offset > size_before:
            image.extend(bytes(offset - size_before))
        end = offset + len(new)
        old = bytes(image[offset:end])
        image[offset:end] = new
        self.pending.append(Change(offset, old, new, size_before, len(image)))

    def resize(self, size: int) -> None:
        image = self.image
        size_before = len(image)
        if size < size_before:
            self.pending.append(Change(size, bytes(image[size:]), b"", size_before, size))
            del image[size:]
        elif size > size_before:
            image.extend(bytes(size - size_before))
            self.pending.append(Change(size_before, b"", b"", size_before, size))

    def make_durable(self) -> None:
        if self.durable is not None:
            for change in self.pending:
                _redo(self.durable, change)
        if self.pending:
            self.fresh = self.pending
            self.pending = []

    def drop_dirty_pages(self) -> None:
        if self.durable is None:
            self.durable = self._unrolled()
        self.pending = []

    def lose_power(self, random: Random) -> bool:
        """True: something was not durable yet."""
        if self.durable is None and not self.pending:
            return False
        image = self._unrolled() if self.durable is None else self.durable
        _survive(image, self.pending, random)
        if self.durable is None:
            self.fresh = self.fresh + self.pending
        else:
            self.fresh = [Change(0, b"", b"", 0, len(image))]
        self.image = image
        self.durable = None
        self.pending = []
        return True

    def durable_copy(self) -> "Inode":
        """The file as a power loss that keeps nothing unsynced leaves it."""
        copy = Inode()
        copy.image = self._unrolled() if self.durable is None else bytearray(self.durable)
        copy.fresh = [Change(0, b"", b"", 0, len(copy.image))] if self.durable is not None else list(self.fresh)
        return copy

    def _unrolled(self) -> bytearray:
        image = bytearray(self.image)
        for change in reversed(self.pending):
            image[change.offset : change.offset + len(change.old)] = change.old
            del image[change.size_before :]
        return image

    def may_rot(self, low: int, high: int, *, spares_young: bool) -> bool:
        """Whether [low, high) is durable and untouched since; with `spares_young`, was so before the last sync."""
        if self.durable is not None:
            return False
        touched = [*self.pending, *self.fresh] if spares_young else self.pending
        return not any(_touches(change, low, high) for change in touched)


class Directory:
    """A folder: names as the process sees them, and as they would be after a power loss."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}
        self.pending: list[NameChange] = []

    def change(self, change: NameChange) -> None:
        _rename(self.entries, change)
        self.pending.append(change)

    def make_durable(self) -> None:
        for change in self.pending:
            _rename(self.durable, change)
            if change.source is not None and isinstance(change.node, Inode):
                # A file that was renamed to its final name is finished: from now on it may rot.
                change.node.fresh = []
        self.pending.clear()

    def lose_power(self, random: Random) -> bool:
        """True: something was not durable yet."""
        if not self.pending:
            return False
        mode = random.randrange(4)
        kept = random.randint(0, len(self.pending)) if mode == 1 else len(self.pending)
        for change in self.pending[:kept] if mode else ():
            if mode != 2 or random.random() < 0.5:
                _rename(self.durable, change)
        self.pending.clear()
        self.entries = dict(self.durable)
        return True

    def durable_copy(self) -> "Directory":
        copy = Directory()
        copy.durable = {name: node.durable_copy() for name, node in self.durable.items()}
        copy.entries = dict(copy.durable)
        return copy


class SimFile:
    """An open file. It dies with the process: using it after a crash is an error of the simulation."""

    __slots__ = ("_disk", "_generation", "_inode")

    def __init__(self, disk: "SimDisk", inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._generation = disk.generation

    def size(self) -> int:
        return len(self._inode.image)

    def read(self, offset: int, length: int) -> bytes:
        assert self._generation == self._disk.generation, "a file of a dead process was read"
        assert offset >= 0 <= length, "a system refuses such a read"
        if self._disk.is_unreadable:
            self._disk.failed_reads += 1
            self._disk.failed_count += 1
            raise StorageFailedError("read failed")
        return bytes(self._inode.image[offset : offset + length])

    def drop_cached(self, offset: int, length: int) -> None:
        """Every read comes from the disk."""

    def read_cached(self, offset: int, length: int) -> bytes | None:
        return None if self._disk.is_cold else self.read(offset, length)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        disk = self._disk
        assert self._generation == disk.generation, "a file of a dead process was written"
        data = b"".join(buffers)
        growth = offset + len(data) - len(self._inode.image)
        if growth > 0 and growth > disk.capacity_bytes - disk.used_bytes:
            # A short write: some of it is there, the caller learns only that it failed.
            disk.failed_count += 1
            room = max(0, len(data) - growth + disk.capacity_bytes - disk.used_bytes)
            self._put(offset, data[: disk.random.randint(0, room)])
            raise DiskFullError(f"no room for {len(data)} bytes")
        if disk.is_interrupted():
            self._put(offset, data[: disk.random.randint(0, len(data))])
            disk.interrupt("disk.write")
        if disk.failing_writes:
            disk.failing_writes -= 1
            disk.failed_count += 1
            self._put(offset, data[: disk.random.randint(0, len(data))])
            raise StorageFailedError("write failed")
        self._put(offset, data)

    def _put(self, offset: int, data: bytes) -> None:
        if data:
            inode = self._inode
            before = len(inode.image)
            inode.change(offset, data)
            self._disk.used_bytes += len(inode.image) - before
            self._disk.written_bytes += len(data)

    def write_synced(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self.write(offset, buffers)
        self.sync()

    def truncate(self, size: int) -> None:
        self._resize(size, "disk.truncate")

    def allocate(self, size: int) -> None:
        if size > len(self._inode.image):
            self._resize(size, "disk.allocate")

    def _resize(self, size: int, point: str) -> None:
        disk = self._disk
        assert self._generation == disk.generation, "a file of a dead process was resized"
        growth = size - len(self._inode.image)
        if growth > 0 and growth > disk.capacity_bytes - disk.used_bytes:
            disk.failed_count += 1
            raise DiskFullError(f"no room for {growth} bytes")
        disk.step(point)
        self._inode.resize(size)
        disk.used_bytes += growth

    def sync(self) -> None:
        disk = self._disk
        assert self._generation == disk.generation, "a file of a dead process was synced"
        disk.step("disk.sync")
        if disk.failing_syncs:
            disk.failing_syncs -= 1
            disk.failed_count += 1
            self._inode.drop_dirty_pages()
            raise StorageFailedError("sync failed")
        disk.synced_count += 1
        self._inode.make_durable()
        disk.on_sync()

    def close(self) -> None:
        return


class SimDisk:
    """A data directory in memory. The fault methods below the port are the simulator's."""

    def __init__(self, random: Random, capacity_bytes: int = UNLIMITED_BYTES) -> None:
        self.random = random
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.written_bytes = 0
        self.synced_count = 0
        #: Files and folders that a crash found with changes not yet durable.
        self.bytes_at_stake_count = 0
        self.names_at_stake_count = 0
        #: Rises with every crash; files opened before are void.
        self.generation = 0
        self.failing_syncs = 0
        self.failing_writes = 0
        #: Nothing is in memory: every read must be loaded.
        self.is_cold = False
        #: Every read fails for now.
        self.is_unreadable = False
        #: The process has no descriptor left: no file can be opened for now.
        self.is_out_of_descriptors = False
        self.failed_reads = 0
        #: Operations that failed for a fault.
        self.failed_count = 0
        #: Called after each sync: the caller simulates its time.
        self.on_sync: Callable[[], None] = _take_no_time
        #: Called when an operation is interrupted, before SimulatedCrash is raised; the process is dead from then on.
        self.on_interrupted: Callable[[], None] | None = None
        self._steps_left = -1
        self._root = Directory()
        #: Folders by path, so that the depth of a tree costs nothing.
        self._directories: dict[str, Directory] = {"": self._root}

    # The port.

    def open(self, path: str, *, create: bool = False) -> SimFile:
        if self.is_out_of_descriptors:
            self.failed_reads += 1
            self.failed_count += 1
            raise StorageFailedError(f"open {path}: too many open files")
        directory, name = self._locate(path)
        node = directory.entries.get(name)
        if node is None and create:
            self.step("disk.create")
            node = Inode()
            directory.change(NameChange(name, node))
        if not isinstance(node, Inode):
            raise StorageFailedError(f"no file {path}")
        return SimFile(self, node)

    def open_cached(self, path: str) -> SimFile | None:
        return None if self.is_cold else self.open(path)

    def exists(self, path: str) -> bool:
        folder, _, name = _normal(path).rpartition("/")
        directory = self._directories.get(folder)
        return not name or (directory is not None and name in directory.entries)

    def make_directory(self, path: str) -> None:
        parent = ""
        for name in _normal(path).split("/"):
            directory = self._directories[parent]
            parent = f"{parent}/{name}" if parent else name
            if parent and parent not in self._directories:
                if name in directory.entries:
                    raise StorageFailedError(f"{parent} is a file")
                self.step("disk.make_directory")
                self._directories[parent] = made = Directory()
                directory.change(NameChange(name, made))

    def rename(self, source: str, target: str) -> None:
        directory, source_name = self._locate(source)
        target_directory, target_name = self._locate(target)
        assert directory is target_directory, "names move within a folder only: nothing else is atomic on every disk"
        node = directory.entries.get(source_name)
        if not isinstance(node, Inode):
            raise StorageFailedError(f"no file {source}")
        replaced = directory.entries.get(target_name)
        if isinstance(replaced, Directory):
            raise StorageFailedError(f"{target} is a folder")
        self.step("disk.rename")
        if replaced is not None and replaced is not node:
            self.used_bytes -= len(replaced.image)
        directory.change(NameChange(target_name, node, source_name))

    def remove(self, path: str) -> None:
        if not self.exists(path):
            return
        directory, name = self._locate(path)
        node = directory.entries[name]
        if isinstance(node, Directory):
            if node.entries:
                raise StorageFailedError(f"folder {path} is not empty")
            del self._directories[_normal(path)]
        self.step("disk.remove")
        if isinstance(node, Inode):
            self.used_bytes -= len(node.image)
        directory.change(NameChange(name, None))

    def sync_directory(self, path: str) -> None:
        directory = self._directories.get(_normal(path))
        if directory is None:
            raise StorageFailedError(f"no folder {path}")
        self.step("disk.sync_directory")
        if self.failing_syncs:
            self.failing_syncs -= 1
            self.failed_count += 1
            raise StorageFailedError("folder sync failed")
        self.synced_count += 1
        directory.make_durable()
        self.on_sync()

    def list(self, path: str) -> Names:
        directory = self._directories.get(_normal(path))
        return sorted(directory.entries) if directory is not None else []

    def secret(self, count: int) -> bytes:
        """Another one on each disk. It is drawn beside the generator, so that the faults of a seed stay the same."""
        twin = Random()
        twin.setstate(self.random.getstate())
        return twin.randbytes(count)

    # Faults.

    def crash(self) -> None:
        """Loses power: what is not durable survives in parts or not at all. Open files become void."""
        self.generation += 1
        self._steps_left = -1
        self.failing_syncs = 0
        self.failing_writes = 0
        self.is_out_of_descriptors = False
        unseen = [self._root]
        while unseen:
            directory = unseen.pop()
            self.names_at_stake_count += directory.lose_power(self.random)
            for node in directory.entries.values():
                if isinstance(node, Directory):
                    unseen.append(node)
                else:
                    self.bytes_at_stake_count += node.lose_power(self.random)
        self._settle()

    def stop(self) -> None:
        """The process ends but the machine stays up: everything written is kept, durable or not."""
        self.generation += 1
        self._steps_left = -1
        self.is_out_of_descriptors = False

    def wipe(self) -> None:
        """A new, empty disk."""
        self.generation += 1
        self._steps_left = -1
        self._root = Directory()
        self._settle()

    def fail_next_sync(self, count: int = 1) -> None:
        """The next syncs fail. What they should have made durable never becomes durable."""
        self.failing_syncs = count

    def fail_next_write(self, count: int = 1) -> None:
        """The next writes fail, each after a part of it."""
        self.failing_writes = count

    def set_capacity(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes

    def interrupt_after(self, operations: int) -> None:
        """Raises SimulatedCrash in the middle of the mutating operation after that many."""
        self._steps_left = operations

    def durable_image(self) -> Directory:
        """A copy of everything durable: what a backup or a disk image holds."""
        return self._root.durable_copy()

    def put_back(self, image: Directory) -> None:
        """Replaces everything by a copy from `durable_image`, which must not be used again."""
        self.generation += 1
        self._steps_left = -1
        self._root = image
        self._settle()

    def rot(self, prefix: str = "", *, spares_young: bool = True) -> Rot | None:
        """Flips a bit or fills up to a sector with garbage. None: no place was found.

        With `spares_young` only in a place that was durable before the last sync of its file. Otherwise in any durable
        place, also one of the last sync.

        Zeros at the end of a file are left alone: they were never written, so damage there means nothing.
        """
        files = [
            (path, inode, len(inode.image.rstrip(b"\0"))) for path, inode in self.files() if path.startswith(prefix)
        ]
        total = sum(used for _, _, used in files)
        for _ in range(16 if total else 0):
            path, inode, position, used = _place(files, self.random.randrange(total))
            length = 1
            if self.random.random() < 0.5:
                position -= position % SECTOR_BYTES
                length = min(SECTOR_BYTES, used - position)
            if inode.may_rot(position, position + length, spares_young=spares_young):
                before = bytes(inode.image[position : position + length])
                self._damage(inode, position, length)
                return Rot(path, position, length, inode, before)
        return None

    def rot_in(self, body: bytes, *, spares_young: bool = True) -> Rot | None:
        """Flips a bit in the newest file that holds these bytes. None: there is none, or it may not rot."""
        for path, inode in reversed(list(self.files())):
            position = inode.image.find(body)
            if position >= 0 and inode.may_rot(position, position + 1, spares_young=spares_young):
                before = bytes(inode.image[position : position + 1])
                self._damage(inode, position, 1)
                return Rot(path, position, 1, inode, before)
        return None

    def undo(self, rot: Rot) -> None:
        """The damage did not happen. Nothing may have been written since."""
        rot.inode.image[rot.offset : rot.offset + rot.length] = rot.before

    def has_durable(self, path: str) -> bool:
        """Whether the name is there, and would be after a power loss."""
        directory, name = self._locate(path)
        return name in directory.entries and name in directory.durable

    def has_file(self, inode: Inode) -> bool:
        return any(inode is other for _, other in self.files())

    def files(self) -> Iterator[tuple[str, Inode]]:
        """Every file by path, in a fixed order."""
        for folder in sorted(self._directories):
            for name, node in sorted(self._directories[folder].entries.items()):
                if isinstance(node, Inode):
                    yield f"{folder}/{name}" if folder else name, node

    def step(self, point: str) -> None:
        """Counts one mutating operation, and dies before it when the fault plan says so."""
        if self._steps_left >= 0 and self.is_interrupted():
            self.interrupt(point)

    def interrupt(self, point: str) -> NoReturn:
        """Ends the process in the middle of an operation."""
        if self.on_interrupted is not None:
            self.on_interrupted()
        raise SimulatedCrash(point)

    def is_interrupted(self) -> bool:
        if self._steps_left < 0:
            return False
        self._steps_left -= 1
        return self._steps_left < 0

    def _damage(self, inode: Inode, position: int, length: int) -> None:
        if length == 1:
            inode.image[position] ^= 1 << self.random.randrange(8)
        else:
            inode.image[position : position + length] = self.random.randbytes(length)

    def _locate(self, path: str) -> tuple[Directory, str]:
        folder, _, name = _normal(path).rpartition("/")
        directory = self._directories.get(folder)
        if directory is None or not name:
            raise StorageFailedError(f"no folder for {path}")
        return directory, name

    def _settle(self) -> None:
        """Computes folders and used bytes again after the whole tree changed."""
        self._directories = {"": self._root}
        self.used_bytes = 0
        unseen = [("", self._root)]
        while unseen:
            folder, directory = unseen.pop()
            for name, node in directory.entries.items():
                if isinstance(node, Directory):
                    path = f"{folder}/{name}" if folder else name
                    self._directories[path] = node
                    unseen.append((path, node))
                else:
                    self.used_bytes += len(node.image)


def _take_no_time() -> None:
    """Nobody simulates the time of a sync."""


def _normal(path: str) -> str:
    return "" if path == "." else path.strip("/")


def _place(files: list[tuple[str, Inode, int]], position: int) -> tuple[str, Inode, int, int]:
    """The file, the place in it that a position over the used parts of all files falls on, and its used part."""
    for path, inode, used in files:
        if position < used:
            return path, inode, position, used
        position -= used
    raise AssertionError("position beyond all files")


def _rename(entries: dict[str, Inode | Directory], change: NameChange) -> None:
    if change.source is not None:
        entries.pop(change.source, None)
    if change.node is None:
        entries.pop(change.name, None)
    else:
        entries[change.name] = change.node


def _touches(change: Change, low: int, high: int) -> bool:
    length = max(len(change.new), abs(change.size_after - change.size_before))
    start = min(change.offset, change.size_before) if change.size_after > change.size_before else change.offset
    return low < max(start + length, change.offset + len(change.new)) and start < high


def _redo(image: bytearray, change: Change) -> None:
    """Repeats a change on an image that may lack earlier ones."""
    if change.size_after < change.size_before:
        del image[change.size_after :]
        return
    if len(image) < change.size_after:
        image.extend(bytes(change.size_after - len(image)))
    image[change.offset : change.offset + len(change.new)] = change.new


def _survive(image: bytearray, pending: list[Change], random: Random) -> None:
    """Applies what a power loss kept of the pending changes: nothing, all, a torn prefix, or any sectors."""
    mode = random.randrange(5)
    if mode == 0:
        return
    if mode == 1:
        for change in pending:
            _redo(image, change)
        return
    if mode == 2:
        whole = random.randrange(len(pending)) if pending else 0
        for change in pending[:whole]:
            _redo(image, change)
        pending = pending[whole : whole + 1]
    chance = random.choice((0.1, 0.5, 0.9))
    for change in pending:
        if change.new:
            _survive_sectors(image, change, chance, random)
        elif random.random() < chance:
            _redo(image, change)
        if change.size_after > len(image) and random.random() < 0.3:
            image.extend(bytes(change.size_after - len(image)))


def _survive_sectors(image: bytearray, change: Change, chance: float, random: Random) -> None:
    end = change.offset + len(change.new)
    position = change.offset
    while position < end:
        stop = min(end, position - position % SECTOR_BYTES + SECTOR_BYTES)
        if random.random() < chance:
            if position > len(image):
                image.extend(bytes(position - len(image)))
            image[position:stop] = change.new[position - change.offset : stop - change.offset]
        elif position < len(image) and random.random() < NOISE_CHANCE:
            sector = position - position % SECTOR_BYTES
            end_of_sector = min(sector + SECTOR_BYTES, len(image))
            image[sector:end_of_sector] = random.randbytes(end_of_sector - sector)
        position = stop
