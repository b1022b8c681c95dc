"""The progress of a stream consumer: positions delivered to the application, and positions handled by it.

It belongs to the polling thread. A message counts as handled when the application polls again, so an automatic commit
never includes a message that is still in its handler.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from flotilla.client.reader._core import Bookmark, ReaderCore, ReaderOptions
from flotilla.client.reader.message import Message
from flotilla.client.stream._core import OwnedPartition
from flotilla.types.errors import StaleGenerationError
from flotilla.types.ids import Offset


class Mark(NamedTuple):
    """The offset to commit for a partition, and its epoch."""

    offset: Offset
    epoch: int
    #: Of the topic.
    topic_id: int = 0


class StreamProgress:
    def __init__(self, topic: str, options: ReaderOptions) -> None:
        self.reader = ReaderCore(topic, {}, options)
        self.epochs: dict[int, int] = {}
        self._topic_ids: dict[int, int] = {}
        #: The first offset, by partition, of the messages that are being handled.
        self._in_hand: dict[int, Offset] = {}
        #: The offsets that this member knows to be committed.
        self._committed: dict[int, Offset] = {}
        #: The epochs that the application was told of.
        self._announced: dict[int, int] = {}
        #: It may not have been told of some.
        self.may_announce = False

    def add(self, owned: Iterable[OwnedPartition]) -> None:
        """Starts to read these partitions. May be done twice."""
        self.may_announce = True
        for each in owned:
            if self.epochs.get(each.partition) == each.epoch:
                continue
            assert each.partition not in self.epochs
            if each.partition in self.reader.positions:
                # Left by a call that was interrupted.
                self.reader.remove(each.partition)
            self._topic_ids[each.partition] = each.topic_id
            # The first position is worth a commit: `latest` moves.
            self._committed[each.partition] = each.offset if each.is_committed else each.offset - 1
            self.reader.add(each.partition, each.offset, each.topic_id)
            self.epochs[each.partition] = each.epoch

    def announce(self) -> list[int]:
        """The partitions that the application has to be told of, as if it was."""
        told = dict(self.epochs)
        found = [partition for partition, epoch in told.items() if self._announced.get(partition) != epoch]
        self._announced = told
        self.may_announce = False
        return found

    def owned(self, partitions: Mapping[int, int]) -> list[int]:
        """The given partitions that this member reads, filtered by epoch."""
        return [partition for partition, epoch in partitions.items() if self.epochs.get(partition) == epoch]

    def remove(self, partitions: Mapping[int, int]) -> None:
        """Stops reading these partitions, unless they are owned under another epoch. May be done twice."""
        for partition, epoch in partitions.items():
            if self.epochs.get(partition, epoch) == epoch:
                self.epochs.pop(partition, None)
                self.reader.remove(partition)
                self._in_hand.pop(partition, None)
                self._announced.pop(partition, None)
                self._topic_ids.pop(partition, None)
                self._committed.pop(partition, None)

    def take(self, messages_max: int) -> list[Message]:
        """At most `messages_max` messages; those taken before count as handled."""
        messages = self.reader.take(messages_max)
        # Backwards, so that the first offset of each partition remains.
        self._in_hand = {message.partition: message.offset for message in reversed(messages)}
        return messages

    def rewind(self, bookmark: Bookmark) -> None:
        """A call was interrupted: its messages come again."""
        self._in_hand = {}
        self.reader.rewind(bookmark)

    def undo(self) -> None:
        """The same of one message."""
        self._in_hand = {}
        self.reader.undo()

    def take_one(self) -> Message | None:
        message = self.reader.take_one()
        if message is not None:
            self._in_hand = {message.partition: message.offset}
        return message

    def handled(self) -> None:
        """The application polls again: the messages it took are handled."""
        if self._in_hand:
            self._in_hand = {}

    def seek(self, partition: int, offset: Offset) -> None:
        self.reader.seek(partition, offset)
        self._in_hand.pop(partition, None)

    # Commits.

    def taken(self) -> dict[int, Mark]:
        """Everything that was delivered and is not committed."""
        return self._uncommitted(self.reader.positions)

    def unsaved(self, partitions: Iterable[int] | None = None) -> dict[int, Mark]:
        """Everything that was handled and is not committed, of all partitions or of some."""
        positions = {**self.reader.positions, **self._in_hand}
        return self._uncommitted(
            positions if partitions is None else {number: positions[number] for number in partitions}
        )

    def marks(self, offsets: Mapping[int, Offset]) -> dict[int, Mark]:
        """Marks at chosen offsets. Raises StaleGenerationError for a partition of another member."""
        for partition in offsets:
            if partition not in self.epochs:
                raise StaleGenerationError(f"partition {partition} is not one of this member's: {list(self.epochs)}")
        return {partition: self._mark(partition, offset) for partition, offset in offsets.items()}

    def note(self, confirmed: deque[tuple[int, Mark]]) -> None:
        """Takes over commits that the loop reports."""
        while confirmed:
            partition, mark = confirmed.popleft()
            if self.epochs.get(partition) == mark.epoch:
                self._committed[partition] = max(mark.offset, self._committed[partition])

    def _uncommitted(self, positions: Mapping[int, Offset]) -> dict[int, Mark]:
        return {
            partition: self._mark(partition, offset)
            for partition, offset in positions.items()
            if partition in self.epochs and offset > self._committed[partition]
        }

    def _mark(self, partition: int, offset: Offset) -> Mark:
        return Mark(offset, self.epochs[partition], self._topic_ids[partition])
