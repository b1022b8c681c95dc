"""The ledger of the demo: acknowledged messages, and those that were read back.

A message is a number. It is *acknowledged* when the cluster has returned its place, and must then be read back there,
once. A message whose sending failed may be stored or not, as its error says, but never twice.
"""

from dataclasses import dataclass, field
from typing import NamedTuple


class Place(NamedTuple):
    partition: int
    offset: int


@dataclass(slots=True)
class Ledger:
    sent: int = 0
    acknowledged: dict[int, Place] = field(default_factory=dict)
    #: Where each message was read first.
    read: dict[int, Place] = field(default_factory=dict)
    #: Messages that were read at a second place.
    doubled: dict[int, Place] = field(default_factory=dict)
    #: Messages that the cluster refused, with the reason.
    failed: dict[int, str] = field(default_factory=dict)

    def next_number(self) -> int:
        self.sent += 1
        return self.sent

    def note_acknowledged(self, number: int, place: Place) -> None:
        assert number not in self.acknowledged
        self.acknowledged[number] = place

    def note_failed(self, number: int, reason: str) -> None:
        self.failed[number] = reason

    def note_read(self, number: int, place: Place) -> None:
        first = self.read.setdefault(number, place)
        if first != place:
            self.doubled[number] = place

    @property
    def lost(self) -> list[int]:
        """Acknowledged, and not read at their place."""
        return [number for number, place in self.acknowledged.items() if self.read.get(number) != place]

    @property
    def is_balanced(self) -> bool:
        return not self.lost and not self.doubled and bool(self.acknowledged)
