"""The undo log of `preload.c`, and the power cut that it makes possible.

The library notes what every write, resize, creation, rename and removal replaced, and which syncs returned. A power cut
then keeps what was synced, and of the rest:

* of a file: each 4 KiB sector that was written after the last sync is old, new, split in between, or noise; the size is
  any that the file had since then;
* of a folder: the changes of names since its last sync up to a random one, in order.

After a failed sync what was written before is never durable, whatever later syncs return, as on Linux.
"""

import os
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

SECTOR_BYTES: Final = 4096
#: Disks that tear a sector do it here.
_SPLIT_BYTES: Final = 512
#: A sector in flight is split, or unreadable, this often.
_TORN_SHARE: Final = 0.15

_HEAD = struct.Struct("=IIIIQQQQQ")


class _Kind:
    """The kinds of records; the same numbers as in preload.c."""

    WRITE, SYNC, SYNC_ONE, FAILED, RESIZE, CREATE, RENAME, UNLINK, MKDIR, RMDIR, DIRSYNC = range(1, 12)


@dataclass(slots=True)
class _Record:
    kind: int
    seq: int
    inode: int
    a: int
    b: int
    c: int
    first: bytes
    second: bytes


@dataclass(slots=True)
class _Old:
    """A sector, or a size, before a change that is not durable."""

    seq: int
    value: bytes | int
    #: A sync failed after the change: no later one makes it durable.
    is_poisoned: bool = False


@dataclass(slots=True)
class _Inode:
    sectors: dict[int, list[_Old]] = field(default_factory=lambda: defaultdict(list))
    sizes: list[_Old] = field(default_factory=list)

    def synced(self, last: int, sectors: "range | None" = None) -> None:
        """Everything up to a record is durable, or only these sectors of it."""
        for number in list(self.sectors) if sectors is None else sectors:
            if number in self.sectors:
                self.sectors[number] = _after_sync(self.sectors[number], last)
                if not self.sectors[number]:
                    del self.sectors[number]
        self.sizes = _after_sync(self.sizes, last)

    def failed(self, last: int) -> None:
        for old in [*self.sizes, *(each for sector in self.sectors.values() for each in sector)]:
            old.is_poisoned |= old.seq <= last


def _after_sync(olds: list[_Old], last: int) -> list[_Old]:
    """What is left when every change up to `last` was synced: the changes after the youngest that became durable."""
    durable = max((at for at, old in enumerate(olds) if old.seq <= last and not old.is_poisoned), default=-1)
    return olds[durable + 1 :]


@dataclass(slots=True)
class CutReport:
    """What a power cut took away."""

    sectors: int = 0
    torn_sectors: int = 0
    names: int = 0
    sizes: int = 0

    def add(self, other: "CutReport") -> None:
        self.sectors += other.sectors
        self.torn_sectors += other.torn_sectors
        self.names += other.names
        self.sizes += other.sizes

    @property
    def total(self) -> int:
        return self.sectors + self.torn_sectors + self.names + self.sizes


