"""The core of a manual reader without threads or sockets: which fetches to make, and messages out of what came.

Belongs to whoever polls; only `following`, `arrived` and `appeared` may be called by another thread. For each
partition there is at most one fetch under way. The next one is made right behind an answer, by whoever brings it, or
as soon as less than a response of that partition waits: so the next messages travel while the application works, even
if it never lets another thread run. Batches stay bytes until somebody takes their messages.

The position of a partition is the offset after the last message that was handed out. Whatever was fetched
for an older position, before a seek, is recognised by its generation and dropped. Partitions may come and go.
"""

from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from flotilla.client._core.calls import CallResult
from flotilla.client.reader.message import Message, messages_of
from flotilla.codec.batch.header import parse_header
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import (
    CorruptionError,
    FlotillaError,
    InvalidArgumentError,
    OffsetOutOfRangeError,
)
from flotilla.types.ids import Offset
from flotilla.types.limits import MIB
from flotilla.types.operations import EARLIEST, Fetch, Fetched, ListOffsets, OffsetFound

Wanted: TypeAlias = Fetch | ListOffsets


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    #: Of one fetch; a batch that is larger comes all the same.
    fetch_bytes: int = 1 * MIB
    #: Of everything that was fetched and not handed out.
    buffer_bytes_max: int = 32 * MIB
    #: How long a broker waits for news before it answers that there are none.
    long_poll_ms: int = 5_000
    #: Go on with what is left when retention has removed what would be next, instead of raising.
    skip_removed: bool = False
    #: Who answers: the leader of a partition, the nearest replica, or for each reader another one.
    read_from: str = "leader"
    #: Each fetch sees everything that was acknowledged before it was made.
    is_linearizable: bool = False


class _Part:
    """One partition."""

    __slots__ = (
        "arrived_count",
        "buffered_bytes",
        "collected_count",
        "fetch_offset",
        "generation",
        "is_fetching",
        "is_lost",
        "is_paused",
        "number",
        "position",
    )

    def __init__(self, number: int, position: Offset, generation: int) -> None:
        self.number = number
        self.position = position
        #: What to ask for next: ahead of the position by what is buffered.
        self.fetch_offset = position
        self.buffered_bytes = 0
        self.is_fetching = False
        #: The position is gone; the oldest offset has to be found out.
        self.is_lost = False
        #: Nothing of it is fetched or handed out.
        self.is_paused = False
        self.generation = generation
        #: Answers that were brought, and those of them that were looked at. Each has one writer, on its own thread.
        self.arrived_count = 0
        self.collected_count = 0


