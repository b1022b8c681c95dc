"""A folder that may be anywhere: a path of this machine, or any address that `pyarrow.fs` knows.

Owns bytes and durability: what was put is on disk, whole or not at all. A store travels to the executors by its
address alone.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, Self

import pyarrow.fs as pafs  # type: ignore[import-untyped]

from flotilla.types.errors import AlreadyExistsError, InvalidArgumentError

_READ_BYTES: Final = 1 << 22
_CHECKSUM_BYTES: Final = 16


class Store:
    def __init__(self, address: str) -> None:
        """Raises InvalidArgumentError when nothing can be there."""
        self.address = address if "://" in address else str(Path(address).expanduser().resolve())
        try:
            self._files, self._root = pafs.FileSystem.from_uri(self.address)
        except (ValueError, OSError) as error:
            raise InvalidArgumentError(f"{address!r} is no place for files: {error}") from None
        self._root = self._root.rstrip("/")
        self._is_local = isinstance(self._files, pafs.LocalFileSystem)

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.address,)

    def address_of(self, path: str) -> str:
        """Of something below, as Spark takes it."""
        return f"{self.address.rstrip('/')}/{path}"

    # Small files, whole.

    def read(self, path: str) -> bytes | None:
        """None: it is not there."""
        try:
            with self._files.open_input_stream(self._full(path)) as stream:
                data: bytes = stream.read()
        except FileNotFoundError:
            return None
        return data

    def put(self, path: str, data: bytes, *, is_new: bool = False) -> None:
        """In one step. With `is_new`, raises AlreadyExistsError when it is there; else it takes its place.

        A store that is not a file system of this machine looks before it writes: there, two who write a new file of
        one name at the same moment are not told apart.
        """
        full = self._full(path)
        self._files.create_dir(full.rpartition("/")[0], recursive=True)
        if self._is_local:
            _put_local(full, data, is_new=is_new)
            return
        if is_new and self._files.get_file_info(full).type != pafs.FileType.NotFound:
            raise _taken(full)
        with self._files.open_output_stream(full) as stream:
            stream.write(data)

    # Large ones.

    @contextmanager
    def writing(self, path: str) -> Iterator["CheckedFile"]:
        """A new file, which is on disk when this ends well and gone when it does not."""
        full = self._full(path)
        self._files.create_dir(full.rpartition("/")[0], recursive=True)
        file = CheckedFile(self._files.open_output_stream(full))
        try:
            yield file
            file.close()
            if self._is_local:
                _sync(full)
        except BaseException:
            with suppress(OSError):
                file.close()
            self.remove([path])
            raise

    def reading(self, path: str) -> Any:
        """A file for `pyarrow.parquet`. Raises OSError."""
        return self._files.open_input_file(self._full(path))

    def checksum(self, path: str) -> tuple[str, int]:
        """Of the bytes as they are there now, and how many they are. Raises OSError."""
        digest, size_bytes = blake2b(digest_size=_CHECKSUM_BYTES), 0
        with self._files.open_input_stream(self._full(path)) as stream:
            while data := stream.read(_READ_BYTES):
                digest.update(data)
                size_bytes += len(data)
        return digest.hexdigest(), size_bytes

    # All of them.

    def list(self, folder: str = "", *, suffix: str) -> Iterable[str]:
        """Paths of all files below a folder whose names end like this, in order."""
        top = self._full(folder) if folder else self._root
        selector = pafs.FileSelector(top, allow_not_found=True, recursive=True)
        below = len(self._root) + 1
        found = (info.path[below:] for info in self._files.get_file_info(selector) if info.is_file)
        return sorted(path for path in found if path.endswith(suffix))

    def remove(self, paths: Iterable[str]) -> None:
        """What is not there is fine."""
        for path in paths:
            with suppress(FileNotFoundError):
                self._files.delete_file(self._full(path))

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"


class CheckedFile:
    """What a Parquet writer writes into: the bytes go to the store, and into a checksum on their way."""

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
            # Unlike a rename, a link never takes the place of what is there.
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
    return AlreadyExistsError(f"{full} is there already: somebody else writes there too")


def _sync(full: str) -> None:
    with open(full, "rb") as file:
        os.fsync(file.fileno())
    _sync_folders(full)


def _sync_folders(full: str) -> None:
    """A new name is on disk when its folder is; and so are folders that were made on the way."""
    folder = full.rpartition("/")[0]
    for _ in range(3):
        handle = os.open(folder or "/", os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        folder = folder.rpartition("/")[0]
