"""Garbage collection in Spark's workers."""

import gc

import pytest

pytest.importorskip("pyspark", reason="the spark extra")

from pyspark import TaskContext

from flotilla.spark import gc_tuning as collector
from flotilla.spark.gc_tuning import spare_collections


def test_only_processes_of_tasks_are_relieved(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_freeze_count()
    spare_collections()
    assert gc.get_freeze_count() == before
    # Its own constructor would set it for good, and no session could start in this process.
    monkeypatch.setattr(TaskContext, "_taskContext", object.__new__(TaskContext))
    collector._freeze.cache_clear()
    try:
        spare_collections()
        assert gc.get_freeze_count() > before
        gc.unfreeze()
        spare_collections()
        assert gc.get_freeze_count() == 0, "once for each process"
    finally:
        gc.unfreeze()
        collector._freeze.cache_clear()
