"""Files below a folder of this machine: written whole or not at all, and synced with all folders above them."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

#: Folders that cannot be read or synced, as on a read-only file system: nobody has made them for a lake.
_NOT_OURS: Final = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS)


class LocalFiles:
    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")
        self._is_place_durable = False

    def read(self, path: str) -> bytes:
        """Raises FileNotFoundError."""
        return Path(self._full(path)).read_bytes()

    def put(self, path: str, data: bytes, *, is_new: bool) -> None:
        """Raises FileExistsError with `is_new`; otherwise a file is replaced."""
        full = self._full(path)
        self._make_folder(full)
        beside = f"{full}.{token_hex(4)}.new"
        try:
            with open(beside, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                # Unlike a rename, a link never replaces an existing file.
                os.link(beside, full)
            else:
                os.replace(beside, full)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(beside)
        _sync_folders(full)

    def writer(self, path: str) -> Any:
        """A file to write to, which is durable after `sync`."""
        full = self._full(path)
        self._make_folder(full)
        return pa.OSFile(full, "wb")

    def reader(self, path: str) -> Any:
        """Raises FileNotFoundError."""
        return pa.OSFile(self._full(path))

    def sync(self, path: str) -> None:
        full = self._full(path)
        with open(full, "rb") as file:
            os.fsync(file.fileno())
        _sync_folders(full)

    def paths(self, folder: str) -> list[str]:
        """All files in a folder tree."""
        begin = len(self._root) + 1
        top = self._full(folder) if folder else self._root
        return [f"{place}/{name}"[begin:] for place, _, names in os.walk(top) for name in names]

    def folders(self) -> list[str]:
        try:
            return [each.name for each in os.scandir(self._root) if each.is_dir()]
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(self._full(path))

    def move_folder(self, old: str, new: str) -> None:
        full = self._full(new)
        os.rename(self._full(old), full)
        _sync_folders(full)

    def remove_folder(self, folder: str) -> None:
        with suppress(FileNotFoundError):
            os.rmdir(self._full(folder))

    def remove(self, path: str) -> None:
        """A missing file is ignored."""
        with suppress(FileNotFoundError):
            os.unlink(self._full(path))

    def _make_folder(self, full: str) -> None:
        os.makedirs(full.rpartition("/")[0], exist_ok=True)
        if not self._is_place_durable:
            # This process or another one may have made them just now.
            _sync_parents(self._root)
            self._is_place_durable = True

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"


def _sync_folders(full: str) -> None:
    """A new name is durable when its folder is synced, and so are new parent folders."""
    folder = full.rpartition("/")[0]
    for _ in range(3):
        _sync_folder(folder)
        folder = folder.rpartition("/")[0]


def _sync_parents(full: str) -> None:
    """All that are above a folder."""
    while full:
        full = full.rpartition("/")[0]
        try:
            _sync_folder(full)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise


def _sync_folder(folder: str) -> None:
    handle = os.open(folder or "/", os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
