"""The small files of a data directory that hold their content twice: which copies are damaged, and how they are mended.

`format` is the store's own. The others belong to the runtime, which names them; here their content means nothing.
"""

from collections.abc import Iterable, Iterator

from flotilla.codec.two_copies import Copies, Find, find_text, mend_copies, read_copies
from flotilla.storage.disk_folder import DiskFolder
from flotilla.storage.ports import Disk
from flotilla.storage.store_format import FORMAT_FILE, find_format
from flotilla.types.errors import DiskFullError


def copied_files(texts: Iterable[str]) -> Iterator[tuple[str, Find]]:
    """Paths, and what finds the copies in each; `texts` are those of text."""
    yield FORMAT_FILE, find_format
    for path in texts:
        yield path, find_text


def damaged_copies(disk: Disk, texts: Iterable[str]) -> list[str]:
    """For people. A file without an intact copy is not among them: nothing here can mend it."""
    folder = DiskFolder(disk)
    return [name for path, find in copied_files(texts) for name in names(path, read_copies(folder, path, find))]


def mend_damaged(disk: Disk, texts: Iterable[str]) -> list[str]:
    """Mends damaged copies in place, and returns them for people. Those that find no room stay as they are."""
    folder = DiskFolder(disk)
    mended: list[str] = []
    for path, find in copied_files(texts):
        try:
            mended += names(path, mend_copies(folder, path, find))
        except DiskFullError:
            continue
    return mended


def names(path: str, copies: Copies | None) -> list[str]:
    return [] if copies is None else [f"copy {number} of {path}" for number in copies.damaged]
