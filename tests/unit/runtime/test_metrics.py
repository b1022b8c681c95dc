"""The table of metrics and the text made from it."""

import re

import pytest

from flotilla.raft.roles import ROLE_NAMES
from flotilla.runtime.observability import metrics
from flotilla.runtime.observability import process_usage as usage
from flotilla.runtime.observability.histogram import DurationHistogram
from flotilla.runtime.observability.metrics import COUNTER, HISTOGRAM, METRICS, Exposition, Metric, label
from tests.unit.runtime.exposition import check_histogram, parse


def test_every_metric_is_written_with_its_help_and_type() -> None:
    families = parse(Exposition().render().decode())
    assert list(families) == [metric.name for metric in METRICS]
    for metric in METRICS:
        assert (families[metric.name].kind, families[metric.name].help) == (metric.kind, metric.help)
        assert families[metric.name].samples == {}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"(flotilla|process)_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == COUNTER)
    assert (metric.kind == HISTOGRAM) <= metric.name.endswith("_seconds")
    assert metric.help.endswith(".")
    assert len(metric.labels) <= 3
    assert len({row.name for row in METRICS}) == len(METRICS)


def test_samples_of_a_metric_stand_together_whatever_the_order_of_adding() -> None:
    out = Exposition()
    for peer in (2, 3):
        out.add(metrics.PEER_UP, 1, label("peer", peer))
        out.add(metrics.PEER_QUEUED_BYTES, peer * 100, label("peer", peer))
    families = parse(out.render().decode())
    up = families["flotilla_peer_up"].samples
    assert up == {("flotilla_peer_up", (("peer", "2"),)): 1, ("flotilla_peer_up", (("peer", "3"),)): 1}


@pytest.mark.parametrize("value", ["plain", 'quo"te', "back\\slash", "two\nlines", '\\"', "\\n", "ünï", "", "a,b={}"])
def test_labels_survive_whatever_they_hold(value: str) -> None:
    out = Exposition()
    out.add(metrics.MESSAGES_PRODUCED, 7, label("topic", value))
    samples = parse(out.render().decode())["flotilla_messages_produced_total"].samples
    assert samples == {("flotilla_messages_produced_total", (("topic", value),)): 7}


@pytest.mark.parametrize("value", [0, 1, 2**63, 0.5, 1e-7, 1e21, 123456.789])
def test_numbers_keep_their_value(value: float) -> None:
    out = Exposition()
    out.add(metrics.UPTIME_SECONDS, value)
    assert list(parse(out.render().decode())["flotilla_uptime_seconds"].samples.values()) == [value]


@pytest.mark.parametrize(
    ("duration_us", "first_bound"),
    [
        (0, 0.000016),
        (15, 0.000016),
        (16, 0.000032),
        (999, 0.001024),
        (1024, 0.002048),
        (16_777_215, 16.777216),
        (16_777_216, float("inf")),
        (10**9, float("inf")),
    ],
)
def test_a_duration_counts_from_its_bound_on(duration_us: int, first_bound: float) -> None:
    histogram = DurationHistogram()
    histogram.record(duration_us)
    out = Exposition()
    out.add_histogram(metrics.FSYNC_SECONDS, histogram)
    family = parse(out.render().decode())["flotilla_fsync_seconds"]
    check_histogram(family)
    counted = [float(labels[0][1]) for (_, labels), count in family.samples.items() if labels and count]
    assert counted[0] == first_bound
    assert family.samples[("flotilla_fsync_seconds_sum", ())] == pytest.approx(duration_us / 1e6)


def test_histograms_with_labels_are_apart() -> None:
    out = Exposition()
    for operation, samples in (("produce", 3), ("fetch", 1)):
        histogram = DurationHistogram()
        for sample in range(samples):
            histogram.record(100 * sample)
        out.add_histogram(metrics.REQUEST_SECONDS, histogram, label("operation", operation))
    family = parse(out.render().decode())["flotilla_request_seconds"]
    check_histogram(family)
    name = "flotilla_request_seconds_count"
    assert family.samples[(name, (("operation", "produce"),))] == 3
    assert family.samples[(name, (("operation", "fetch"),))] == 1


def test_a_sample_that_comes_while_reading_does_not_make_count_and_buckets_differ() -> None:
    histogram = DurationHistogram()
    histogram.record(5)
    histogram.count = 2
    out = Exposition()
    out.add_histogram(metrics.FSYNC_SECONDS, histogram)
    family = parse(out.render().decode())["flotilla_fsync_seconds"]
    check_histogram(family)
    assert family.samples[("flotilla_fsync_seconds_count", ())] == 1


def test_every_role_has_its_number_in_the_help() -> None:
    for number, name in {metrics.STATE_DAMAGED: "damaged", **ROLE_NAMES}.items():
        assert f"{number} {name}" in metrics.RAFT_STATE.help


def test_the_process_reports_its_usage() -> None:
    assert usage.cpu_seconds() > 0
    resident_bytes, open_files = usage.resident_bytes(), usage.open_file_count()
    assert resident_bytes is None or resident_bytes > 1_000_000
    assert open_files is None or open_files >= 3
