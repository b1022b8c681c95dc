"""Fetches with a filter: only matching records are sent, and a long poll looks on until one matches.

One look takes in a bounded number of records, opens a bounded number of bytes of compressed batches, and yields to the
loop. A batch that opens to more is looked into on another thread, one at a time. The answer says how far it has looked,
so a reader goes on from there although nothing matched. At the end of the log a look waits for records, like any other
fetch; it answers when its time is over, with what it has reached.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from flotilla.broker.batch_opener import BatchOpener
from flotilla.broker.log_loads import LogLoads
from flotilla.broker.partition.long_polls import WAIT_MS_MAX, LongPolls
from flotilla.broker.ports import Cancel, Done, Outside
from flotilla.codec.batch.columns import leading, opened_bytes
from flotilla.codec.batch.cut import cut_columns
from flotilla.codec.batch.matching import matching
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import CorruptionError, FlotillaError, InvalidArgumentError, UnknownError
from flotilla.types.filters import MessageFilter
from flotilla.types.ids import Offset
from flotilla.types.limits import ENTRY_BYTES_MAX, OPENING_TURN_BYTES_MAX
from flotilla.types.operations import Fetch, Fetched

#: Records that one look takes in.
LOOKS_MAX: Final = 2_048
#: Runs of records that one look cuts out: each costs as much as looking at many records.
PIECES_MAX: Final = 256
#: Stored bytes that one look reads, if the fetch takes as many.
_READ_BYTES_MAX: Final = 1024 * 1024


class _Looking:
    """A fetch that has found nothing yet."""

    __slots__ = ("cancel", "done", "due_ms", "is_parked", "request", "wanted")

    def __init__(self, request: Fetch, wanted: MessageFilter, done: Done, due_ms: int) -> None:
        #: Its own copy: the offset moves.
        self.request = replace(request)
        self.wanted = wanted
        self.done = done
        self.due_ms = due_ms
        self.is_parked = False
        #: Ends its present wait.
        self.cancel: Cancel | None = None


class FilteredFetches:
    def __init__(
        self,
        outside: Outside,
        polls: LongPolls,
        loads: LogLoads,
        read: Callable[[Fetch], Fetched | None],
        explain: Callable[[object], FlotillaError],
        opener: BatchOpener,
    ) -> None:
        """`read` returns stored batches from the offset on; None: there is nothing to read there yet."""
        self._outside = outside
        self._polls = polls
        self._loads = loads
        self._read = read
        self._explain = explain
        self._opener = opener
        self._looking: dict[_Looking, None] = {}

    def __len__(self) -> int:
        """Those that are not parked."""
        return sum([not looking.is_parked for looking in self._looking])

    def fetch(self, request: Fetch, wanted: MessageFilter, done: Done) -> Cancel | None:
        wait_ms = min(max(request.wait_ms, 0), WAIT_MS_MAX)
        looking = _Looking(request, wanted, done, self._outside.steady_ms() + wait_ms)
        self._looking[looking] = None
        try:
            looking.cancel = self._look(looking)
        except FlotillaError:
            del self._looking[looking]
            raise
        return partial(self._give_up, looking) if looking in self._looking else None

    def fail_all(self, reason: FlotillaError) -> None:
        for looking in list(self._looking):
            cancel = looking.cancel
            self._end(looking, reason)
            if cancel is not None:
                cancel()

    def _look(self, looking: _Looking) -> Cancel | None:
        """Answers, or arranges the next look and returns what cancels that."""
        request = looking.request
        left_ms = looking.due_ms - self._outside.steady_ms()
        stored = self._read(replace(request, max_bytes=min(request.max_bytes, _READ_BYTES_MAX), wait_ms=left_ms))
        if stored is None:
            return self._park(looking, left_ms)
        if stored.batches and opened_bytes(stored.batches[0], ENTRY_BYTES_MAX) > OPENING_TURN_BYTES_MAX:
            self._opener.wait_turn(partial(self._look_aside, looking, stored))
            # What it finds is dropped when the fetch has ended.
            return _nothing
        return self._take(looking, pick(stored, request, looking.wanted))

    def _take(self, looking: _Looking, found: Fetched) -> Cancel | None:
        """The same, of what a look has found."""
        request = looking.request
        left_ms = looking.due_ms - self._outside.steady_ms()
        if found.batches or left_ms <= 0:
            self._end(looking, found)
            return None
        has_moved = found.reached > request.offset
        request.offset = found.reached
        if has_moved and found.reached < found.next_offset:
            return self._outside.later(0, partial(self._look_again, looking))
        return self._park(looking, left_ms)

    def _park(self, looking: _Looking, left_ms: int) -> Cancel:
        looking.is_parked = True
        looking.request.wait_ms = left_ms
        return self._polls.park(looking.request, partial(self._end, looking), partial(self._look_again, looking))

    def _look_aside(self, looking: _Looking, stored: Fetched) -> None:
        if looking not in self._looking:
            self._opener.end_turn()
            return
        aside = _Aside(stored, looking.request, looking.wanted)
        self._outside.aside(aside.pick, partial(self._looked_aside, looking, aside))

    def _looked_aside(self, looking: _Looking, aside: "_Aside") -> None:
        self._opener.end_turn()
        if looking not in self._looking:
            return
        if isinstance(aside.found, Fetched):
            looking.cancel = self._take(looking, aside.found)
        else:
            assert aside.found is not None
            self._end(looking, aside.found)

    def _look_again(self, looking: _Looking) -> None:
        looking.is_parked = False
        looking.cancel = self._loads.run(
            lambda: self._look(looking), lambda error: self._end(looking, self._explain(error))
        )

    def _end(self, looking: _Looking, answer: Fetched | FlotillaError) -> None:
        if looking in self._looking:
            del self._looking[looking]
            looking.done(answer)

    def _give_up(self, looking: _Looking) -> None:
        self._looking.pop(looking, None)
        if looking.cancel is not None:
            looking.cancel()


class _Aside:
    """A look on another thread."""

    __slots__ = ("_request", "_stored", "_wanted", "found")

    def __init__(self, stored: Fetched, request: Fetch, wanted: MessageFilter) -> None:
        self._stored = stored
        self._request = request
        self._wanted = wanted
        self.found: Fetched | FlotillaError | None = None

    def pick(self) -> None:
        try:
            self.found = pick(self._stored, self._request, self._wanted)
        except FlotillaError as error:
            self.found = error
        except Exception as failure:
            # The thread goes on with the work of others.
            self.found = UnknownError(f"the records could not be looked through: {failure!r}")


def _nothing() -> None:
    """Cancels nothing."""


def pick(stored: Fetched, request: Fetch, wanted: MessageFilter) -> Fetched:
    """The matching records of stored batches, each run of them as a batch. Raises CorruptionError."""
    picked: list[bytes | memoryview] = []
    reached = request.offset
    room_bytes = request.max_bytes
    looks = LOOKS_MAX
    for data in leading(stored.batches, OPENING_TURN_BYTES_MAX):
        try:
            view = BatchView(data)
            base: Offset = view.header.base_offset
            first = max(reached - base, 0)
            end = min(view.count, first + looks)
            looks -= end - first
            for low, high in _runs(matching(view, wanted, first, end), first):
                if room_bytes <= 0 or len(picked) >= PIECES_MAX:
                    return Fetched(picked, stored.log_start, stored.next_offset, base + low)
                is_whole = high - low == view.count
                piece = data if is_whole else cut_columns(view.columns, view.header, low, high - low)
                picked.append(piece)
                room_bytes -= len(piece)
        except InvalidArgumentError as error:
            raise CorruptionError(f"the batch at offset {reached} is damaged: {error}") from error
        reached = base + end
        if looks <= 0 or room_bytes <= 0:
            break
    return Fetched(picked, stored.log_start, stored.next_offset, reached)


def _runs(matches: list[bool], first: int) -> Iterator[tuple[int, int]]:
    """[first, end) of neighbours that match."""
    start = -1
    for position, is_match in enumerate([*matches, False], first):
        if is_match and start < 0:
            start = position
        elif not is_match and start >= 0:
            yield start, position
            start = -1
