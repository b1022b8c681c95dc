"""A lake of the format before Delta is taken over, with its files as they are, also by a second attempt."""

import json
from hashlib import blake2b
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the extra lake")

from flotilla.lake import migration
from flotilla.lake.archive import run_here
from flotilla.lake.lake import Lake
from flotilla.lake.migration import Migrated, migrate_lake
from flotilla.lake.runs import Span
from flotilla.lake.store import Store
from flotilla.lake.verification import verify_lake
from flotilla.types.errors import CorruptionError, InvalidArgumentError, NotFoundError
from tests.unit.lake.stored_rows import written


def old_lake(folder: Path) -> None:
    """Two topics, in the bytes that older versions have written."""
    listed = []
    for topic, count in (("orders", 3), ("payments.eu", 1)):
        store = Store(str(folder / f"topic={topic}"))
        for number in range(count):
            file = written(store, number % 2, 10 * (number // 2), 10)
            row = json.loads(file.text())
            listed.append([f"topic={topic}/{file.path}", topic, *row[2:7]])
        # A file of a killed attempt, which no manifest names; older versions had no descriptions.
        written(store, 0, 0, 5)
        store.remove(store.paths("_checksums", suffix=""))
    content = {"format": 1, "version": 7, "batches": {"q": 3}, "files": listed, "retired": []}
    text = json.dumps(content, separators=(",", ":"))
    digest = blake2b(text.encode(), digest_size=16).hexdigest()
    (folder / "_manifest").mkdir()
    (folder / "_manifest" / f"{6:020}.json").write_text("{}")
    (folder / "_manifest" / f"{7:020}.json").write_text(json.dumps({"digest": digest, "manifest": text}))


def check(folder: Path) -> None:
    lake = Lake(str(folder))
    assert lake.topics() == ["orders", "payments.eu"]
    assert lake.table("orders").snapshot().spans == {0: Span(0, 20), 1: Span(0, 10)}
    assert verify_lake(lake, run_here).rows == 40
    assert not list(folder.glob("topic=*/**/*.parquet"))


def test_an_old_lake_is_taken_over(tmp_path: Path) -> None:
    old_lake(tmp_path)
    with pytest.raises(InvalidArgumentError, match="migrate-lake"):
        Lake(str(tmp_path))
    assert migrate_lake(str(tmp_path)) == Migrated(2, 4, 40)
    check(tmp_path)
    with pytest.raises(NotFoundError, match="no lake of the old format"):
        migrate_lake(str(tmp_path))


@pytest.mark.parametrize("call", range(5))
def test_an_interrupted_run_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    old_lake(tmp_path)
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
        with pytest.raises(RuntimeError, match="dies here"):
            migrate_lake(str(tmp_path))
    migrate_lake(str(tmp_path))
    check(tmp_path)


def test_a_damaged_lake_is_not_taken_over(tmp_path: Path) -> None:
    old_lake(tmp_path)
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
