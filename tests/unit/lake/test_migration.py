"""A lake of the format before Delta is taken over, with its files as they are, also by a second attempt."""

import json
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the extra lake")

from flotilla.lake import migration
from flotilla.lake.lake import Lake
from flotilla.lake.migration import Migrated, migrate_lake
from flotilla.types.errors import CorruptionError, InvalidArgumentError, NotFoundError
from tests.unit.lake.old_lake import check, old_lake


def test_an_old_lake_is_taken_over(tmp_path: Path) -> None:
    old_lake(str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="migrate-lake"):
        Lake(str(tmp_path))
    assert migrate_lake(str(tmp_path)) == Migrated(2, 4, 40)
    check(str(tmp_path))
    with pytest.raises(NotFoundError, match="no lake of the old format"):
        migrate_lake(str(tmp_path))


@pytest.mark.parametrize("call", range(6))
def test_an_interrupted_run_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    old_lake(str(tmp_path))
    calls = []

    def dying(work):
        def run(*arguments, **named):
            calls.append(work)
            if len(calls) == call + 1:
                raise RuntimeError("dies here")
            return work(*arguments, **named)

        return run

    with monkeypatch.context() as broken:
        broken.setattr(migration, "verify", dying(migration.verify))
        broken.setattr(migration.TopicTable, "add", dying(migration.TopicTable.add))
        broken.setattr(migration.Store, "remove_folder", dying(migration.Store.remove_folder))
        with pytest.raises(RuntimeError, match="dies here"):
            migrate_lake(str(tmp_path))
    migrate_lake(str(tmp_path))
    check(str(tmp_path))


def test_a_damaged_lake_is_not_taken_over(tmp_path: Path) -> None:
    old_lake(str(tmp_path))
    path = tmp_path / "_manifest" / f"{7:020}.json"
    good = path.read_text()
    for damaged in (good[:-3], good.replace("orders", "0rders"), "[]"):
        path.write_text(damaged)
        with pytest.raises(CorruptionError):
            migrate_lake(str(tmp_path))
    path.write_text(good)
    listed = json.loads(json.loads(good)["manifest"])["files"][0][0]
    (tmp_path / listed).write_bytes(b"PAR1")
    with pytest.raises(CorruptionError, match="is not what was written"):
        migrate_lake(str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="migrate-lake"):
        Lake(str(tmp_path))
