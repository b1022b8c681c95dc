"""Objects below a prefix of a bucket: the same calls for Amazon's, Google's and Microsoft's stores, by `obstore`.

It is the library that `deltalake` is built on, so both read the same environment variables. An object is written whole
or not at all; folders do not exist. Errors are OSError.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import obstore
import pyarrow as pa  # type: ignore[import-untyped]
from obstore.exceptions import AlreadyExistsError as ObjectExistsError
from obstore.exceptions import BaseError
from obstore.store import from_url

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import MIB

#: What the libraries call the stores of Amazon, Google and Microsoft.
SCHEMES: Final = ("s3", "s3a", "gs", "abfs", "abfss", "az")
#: `abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH`.
_ACCOUNT_SCHEMES: Final = ("abfs://", "abfss://")
#: An object of this size or more is written in parts, of which a few are in memory.
_PART_BYTES: Final = 8 * MIB
_PARTS_AT_ONCE: Final = 2
#: Where the library's messages begin to show its own values.
_DETAILS: Final = "\n\nDebug source"


class ObjectFiles:
    def __init__(self, address: str) -> None:
        """Raises InvalidArgumentError."""
        if address.partition("://")[0] not in SCHEMES:
            raise InvalidArgumentError(f"{address!r} is no path or URI of a folder: stores are {', '.join(SCHEMES)}")
        if "@" in address.partition("://")[2].partition("/")[0] and not address.startswith(_ACCOUNT_SCHEMES):
            raise InvalidArgumentError(
                "the address of a lake has credentials in it: give them as environment variables, for S3 "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        self._address = address
        try:
            self._store: Any = from_url(address)
        except (BaseError, ValueError, OSError) as error:
            raise InvalidArgumentError(f"{address!r} is no path or URI of a folder: {_sentence(error)}") from None

    def read(self, path: str) -> bytes:
        """Raises FileNotFoundError."""
        with self.os_errors(path):
            return bytes(obstore.get(self._store, path).bytes())

    def put(self, path: str, data: bytes, *, is_new: bool) -> None:
        """Raises FileExistsError with `is_new`; otherwise an object is replaced."""
        with self.os_errors(path):
            obstore.put(self._store, path, data, mode="create" if is_new else "overwrite", use_multipart=False)

    def writer(self, path: str) -> Any:
        """The object exists when the writer is closed."""
        opened = obstore.open_writer(self._store, path, buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE)
        return _Writer(self, path, opened)

    def reader(self, path: str) -> Any:
        """Raises FileNotFoundError."""
        with self.os_errors(path):
            size_bytes = obstore.head(self._store, path)["size"]
        return pa.PythonFile(_Ranges(self, path, size_bytes), mode="r")

    def read_range(self, path: str, start: int, end: int) -> Any:
        with self.os_errors(path):
            return obstore.get_range(self._store, path, start=start, end=end)

    def sync(self, path: str) -> None:
        """An object that exists is durable."""

    def paths(self, folder: str) -> list[str]:
        """All objects below a folder."""
        with self.os_errors(folder):
            return [each["path"] for some in obstore.list(self._store, folder or None) for each in some]

    def folders(self) -> list[str]:
        with self.os_errors(""):
            return list(obstore.list_with_delimiter(self._store)["common_prefixes"])

    def exists(self, path: str) -> bool:
        with self.os_errors(path):
            try:
                obstore.head(self._store, path)
            except FileNotFoundError:
                return any(obstore.list(self._store, path, chunk_size=1))
        return True

    def move_folder(self, old: str, new: str) -> None:
        """Copies; the old objects stay."""
        for path in self.paths(old):
            with self.os_errors(path):
                obstore.copy(self._store, path, f"{new}{path[len(old) :]}")

    def remove_folder(self, folder: str) -> None:
        """There is none."""

    def remove(self, path: str) -> None:
        """A missing object is ignored."""
        try:
            with self.os_errors(path):
                obstore.delete(self._store, path)
        except FileNotFoundError:
            pass

    @contextmanager
    def os_errors(self, path: str) -> Iterator[None]:
        """Errors about a path as those of files."""
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no {self._address}/{path}") from None
        except ObjectExistsError:
            raise FileExistsError(f"{self._address}/{path} exists") from None
        except (BaseError, OSError) as error:
            raise OSError(f"{self._address}/{path}: {_sentence(error)}") from error


class _Writer:
    def __init__(self, files: ObjectFiles, path: str, opened: Any) -> None:
        self._files = files
        self._path = path
        self._opened = opened

    def write(self, data: memoryview) -> None:
        with self._files.os_errors(self._path):
            self._opened.write(data)

    def flush(self) -> None:
        with self._files.os_errors(self._path):
            self._opened.flush()

    def close(self) -> None:
        with self._files.os_errors(self._path):
            self._opened.close()


class _Ranges(io.RawIOBase):
    """An object as a file of ranges, each one request."""

    def __init__(self, files: ObjectFiles, path: str, size_bytes: int) -> None:
        self._files = files
        self._path = path
        self._size_bytes = size_bytes
        self._at = 0

    def read(self, count: int | None = -1) -> Any:
        rest = max(self._size_bytes - self._at, 0)
        wanted = rest if count is None or count < 0 else min(count, rest)
        if not wanted:
            return b""
        start, self._at = self._at, self._at + wanted
        return self._files.read_range(self._path, start, self._at)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}
        self._at = begin[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _sentence(error: Exception) -> str:
    return str(error).partition(_DETAILS)[0]
