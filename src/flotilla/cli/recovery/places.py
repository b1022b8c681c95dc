"""Where a backup is kept: a folder of this machine, or a URI of an object store (`s3://`, with the extra `lake`).

A file is put as a whole or not at all, and is never changed.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from flotilla.types.errors import AlreadyExistsError, InvalidArgumentError


class Place(Protocol):
    @property
    def address(self) -> str: ...

    def read(self, path: str) -> bytes | None:
        """None: there is no such file."""

    def put(self, path: str, data: bytes, *, is_new: bool = False) -> None:
        """Durable when it returns. With `is_new`, raises AlreadyExistsError when the file exists."""

    def paths(self, folder: str = "", *, suffix: str) -> list[str]:
        """Paths of all files in a folder tree with this suffix, sorted."""

    def remove(self, paths: Iterable[str]) -> None:
        """Missing ones are ignored."""


def open_place(address: str) -> Place:
    """Raises InvalidArgumentError."""
    if "://" not in address:
        return LocalPlace(Path(address).expanduser().resolve())
    try:
        from flotilla.lake.store import Store
    except ImportError as error:
        raise InvalidArgumentError(
            f"{address}: object stores need the extra `lake` ({error.name} is missing)"
        ) from None
    return Store(address)


class LocalPlace:
    """A folder that only its owner may read: it holds every message and what proves passwords."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def address(self) -> str:
        return str(self._root)

    def read(self, path: str) -> bytes | None:
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, path: str, data: bytes, *, is_new: bool = False) -> None:
        full = self._root / path
        folders = [folder for folder in (full.parent, *full.parent.parents) if not folder.exists()]
        full.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = full.with_name(f"{full.name}.{token_hex(4)}.new")
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                # Unlike a rename, a link never replaces a file.
                os.link(beside, full)
            else:
                os.replace(beside, full)
        except FileExistsError:
            raise AlreadyExistsError(f"{full} exists already: another backup writes to this place") from None
        finally:
            with suppress(FileNotFoundError):
                beside.unlink()
        for folder in {full.parent, *(folder.parent for folder in folders)}:
            _sync(folder)

    def paths(self, folder: str = "", *, suffix: str) -> list[str]:
        top = self._root / folder
        found = (path for path in top.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self._root)) for path in found if path.name.endswith(suffix))

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                (self._root / path).unlink()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
