"""A lake of the format before Delta, in the bytes that older versions have written."""

import json
from hashlib import blake2b

from flotilla.lake.archive import run_here
from flotilla.lake.lake import Lake
from flotilla.lake.runs import Span
from flotilla.lake.store import Store
from flotilla.lake.verification import verify_lake
from tests.unit.lake.stored_rows import written


def old_lake(address: str) -> None:
    """Two topics."""
    listed = []
    for topic, count in (("orders", 3), ("payments.eu", 1)):
        store = Store(f"{address}/topic={topic}")
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
    lake = Store(address)
    lake.put(f"_manifest/{6:020}.json", b"{}")
    lake.put(f"_manifest/{7:020}.json", json.dumps({"digest": digest, "manifest": text}).encode())


def check(address: str) -> None:
    """It was taken over."""
    lake = Lake(address)
    assert lake.topics() == ["orders", "payments.eu"]
    assert lake.table("orders").snapshot().spans == {0: Span(0, 20), 1: Span(0, 10)}
    assert verify_lake(lake, run_here).rows == 40
    assert not [path for path in lake.store.paths(suffix=".parquet") if path.startswith("topic=")]
