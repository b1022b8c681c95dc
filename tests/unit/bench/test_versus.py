"""Who is compared with whom, and which way is better."""

import pytest

from bench.broker.beside import figure
from bench.broker.versus import contests
from bench.figure import Figure


def one_in_flight(subject: str, p50_ms: float) -> Figure:
    return figure(f"{subject} one in flight 100 B, p50", "ms", [(p50_ms, 0.1)], "disk")


def pipelined(subject: str, rate: float) -> Figure:
    return figure(f"{subject} pipelined 100 B", "msg/s", [(rate, 1.0)], "disk")


@pytest.mark.parametrize(("ours", "is_met"), [(0.5, True), (0.7, False)])
def test_latency_is_held_against_the_fastest_peer(ours: float, is_met: bool) -> None:
    figures = [one_in_flight("flotilla@3", ours), one_in_flight("a@3", 0.9), one_in_flight("b@3", 0.8)]
    (found,) = contests(figures, ["a@3", "b@3"])
    assert found.probe_name == "b@3"
    assert found.ratio == pytest.approx(ours / 0.8)
    assert found.is_met is is_met


@pytest.mark.parametrize(("ours", "is_met"), [(100.0, True), (60.0, False)])
def test_a_rate_is_held_against_the_highest(ours: float, is_met: bool) -> None:
    figures = [pipelined("flotilla@3", ours), pipelined("a@3", 10.0), pipelined("b@3", 20.0)]
    (found,) = contests(figures, ["a@3", "b@3"])
    assert found.probe_name == "b@3"
    assert found.is_met is is_met


def test_a_peer_that_promises_less_is_left_out() -> None:
    figures = [pipelined("flotilla@3", 100.0), pipelined("a:default@3", 90.0), pipelined("a:fsync@3", 10.0)]
    (found,) = contests(figures, ["a:fsync@3"])
    assert found.ratio == pytest.approx(10.0)


def test_bulk_is_held_against_what_peers_pipeline() -> None:
    bulk = figure("flotilla@3 produce_many 100 B", "msg/s", [(240.0, 1.0)], "disk")
    (found,) = contests([bulk, pipelined("a@3", 20.0)], ["a@3"])
    assert found.ratio == pytest.approx(12.0)
    assert found.is_met


def test_without_peers_there_is_no_contest() -> None:
    assert contests([pipelined("flotilla@3", 100.0)], []) == []
