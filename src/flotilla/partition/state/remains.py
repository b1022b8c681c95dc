"""What is left of a state that another one has replaced.

Freeing a million objects takes tens of milliseconds, in which the interpreter does nothing else, on whichever thread.
So the parts are freed a few thousand objects at a time, from the leaves up. Nothing is changed: whoever still refers to
a part of the state, such as the view of a snapshot that is being written, finds it as it was.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from flotilla.partition.state.snapshot import Contents

#: Objects that one step frees.
_STEP: Final = 2_048


def dismantle(contents: Contents) -> Iterator[None]:
    """Frees the state step by step. The caller keeps no reference to it."""
    parts = _parts(contents)
    # The parts are held here, so this frees the tables around them alone.
    del contents
    while parts:
        parts.pop()
        yield


def _parts(contents: Contents) -> list[object]:
    parts: list[object] = []
    for queue in contents.queues.values():
        for runs in (queue.settled, queue.failures, queue.endings.runs):
            parts += runs.freeze().leaves
        parts += _steps(queue.dying)
    parts += contents.cancelled.freeze().leaves
    producers, keys = contents.producers, contents.keys
    for items in (producers.producers.values(), producers.idle.values(), producers.ring, keys.buckets):
        parts += _steps(items)
    parts += _steps(contents.results.kept.values())
    for unkept in contents.results.unkept.values():
        parts += unkept.runs.freeze().leaves
    return parts


def _steps(items: Iterable[object]) -> Iterator[list[object]]:
    remaining = iter(items)
    while step := list(islice(remaining, _STEP)):
        yield step
