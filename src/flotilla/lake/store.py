"""A folder of files: a path of this machine, or a URI of an object store (`s3://`, `gs://`, `abfs://`).

Owns bytes and durability: a file that was put is on disk, whole or not at all. A store is pickled as its address; its
settings and credentials are environment variables, which are the same for `pyarrow`, `deltalake` and
`obstore`.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, Self

import obstore
import pyarrow.fs as pafs  # type: ignore[import-untyped]
from obstore.exceptions import AlreadyExistsError as ObjectExistsError
from obstore.exceptions import BaseError
from obstore.store import from_url

from flotilla.types.errors import AlreadyExistsError, InvalidArgumentError

_READ_BYTES: Final = 1 << 22
_CHECKSUM_BYTES: Final = 16
#: Folders that cannot be read or synced, as on a read-only file system: nobody has made them for a lake.
_NOT_OURS: Final = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS)


class Store:
    def __init__(self, address: str) -> None:
        """Raises InvalidArgumentError for an address that is no folder."""
        if "://" in address and "?" in address:
            raise InvalidArgumentError(
                f"{address!r} has settings of its store behind '?': give them as environment variables, for S3 "
                "AWS_ENDPOINT_URL, AWS_REGION and AWS_ALLOW_HTTP"
            )
        self.address = address if "://" in address else str(Path(address).expanduser().resolve())
        try:
            self._files, self._root = pafs.FileSystem.from_uri(self.address)
        except (ValueError, OSError) as error:
            raise InvalidArgumentError(f"{address!r} is no path or URI of a folder: {error}") from None
        self._root = self._root.rstrip("/")
        self.is_local = isinstance(self._files, pafs.LocalFileSystem)
        #: The same store, for exclusive creates.
        self._objects: Any = None
        self._is_place_durable = False

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.address,)

    def address_of(self, path: str) -> str:
        """The address of a path in the store."""
        return f"{self.address.rstrip('/')}/{path}"

    # Small files.

    def read(self, path: str) -> bytes | None:
        """None: there is no such file."""
        try:
            with self._files.open_input_stream(self._full(path)) as stream:
                data: bytes = stream.read()
        except FileNotFoundError:
            return None
        return data

    def put(self, path: str, data: bytes, *, is_new: bool = False) -> None:
        """Writes a file atomically. With `is_new`, raises AlreadyExistsError when it exists; else replaces it."""
        full = self._full(path)
        self._make_folder(full)
        if self.is_local:
            _put_local(full, data, is_new=is_new)
            return
        if is_new:
            self._put_exclusively(path, data)
            return
        with self._files.open_output_stream(full) as stream:
            stream.write(data)

    def _put_exclusively(self, path: str, data: bytes) -> None:
        """By a conditional put, which `pyarrow` does not have."""
        if self._objects is None:
            self._objects = from_url(self.address)
        try:
            obstore.put(self._objects, path, data, mode="create", use_multipart=False)
        except ObjectExistsError:
            raise _taken(self._full(path)) from None
        except BaseError as error:
            raise OSError(f"{self.address_of(path)} cannot be written: {error}") from error

    # Large files.

    @contextmanager
    def writing(self, path: str) -> Iterator["CheckedFile"]:
        """A new file, which is on disk when the block succeeds and removed when it fails."""
        full = self._full(path)
        self._make_folder(full)
        file = CheckedFile(self._files.open_output_stream(full))
        try:
            yield file
            file.close()
            if self.is_local:
                _sync(full)
        except BaseException:
            with suppress(OSError):
                file.close()
            self.remove([path])
            raise

    def sync(self, path: str) -> None:
        """Makes a file durable that somebody else has written; an object store does so by itself."""
        if self.is_local:
            _sync(self._full(path))

    def reading(self, path: str) -> Any:
        """A file for `pyarrow.parquet`. Raises OSError."""
        return self._files.open_input_file(self._full(path))

    def checksum(self, path: str) -> tuple[str, int]:
        """The checksum and the size of the stored bytes. Raises OSError."""
        digest, size_bytes = blake2b(digest_size=_CHECKSUM_BYTES), 0
        with self._files.open_input_stream(self._full(path)) as stream:
            while data := stream.read(_READ_BYTES):
                digest.update(data)
                size_bytes += len(data)
        return digest.hexdigest(), size_bytes

    # Folders.

    def paths(self, folder: str = "", *, suffix: str) -> list[str]:
        """Paths of all files in a folder tree with this suffix, sorted."""
        top = self._full(folder) if folder else self._root
        selector = pafs.FileSelector(top, allow_not_found=True, recursive=True)
        below = len(self._root) + 1
        found = (info.path[below:] for info in self._files.get_file_info(selector) if info.is_file)
        return sorted(path for path in found if path.endswith(suffix))

    def folders(self) -> list[str]:
        """The names of the folders at the top, sorted."""
        selector = pafs.FileSelector(self._root, allow_not_found=True)
        infos = self._files.get_file_info(selector)
        return sorted(info.base_name for info in infos if info.type == pafs.FileType.Directory)

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder of this name."""
        return bool(self._files.get_file_info(self._full(path)).type != pafs.FileType.NotFound)

    def move_folder(self, old: str, new: str) -> None:
        """Renames a folder; on an object store copies its files and leaves the old ones."""
        if self.is_local:
            self._files.move(self._full(old), self._full(new))
            _sync_folders(self._full(new))
            return
        for path in self.paths(old, suffix=""):
            self._files.copy_file(self._full(path), self._full(f"{new}{path[len(old) :]}"))

    def remove_folder(self, folder: str) -> None:
        """Removes an empty folder; an object store has none."""
        if self.is_local:
            with suppress(FileNotFoundError):
                os.rmdir(self._full(folder))

    def remove(self, paths: Iterable[str]) -> None:
        """Removes files; missing ones are ignored."""
        for path in paths:
            with suppress(FileNotFoundError):
                self._files.delete_file(self._full(path))

    def _make_folder(self, full: str) -> None:
        """For a file; an object store has no folders."""
        if self.is_local:
            self._files.create_dir(full.rpartition("/")[0], recursive=True)
            if not self._is_place_durable:
                # This process or another one may have made them just now.
                _sync_parents(self._root)
                self._is_place_durable = True

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"


class CheckedFile:
    """A file for a Parquet writer that computes the checksum of what is written."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._digest = blake2b(digest_size=_CHECKSUM_BYTES)
        self.size_bytes = 0
        self.closed = False

    @property
    def checksum(self) -> str:
        return self._digest.hexdigest()

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._digest.update(view)
        self._stream.write(view)
        self.size_bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        self._stream.flush()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stream.close()


def _put_local(full: str, data: bytes, *, is_new: bool) -> None:
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
    except FileExistsError:
        raise _taken(full) from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)
    _sync_folders(full)


def _taken(full: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"{full} exists already: another archive writes to this lake")


def _sync(full: str) -> None:
    with open(full, "rb") as file:
        os.fsync(file.fileno())
    _sync_folders(full)


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
