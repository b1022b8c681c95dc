"""A batch that is being stored, with the requests that sent the same one again meanwhile."""

from collections.abc import Callable

from flotilla.broker.ports import Done
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Offset
from flotilla.types.operations import Produced


class PendingBatch:
    """Consensus calls it once with the result; that answers the requests."""

    __slots__ = ("_done", "_explain", "_repeats", "base_offset", "is_pending")

    def __init__(self, done: Done, explain: Callable[[object], FlotillaError]) -> None:
        self._done = done
        self._explain = explain
        #: Set when the batch is proposed: not every batch that comes in is.
        self.base_offset: Offset = 0
        self.is_pending = False
        #: Requests with a copy of some of its records, and the reply of each once the batch is stored.
        self._repeats: list[tuple[Done, Produced]] | None = None

    def propose(self, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self.is_pending = True

    def join(self, done: Done, reply: Produced) -> None:
        """Answers a repeated request together with this one: with `reply`, or with the error of this one."""
        assert self.is_pending, "joined a batch that is not pending"
        if self._repeats is None:
            self._repeats = []
        self._repeats.append((done, reply))

    def __call__(self, result: object) -> None:
        self.is_pending = False
        error = self._explain(result) if isinstance(result, FlotillaError) else None
        self._done(Produced(self.base_offset) if error is None else error)
        for done, reply in self._repeats or ():
            done(reply if error is None else error)
