"""`--reload`: runs a command in a child process, and starts it again whenever a Python file here changes.

For development: a change drains the worker, so no message is lost or failed by it. A command that ends by itself, as by
an error in the code, is started again after the next change.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from flotilla.cli.terminal.output import note

_LOOK_S: Final = 0.3
#: Folders of tools, not of the application.
_PASSED_OVER: Final = ("__pycache__", "node_modules", "site-packages")
FLAG: Final = "--reload"


def run_reloading(folder: Path, words: list[str]) -> int:
    """Runs `flotilla` with these words until a signal ends it; returns the exit code of the last child."""
    reloader = _Reloader(folder, [word for word in words if word != FLAG])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, reloader.stop)
    return reloader.run()


class _Reloader:
    def __init__(self, folder: Path, words: list[str]) -> None:
        self._folder = folder
        self._command = [sys.executable, "-m", "flotilla.cli", *words]
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()

    def stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()
        self._end_child(number)

    def run(self) -> int:
        code = 0
        while not self._stopping.is_set():
            seen = state_of(self._folder)
            # A session of its own: Ctrl-C reaches it once, from here.
            child = self._child = subprocess.Popen(self._command, start_new_session=True)
            has_changed = False
            while child.poll() is None:
                self._stopping.wait(_LOOK_S)
                if not has_changed and not self._stopping.is_set() and state_of(self._folder) != seen:
                    has_changed = True
                    note("a file has changed; the worker starts again")
                    self._end_child(signal.SIGTERM)
            code = child.wait()
            if not has_changed and not self._stopping.is_set():
                note(f"the worker has ended with {code}; waiting for a change")
                while not self._stopping.is_set() and state_of(self._folder) == seen:
                    self._stopping.wait(_LOOK_S)
        return code

    def _end_child(self, number: int) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Time and size of all Python files below a folder, without hidden folders."""
    found = {}
    for path in _python_files(folder):
        try:
            facts = path.stat()
        except OSError:
            continue
        found[str(path)] = (facts.st_mtime_ns, facts.st_size)
    return found


def _python_files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _PASSED_OVER]
        yield from (Path(root, name) for name in names if name.endswith(".py"))
