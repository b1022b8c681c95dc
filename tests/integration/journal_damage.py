"""Damage of a power cut or a bad disk to the end of a journal."""

from pathlib import Path
from typing import NamedTuple

from flotilla.storage.block import find_directory
from flotilla.storage.framing import SECTOR_BYTES
from flotilla.storage.journal_scan import JournalScan
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store_format import read_salt


def tear_journal(data: Path) -> None:
    """Leaves half of another block behind the last one, as a power cut in the middle of a write would."""
    end = _find_end(data)
    with end.path.open("r+b") as file:
        half = file.read(120)
        file.seek(end.with_mark)
        file.write(half)


def garble_journal_end(data: Path) -> None:
    """Spoils the mark behind the last block, if there is one, which nothing depends on, and puts noise behind it."""
    end = _find_end(data)
    with end.path.open("r+b") as file:
        file.seek(end.of_blocks)
        file.write(b"\xa5" * 3 * SECTOR_BYTES)


def cut_journal(data: Path) -> None:
    """Cuts the file off behind what was written last: the room that was allocated is gone."""
    end = _find_end(data)
    with end.path.open("r+b") as file:
        file.truncate(end.with_mark)


class _End(NamedTuple):
    path: Path
    of_blocks: int
    with_mark: int


def _find_end(data: Path) -> _End:
    """Of the newest file that something was written to. Behind that may be what the file held in an earlier life."""
    disk = PosixDisk(str(data))
    salt = read_salt(disk)
    disk.close()
    for path in sorted((data / "journal").glob("*.wal"), reverse=True):
        number, content = int(path.stem), path.read_bytes()
        scan = JournalScan(salt)
        scan.add_file(number, content)
        if scan.images:
            end = max(image.end for image in scan.images.values())
            mark = find_directory(memoryview(content), end, number, salt)
            return _End(path, end, end if mark is None else mark.end)
    raise AssertionError(f"nothing was ever written to the journal in {data}")
