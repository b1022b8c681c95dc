"""Comparisons of contestants, and which way is better."""

import pytest

from bench.contest import measures
from bench.contest.chart import bars
from bench.contest.measures import Measure
from bench.contest.scores import Entrant, Scores
from bench.contest.table import headings, markdown, rows

OURS = Entrant("flotilla@3", 3, is_synced=True, is_ours=True)
A = Entrant("a:fsync@3", 3, is_synced=True)
B = Entrant("b:fsync@3", 3, is_synced=True)
UNSYNCED = Entrant("a:default@3", 3, is_synced=False)
ALONE = Entrant("c:fsync@1", 1, is_synced=True)
P50 = measures.one_in_flight(100)[1]
RATE = measures.pipelined(100)[0]


def scored(measure: Measure, values: dict[Entrant, list[float]]) -> Scores:
    scores = Scores()
    for entrant, found in values.items():
        for number, value in enumerate(found):
            scores.add(entrant, number, measure, value)
    return scores


@pytest.mark.parametrize(("ours", "is_met"), [(0.5, True), (0.7, False)])
def test_latency_is_held_against_the_fastest_peer(ours: float, is_met: bool) -> None:
    found = scored(P50, {OURS: [ours], A: [0.9], B: [0.8]}).ratio(P50)
    assert found is not None
    assert found.probe_name == B.name
    assert found.ratio == pytest.approx(ours / 0.8)
    assert found.is_met is is_met


@pytest.mark.parametrize(("ours", "is_met"), [(100.0, True), (60.0, False)])
def test_a_rate_is_held_against_the_highest(ours: float, is_met: bool) -> None:
    found = scored(RATE, {OURS: [ours], A: [10.0], B: [20.0]}).ratio(RATE)
    assert found is not None
    assert found.probe_name == B.name
    assert found.is_met is is_met


@pytest.mark.parametrize("other", [UNSYNCED, ALONE])
def test_a_peer_that_promises_less_is_left_out(other: Entrant) -> None:
    found = scored(RATE, {OURS: [100.0], other: [90.0], A: [10.0]}).ratio(RATE)
    assert found is not None
    assert found.ratio == pytest.approx(10.0)


def test_rounds_are_related_one_by_one() -> None:
    found = scored(RATE, {OURS: [10.0, 80.0, 30.0], A: [1.0, 4.0, 10.0]}).ratio(RATE)
    assert found is not None
    assert found.ratio == pytest.approx(10.0)
    assert found.spread == (3.0, 20.0)


def test_a_round_that_one_peer_did_not_finish_counts_for_none() -> None:
    scores = scored(RATE, {OURS: [10.0, 99.0]})
    scores.add(A, 0, RATE, 1.0)
    found = scores.ratio(RATE)
    assert found is not None
    assert found.spread == (10.0, 10.0)


def test_bulk_is_held_against_what_peers_pipeline() -> None:
    scores = scored(RATE, {A: [20.0]})
    scores.add(OURS, 0, measures.in_bulk(100), 240.0)
    found = scores.ratio(measures.in_bulk(100))
    assert found is not None
    assert found.ratio == pytest.approx(12.0)
    assert found.is_met


def test_without_peers_there_is_no_contest() -> None:
    assert scored(RATE, {OURS: [100.0]}).figures() == []


def test_the_table_has_a_column_for_each_and_a_line_for_what_was_measured() -> None:
    scores = scored(RATE, {OURS: [100.0], A: [50.0]})
    assert headings(scores) == ["measure", OURS.name, A.name, "ours / best synced", "goal"]
    assert rows(scores) == [["W2 pipelined, 100 B (msg/s)", "100", "50", "2.00 (a)", ">= 4 missed"]]
    assert markdown(scores).count("\n") == 3


def test_bars_show_ours_first_and_those_that_do_not_sync_last() -> None:
    scores = scored(RATE, {UNSYNCED: [90.0], ALONE: [30.0], A: [50.0], OURS: [100.0]})
    assert [each.name for each, _ in bars(scores, RATE)] == [OURS.name, A.name, ALONE.name, UNSYNCED.name]
