"""The members of stream groups, at real clients: what each of them uses is told to the rules of its group."""

from typing import Any

from flotilla.client.stream._core import StreamMember, _Partition
from flotilla.sim.whole.models.metadata import OwnershipWatch


class WatchedMember(StreamMember):
    def __init__(self, ownership: OwnershipWatch, *arguments: Any, **named: Any) -> None:
        self._ownership = ownership
        super().__init__(*arguments, **named)

    def _claim(self, partition: int, epoch: int) -> None:
        self._used()[partition, self.name] = epoch
        super()._claim(partition, epoch)

    def _recall(self, parts: list[_Partition], *, is_lost: bool) -> None:
        super()._recall(parts, is_lost=is_lost)
        for part in parts if is_lost else ():
            self._gave_up(part)

    def _drop(self, part: _Partition) -> None:
        super()._drop(part)
        self._gave_up(part)

    def _gave_up(self, part: _Partition) -> None:
        used = self._used(part.topic_id)
        if used.get((part.partition, self.name)) == part.epoch:
            del used[part.partition, self.name]

    def _used(self, topic_id: int = 0) -> dict[tuple[int, str], int]:
        return self._ownership.group(topic_id or self._topic_id, self._group).used
