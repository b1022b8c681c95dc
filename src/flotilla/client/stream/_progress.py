"""What the application has of its partitions: how far it was given messages, and how far it has handled them.

Belongs to whoever polls. A message is handled when its taker comes back for more; so what is committed by itself
never includes a message that is still being worked on.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from flotilla.client.reader._core import ReaderCore, ReaderOptions
from flotilla.client.reader.message import Message
from flotilla.client.stream._core import OwnedPartition
from flotilla.types.errors import StaleGenerationError
from flotilla.types.ids import Offset


class Mark(NamedTuple):
    """How far a partition is to be committed, and under which epoch."""

    offset: Offset
    epoch: int


class StreamProgress:
    def __init__(self, topic: str, options: ReaderOptions) -> None:
        self.reader = ReaderCore(topic, {}, options)
        self.epochs: dict[int, int] = {}
        #: Where the messages begin that were handed out and are being worked on.
        self._in_hand: dict[int, Offset] = {}
        #: Where the group stands, as far as this member has seen to it.
        self._committed: dict[int, Offset] = {}

    def add(self, owned: Iterable[OwnedPartition]) -> list[int]:
        """Partitions to read from now on; their numbers."""
        added = []
        for each in owned:
            assert each.partition not in self.epochs
            self.reader.add(each.partition, each.offset)
            self.epochs[each.partition] = each.epoch
            # Where a group begins is worth a commit: `latest` is another place tomorrow.
            self._committed[each.partition] = each.offset if each.is_committed else each.offset - 1
            added.append(each.partition)
        return added

    def owned(self, partitions: Mapping[int, int]) -> list[int]:
        """Those of these that are read, under these epochs."""
        return [partition for partition, epoch in partitions.items() if self.epochs.get(partition) == epoch]

    def remove(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self.reader.remove(partition)
            del self.epochs[partition]
            del self._committed[partition]
            self._in_hand.pop(partition, None)

    def take(self, messages_max: int) -> list[Message]:
        """Up to so many messages; what was taken before is handled."""
        messages = self.reader.take(messages_max)
        # Backwards, so that the first of each partition is what remains.
        self._in_hand = {message.partition: message.offset for message in reversed(messages)}
        return messages

    def take_one(self) -> Message | None:
        message = self.reader.take_one()
        if message is not None:
            self._in_hand = {message.partition: message.offset}
        return message

    def handled(self) -> None:
        """Whoever took messages has come back."""
        if self._in_hand:
            self._in_hand = {}

    def seek(self, partition: int, offset: Offset) -> None:
        self.reader.seek(partition, offset)
        self._in_hand.pop(partition, None)

    # Commits.

    def taken(self) -> dict[int, Mark]:
        """Everything that was handed out and is not committed."""
        return self._news(self.reader.positions)

    def unsaved(self, partitions: Iterable[int] | None = None) -> dict[int, Mark]:
        """What was handled and not committed, of all partitions or of some."""
        positions = {**self.reader.positions, **self._in_hand}
        return self._news(positions if partitions is None else {number: positions[number] for number in partitions})

    def marks(self, offsets: Mapping[int, Offset]) -> dict[int, Mark]:
        """Places of the application's own choice. Raises StaleGenerationError for a partition that is not its own."""
        for partition in offsets:
            if partition not in self.epochs:
                raise StaleGenerationError(f"partition {partition} is not one of this member's: {list(self.epochs)}")
        return {partition: Mark(offset, self.epochs[partition]) for partition, offset in offsets.items()}

    def note(self, confirmed: deque[tuple[int, Mark]]) -> None:
        """Takes over what another thread has seen committed."""
        while confirmed:
            partition, mark = confirmed.popleft()
            if self.epochs.get(partition) == mark.epoch:
                self._committed[partition] = max(mark.offset, self._committed[partition])

    def _news(self, positions: Mapping[int, Offset]) -> dict[int, Mark]:
        return {
            partition: Mark(offset, self.epochs[partition])
            for partition, offset in positions.items()
            if offset > self._committed[partition]
        }
