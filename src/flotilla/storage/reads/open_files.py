"""The cache of segments open for reading; it closes the least recently used first. Belongs to the loop."""

from flotilla.storage.ports import Disk, File


class OpenFiles:
    __slots__ = ("_disk", "_files", "_files_max")

    def __init__(self, disk: Disk, files_max: int) -> None:
        self._disk = disk
        self._files_max = files_max
        #: By path, the least recently used first.
        self._files: dict[str, File] = {}

    def get(self, path: str) -> File | None:
        """None: it must be opened on another thread first, because that may wait for the disk."""
        file = self._files.pop(path, None)
        if file is None:
            file = self._disk.open_cached(path)
            if file is None:
                return None
            self._make_room()
        self._files[path] = file
        return file

    def put(self, path: str, file: File) -> None:
        """Takes over a file that another thread has opened."""
        self.forget(path)
        self._make_room()
        self._files[path] = file

    def _make_room(self) -> None:
        if len(self._files) >= self._files_max:
            oldest = next(iter(self._files))
            self._files.pop(oldest).close()

    def forget(self, path: str) -> None:
        file = self._files.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
