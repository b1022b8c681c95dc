"""The listener of streaming queries: it reports each micro-batch, and the lake that a query writes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra")

from pyspark.sql.streaming.listener import QueryTerminatedEvent

from flotilla.spark import progress as progress_module
from flotilla.spark.progress import ProgressListener, reporting_lake
from flotilla.types.operations.pipelines import Pipeline

SESSION = "1f"
NAME = "archive orders " + "x" * 300
END = json.dumps({"orders": {"0": 700}})
LATEST = json.dumps({"orders": {"0": 700}, "@servers": "localhost:7600"})


def batch(number: int, name: str = NAME) -> Any:
    return SimpleNamespace(
        progress=SimpleNamespace(
            id="7a",
            name=name,
            batchId=number,
            numInputRows=700,
            processedRowsPerSecond=350.0,
            durationMs={"triggerExecution": 2_000},
            sources=[SimpleNamespace(latestOffset=LATEST, endOffset=END)],
        )
    )


#: Those that said that they were over.
ended: list[Pipeline] = []


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[Pipeline]:
    found: list[Pipeline] = []
    ended.clear()

    class Cluster:
        def report_pipeline(self, pipeline: Pipeline, *, is_over: bool = False) -> None:
            (ended if is_over else found).append(pipeline)

    @contextmanager
    def borrowed(*_: Any) -> Iterator[Any]:
        yield SimpleNamespace(admin=Cluster())

    monkeypatch.setattr(progress_module, "borrowed_client", borrowed)
    return found


def test_reports_have_the_state_of_the_lake_as_it_is_then(reports: list[Pipeline]) -> None:
    listener, sizes = ProgressListener(SESSION), iter((10, 20))
    idle: Any = SimpleNamespace(id="7a")
    with reporting_lake(SESSION, NAME, lambda pipeline: replace(pipeline, lake="/lake", lake_bytes=next(sizes))):
        listener.onQueryProgress(batch(0))
        listener.onQueryProgress(batch(0, "sums"))
        listener.onQueryProgress(batch(1))
    assert [(each.lake, each.lake_bytes) for each in reports] == [("/lake", 10), ("", 0), ("/lake", 20)]
    assert (reports[0].name, reports[0].batch_records, reports[0].records_per_second) == (NAME[:200], 700, 350)
    with reporting_lake(SESSION, NAME, lambda pipeline: replace(pipeline, lake="/lake", lake_bytes=30)):
        listener.onQueryIdle(idle)
    listener.onQueryProgress(batch(2))
    assert [(each.lake_bytes, each.batch_records) for each in reports[3:]] == [(30, 0), (0, 700)]


def test_two_sessions_may_archive_one_topic_into_two_lakes(reports: list[Pipeline]) -> None:
    """A query has a name in its session, and the topic gives it."""
    other = "2e"
    with (
        reporting_lake(SESSION, NAME, lambda pipeline: replace(pipeline, lake="/eu", lake_bytes=1)),
        reporting_lake(other, NAME, lambda pipeline: replace(pipeline, lake="/us", lake_bytes=2)),
    ):
        for session in (SESSION, other):
            ProgressListener(session).onQueryProgress(batch(0))
    assert [(each.lake, each.lake_bytes) for each in reports] == [("/eu", 1), ("/us", 2)]


def test_a_lake_that_cannot_be_read_does_not_hide_the_query(
    reports: list[Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Pipeline) -> Pipeline:
        raise OSError("no route to the store")

    with reporting_lake(SESSION, NAME, fail):
        ProgressListener(SESSION).onQueryProgress(batch(0))
    assert [(each.batch_records, each.lake) for each in reports] == [(700, "")]
    assert "no route to the store" in caplog.text


def test_a_query_that_fails_is_silent_and_one_that_is_stopped_is_over(reports: list[Pipeline]) -> None:
    for exception, over in (("boom", []), (None, ["7a"])):
        listener = ProgressListener(SESSION)
        listener.onQueryProgress(batch(0))
        listener.onQueryTerminated(QueryTerminatedEvent("7a", "run", exception, None))  # type: ignore[arg-type]
        assert [each.id for each in ended] == over
    assert len(reports) == 2
