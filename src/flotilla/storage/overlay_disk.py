"""A disk that is only read: every change stays in memory, over the files of another disk.

A store can be opened on it, recovery and all, to find out what is there without touching it. Recovery writes little, so
the changes of a file are a list of what was written, newest last.
"""

from collections.abc import Sequence
from typing import TypeAlias

from flotilla.storage.ports import Buffer, Disk, File
from flotilla.types.errors import StorageFailedError

#: The disk has a method `list`.
Names: TypeAlias = list[str]


class OverlayFile:
    """A file's bytes under what was written since. Closing it keeps them: the disk may open it again."""

    def __init__(self, below: File | None) -> None:
        self._below = below
        #: How much of the file below is still visible.
        self._below_bytes = 0 if below is None else below.size()
        self._size = self._below_bytes
        self._written: list[tuple[int, bytes]] = []

    def size(self) -> int:
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        end = min(offset + length, self._size)
        if end <= offset:
            return b""
        found = bytearray(end - offset)
        if self._below is not None and offset < self._below_bytes:
            part = self._below.read(offset, min(end, self._below_bytes) - offset)
            found[: len(part)] = part
        for at, data in self._written:
            low, high = max(at, offset), min(at + len(data), end)
            if low < high:
                found[low - offset : high - offset] = data[low - at : high - at]
        return bytes(found)

    def drop_cached(self, offset: int, length: int) -> None:
        """Nothing here reads for its own sake."""

    def read_cached(self, offset: int, length: int) -> Buffer | None:
        return None

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        self._written.append((offset, data))
        self._size = max(self._size, offset + len(data))

    def write_synced(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self.write(offset, buffers)

    def truncate(self, size: int) -> None:
        self._below_bytes = min(self._below_bytes, size)
        self._written = [(at, data[: size - at]) for at, data in self._written if at < size]
        self._size = size

    def allocate(self, size: int) -> None:
        self._size = max(self._size, size)

    def sync(self) -> None: ...

    def close(self) -> None: ...


class OverlayDisk:
    """Implements storage.ports.Disk."""

    def __init__(self, below: Disk) -> None:
        self._below = below
        #: Files that were opened, created or renamed; None: removed.
        self._files: dict[str, OverlayFile | None] = {}
        self._folders: dict[str, None] = {}

    def open(self, path: str, *, create: bool = False) -> File:
        known = self._files.get(path)
        if known is None:
            is_below = path not in self._files and self._below.exists(path)
            if not is_below and not create:
                raise StorageFailedError(f"open {path}: no such file")
            known = self._files[path] = OverlayFile(self._below.open(path) if is_below else None)
        return known

    def open_cached(self, path: str) -> File | None:
        return None

    def exists(self, path: str) -> bool:
        if path in self._files:
            return self._files[path] is not None
        return path in self._folders or self._below.exists(path)

    def list(self, path: str) -> Names:
        prefix = f"{path}/" if path else ""
        names = dict.fromkeys(self._below.list(path))
        for file in (*self._files, *self._folders):
            if file.startswith(prefix):
                names[file.removeprefix(prefix).partition("/")[0]] = None
        return sorted(name for name in names if self._files.get(prefix + name, True) is not None)

    def make_directory(self, path: str) -> None:
        self._folders[path] = None

    def rename(self, source: str, target: str) -> None:
        file = self.open(source)
        assert isinstance(file, OverlayFile)
        self._files[source], self._files[target] = None, file

    def remove(self, path: str) -> None:
        self._folders.pop(path, None)
        self._files[path] = None

    def sync_directory(self, path: str) -> None: ...

    def secret(self, count: int) -> bytes:
        return self._below.secret(count)
