"""A naive model of the state of a queue group: one entry for each message."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class NaiveState:
    start: int
    generation: int
    settled: set[int] = field(default_factory=set)
    #: Attempts, not-before time and reason by offset.
    failures: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    #: Offset, attempts and reason in the order of death, the buried ones included.
    deaths: list[tuple[int, int, str]] = field(default_factory=list)
    buried: int = 0
    totals: Counter[str] = field(default_factory=Counter)

    def is_settled(self, offset: int) -> bool:
        return offset < self.start or offset in self.settled

    def settle(self, total: str, first: int, end: int) -> None:
        for offset in range(first, end):
            if not self.is_settled(offset):
                self.settled.add(offset)
                self.failures.pop(offset, None)
                self.totals[total] += 1

    def fail(self, first: int, end: int, not_before_ms: int, reason: str) -> None:
        for offset in range(first, end):
            if not self.is_settled(offset):
                attempts = self.failures.get(offset, (0, 0, ""))[0]
                self.failures[offset] = (attempts + 1, not_before_ms, reason)
                self.totals["failed"] += 1

    def retry_now(self, offsets: list[int], now_ms: int) -> None:
        for offset in offsets:
            if offset in self.failures:
                attempts, not_before_ms, reason = self.failures[offset]
                self.failures[offset] = (attempts, min(not_before_ms, now_ms), reason)

    def die(self, first: int, end: int, reason: str) -> None:
        for offset in range(first, end):
            if not self.is_settled(offset):
                attempts = self.failures.get(offset, (0, 0, ""))[0]
                self.deaths.append((offset, attempts + 1, reason))
                self.settle("dead", offset, offset + 1)

    def reset(self, start: int, generation: int) -> None:
        self.start = start
        self.generation = generation
        self.settled.clear()
        self.failures.clear()
