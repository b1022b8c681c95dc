"""Reports of pipelines at the controller: the last of each, for a while, and never more than a bound."""

from dataclasses import replace
from typing import Any

import pytest

from flotilla.broker.observability.pipelines import Pipelines
from flotilla.types.access import DESCRIBE
from flotilla.types.errors import InvalidArgumentError, NotLeaderError
from flotilla.types.limits import PIPELINE_COUNT_MAX, PIPELINE_SILENT_MS_MAX, PIPELINE_TOPICS_MAX
from flotilla.types.operations.pipelines import ListPipelines, Pipeline, PipelineList, ReportPipeline

SUMS = Pipeline("7a", "sums", ["orders"], "g", 1_200, 60_000, 400, 3, 500, 1_250, 0, "s3://" + "x" * 995, 9, 8, 7, 6)


class Cluster:
    """The catalog and the outside of a node, which leads or not."""

    def __init__(self) -> None:
        self.time_ms = 1_000
        self.is_leading = True

    def leading(self) -> None:
        if not self.is_leading:
            raise NotLeaderError(2)

    def now_ms(self) -> int:
        return self.time_ms


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def pipelines(cluster: Any) -> Pipelines:
    return Pipelines(cluster, cluster)


def report(pipelines: Pipelines, pipeline: Pipeline, *, is_over: bool = False) -> None:
    done: list[Any] = []
    pipelines.report_pipeline(ReportPipeline(pipeline, is_over), done.append)
    assert len(done) == 1


def listed(pipelines: Pipelines) -> list[Pipeline]:
    done: list[Any] = []
    pipelines.list_pipelines(ListPipelines(), done.append)
    return done[0].pipelines


def test_the_last_report_of_each_is_shown_until_it_is_over(pipelines: Pipelines, cluster: Cluster) -> None:
    other = replace(SUMS, id="3b", name="copies")
    report(pipelines, SUMS)
    cluster.time_ms = 2_000
    report(pipelines, other)
    report(pipelines, replace(SUMS, batch=4, reported_ms=5))
    assert listed(pipelines) == [replace(other, reported_ms=2_000), replace(SUMS, batch=4, reported_ms=2_000)]
    report(pipelines, SUMS, is_over=True)
    assert [each.id for each in listed(pipelines)] == ["3b"]


def test_a_silent_one_is_forgotten(pipelines: Pipelines, cluster: Cluster) -> None:
    report(pipelines, SUMS)
    cluster.time_ms += PIPELINE_SILENT_MS_MAX
    assert len(listed(pipelines)) == 1
    cluster.time_ms += 1
    assert listed(pipelines) == []


def test_the_longest_silent_one_makes_room(pipelines: Pipelines) -> None:
    for number in range(PIPELINE_COUNT_MAX):
        report(pipelines, replace(SUMS, id=f"{number:03}"))
    report(pipelines, replace(SUMS, id="000"))
    report(pipelines, replace(SUMS, id="new"))
    found = [each.id for each in listed(pipelines)]
    assert len(found) == PIPELINE_COUNT_MAX
    assert {"000", "new"} <= set(found)
    assert "001" not in found


def test_only_the_controller_has_them(pipelines: Pipelines, cluster: Cluster) -> None:
    report(pipelines, SUMS)
    assert len(pipelines.measured()) == 1
    cluster.is_leading = False
    with pytest.raises(NotLeaderError):
        listed(pipelines)
    with pytest.raises(NotLeaderError):
        report(pipelines, SUMS)
    assert pipelines.measured() == []
    cluster.is_leading = True
    assert listed(pipelines) == [], "what was reported before it lost the lead is old"


@pytest.mark.parametrize(
    "change",
    [
        {"id": ""},
        {"name": "x" * 201},
        {"topics": []},
        {"topics": ["t"] * (PIPELINE_TOPICS_MAX + 1)},
        {"batch": 2**53},
        {"lake": "x" * 1_001},
        {"lake_bytes": 2**53},
        {"lake_verified_ms": -1},
    ],
)
def test_a_report_that_makes_no_sense(pipelines: Pipelines, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        report(pipelines, replace(SUMS, **change))
    assert listed(pipelines) == []


def test_whoever_may_describe_all_its_topics_sees_a_pipeline() -> None:
    joined = replace(SUMS, id="3b", topics=["orders", "payments"])
    reply = PipelineList([SUMS, joined])
    seen = ListPipelines().visible(reply, lambda right, resource: right == DESCRIBE and resource.topic == "orders")
    assert seen.pipelines == [SUMS]
    assert [each.topic for each in ReportPipeline(joined).resources] == ["orders", "payments"]
