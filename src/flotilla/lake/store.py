"""A folder of files: a path of this machine, or a URI of an object store (`s3://`, `gs://`, `abfs://`).

Owns bytes and durability: a file that was put is on disk, whole or not at all. A store is pickled as its address; its
settings and credentials are environment variables, which are the same for `obstore` and `deltalake`.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote

from flotilla.lake.files.local_files import LocalFiles
from flotilla.lake.files.object_files import ObjectFiles
from flotilla.types.errors import AlreadyExistsError, InvalidArgumentError

_READ_BYTES: Final = 1 << 22
_CHECKSUM_BYTES: Final = 16
_LOCAL_SCHEME: Final = "file://"


class Store:
    def __init__(self, address: str) -> None:
        """Raises InvalidArgumentError for an address that is no folder."""
        if "://" in address and "?" in address:
            raise InvalidArgumentError(
                f"{address!r} has settings of its store behind '?': give them as environment variables, for S3 "
                "AWS_ENDPOINT_URL, AWS_REGION and AWS_ALLOW_HTTP"
            )
        self.is_local = "://" not in address or address.startswith(_LOCAL_SCHEME)
        self.address = address if "://" in address else str(Path(address).expanduser().resolve())
        self._files: LocalFiles | ObjectFiles
        if self.is_local:
            is_path = self.address.startswith("/")
            self._files = LocalFiles(self.address if is_path else unquote(self.address.removeprefix(_LOCAL_SCHEME)))
        else:
            self._files = ObjectFiles(self.address)

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.address,)

    def address_of(self, path: str) -> str:
        """The address of a path in the store."""
        return f"{self.address.rstrip('/')}/{path}"

    # Small files.

    def read(self, path: str) -> bytes | None:
        """None: there is no such file."""
        try:
            return self._files.read(path)
        except FileNotFoundError:
            return None

    def put(self, path: str, data: bytes, *, is_new: bool = False) -> None:
        """Writes a file atomically. With `is_new`, raises AlreadyExistsError when it exists; else replaces it."""
        try:
            self._files.put(path, data, is_new=is_new)
        except FileExistsError:
            raise AlreadyExistsError(
                f"{self.address_of(path)} exists already: another archive writes to this lake"
            ) from None

    # Large files.

    @contextmanager
    def writing(self, path: str) -> Iterator["CheckedFile"]:
        """A new file, which is on disk when the block succeeds and removed when it fails."""
        file = CheckedFile(self._files.writer(path))
        try:
            yield file
            file.close()
            self._files.sync(path)
        except BaseException:
            with suppress(OSError):
                file.close()
            self.remove([path])
            raise

    def sync(self, path: str) -> None:
        """Makes a file durable that somebody else has written; an object store does so by itself."""
        self._files.sync(path)

    def reading(self, path: str) -> Any:
        """A file for `pyarrow.parquet`. Raises OSError."""
        return self._files.reader(path)

    def checksum(self, path: str) -> tuple[str, int]:
        """The checksum and the size of the stored bytes. Raises OSError."""
        digest, size_bytes = blake2b(digest_size=_CHECKSUM_BYTES), 0
        with self._files.reader(path) as file:
            while data := file.read(_READ_BYTES):
                digest.update(data)
                size_bytes += len(data)
        return digest.hexdigest(), size_bytes

    # Folders.

    def paths(self, folder: str = "", *, suffix: str) -> list[str]:
        """Paths of all files in a folder tree with this suffix, sorted."""
        return sorted(path for path in self._files.paths(folder) if path.endswith(suffix))

    def folders(self) -> list[str]:
        """The names of the folders at the top, sorted."""
        return sorted(self._files.folders())

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder of this name."""
        return self._files.exists(path)

    def move_folder(self, old: str, new: str) -> None:
        """Renames a folder; on an object store copies its files and leaves the old ones."""
        self._files.move_folder(old, new)

    def remove_folder(self, folder: str) -> None:
        """Removes an empty folder; an object store has none."""
        self._files.remove_folder(folder)

    def remove(self, paths: Iterable[str]) -> None:
        """Removes files; missing ones are ignored."""
        for path in paths:
            self._files.remove(path)


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
