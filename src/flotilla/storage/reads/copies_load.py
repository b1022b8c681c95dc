"""Verification of a small file that holds its content twice, on another thread than the loop.

A damaged copy is mended there as well: that needs nothing that the loop knows, and the loop may replace the file
meanwhile (`codec/two_copies.py`).
"""

from flotilla.codec.two_copies import SECTOR_BYTES, Find, Patch
from flotilla.storage.disk_folder import DiskFolder
from flotilla.storage.ports import Disk, File
from flotilla.storage.reads.loads import LoadedPart
from flotilla.types.ids import GroupId


class CopiesLoad:
    __slots__ = ("_disk", "_find", "damage", "file", "is_background", "low", "part", "path")

    def __init__(self, disk: Disk, path: str, find: Find) -> None:
        self._disk = disk
        self._find = find
        self.path = path
        self.low = 0
        self.is_background = True
        #: Copies that were damaged.
        self.damage = 0
        #: Stays None if the file could not be read; empty if there is none.
        self.part: LoadedPart | None = None
        self.file: File | None = None

    @property
    def group(self) -> GroupId:
        """Of none."""
        return 0

    def run(self) -> None:
        if DiskFolder(self._disk).read(self.path, self._verify) is None:
            self.part = LoadedPart(self.path, 0, 0)

    def _verify(self, content: bytes) -> list[Patch]:
        copies = self._find(content)
        self.part = LoadedPart(self.path, 0, len(content))
        if copies.content is not None:
            self.damage = len(copies.damaged)
        elif content and len(content) % SECTOR_BYTES == 0:
            # No copy is left. A file of an earlier version has one, without a checksum, and fills no sector.
            self.damage = 2
        return copies.patches()
