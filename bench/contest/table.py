"""The table of a contest: a line per measure, a column per contestant."""

from rich.table import Table

from bench.contest.measures import ALL, Measure
from bench.contest.scores import Scores


def table(scores: Scores, title: str) -> Table:
    result = Table(title=title, title_justify="left")
    for heading in headings(scores):
        result.add_column(heading, justify="left" if heading == "measure" else "right")
    for row in rows(scores):
        result.add_row(*row)
    return result


def markdown(scores: Scores) -> str:
    """The same for a document."""
    lines = [headings(scores), ["---"] + ["---:"] * (len(headings(scores)) - 1), *rows(scores)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def headings(scores: Scores) -> list[str]:
    return ["measure", *(each.name for each in scores.entrants), "ours / best synced", "goal"]


def rows(scores: Scores) -> list[list[str]]:
    found = []
    for measure in ALL:
        medians = [scores.median_of(measure.name, each) for each in scores.entrants]
        if any(value is not None for value in medians):
            found.append([f"{measure.name} ({measure.unit})", *map(shown, medians), *_verdict(scores, measure)])
    return found


def shown(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _verdict(scores: Scores, measure: Measure) -> tuple[str, str]:
    figure = scores.ratio(measure)
    if figure is None:
        return "", ""
    ratio = f"{figure.ratio:.2f} ({figure.probe_name.partition(':')[0]})"
    if figure.goal is None:
        return ratio, ""
    return ratio, f"{'<=' if figure.at_most else '>='} {figure.goal:g} {'met' if figure.is_met else 'missed'}"
