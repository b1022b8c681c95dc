"""The core of a reader without threads or sockets: fetch requests out, answers in, messages out.

It belongs to the polling thread; another one may call `following`, `arrived` and `appeared` only. Each partition has at
most one fetch in flight. The next one is made right after an answer, by the thread that brings it, or as soon as less
than one response of the partition is buffered: so the next messages travel while the application works, even if it
never lets another thread run. Batches stay bytes until their messages are taken.

The position of a partition is the offset after the last message that was delivered. Answers for an older position,
before a seek, are recognised by their generation and dropped. Partitions may be added and removed.

With a filter, an answer also says how far the broker has looked. The position moves there when all messages before it
were delivered, also if there are none.

A signal may end a call of the polling thread anywhere, with anything half done. `rewind` then forgets what was fetched
and goes on at the positions of before the call.
"""

from collections import deque
from collections.abc import Mapping
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
from flotilla.types.filters import NO_FILTER, MessageFilter
from flotilla.types.ids import Offset
from flotilla.types.limits import MIB
from flotilla.types.operations import EARLIEST, Fetch, Fetched, ListOffsets, OffsetFound
from flotilla.types.slotted import frozen

Wanted: TypeAlias = Fetch | ListOffsets
#: Partitions with their positions at a moment.
Bookmark: TypeAlias = list[tuple["_Part", Offset]]


@frozen
class ReaderOptions:
    #: Of one fetch; a batch that is larger comes all the same.
    fetch_bytes: int = 1 * MIB
    #: Of everything that was fetched and not delivered.
    buffer_bytes_max: int = 32 * MIB
    #: How long a broker waits for records before it answers with none.
    long_poll_ms: int = 5_000
    #: Skip records that retention has removed, instead of raising.
    skip_removed: bool = False
    #: The replica that answers: leader, nearest, or spread over the replicas.
    read_from: str = "leader"
    #: Each fetch sees every record that was acknowledged before it.
    is_linearizable: bool = False
    #: Only records that it takes.
    wanted: MessageFilter = NO_FILTER


class _Part:
    """The state of one partition."""

    __slots__ = (
        "arrived_count",
        "buffered_bytes",
        "collected_count",
        "end",
        "fetch_offset",
        "generation",
        "is_fetching",
        "is_lost",
        "is_paused",
        "number",
        "position",
        "topic_id",
    )

    def __init__(self, number: int, position: Offset, generation: int, topic_id: int) -> None:
        self.number = number
        #: Positions mean nothing in a later topic of the same name.
        self.topic_id = topic_id
        self.position = position
        #: Where the partition ended when it was last fetched; -1: not known.
        self.end = -1
        #: The offset of the next fetch: ahead of the position by what is buffered.
        self.fetch_offset = position
        self.buffered_bytes = 0
        self.is_fetching = False
        #: Retention removed the position; the oldest offset must be looked up.
        self.is_lost = False
        #: Nothing of it is fetched or delivered.
        self.is_paused = False
        self.generation = generation
        #: Answers that arrived, and those of them that were collected. Each counter has one writing thread.
        self.arrived_count = 0
        self.collected_count = 0


