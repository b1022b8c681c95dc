"""`--processes`: runs a command in several child processes, for handlers that need more than one processor.

A child that dies is replaced, after a pause that doubles while children keep dying at once. One that ends in order, as
with `--burst`, is not; one that refuses its arguments ends all of them. A signal drains all children. Each child has a
number, which its successor inherits: it listens so many ports after the given one.
"""

import os
import signal
import subprocess
import sys
import time
from types import FrameType
from typing import Final

from flotilla.cli.terminal.exit_codes import OK, USAGE
from flotilla.cli.terminal.output import note
from flotilla.types.address import Address, parse_address
from flotilla.types.errors import InvalidArgumentError

FLAG: Final = "--processes"
#: The number of this process among those of a worker, from 0.
NUMBER_VARIABLE: Final = "FLOTILLA_WORKER_PROCESS"
_LOOK_S: Final = 0.1
_PAUSE_S: Final = 0.5
_PAUSE_S_MAX: Final = 30.0
#: A child that lived longer has worked.
_LIVED_S: Final = 10.0


def run_processes(count: int, words: list[str]) -> int:
    """Runs `flotilla` with these words until a signal ends it, or all children have ended; returns a bad exit code."""
    processes = _Processes(count, [sys.executable, "-m", "flotilla.cli", *without_flag(words)])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, processes.stop)
    return processes.run()


def without_flag(words: list[str]) -> list[str]:
    kept = []
    for at, word in enumerate(words):
        is_value = at > 0 and words[at - 1] == FLAG
        if word != FLAG and not is_value and not word.startswith(f"{FLAG}="):
            kept.append(word)
    return kept


def own_address(text: str) -> Address:
    """Where this process listens. Raises InvalidArgumentError."""
    try:
        first = parse_address(text)
        number = int(os.environ.get(NUMBER_VARIABLE, "0"))
        return Address(first.host, first.port + number if first.port else 0)
    except ValueError as error:
        raise InvalidArgumentError(f"--metrics-listen {text!r}: {error}; write host:port") from None


class _Processes:
    def __init__(self, count: int, command: list[str]) -> None:
        self._command = command
        self._count = count
        #: With the number of each, and the time when it was started.
        self._children: dict[subprocess.Popen[bytes], tuple[int, float]] = {}
        self._is_stopping = False

    def stop(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True
        for child in list(self._children):
            if child.poll() is None:
                child.send_signal(number)

    def run(self) -> int:
        code, pause_s = OK.code, _PAUSE_S
        #: When to start the next children, and their numbers.
        due = [(time.monotonic(), number) for number in range(self._count)]
        while self._children or (due and not self._is_stopping):
            now_s = time.monotonic()
            while due and due[0][0] <= now_s and not self._is_stopping:
                self._start(due.pop(0)[1], now_s)
            for child, (number, began_s) in list(self._children.items()):
                if child.poll() is None:
                    continue
                del self._children[child]
                code = code or (child.returncode if self._is_final(child) else OK.code)
                if not self._is_final(child):
                    pause_s = _PAUSE_S if now_s - began_s > _LIVED_S else min(2 * pause_s, _PAUSE_S_MAX)
                    due.append((now_s + pause_s, number))
                    note(f"a process of the worker has ended with {child.returncode}; another one takes its place")
                elif child.returncode == USAGE.code and not self._is_stopping:
                    self.stop(signal.SIGTERM, None)
            time.sleep(_LOOK_S)
        return code

    def _is_final(self, child: "subprocess.Popen[bytes]") -> bool:
        return self._is_stopping or child.returncode in (OK.code, USAGE.code)

    def _start(self, number: int, now_s: float) -> None:
        # A session of its own: Ctrl-C reaches it once, from here.
        environment = {**os.environ, NUMBER_VARIABLE: str(number)}
        child = subprocess.Popen(self._command, start_new_session=True, env=environment)
        self._children[child] = (number, now_s)
        if self._is_stopping:
            # The signal came while it was started.
            child.send_signal(signal.SIGTERM)
