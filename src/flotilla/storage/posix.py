"""The real disk: a data directory on a POSIX file system.

Only this module and `system_calls` use `os`. Every OSError becomes DiskFullError or StorageFailedError;
short reads and writes are continued. A lock file excludes a second process while the disk is open.
"""

import builtins
import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from flotilla.storage.framing import SECTOR_BYTES
from flotilla.storage.ports import Buffer, File
from flotilla.storage.reads.read_buffers import ReadBuffers
from flotilla.storage.system_calls import (
    drop_pages,
    find_synced_write_flag,
    read_without_waiting,
    reserve,
    sync_data,
    sync_method,
    write_vector,
)
from flotilla.types.errors import DiskFullError, FlotillaError, InvalidArgumentError, StorageFailedError
from flotilla.types.limits import MIB

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_IOV_MAX = min(os.sysconf("SC_IOV_MAX"), 1024)
#: Larger single calls are several times slower on Linux: the page cache then allocates huge folios.
_CALL_BYTES_MAX = 1 * MIB
_LOCK_NAME = "lock"
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700


@contextmanager
def _typed(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _translated(error, what, path) from error


def _translated(error: OSError, what: str, path: str) -> DiskFullError | StorageFailedError:
    kind = DiskFullError if error.errno in _FULL else StorageFailedError
    return kind(f"{what} {path}: {error.strerror}")


class PosixFile:
    __slots__ = ("_buffers", "_close_failed", "_descriptor", "_path", "_synced_write_flag")

    def __init__(
        self,
        descriptor: int,
        path: str,
        synced_write_flag: int,
        buffers: ReadBuffers,
        close_failed: Callable[[DiskFullError | StorageFailedError], None],
    ) -> None:
        self._descriptor = descriptor
        self._path = path
        self._synced_write_flag = synced_write_flag
        self._buffers = buffers
        self._close_failed = close_failed

    def size(self) -> int:
        with _typed("stat", self._path):
            return os.fstat(self._descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        try:
            content = os.pread(self._descriptor, length, offset)
            if len(content) == length or not content:
                return content
            pieces = [content]
            done = len(content)
            while done < length:
                content = os.pread(self._descriptor, length - done, offset + done)
                if not content:
                    break
                pieces.append(content)
                done += len(content)
        except OSError as error:
            if error.errno == errno.EIO and length > 0:
                return self._read_around(offset, length)
            raise _translated(error, "read", self._path) from error
        return b"".join(pieces)

    def read_cached(self, offset: int, length: int) -> memoryview | None:
        content = self._buffers.take(length)
        return content.toreadonly() if read_without_waiting(self._descriptor, content, offset) else None

    def drop_cached(self, offset: int, length: int) -> None:
        with _typed("read", self._path):
            drop_pages(self._descriptor, offset, length)

    def _read_around(self, offset: int, length: int) -> bytes:
        """Returns unreadable sectors as zeros, which fail every checksum: they become damage like any other."""
        pieces: builtins.list[bytes] = []
        end = min(offset + length, self.size())
        while offset < end:
            stop = min(offset + SECTOR_BYTES - offset % SECTOR_BYTES, end)
            try:
                pieces.append(os.pread(self._descriptor, stop - offset, offset).ljust(stop - offset, b"\0"))
            except OSError as error:
                if error.errno != errno.EIO:
                    raise _translated(error, "read", self._path) from error
                pieces.append(bytes(stop - offset))
            offset = stop
        return b"".join(pieces)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        try:
            for group in _calls(buffers):
                size = sum(map(len, group))
                written = write_vector(self._descriptor, group, offset)
                if written < size:
                    self._continue(offset + written, group, written)
                offset += size
        except OSError as error:
            raise _translated(error, "write", self._path) from error

    def write_synced(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """One call where the system has it: between two calls this thread would wait for the interpreter lock."""
        size = sum(map(len, buffers))
        flag = self._synced_write_flag
        if not flag or size > _CALL_BYTES_MAX or len(buffers) > _IOV_MAX:
            self.write(offset, buffers)
            self.sync()
            return
        try:
            written = write_vector(self._descriptor, buffers, offset, flag)
        except OSError as error:
            raise _translated(error, "write", self._path) from error
        if written < size:
            with _typed("write", self._path):
                self._continue(offset + written, buffers, written)
            self.sync()

    def _continue(self, offset: int, buffers: Sequence[Buffer], written: int) -> None:
        """Writes the rest after a short write, until it is complete or fails."""
        for buffer in buffers:
            view = memoryview(buffer)[min(written, len(buffer)) :]
            written -= min(written, len(buffer))
            while view:
                done = os.pwrite(self._descriptor, view, offset)
                view = view[done:]
                offset += done

    def truncate(self, size: int) -> None:
        with _typed("truncate", self._path):
            os.ftruncate(self._descriptor, size)

    def allocate(self, size: int) -> None:
        with _typed("allocate", self._path):
            if size > os.fstat(self._descriptor).st_size:
                reserve(self._descriptor, size)

    def sync(self) -> None:
        try:
            sync_data(self._descriptor)
        except OSError as error:
            raise _translated(error, "sync", self._path) from error

    def close(self) -> None:
        """Never fails: what is durable was decided by `sync`, and the descriptor is free whatever close returns."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                os.close(descriptor)
            except OSError as error:
                self._close_failed(_translated(error, "close", self._path))


def _calls(buffers: Sequence[Buffer]) -> Iterator[Sequence[Buffer]]:
    """The buffers in portions for one call each."""
    if len(buffers) <= _IOV_MAX and sum(map(len, buffers)) <= _CALL_BYTES_MAX:
        yield buffers
        return
    group: builtins.list[Buffer] = []
    room = _CALL_BYTES_MAX
    for buffer in buffers:
        view = memoryview(buffer)
        while len(view) > room:
            yield [*group, view[:room]]
            view = view[room:]
            group, room = [], _CALL_BYTES_MAX
        group.append(view)
        room -= len(view)
        if len(group) == _IOV_MAX:
            yield group
            group, room = [], _CALL_BYTES_MAX
    if group:
        yield group


class PosixDisk:
    """A data directory. Created when absent; locked until `close`."""

    __slots__ = (
        "_buffers",
        "_lock",
        "_root",
        "_synced_write_flag",
        "close_failure_count",
        "on_close_failed",
        "opened",
        "opened_count",
    )

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)
        self._buffers = ReadBuffers()
        #: The file that was opened last, and how many were, for reports.
        self.opened = ""
        self.opened_count = 0
        #: How many files returned an error when they were closed (network disks, FUSE); the first is reported.
        self.close_failure_count = 0
        self.on_close_failed: Callable[[DiskFullError | StorageFailedError], None] = _ignore
        with _typed("create", self._root):
            os.makedirs(self._root, mode=_FOLDER_MODE, exist_ok=True)
            self._lock = os.open(
                os.path.join(self._root, _LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE
            )
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise StorageFailedError(f"{self._root} is in use by another process") from error
        with _typed("write", _LOCK_NAME):
            self._synced_write_flag = find_synced_write_flag(self._lock)

    @property
    def sync_method(self) -> str:
        """How writes become durable on this file system, for people."""
        return sync_method(self._synced_write_flag)

    def open(self, path: str, *, create: bool = False) -> File:
        self.opened = path
        self.opened_count += 1
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with _typed("open", path):
            descriptor = os.open(self._full(path), flags, _FILE_MODE)
        return PosixFile(descriptor, path, self._synced_write_flag, self._buffers, self._close_failed)

    def _close_failed(self, error: DiskFullError | StorageFailedError) -> None:
        self.close_failure_count += 1
        if self.close_failure_count == 1:
            self.on_close_failed(error)

    def open_cached(self, path: str) -> None:
        """A look-up may read a folder from the disk, and no call says so beforehand."""

    def exists(self, path: str) -> bool:
        return os.path.exists(self._full(path))

    def list(self, path: str) -> builtins.list[str]:
        with _typed("list", path):
            try:
                return sorted(os.listdir(self._full(path)))
            except FileNotFoundError:
                return []

    def make_directory(self, path: str) -> None:
        with _typed("create", path):
            os.makedirs(self._full(path), mode=_FOLDER_MODE, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        with _typed("rename", source):
            os.replace(self._full(source), self._full(target))

    def remove(self, path: str) -> None:
        full = self._full(path)
        with _typed("remove", path):
            try:
                os.unlink(full)
            except FileNotFoundError:
                pass
            except OSError as error:
                # For a folder Linux returns EISDIR, other systems EPERM.
                if error.errno not in (errno.EISDIR, errno.EPERM) or not os.path.isdir(full):
                    raise
                os.rmdir(full)

    def sync_directory(self, path: str) -> None:
        with _typed("sync", path):
            descriptor = os.open(self._full(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def secret(self, count: int) -> bytes:
        return os.urandom(count)

    def close(self) -> None:
        """Releases the lock of the directory."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _full(self, path: str) -> str:
        if path.startswith("/") or "\0" in path or ".." in path.split("/"):
            raise InvalidArgumentError(f"{path!r} leaves the data directory")
        return os.path.join(self._root, path) if path else self._root


def _ignore(_: FlotillaError) -> None:
    """Until the owner of the disk has set it."""
