"""A reader of a store that waits for its loads, as the broker does."""

from collections.abc import Callable
from typing import TypeVar

from flotilla.storage.store import NodeStore
from flotilla.types.errors import NotLoadedError

T = TypeVar("T")


def finish_loads(store: NodeStore) -> int:
    """Runs the loads that readers have requested; returns how many."""
    loads = list(store.take_loads())
    for load in loads:
        load.run()
        if load.is_background:
            store.finish_scrub(load)
        else:
            store.finish_load(load)
    return len(loads)


def finish_rewrites(store: NodeStore) -> int:
    """Copies the segments whose entries were repaired; returns the number of pieces."""
    count = 0
    while pieces := store.plan_rewrites():
        for piece in pieces:
            piece.run()
            store.finish_rewrite(piece)
            count += 1
    return count


def loaded(store: NodeStore, read: Callable[[], T]) -> T:
    """The result of `read` when everything that it needs is in memory."""
    while True:
        try:
            result = read()
        except NotLoadedError:
            assert finish_loads(store), "a reader without a load would wait for ever"
            continue
        if not finish_loads(store):
            return result
