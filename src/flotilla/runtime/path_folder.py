"""A data directory of the file system, for its few small files: each is read and replaced as a whole.

The store has its own way to the disk, which excludes other processes. This one is used before that is open.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flotilla.codec.two_copies import SECTOR_BYTES, Patch
from flotilla.types.errors import DiskFullError


class PathFolder:
    """Implements `codec.two_copies.Folder`. The folder is made if it is absent."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def has(self, name: str) -> bool:
        return (self._path / name).exists()

    def read(self, name: str, mend: Callable[[bytes], Sequence[Patch]] | None = None) -> bytes | None:
        target = self._path / name
        try:
            descriptor = os.open(target, os.O_RDONLY if mend is None else os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            content = _read_all(descriptor)
            with _typed(target):
                for position, patch in mend(content) if mend is not None else ():
                    _write_synced(descriptor, position, patch)
            return content
        finally:
            os.close(descriptor)

    def write(self, name: str, *copies: bytes) -> None:
        target = self._path / name
        beside = target.with_suffix(".new")
        with _typed(target):
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                position = 0
                for copy in copies:
                    _write_synced(descriptor, position, copy)
                    position += len(copy)
            finally:
                os.close(descriptor)
            beside.rename(target)
            sync_directory(target.parent)


def _read_all(descriptor: int) -> bytes:
    """Sector by sector, with zeros for those that the disk cannot read."""
    content = bytearray(os.fstat(descriptor).st_size)
    for position in range(0, len(content), SECTOR_BYTES):
        try:
            piece = os.pread(descriptor, SECTOR_BYTES, position)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            continue
        content[position : position + len(piece)] = piece
    return bytes(content)


def _write_synced(descriptor: int, position: int, content: bytes) -> None:
    while content:
        done = os.pwrite(descriptor, content, position)
        position, content = position + done, content[done:]
    os.fsync(descriptor)


@contextmanager
def _typed(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(f"write {target}: {error.strerror}") from error
        raise


def sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
