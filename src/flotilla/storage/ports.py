"""The disk as storage uses it. The real one is `posix.py`; the simulator has one that fails.

Calls are synchronous: the caller decides on which thread they run. The event loop uses the `cached` ones, which never
wait for the disk. Paths are relative to the data
directory, with "/" between names. A file's bytes are durable after `sync`, a name (created, renamed,
removed) after `sync_directory` of its folder. Every failure is raised as DiskFullError or
StorageFailedError; after a failed `sync` the file must be abandoned, never synced again.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class File(Protocol):
    """An open file."""

    def size(self) -> int: ...

    def read(self, offset: int, length: int) -> bytes:
        """Bytes at `offset`; fewer only at the end of the file."""

    def read_cached(self, offset: int, length: int) -> Buffer | None:
        """Like `read` if that needs no disk; None: it may, or perhaps the file ends before."""

    def drop_cached(self, offset: int, length: int) -> None:
        """The next `read` there comes from the disk, where the system can be told so."""

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Writes all buffers one after the other, completely or with an error."""

    def write_synced(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """`write` and `sync` in one, cheaper than the two. After any failure the file must be abandoned."""

    def truncate(self, size: int) -> None: ...

    def allocate(self, size: int) -> None:
        """Reserves space up to `size`; unwritten bytes read as zero and count towards size()."""

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A data directory."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def open_cached(self, path: str) -> File | None:
        """Like `open` if that needs no disk; None: it may."""

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted; an absent folder is empty."""

    def make_directory(self, path: str) -> None:
        """Creates a folder and its parents; an existing one is fine."""

    def rename(self, source: str, target: str) -> None:
        """Replaces the target, atomically."""

    def remove(self, path: str) -> None:
        """Removes a file or an empty folder; an absent one is fine."""

    def sync_directory(self, path: str) -> None: ...

    def secret(self, count: int) -> bytes:
        """Random bytes that nobody can guess."""