class ReaderCore:
    def __init__(self, topic: str, positions: dict[int, Offset], options: ReaderOptions, topic_id: int = 0) -> None:
        """`topic_id` is that of the topic in which the positions were found."""
        self._topic = topic
        self._options = options
        #: Increases with each change that invalidates older answers.
        self._generation = 0
        self._parts = {number: _Part(number, offset, 0, topic_id) for number, offset in positions.items()}
        #: Answers to collect: partition, generation, result, whether the next fetch is in flight.
        self._arrived: deque[tuple[_Part, int, CallResult, bool]] = deque()
        #: New partitions of the topic, where to start in them, and the topic's id.
        self._appeared: deque[tuple[int, Offset, int]] = deque()
        #: Batches in the order of their arrival: partition, generation, bytes. A number stands for what a filter has
        #: skipped: the offset to go on at.
        self._batches: deque[tuple[_Part, int, bytes | memoryview | Offset]] = deque()
        self._buffered_bytes = 0
        #: Messages of the batch that is being delivered, from the cursor on.
        self._messages: list[Message] = []
        self._cursor = 0
        self._part: _Part | None = None
        self._errors: deque[FlotillaError] = deque()
        #: `wanted` may have requests to make.
        self.may_want = True
        #: Where the newest message of `take_one` comes from, and the position before it. A caller that may be
        #: interrupted sets the first to None before.
        self.came_from: _Part | None = None
        self._came_after: Offset = 0

    @property
    def positions(self) -> dict[int, Offset]:
        """The offset of the next message, by partition."""
        return {part.number: part.position for part in self._parts.values()}

    @property
    def behind(self) -> int | None:
        """Records after the positions, as far as answers have said; None: none has."""
        known = [max(part.end - part.position, 0) for part in self._parts.values() if part.end >= 0]
        return sum(known) if known else None

    def add(self, partition: int, offset: Offset, topic_id: int = 0) -> None:
        """Starts to read another partition at `offset`."""
        assert partition not in self._parts
        self._generation += 1
        self._parts[partition] = _Part(partition, offset, self._generation, topic_id)
        self.may_want = True

    def appeared(self, partition: int, offset: Offset, topic_id: int = 0) -> None:
        """Adds a new partition of the topic with the next `wanted`. Called by the loop's thread."""
        self._appeared.append((partition, offset, topic_id))
        self.may_want = True

    def remove(self, partition: int) -> None:
        """Stops reading a partition, and drops its fetched batches."""
        part = self._parts.get(partition)
        if part is not None:
            self._go_to(part, part.position)
            self._parts.pop(partition, None)

    # Interrupts.

    def bookmark(self) -> Bookmark:
        return [(part, part.position) for part in self._parts.values()]

    def undo(self) -> None:
        """Takes back the message of `came_from`, if there is one."""
        part = self.came_from
        self.rewind([] if part is None else [(part, self._came_after)])

    def rewind(self, bookmark: Bookmark) -> None:
        """Goes on at the positions of the bookmark, with nothing fetched. Partitions that came since stay."""
        self._part = None
        self._messages = []
        self._cursor = 0
        positions = {part.number: position for part, position in bookmark if self._parts.get(part.number) is part}
        for old in list(self._parts.values()):
            # Answers to the old one, also those that are on their way, find that it has another generation.
            self._generation += 2
            old.generation = self._generation - 1
            position = positions.get(old.number, old.position)
            part = _Part(old.number, position, self._generation, old.topic_id)
            part.is_paused, part.end = old.is_paused, old.end
            self._parts[old.number] = part
        self._batches.clear()
        self._errors.clear()
        self._buffered_bytes = 0
        self.may_want = True

    def pause(self, partition: int) -> None:
        """Delivers nothing of it until it is resumed. Its fetched batches are dropped, and fetched again then."""
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
        """Moves the position, forwards or backwards."""
        part = self._part_of(partition)
        if offset < 0:
            raise InvalidArgumentError(f"{offset} is not an offset")
        self._go_to(part, offset)

    def seek_all(self, positions: Mapping[int, Offset]) -> None:
        for partition, offset in positions.items():
            self.seek(partition, offset)

    def _part_of(self, partition: int) -> _Part:
        part = self._parts.get(partition)
        if part is None:
            raise InvalidArgumentError(f"partition {partition} is not read here, only {list(self._parts)}")
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
        """Requests to make now, each with the generation to report its answer with."""
        self.may_want = False
        while self._appeared:
            # In a form that may be done twice.
            partition, offset, topic_id = self._appeared[0]
            if partition not in self._parts:
                self.add(partition, offset, topic_id)
            self._appeared.popleft()
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
            return ListOffsets(self._topic, part.number, EARLIEST, part.topic_id)
        return self._fetch(part, part.fetch_offset)

    def _fetch(self, part: _Part, offset: Offset) -> Fetch:
        options = self._options
        return Fetch(
            self._topic,
            part.number,
            offset,
            options.fetch_bytes,
            options.long_poll_ms,
            is_linearizable=options.is_linearizable,
            topic_id=part.topic_id,
            types=list(options.wanted.types),
            headers=list(options.wanted.headers),
            key=options.wanted.key,
            contains=options.wanted.contains,
        )

    def following(self, partition: int, generation: int, result: CallResult) -> Fetch | None:
        """The fetch to make right after an answer that is about to be reported; None: wait for `wanted`.

        The bound of the buffer leaves room for one uncollected answer and one fetch in flight per partition.
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
        return self._fetch(part, result.reached or last.base_offset + last.count)

    def arrived(self, partition: int, generation: int, result: CallResult, *, is_followed: bool = False) -> None:
        """Reports an answer, and whether the fetch of `following` was made."""
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
        """Goes on at the oldest offset of a partition whose position was removed."""
        if oldest > part.position:
            self._go_to(part, oldest)
        else:
            part.is_lost = False
            text = f"offset {part.position} of partition {part.number} of {self._topic} does not exist yet"
            self._errors.append(OffsetOutOfRangeError(f"{text}; seek to go on"))

    def _store(self, part: _Part, fetched: Fetched) -> None:
        part.end = fetched.next_offset
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
        if fetched.reached > part.fetch_offset:
            part.fetch_offset = fetched.reached
            self._batches.append((part, part.generation, fetched.reached))
        if not fetched.batches and fetched.log_start > part.fetch_offset:
            part.fetch_offset = fetched.log_start
            self._check_removed(part, fetched.log_start)

    # Delivering.

    def take(self, messages_max: int) -> list[Message]:
        """At most `messages_max` messages that have arrived. Raises a pending error when there are none."""
        self._collect()
        taken: list[Message] = []
        while len(taken) < messages_max and (self._cursor < len(self._messages) or self._open_next(bool(taken))):
            piece = self._messages[self._cursor : self._cursor + messages_max - len(taken)]
            self._cursor += len(piece)
            taken += piece
            self._advance(piece[-1])
        return taken

    def take_one(self) -> Message | None:
        """The next message, if one has arrived. Raises a pending error when there is none."""
        if self._cursor >= len(self._messages):
            self._collect()
            if not self._open_next(False):
                return None
        message = self._messages[self._cursor]
        assert self._part is not None
        self._came_after = self._part.position
        self.came_from = self._part
        self._cursor += 1
        self._advance(message)
        return message

    def _advance(self, last: Message) -> None:
        assert self._part is not None
        self._part.position = last.offset + 1

    def _open_next(self, has_some: bool) -> bool:
        """Decodes the next batch. False: there is none. An error waits until earlier messages were delivered."""
        while self._batches:
            part, generation, batch = self._batches.popleft()
            if isinstance(batch, int):
                if generation == part.generation:
                    part.position = max(part.position, batch)
                continue
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
        if first > part.position:
            if not self._options.wanted.takes_all:
                part.position = first
            elif not self._check_removed(part, first):
                return False
        self._part = part
        self._messages = messages
        self._cursor = part.position - first
        return self._cursor < len(messages)

    def _check_removed(self, part: _Part, found: Offset) -> bool:
        """Handles missing offsets, which retention has removed, since offsets are dense. True: go on after them."""
        if not self._options.skip_removed:
            text = f"offsets {part.position} to {found - 1} of partition {part.number} of {self._topic} were removed"
            self._errors.append(OffsetOutOfRangeError(f"{text}; seek to go on"))
            self._go_to(part, part.position)
            return False
        part.position = found
        return True


def _damaged(topic: str, part: _Part, cause: FlotillaError) -> CorruptionError:
    error = CorruptionError(
        f"malformed batch from partition {part.number} of {topic} at offset {part.position}: {cause}"
    )
    error.__cause__ = cause
    return error
