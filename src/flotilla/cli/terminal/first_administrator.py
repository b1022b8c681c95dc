"""The first administrator of a cluster: a random password in a file of its owner's, once."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from secrets import token_urlsafe
from tempfile import mkstemp
from typing import TYPE_CHECKING, Final

from flotilla.types.errors import AlreadyExistsError, InvalidArgumentError

if TYPE_CHECKING:
    from flotilla.client.client import Client

NAME: Final = "admin"
_PASSWORD_BYTES: Final = 32


def create_administrator(client: "Client", file: Path) -> bool:
    """Creates the user `admin`, whose password is the first line of the file. False: the cluster has other users.

    The file is on disk, whole, before the user is asked for. So a command that is cut off anywhere is repeated with the
    same file, and a user that has this password already is the one that was asked for.
    """
    is_new, password = _password(file)
    try:
        client.admin.users.create_administrator(NAME, password)
    except AlreadyExistsError:
        if is_new:
            with suppress(OSError):
                file.unlink()
        return False
    return True


def _password(file: Path) -> tuple[bool, str]:
    """Whether the file is new, and the password in it."""
    if file.exists():
        return False, _earlier_password(file)
    password = token_urlsafe(_PASSWORD_BYTES)
    descriptor, name = mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            written.write(password + "\n")
            written.flush()
            os.fsync(written.fileno())
        # Unlike a renamed file, a link never takes the place of a file that is there.
        os.link(name, file)
    except FileExistsError:
        return False, _earlier_password(file)
    finally:
        Path(name).unlink()
    _sync_folder(file.parent)
    return True, password


def _earlier_password(file: Path) -> str:
    """Raises InvalidArgumentError."""
    if file.stat().st_mode & 0o077:
        raise InvalidArgumentError(f"{file} exists, and others may read it: name another file")
    text = file.read_text("utf-8").partition("\n")[0]
    if len(text) < _PASSWORD_BYTES:
        raise InvalidArgumentError(f"{file} exists and is not from an earlier attempt: name another file")
    return text


def _sync_folder(folder: Path) -> None:
    """The user must not outlive its password in a power failure."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
