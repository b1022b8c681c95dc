"""The few small files beside a store, on any disk: each is read and replaced as a whole."""

from flotilla.storage.ports import Disk


class DiskFolder:
    """Implements `runtime.data_dir_identity.Folder`."""

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self._name = name

    def __str__(self) -> str:
        return self._name

    def has(self, name: str) -> bool:
        return self._disk.exists(name)

    def read(self, name: str) -> bytes | None:
        if not self._disk.exists(name):
            return None
        file = self._disk.open(name)
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    def write(self, name: str, content: bytes) -> None:
        beside = f"{name}.new"
        # What a crash left there could be longer.
        self._disk.remove(beside)
        file = self._disk.open(beside, create=True)
        try:
            file.write_synced(0, [content])
        finally:
            file.close()
        self._disk.rename(beside, name)
        self._disk.sync_directory(name.rpartition("/")[0])
