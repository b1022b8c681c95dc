"""The steps of a message's history as lines for people: in the order of the log, the oldest and the newest of them."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from flotilla.types.ids import Index

#: A long history keeps this many of the oldest steps, and as many of the newest: both ends explain most.
STEPS_KEPT: Final = 100

#: Formats a time: the core knows no time zones.
Moment: TypeAlias = Callable[[int], str]


class Step(NamedTuple):
    #: The index of its entry.
    entry: Index
    #: By the leader's clock; 0: the text has the time, or it is unknown.
    time_ms: int
    text: str
    #: The number of a failed attempt; 0: the step is no failed attempt.
    attempt: int = 0


class Steps:
    """The steps that are kept, at most a few hundred."""

    __slots__ = ("_kept", "_left_out")

    def __init__(self) -> None:
        self._kept: list[Step] = []
        self._left_out = 0

    def put(self, step: Step) -> None:
        kept = self._kept
        kept.append(step)
        if len(kept) <= 2 * STEPS_KEPT + bool(self._left_out):
            return
        if self._left_out:
            del kept[STEPS_KEPT + 1]
        self._left_out += 1
        kept[STEPS_KEPT] = Step(kept[STEPS_KEPT].entry, 0, f"({self._left_out} steps are left out)")

    def lines(self, moment: Moment, attempts_max: int, more: list[Step]) -> list[str]:
        """All steps and `more`, by entry. `attempts_max` is the bound on attempts that holds now; 0: none."""
        steps = sorted([*self._kept, *more], key=lambda step: step.entry)
        return [_line(step, moment, attempts_max) for step in steps]


def _line(step: Step, moment: Moment, attempts_max: int) -> str:
    bound = f" of {attempts_max}" if step.attempt <= attempts_max else ""
    text = f"attempt {step.attempt}{bound} {step.text}" if step.attempt else step.text
    return f"{moment(step.time_ms)} {text}" if step.time_ms else text
