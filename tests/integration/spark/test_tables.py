"""Topics by their names, archive and log as one: views of all of them, and streams from the first record on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flotilla.spark
from flotilla import Client
from flotilla.lake.archive import ArchiveOptions, run_archive
from flotilla.lake.compaction import CompactionRules
from flotilla.spark.schema import COLUMNS
from flotilla.types.errors import InvalidArgumentError
from tests.integration.spark.pipeline_ledger import Ledger, places
from tests.integration.spark.tables import drain, read
from tests.integration.spark.waiting import wait_until

pytestmark = pytest.mark.slow


def test_views_and_streams_have_what_is_archived_and_what_is_live(
    spark: Any, client: Client, servers: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, copy, lake = topic(), topic(), str(tmp_path / "lake")
    ledger = Ledger(name)
    archived = ArchiveOptions(servers, [name], lake, compaction=CompactionRules(files_min=2))

    def stream(rows: int) -> list[str]:
        """Runs a stream to the end, and returns the ends of its micro-batches in partition 0."""
        found = flotilla.spark.flotilla_stream(spark, name, servers=servers, lake=lake, maxOffsetsPerTrigger=rows)
        assert found.columns == list(COLUMNS)
        made = found.selectExpr("to_json(struct(partition, offset)) AS key", "value")
        query = drain(made, servers, tmp_path / "checkpoint", topic=copy)
        return [json.loads(each.sources[0].endOffset)[name]["0"] for each in query.recentProgress if each.numInputRows]

    ledger.produce(client, 600)
    run_archive(archived)
    ledger.produce(client, 100)
    client.alter_topic(name, retention_messages=1)
    wait_until(lambda: client.find_offset(name, 0, "earliest") == 300, "retention up to the archive's hold")
    # Micro-batches in the lake, over the seam, and in the log.
    assert stream(400) == [200, 350]
    client.alter_topic(name, retention_messages=1_000_000)
    ledger.produce(client, 100)
    assert stream(400) == [400]
    # Archived, compacted and trimmed beyond the checkpoint while the stream is away.
    ledger.produce(client, 200)
    run_archive(archived)
    ledger.produce(client, 50)
    client.alter_topic(name, retention_messages=1)
    wait_until(lambda: client.find_offset(name, 0, "earliest") == 500, "retention up to the archive's hold")
    assert stream(400) == [525]

    rows = [(json.loads(row.key), bytes(row.value)) for row in read(spark, servers, subscribe=copy).collect()]
    assert sorted((at["partition"], at["offset"], value) for at, value in rows) == sorted(ledger.found)

    names = flotilla.spark.attach(spark, servers, lake=lake)
    assert names[name] == f"flotilla.`{name}`"
    view = spark.table(names[name])
    assert sorted(places(view)) == sorted(ledger.found)
    assert view.columns == list(COLUMNS)
    # A view is as new as its query, and a deleted topic is still in the lake.
    ledger.produce(client, 10)
    assert spark.sql(f"SELECT count(*) FROM {names[name]} WHERE topic = '{name}'").first()[0] == 1_060
    client.delete_topic(name)
    assert list(flotilla.spark.attach(spark, servers, lake=lake, subscribePattern=name)) == [name]
    assert spark.sql(f"SELECT count(*) FROM {names[name]}").first()[0] == 1_000


def test_two_sessions_of_one_process_attach_two_lakes(
    spark: Any, client: Client, servers: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, lakes = topic(), {"eu": str(tmp_path / "eu"), "us": str(tmp_path / "us")}
    ledger = Ledger(name)
    for group, lake in lakes.items():
        ledger.produce(client, 20)
        run_archive(ArchiveOptions(servers, [name], lake, group=group))
    client.delete_topic(name)
    other = spark.newSession()
    first = flotilla.spark.attach(spark, servers, lake=lakes["eu"], schema="eu", subscribePattern=name)
    with pytest.raises(InvalidArgumentError, match="another session of this application has attached 'eu'"):
        flotilla.spark.attach(other, servers, lake=lakes["us"], schema="eu", subscribePattern=name)
    second = flotilla.spark.attach(other, servers, lake=lakes["us"], schema="us", subscribePattern=name)
    for session in (spark, other):
        counts = [session.sql(f"SELECT count(*) FROM {view}").first()[0] for view in (first[name], second[name])]
        assert counts == [20, 40]