class UndoLog:
    """What is not durable, read from the log of a process that has ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._inodes: dict[int, _Inode] = defaultdict(_Inode)
        self._names: dict[str, list[_Record]] = defaultdict(list)
        self._writes: dict[int, range] = {}
        for record in _records(folder / "log"):
            self._take(record)

    def _take(self, record: _Record) -> None:
        inode = self._inodes[record.inode]
        match record.kind:
            case _Kind.WRITE:
                self._write(inode, record)
            case _Kind.SYNC:
                inode.synced(record.a)
            case _Kind.SYNC_ONE:
                inode.synced(record.a, self._writes.pop(record.a, range(0)))
            case _Kind.FAILED:
                inode.failed(record.a)
            case _Kind.RESIZE:
                self._resize(inode, record)
            case _Kind.CREATE:
                self._inodes[record.inode] = _Inode()
                self._named(record, record.first)
            case _Kind.RENAME:
                self._named(record, record.second)
            case _Kind.UNLINK | _Kind.MKDIR | _Kind.RMDIR:
                self._named(record, record.first)
            case _Kind.DIRSYNC:
                folder = record.first.decode()
                self._names[folder] = [each for each in self._names[folder] if each.seq > record.a]

    def _write(self, inode: _Inode, record: _Record) -> None:
        first, end = record.a // SECTOR_BYTES, -(-(record.a + record.c) // SECTOR_BYTES)
        for number in range(first, end):
            at = (number - first) * SECTOR_BYTES
            inode.sectors[number].append(_Old(record.seq, record.first[at : at + SECTOR_BYTES]))
        if record.a + record.c > record.b:
            inode.sizes.append(_Old(record.seq, record.b))
        self._writes[record.seq] = range(first, end)

    def _resize(self, inode: _Inode, record: _Record) -> None:
        if record.b < record.a and not record.first:
            return  # Too much was cut off to be kept: the file stays short.
        inode.sizes.append(_Old(record.seq, record.a))
        # The first sector is partly kept by the file; only whole ones come back.
        skipped = -record.b % SECTOR_BYTES
        for at in range(skipped, len(record.first), SECTOR_BYTES):
            inode.sectors[(record.b + at) // SECTOR_BYTES].append(
                _Old(record.seq, record.first[at : at + SECTOR_BYTES])
            )

    def _named(self, record: _Record, path: bytes) -> None:
        self._names[os.path.dirname(path.decode())].append(record)

    def cut_power(self, data: Path, random: Random) -> CutReport:
        """Rewrites the data directory to what a power cut would leave, and empties the log."""
        report = CutReport()
        undone = [record for changes in self._names.values() for record in changes[random.randint(0, len(changes)) :]]
        for record in sorted(undone, key=lambda each: each.seq, reverse=True):
            report.names += self._undo_name(record)
        for path in [path for path in data.rglob("*") if path.is_file()]:
            inode = self._inodes.get(path.stat().st_ino)
            if inode is not None:
                _tear(path, inode, random, report)
        self.clear()
        return report

    def _undo_name(self, record: _Record) -> bool:
        one, two = Path(record.first.decode()), Path(record.second.decode())
        grave = self._folder / str(record.a)
        try:
            match record.kind:
                case _Kind.CREATE:
                    one.unlink()
                case _Kind.RENAME:
                    if one.exists():
                        return False  # It was noted and never happened.
                    two.rename(one)
                    if record.a:
                        grave.rename(two)
                case _Kind.UNLINK:
                    grave.rename(one)
                case _Kind.MKDIR:
                    one.rmdir()
                case _Kind.RMDIR:
                    one.mkdir(mode=0o700)
        except OSError:
            # The call that was noted never happened, or a folder is not empty: nothing to take back.
            return False
        return True

    def clear(self) -> None:
        """Everything that is there is durable from now on."""
        for path in self._folder.iterdir():
            path.unlink()


def _tear(path: Path, inode: _Inode, random: Random, report: CutReport) -> None:
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        for number, olds in inode.sectors.items():
            file.seek(number * SECTOR_BYTES)
            states = [*(bytes(old.value) for old in olds if isinstance(old.value, bytes)), file.read(SECTOR_BYTES)]
            chosen = random.randrange(len(states))
            content = states[chosen]
            if random.random() < _TORN_SHARE:
                at = random.randrange(0, SECTOR_BYTES, _SPLIT_BYTES)
                other = states[-1].ljust(SECTOR_BYTES, b"\0")
                content = content[:at].ljust(at, b"\0") + other[at:] if at else random.randbytes(SECTOR_BYTES)
                report.torn_sectors += 1
            elif chosen < len(states) - 1:
                report.sectors += 1
            file.seek(number * SECTOR_BYTES)
            file.write(content.ljust(SECTOR_BYTES, b"\0"))
        sizes = [*(old.value for old in inode.sizes if isinstance(old.value, int)), size]
        chosen_size = random.choice(sizes)
        report.sizes += chosen_size != size
        file.truncate(chosen_size)


def _records(path: Path) -> Iterator[_Record]:
    if not path.exists():
        return
    log = path.read_bytes()
    at = 0
    while at + _HEAD.size <= len(log):
        kind, first, second, _, seq, inode, a, b, c = _HEAD.unpack_from(log, at)
        at += _HEAD.size
        if at + first + second > len(log):
            return  # The process died while it noted this: the call itself never happened.
        yield _Record(kind, seq, inode, a, b, c, log[at : at + first], log[at + first : at + first + second])
        at += first + second
