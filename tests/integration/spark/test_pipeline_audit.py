"""The audit finds every change of the ledger, and nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client
from flotilla.lake.archive import ArchiveOptions, run_archive
from flotilla.spark.pipelines.audit import AuditOptions, audit, findings
from flotilla.spark.pipelines.session import prepare
from flotilla.types.errors import InvalidArgumentError
from tests.integration.spark.pipeline_ledger import PANDAS, Ledger

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(PANDAS)]

LEDGER = "topic string, partition int, offset long, digest string, producer string, sequence long"
STORED = "topic string, partition int, offset long, digest string, home string"
CONSUMED = "topic string, partition int, offset long, consumer string, position long"


def test_every_kind_of_finding_and_no_other(spark: Any) -> None:
    """One topic for each kind, so that each has its findings and no other's."""
    ledger = [("good", 0, at, f"d{at}", "p", at) for at in range(5)]
    stored = [("good", 0, at, f"d{at}", home) for at in range(5) for home in ("log", "lake")]
    consumed = [("good", 0, at, "c", at) for at in range(5)]

    ledger += [("lost", 0, at, f"d{at}", None, None) for at in range(3)] + [("lost", 1, 0, "x", None, None)]
    stored += [("lost", 0, at, f"d{at}", "log") for at in range(2)] + [("lost", 1, 0, "y", "log")]
    ledger += [("twice", 0, 0, "same", None, None), ("twice", 0, 1, "same", None, None)]
    stored += [("twice", 0, at, "same", "log") for at in range(3)]
    ledger += [("copied", 0, 0, "d", None, None)]
    stored += [("copied", 0, 0, "d", "lake")] * 2
    ledger += [("torn", 0, 0, "d", None, None)]
    stored += [("torn", 0, 0, "d", "log"), ("torn", 0, 0, "e", "lake")]
    order = [0, 2, 1, 3]
    ledger += [("mixed", 0, at, f"d{at}", "p", sequence) for at, sequence in enumerate(order)]
    ledger += [("mixed", 0, 4, "d4", "q", 0)]
    stored += [("mixed", 0, at, f"d{at}", "log") for at in range(5)]
    stored += [("gap", 0, at, f"d{at}", "lake") for at in (7, 8, 11)]
    ledger += [("work", 0, at, f"d{at}", None, None) for at in range(4)]
    stored += [("work", 0, at, f"d{at}", "log") for at in range(4)]
    consumed += [("work", 0, 0, "c", 0), ("work", 0, 2, "c", 1), ("work", 0, 1, "c", 2), ("work", 0, 1, None, None)]
    handled = {("work", at) for at in range(3)} | {("good", at) for at in range(5)}

    found = findings(
        spark.createDataFrame(ledger, LEDGER),
        spark.createDataFrame(stored, STORED),
        spark.createDataFrame(consumed, CONSUMED),
    ).collect()

    by_kind: dict[str, list[tuple[str, int, int]]] = {}
    for row in found:
        by_kind.setdefault(row.finding, []).append((row.topic, row.partition, row.offset))
    expected = {
        "missing": [("lost", 0, 2), ("lost", 1, 0)],
        "doubled": [("copied", 0, 0), ("twice", 0, 2)],
        "different": [("torn", 0, 0)],
        "reordered": [("mixed", 0, 2)],
        "hole": [("gap", 0, 9)],
        "consumed_again": [("work", 0, 1)],
        "consumed_late": [("work", 0, 1)],
        "unconsumed": sorted((each[0], each[1], each[2]) for each in ledger if (each[0], each[2]) not in handled),
    }
    assert {kind: sorted(rows) for kind, rows in by_kind.items()} == expected
    details = {row.finding: row.detail for row in found if row.topic in ("gap", "mixed")}
    assert details["hole"] == "offsets up to 10"
    assert details["reordered"] == "sequence 1 of p is stored after 2"


def test_log_lake_and_consumers_against_the_ledger(
    spark: Any, client: Client, servers: str, topic: Callable[..., str], tmp_path: Path, object_store: str
) -> None:
    prepare(spark)
    name, lake = topic(), f"{object_store}/audit"
    ledger = Ledger(name)
    ledger.produce(client, 400)
    run_archive(ArchiveOptions(servers, [name], lake))
    ledger.produce(client, 100)
    promised = str(ledger.write(tmp_path / "acked.jsonl"))
    consumed = str(ledger.write(tmp_path / "consumed.jsonl", consumer="c"))
    options = AuditOptions(servers, promised, str(tmp_path / "audit"), lake, consumed)
    found = audit(spark, options)
    assert found.is_good
    assert (found.acknowledged, found.in_log, found.in_lake) == (500, 500, 400)
    assert set(found.counts.values()) == {0}

    # A missing record, one with other content, and one that was not handled.
    ledger.rows[0, 10_000] = b"never stored"
    ledger.rows[1, 0] = b"something else"
    ledger.write(tmp_path / "acked.jsonl")
    found = audit(spark, options)
    assert not found.is_good
    assert {kind: count for kind, count in found.counts.items() if count} == {"missing": 2, "unconsumed": 1}
    listed = [
        json.loads(line)
        for path in (tmp_path / "audit" / "findings" / "finding=missing").glob("*.json")
        for line in path.read_text().splitlines()
    ]
    assert sorted((each["partition"], each["offset"]) for each in listed) == [(0, 10_000), (1, 0)]


def test_a_ledger_that_is_none(spark: Any, servers: str, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"partition": 3}\n')
    for name in ("missing.jsonl", "bad.jsonl"):
        with pytest.raises(InvalidArgumentError, match=r"the ledger .*jsonl"):
            audit(spark, AuditOptions(servers, str(tmp_path / name), str(tmp_path / "audit")))
