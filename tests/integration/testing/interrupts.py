"""Raises in the thread of a caller, as a signal handler does: at one chosen place of a call, for each of its places.

CPython runs signal handlers after a call, at the start of a function, and where a loop jumps back. These are the places
here: of every frame that the call leads to in this thread, also in the standard library. What the interpreter does
between two of them cannot be interrupted by a signal.
"""

import dis
import sys

_JUMPS_BACK = frozenset(number for name, number in dis.opmap.items() if "JUMP_BACKWARD" in name)


class InterruptError(Exception):
    """What the handler of a signal raises."""


class Interrupted:
    """Makes calls that are interrupted at their `place`-th place; `is_over`: the last one has not so many."""

    def __init__(self, *, first=1, step=1):
        self.place = first - step
        self._step = step
        self._seen = 0
        self.is_over = False
        self.where = ""

    def again(self):
        """Goes on to the next place. False: the last call came to its end untouched."""
        self.place += self._step
        return not self.is_over

    def run(self, call):
        """The result of the call; None if it was interrupted."""
        self._seen = 0
        self.is_over = True
        try:
            sys.settrace(self._trace)
            sys.setprofile(self._profile)
            return call()
        except InterruptError:
            return None
        finally:
            sys.setprofile(None)
            sys.settrace(None)

    def _profile(self, frame, event, _):
        if event in ("call", "return", "c_return") and not self._is_callers(frame, event):
            self._pass(frame, event)

    def _trace(self, frame, event, _):
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] in _JUMPS_BACK and not self._is_callers(frame, ""):
            self._pass(frame, "loop")
        return self._trace

    def _is_callers(self, frame, event):
        """Of the test itself: also the return of the call, after which the result is the caller's.

        Nor in the callbacks of weak references, which nobody would notice.
        """
        name = frame.f_code.co_filename
        if "/tests/" in name or name.endswith(("/_weakrefset.py", "/weakref.py")):
            return True
        return event == "return" and frame.f_back is not None and "/tests/" in frame.f_back.f_code.co_filename

    def _pass(self, frame, event):
        self._seen += 1
        if self._seen == self.place:
            self.is_over = False
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name} {event}"
            raise InterruptError(self.where)
