"""Work on many items that no request waits for, in slices: requests get most of the time of the loop.

A slice takes a few milliseconds, and the pause after it is a multiple of that: on a busy machine both become longer.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from flotilla.broker.ports import Outside
from flotilla.runtime.observability.failures import report

T = TypeVar("T")

#: A slice ends with the item that is done after this time, or with this many.
_SLICE_MS: Final = 2
_SLICE_COUNT_MAX: Final = 256
#: The pause after a slice, as a multiple of what it took, and the longest one.
_PAUSE_RATIO: Final = 6
_PAUSE_MS_MAX: Final = 100


def in_slices(outside: Outside, items: Iterable[T], act: Callable[[T], None], done: Callable[[], None]) -> None:
    """Calls `act` with every item, and then `done`; the first slice at once."""
    _slice(outside, iter(items), act, done)


def _slice(outside: Outside, left: Iterator[T], act: Callable[[T], None], done: Callable[[], None]) -> None:
    begun_ms = outside.steady_ms()
    for count, item in enumerate(left, 1):
        try:
            act(item)
        except Exception as failure:
            # The others go on.
            report("a periodic check failed", failure, "check")
        took_ms = outside.steady_ms() - begun_ms
        if took_ms >= _SLICE_MS or count == _SLICE_COUNT_MAX:
            pause_ms = min(took_ms * _PAUSE_RATIO, _PAUSE_MS_MAX)
            outside.later(pause_ms, lambda: _slice(outside, left, act, done))
            return
    done()
