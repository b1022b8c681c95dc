"""The audit log as a file of its own: one JSON object per line, apart from the other logs and whatever their level.

The file is appended to, and only its owner may read it. Whoever rotates it moves it away and sends SIGHUP: then it is
opened again under its name. A line that cannot be written goes to the other logs, so it is not lost without a word.
"""

import logging
import os

from flotilla.runtime.observability.logs import JsonFormatter
from flotilla.types.errors import InvalidArgumentError

_MODE = 0o600


class AuditFile(logging.Handler):
    """The handler of the logger `flotilla.audit` from its creation until `close`."""

    def __init__(self, path: str) -> None:
        """Raises InvalidArgumentError."""
        super().__init__(logging.INFO)
        self.setFormatter(JsonFormatter())
        self._path = path
        self._descriptor = self._open()
        self._logger = logging.getLogger("flotilla.audit")
        self._logger.addHandler(self)
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False

    def reopen(self) -> None:
        """Raises InvalidArgumentError: then it writes to the file of before."""
        before, self._descriptor = self._descriptor, self._open()
        os.close(before)

    def emit(self, record: logging.LogRecord) -> None:
        line = memoryview(f"{self.format(record)}\n".encode())
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:
            logging.getLogger("flotilla").handle(record)

    def close(self) -> None:
        if self in self._logger.handlers:
            self._logger.removeHandler(self)
            self._logger.setLevel(logging.NOTSET)
            self._logger.propagate = True
            os.close(self._descriptor)
        super().close()

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        except OSError as error:
            raise InvalidArgumentError(f"the audit log cannot be written to {self._path}: {error.strerror}") from None
