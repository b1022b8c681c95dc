"""What happens while a session is registered, and whose views are attached."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra")

from flotilla.spark import registration, tables
from flotilla.types.errors import InvalidArgumentError


def test_all_modules_of_the_planner_exist_and_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in registration._PLANNER:
        monkeypatch.delitem(sys.modules, name, raising=False)
    registration.import_planner()
    assert [name for name in registration._PLANNER if name not in sys.modules] == []


def test_another_version_of_spark_may_lack_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "_PLANNER", ("pyspark.sql.worker.no_such_module",))
    registration.import_planner()


def session(number: int) -> Any:
    jvm = SimpleNamespace(sessionUUID=lambda: f"session-{number}")
    return SimpleNamespace(sparkContext=SimpleNamespace(applicationId="local-1"), _jsparkSession=jvm)


def test_sessions_that_share_views_do_not_get_each_others_lake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_attached", {})
    one, other = session(1), session(2)
    tables._claim(one, "flotilla", ("a:1", "/eu"))
    tables._claim(other, "flotilla", ("a:1", "/eu"))
    with pytest.raises(InvalidArgumentError, match=r"attached 'flotilla' to /eu.*attach to /us .*schema='flotilla_2'"):
        tables._claim(other, "flotilla", ("a:1", "/us"))
    with pytest.raises(InvalidArgumentError, match="attach to b:1 with another schema"):
        tables._claim(other, "flotilla", ("b:1", ""))
    tables._claim(other, "us", ("a:1", "/us"))
    # The first one may move.
    tables._claim(one, "flotilla", ("a:1", "/us"))
    tables._claim(other, "flotilla", ("a:1", "/us"))
