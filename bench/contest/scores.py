"""The values of all rounds, and Flotilla's ratio to the best peer with the same promise."""

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median

from bench.contest.measures import ALL, Better, Measure
from bench.figure import Figure, relate

AREA = "contest"


@dataclass(frozen=True, slots=True)
class Entrant:
    """A measured contestant, as far as the scores need it."""

    name: str
    nodes: int
    is_synced: bool
    is_ours: bool = False


@dataclass(slots=True)
class Scores:
    #: In the order of the table, Flotilla first.
    entrants: list[Entrant] = field(default_factory=list)
    #: By the measure's name and the entrant's: the value of each round that measured it.
    values: dict[tuple[str, str], dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, entrant: Entrant, number: int, measure: Measure, value: float) -> None:
        if entrant not in self.entrants:
            self.entrants.append(entrant)
        self.values[measure.name, entrant.name][number] = value

    def median_of(self, name: str, entrant: Entrant) -> float | None:
        found = self.values.get((name, entrant.name))
        return median(found.values()) if found else None

    @property
    def ours(self) -> Entrant | None:
        return next((each for each in self.entrants if each.is_ours), None)

    def rivals(self) -> list[Entrant]:
        """Peers whose acknowledgement means the same: on disk, on as many nodes."""
        ours = self.ours
        return [
            each
            for each in self.entrants
            if ours is not None and not each.is_ours and each.is_synced and each.nodes == ours.nodes
        ]

    def best_rival(self, measure: Measure) -> Entrant | None:
        medians = {each.name: self.median_of(measure.peers_name, each) for each in self.rivals()}
        known = {name: value for name, value in medians.items() if value is not None}
        if not known or measure.better is Better.NEITHER:
            return None
        choose = min if measure.better is Better.LESS else max
        name = choose(known, key=lambda name: known[name])
        return next(each for each in self.entrants if each.name == name)

    def ratio(self, measure: Measure) -> Figure | None:
        """Flotilla's value divided by the best rival's, per round."""
        ours, best = self.ours, self.best_rival(measure)
        if ours is None or best is None:
            return None
        mine = self.values.get((measure.name, ours.name), {})
        theirs = self.values[measure.peers_name, best.name]
        pairs = [(value, theirs[number]) for number, value in mine.items() if theirs.get(number)]
        if not pairs:
            return None
        name = f"{ours.name} {measure.name}"
        return relate(AREA, name, measure.unit, pairs=pairs, probe_name=best.name, goal=measure.goal)

    def figures(self) -> list[Figure]:
        return [figure for measure in ALL if (figure := self.ratio(measure)) is not None]

    def as_json(self) -> list[dict[str, object]]:
        return [
            {"measure": measure, "subject": subject, "rounds": list(found.values())}
            for (measure, subject), found in self.values.items()
        ]
