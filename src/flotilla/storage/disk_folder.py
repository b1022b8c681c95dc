"""The few small files beside a store, on any disk: each is read and replaced as a whole."""

from collections.abc import Callable, Sequence

from flotilla.codec.two_copies import Patch
from flotilla.storage.ports import Disk


class DiskFolder:
    """Implements `codec.two_copies.Folder`."""

    def __init__(self, disk: Disk, name: str = "") -> None:
        self._disk = disk
        self._name = name

    def __str__(self) -> str:
        return self._name

    def has(self, name: str) -> bool:
        return self._disk.exists(name)

    def read(self, name: str, mend: Callable[[bytes], Sequence[Patch]] | None = None) -> bytes | None:
        if not self._disk.exists(name):
            return None
        file = self._disk.open(name)
        try:
            size = file.size()
            file.drop_cached(0, size)
            content = file.read(0, size)
            for position, patch in mend(content) if mend is not None else ():
                file.write_synced(position, [patch])
            return content
        finally:
            file.close()

    def write(self, name: str, *copies: bytes) -> None:
        beside = f"{name}.new"
        # What a crash left there could be longer.
        self._disk.remove(beside)
        file = self._disk.open(beside, create=True)
        try:
            position = 0
            for copy in copies:
                file.write_synced(position, [copy])
                position += len(copy)
        finally:
            file.close()
        self._disk.rename(beside, name)
        self._disk.sync_directory(name.rpartition("/")[0])
