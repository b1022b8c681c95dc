"""A query that Spark could not start in time is started again; any other error ends it."""

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark")

from pyspark.errors import StreamingQueryException

from flotilla.spark.pipelines.streaming_run import RunOptions, run_query
from flotilla.types.errors import CorruptionError, UnavailableError

LATE = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Python worker failed to connect back."


class Writer:
    """Queries that end as told, one after the other."""

    def __init__(self, *endings: str | None) -> None:
        self._endings = iter(endings)
        self.starts = self.stops = 0
        self.lastProgress = None

    def option(self, name: str, value: str) -> "Writer":
        return self

    def trigger(self, **_: Any) -> "Writer":
        return self

    def start(self) -> "Writer":
        self.starts += 1
        return self

    def stop(self) -> None:
        self.stops += 1

    def awaitTermination(self, _: float) -> bool:  # noqa: N802 - Spark's name
        ending = next(self._endings)
        if ending is not None:
            raise StreamingQueryException(ending)
        return True


def test_a_planner_that_is_late_is_started_again(tmp_path: Any) -> None:
    writer, lines = Writer(LATE, LATE, None), []
    run_query(writer, RunOptions(str(tmp_path)), lines.append)
    assert (writer.starts, writer.stops) == (3, 2)
    assert all("starting the query again" in line for line in lines)


def test_it_gives_up_after_some_time(tmp_path: Any) -> None:
    writer = Writer(*[LATE] * 10)
    with pytest.raises(UnavailableError, match="failed to connect back"):
        run_query(writer, RunOptions(str(tmp_path)), lambda _: None)
    assert writer.starts == 10


def test_another_error_ends_it_at_once(tmp_path: Any) -> None:
    writer = Writer("STREAM_FAILED\nflotilla.types.errors.CorruptionError: a file is not what was written\n")
    with pytest.raises(CorruptionError, match="a file is not what was written"):
        run_query(writer, RunOptions(str(tmp_path)), lambda _: None)
    assert (writer.starts, writer.stops) == (1, 1)
