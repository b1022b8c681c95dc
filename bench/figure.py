"""One measured figure: the subject, its probe, and the goal for their ratio.

A noisy machine moves both; the ratio of neighbours in time moves least. So every measurement is
a list of rounds, subject and probe in turn, and the figure is the median of the rounds' ratios.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Figure:
    area: str
    name: str
    unit: str
    value: float
    probe_name: str
    probe: float
    ratio: float
    #: The ratio must be at least the goal, or with `at_most` at most the goal. None: for information.
    goal: float | None
    at_most: bool = False
    #: The lowest and highest ratio of all rounds.
    spread: tuple[float, float] = (0.0, 0.0)
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.ratio <= self.goal if self.at_most else self.ratio >= self.goal

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "is_met": self.is_met}


@dataclass(frozen=True, slots=True)
class Absence:
    """A measurement that is not possible here."""

    area: str
    name: str
    reason: str
    note: str = ""

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Goal:
    ratio: float | None
    at_most: bool = False


def compare(
    area: str,
    name: str,
    unit: str,
    *,
    subject: Callable[[], float],
    probe: Callable[[], float],
    probe_name: str,
    goal: Goal,
    rounds: int,
    note: str = "",
) -> Figure:
    """Runs both in turn and relates each subject to the probe beside it."""
    pairs = []
    for _ in range(rounds):
        probed = probe()
        pairs.append((subject(), probed))
    return relate(area, name, unit, pairs=pairs, probe_name=probe_name, goal=goal, note=note)


def relate(
    area: str,
    name: str,
    unit: str,
    *,
    pairs: list[tuple[float, float]],
    probe_name: str,
    goal: Goal,
    note: str = "",
) -> Figure:
    """A figure from (subject, probe) pairs."""
    ratios = [subject / probe for subject, probe in pairs]
    return Figure(
        area=area,
        name=name,
        unit=unit,
        value=median(subject for subject, _ in pairs),
        probe_name=probe_name,
        probe=median(probe for _, probe in pairs),
        ratio=median(ratios),
        goal=goal.ratio,
        at_most=goal.at_most,
        spread=(min(ratios), max(ratios)),
        note=note,
    )


def wanted_rate(area: str, name: str, unit: str, rates: list[float], wanted: int) -> Figure:
    """The median of several runs beside the target rate."""
    found = median(rates)
    spread = (min(rates) / wanted, max(rates) / wanted)
    return Figure(area, name, unit, found, "wanted", wanted, found / wanted, 1.0, spread=spread)
