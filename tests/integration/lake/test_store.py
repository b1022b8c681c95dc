"""What a lake needs of its store, on a disk and on S3."""

import threading
from typing import Any

import pytest

from flotilla.lake import table as table_module
from flotilla.lake.lake import Lake
from flotilla.lake.migration import Migrated, migrate_lake
from flotilla.lake.runs import Span
from flotilla.lake.store import Store
from flotilla.types.errors import AlreadyExistsError, NotFoundError
from tests.unit.lake.old_lake import check, old_lake
from tests.unit.lake.stored_rows import written


def test_a_file_is_new_once(lake: str) -> None:
    store = Store(lake)
    store.put("a", b"first", is_new=True)
    with pytest.raises(AlreadyExistsError, match="another archive writes to this lake"):
        Store(lake).put("a", b"second", is_new=True)
    assert store.read("a") == b"first"
    assert store.paths(suffix="") == ["a"]
    store.put("a", b"third")
    assert store.read("a") == b"third"


def test_of_two_tables_that_add_the_same_offsets_at_once_one_is_told(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [Lake(lake).table("orders") for _ in range(2)]
    tables[0].add([written(tables[0], 0, 0, 10)])
    barrier = threading.Barrier(2)
    made: list[str] = []
    put_version = table_module.put_version

    def put_at_once(*arguments: Any) -> bool:
        """Both have seen that the offsets are new."""
        barrier.wait()
        return put_version(*arguments)

    monkeypatch.setattr(table_module, "put_version", put_at_once)

    def add(number: int) -> None:
        try:
            tables[number].add([written(tables[number], 0, 10, 5)])
        except AlreadyExistsError as error:
            made.append(str(error))
        else:
            made.append("")

    threads = [threading.Thread(target=add, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ["another archive writes to this lake" in text for text in sorted(made)] == [False, True]
    found = Lake(lake).table("orders").snapshot()
    assert (found.version, found.rows, found.spans) == (2, 15, {0: Span(0, 15)})


def test_a_lake_of_the_format_before_delta_is_taken_over(lake: str) -> None:
    old_lake(lake)
    assert migrate_lake(lake) == Migrated(2, 4, 40)
    check(lake)
    with pytest.raises(NotFoundError, match="no lake of the old format"):
        migrate_lake(lake)