class ReaderCore:
    def __init__(self, topic: str, positions: dict[int, Offset], options: ReaderOptions) -> None:
        self._topic = topic
        self._options = options
        #: Given to each state of a partition in which older answers mean nothing.
        self._generation = 0
        self._parts = {number: _Part(number, offset, 0) for number, offset in positions.items()}
        #: Answers that nobody has looked at: partition, generation, outcome, whether the next fetch is under way.
        self._arrived: deque[tuple[_Part, int, CallResult, bool]] = deque()
        #: Partitions that the topic has got since, and where to begin in them.
        self._appeared: deque[tuple[int, Offset]] = deque()
        #: Batches in the order of their arrival: partition, generation, bytes.
        self._batches: deque[tuple[_Part, int, bytes | memoryview]] = deque()
        self._buffered_bytes = 0
        #: Messages of the batch that is being handed out, from the cursor on.
        self._messages: list[Message] = []
        self._cursor = 0
        self._part: _Part | None = None
        self._errors: deque[FlotillaError] = deque()
        #: Something has happened since `wanted` was last asked.
        self.may_want = True

    @property
    def positions(self) -> dict[int, Offset]:
        """For each partition the offset of the message that comes next."""
        return {part.number: part.position for part in self._parts.values()}

    def add(self, partition: int, offset: Offset) -> None:
        """Another partition to read, from there on."""
        assert partition not in self._parts
        self._generation += 1
        self._parts[partition] = _Part(partition, offset, self._generation)
        self.may_want = True

    def appeared(self, partition: int, offset: Offset) -> None:
        """The topic has got another partition, which is read from the next turn on."""
        self._appeared.append((partition, offset))
        self.may_want = True

    def remove(self, partition: int) -> None:
        """Reads it no more; what was fetched of it is dropped."""
        part = self._parts.pop(partition)
        self._go_to(part, part.position)

    def pause(self, partition: int) -> None:
        """Hands nothing of it out until it is resumed. What was fetched of it is dropped, and fetched again then."""
        part = self._part_of(partition)
        part.is_paused = True
        self._go_to(part, part.position)

    def resume(self, partition: int) -> None:
        self._part_of(partition).is_paused = False
        self.may_want = True

    @property
    def paused(self) -> list[int]:
        return [part.number for part in self._parts.values() if part.is_paused]

    def seek(self, partition: int, offset: Offset) -> None:
        """Goes on at an offset, forwards or backwards."""
        part = self._part_of(partition)
        if offset < 0:
            raise InvalidArgumentError(f"{offset} is not an offset")
        self._go_to(part, offset)

    def _part_of(self, partition: int) -> _Part:
        part = self._parts.get(partition)
        if part is None:
            raise InvalidArgumentError(f"partition {partition} is not one of those that are read: {list(self._parts)}")
        return part

    def _go_to(self, part: _Part, offset: Offset) -> None:
        part.position = part.fetch_offset = offset
        self._generation += 1
        part.generation = self._generation
        part.buffered_bytes = 0
        self.may_want = True
        part.is_fetching = False
        part.is_lost = False
        if part is self._part:
            self._part = None
            self._messages = []
            self._cursor = 0

    # Fetching.

    def wanted(self) -> list[tuple[int, Wanted]]:
        """Requests to make now, each with the generation that its answer is to be reported with."""
        self.may_want = False
        while self._appeared:
            self.add(*self._appeared.popleft())
            self.may_want = False
        found: list[tuple[int, Wanted]] = []
        reserved = sum([part.is_fetching for part in self._parts.values()]) * self._options.fetch_bytes
        for part in self._parts.values():
            if part.is_paused or part.is_fetching or part.buffered_bytes >= self._options.fetch_bytes:
                continue
            used = self._buffered_bytes + reserved
            if used and used + self._options.fetch_bytes > self._options.buffer_bytes_max:
                break
            part.is_fetching = True
            reserved += self._options.fetch_bytes
            found.append((part.generation, self._request(part)))
        return found

    def _request(self, part: _Part) -> Wanted:
        if part.is_lost:
            return ListOffsets(self._topic, part.number, EARLIEST)
        return self._fetch(part.number, part.fetch_offset)

    def _fetch(self, partition: int, offset: Offset) -> Fetch:
        options = self._options
        return Fetch(
            self._topic,
            partition,
            offset,
            options.fetch_bytes,
            options.long_poll_ms,
            is_linearizable=options.is_linearizable,
        )

    def following(self, partition: int, generation: int, result: CallResult) -> Fetch | None:
        """The fetch to make right behind an answer that is about to be reported; None: `wanted` will say.

        Whatever bounds the buffer allows for each partition one answer that nobody has looked at and one on its way.
        """
        part = self._parts.get(partition)
        options = self._options
        if part is None or generation != part.generation:
            return None
        if not isinstance(result, Fetched) or not result.batches:
            return None
        ahead_bytes = 2 * options.fetch_bytes * len(self._parts)
        if part.arrived_count != part.collected_count or self._buffered_bytes + ahead_bytes > options.buffer_bytes_max:
            return None
        try:
            last = [parse_header(batch) for batch in result.batches][-1]
        except InvalidArgumentError:
            return None
        return self._fetch(partition, last.base_offset + last.count)

    def arrived(self, partition: int, generation: int, result: CallResult, *, is_followed: bool = False) -> None:
        """An answer; whoever brings it says whether it made the fetch that `following` asked for."""
        part = self._parts.get(partition)
        if part is not None:
            part.arrived_count += 1
            self._arrived.append((part, generation, result, is_followed))

    def _collect(self) -> None:
        while self._arrived:
            part, generation, result, is_followed = self._arrived.popleft()
            part.collected_count += 1
            if generation != part.generation:
                continue
            part.is_fetching = is_followed
            self.may_want = True
            if isinstance(result, Fetched):
                self._store(part, result)
            elif isinstance(result, OffsetFound):
                self._found(part, result.offset)
            elif isinstance(result, OffsetOutOfRangeError) and self._options.skip_removed and not part.is_lost:
                part.is_lost = True
            else:
                assert isinstance(result, FlotillaError)
                self._errors.append(result)

    def _found(self, part: _Part, oldest: Offset) -> None:
        """The oldest offset of a partition whose position could not be read."""
        if oldest > part.position:
            self._go_to(part, oldest)
        else:
            part.is_lost = False
            text = f"offset {part.position} of partition {part.number} of {self._topic} does not exist yet"
            self._errors.append(OffsetOutOfRangeError(f"{text}; seek to go on"))

    def _store(self, part: _Part, fetched: Fetched) -> None:
        for batch in fetched.batches:
            try:
                header = parse_header(batch)
            except InvalidArgumentError as error:
                self._errors.append(_damaged(self._topic, part, error))
                return
            end = header.base_offset + header.count
            if end > part.fetch_offset:
                part.fetch_offset = end
                part.buffered_bytes += len(batch)
                self._buffered_bytes += len(batch)
                self._batches.append((part, part.generation, batch))
        if not fetched.batches and fetched.log_start > part.fetch_offset:
            part.fetch_offset = fetched.log_start
            self._check_removed(part, fetched.log_start)

    # Handing out.

    def take(self, messages_max: int) -> list[Message]:
        """Up to so many messages that have arrived. Raises what went wrong when there are none."""
        self._collect()
        taken: list[Message] = []
        while len(taken) < messages_max and (self._cursor < len(self._messages) or self._open_next(bool(taken))):
            piece = self._messages[self._cursor : self._cursor + messages_max - len(taken)]
            self._cursor += len(piece)
            taken += piece
            self._advance(piece[-1])
        return taken

    def take_one(self) -> Message | None:
        """The next message, if one has arrived. Raises what went wrong when there is none."""
        if self._cursor >= len(self._messages):
            self._collect()
            if not self._open_next(False):
                return None
        message = self._messages[self._cursor]
        self._cursor += 1
        self._advance(message)
        return message

    def _advance(self, last: Message) -> None:
        assert self._part is not None
        self._part.position = last.offset + 1

    def _open_next(self, has_some: bool) -> bool:
        """Decodes the next batch. False: there is none. An error waits until what is before it was handed out."""
        while self._batches:
            part, generation, batch = self._batches.popleft()
            self._buffered_bytes -= len(batch)
            if generation != part.generation:
                continue
            part.buffered_bytes -= len(batch)
            self.may_want = True
            if self._open(part, batch):
                return True
        if self._errors and not has_some:
            raise self._errors.popleft()
        return False

    def _open(self, part: _Part, batch: bytes | memoryview) -> bool:
        try:
            view = BatchView(batch)
            messages = messages_of(self._topic, part.number, view)
        except InvalidArgumentError as error:
            self._errors.append(_damaged(self._topic, part, error))
            self._go_to(part, part.position)
            return False
        first = messages[0].offset
        if first > part.position and not self._check_removed(part, first):
            return False
        self._part = part
        self._messages = messages
        self._cursor = part.position - first
        return self._cursor < len(messages)

    def _check_removed(self, part: _Part, found: Offset) -> bool:
        """Offsets are dense: what is missing was removed. Whether to go on behind it."""
        if not self._options.skip_removed:
            text = f"offsets {part.position} to {found - 1} of partition {part.number} of {self._topic} were removed"
            self._errors.append(OffsetOutOfRangeError(f"{text}; seek to go on"))
            self._go_to(part, part.position)
            return False
        part.position = found
        return True


def _damaged(topic: str, part: _Part, cause: FlotillaError) -> CorruptionError:
    error = CorruptionError(f"what came of partition {part.number} of {topic} at offset {part.position}: {cause}")
    error.__cause__ = cause
    return error
