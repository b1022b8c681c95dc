"""Secrets in files: the first line of a file that only its owner may read.

Every client loads this module, so it does without pathlib, which takes 4 ms to load.
"""

import os
import sys
from typing import Final

from flotilla.types.errors import InvalidArgumentError

_FILE_BYTES_MAX: Final = 16 * 1024
#: What the mode of a file says about everybody but its owner.
_OTHERS: Final = 0o077


def read_secret(path: str) -> str:
    """Raises InvalidArgumentError."""
    try:
        if sys.platform != "win32" and os.stat(path).st_mode & _OTHERS:
            raise InvalidArgumentError(f"the secret {path} can be read by others than its owner: chmod 600 {path}")
        with open(path, encoding="utf-8") as file:
            text = file.readline(_FILE_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"the secret cannot be read: {error}") from None
    if not text:
        raise InvalidArgumentError(f"{path} is empty")
    return text
