"""Pages and plots: complete, self-contained, and with escaped content."""

from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from flotilla.spark.pipelines.plots import SERIES_MAX, bars, lines, number
from flotilla.spark.pipelines.report import Report
from flotilla.spark.pipelines.streaming_run import typed_error
from flotilla.types.errors import FlotillaError, NotFoundError, UnavailableError

EVIL = "<script>alert('x')</script> & \"quotes\""


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_whole_and_says_what_it_was_given(tmp_path: Path) -> None:
    report = Report(EVIL, "a subtitle")
    report.numbers([("rows", 1_234_567), (EVIL, None)])
    report.heading("A heading")
    report.picture(bars([(EVIL, 3.0), ("x" * 100, 1.0)]))
    report.picture(lines(["1", "2", "3"], [(EVIL, [1.0, None, 3.0])]))
    report.table(("a", EVIL), [(1, EVIL), (2.5, True)])
    path = report.write(tmp_path / "deep" / "page.html")
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]
    text = path.read_text("utf-8")
    page = _Tags()
    page.feed(text)
    assert page.open == []
    assert "script" not in page.seen
    assert page.links == []
    assert "1,234,567" in text
    assert page.seen.count("svg") == 2


@pytest.mark.parametrize("svg", [bars([]), bars([("one", 0.0)]), lines([], []), lines(["1"], [("a", [5.0])])])
def test_little_is_drawn_too(svg: str) -> None:
    ElementTree.fromstring(svg.partition("<p class")[0])


def test_bars_are_as_long_as_they_count() -> None:
    root = ElementTree.fromstring(bars([("a", 10.0), ("b", 5.0)]))
    widths = [float(each.attrib["width"]) for each in root.iter("rect")]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.01)


def test_no_more_lines_than_can_be_distinguished() -> None:
    svg = lines(["1", "2"], [(str(at), [1.0, 2.0]) for at in range(SERIES_MAX + 3)])
    assert svg.count("<polyline") == SERIES_MAX


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (999, "999"), (1_000, "1 k"), (1_234_567, "1.23 M"), (0.5, "0.5"), (2e9, "2 G")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("text", "kind", "cause"),
    [
        (
            (
                "[STREAM_FAILED] Query\nTraceback\n  File x\n"
                "flotilla.types.errors.NotFoundError: there is no topic 'x'\n"
                "RuntimeError: something made of it\n\tat org.apache.X\njava.lang.RuntimeException: boom"
            ),
            NotFoundError,
            "there is no topic 'x'",
        ),
        ("[FOREACH] \n  raise\nValueError: first\nRuntimeError: last\n", UnavailableError, "last"),
        ("flotilla.spark.catalog.DataLossError: offsets are gone", UnavailableError, "offsets are gone"),
        ("[PATH_NOT_FOUND] nothing is there\nmore", UnavailableError, "[PATH_NOT_FOUND] nothing is there"),
        ("", UnavailableError, "Exception"),
    ],
)
def test_the_cause_of_a_failure_is_one_line(text: str, kind: type[FlotillaError], cause: str) -> None:
    error = typed_error(Exception(text))
    assert (type(error), str(error)) == (kind, cause)
