"""How far a queue group is behind, as answers to polls say: each tells the lag of all its partitions together.

Leaders change, and with them the partitions that are polled together. So an answer takes the place of all earlier ones
that counted one of its partitions.
"""

from collections.abc import Sequence


class KnownLag:
    __slots__ = ("_answers", "total")

    def __init__(self) -> None:
        self._answers: dict[tuple[int, ...], int] = {}
        #: None: no answer has told yet. Another thread may read it.
        self.total: int | None = None

    def learn(self, partitions: Sequence[int], lag: int) -> None:
        known = tuple(partitions)
        if known not in self._answers:
            own = dict.fromkeys(known)
            self._answers = {each: old for each, old in self._answers.items() if own.keys().isdisjoint(each)}
        self._answers[known] = lag
        self.total = sum(self._answers.values())

    def forget(self) -> None:
        self._answers.clear()
        self.total = None
