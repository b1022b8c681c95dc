"""The first administrator of a cluster: a random password in a file of its owner's, once."""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final

from flotilla.types.errors import AlreadyExistsError, InvalidArgumentError

if TYPE_CHECKING:
    from flotilla.client.client import Client

NAME: Final = "admin"
_PASSWORD_BYTES: Final = 32


def create_administrator(client: "Client", file: Path) -> bool:
    """Creates the user `admin`, whose password is the first line of the file. False: the cluster has users already.

    The file is written before the user exists: a command that is cut off in between is repeated with the same file.
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
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if file.stat().st_mode & 0o077:
            raise InvalidArgumentError(f"{file} exists, and others may read it: name another file") from None
        text = file.read_text("utf-8").partition("\n")[0]
        if len(text) < _PASSWORD_BYTES:
            raise InvalidArgumentError(f"{file} exists and is not from an earlier attempt: name another file") from None
        return False, text
    with os.fdopen(descriptor, "w", encoding="utf-8") as written:
        password = token_urlsafe(_PASSWORD_BYTES)
        written.write(password + "\n")
        written.flush()
        os.fsync(written.fileno())
    return True, password
