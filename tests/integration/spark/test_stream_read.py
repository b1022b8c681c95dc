"""Topics as streams."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client
from flotilla.cli.local_cluster import LocalCluster
from flotilla.types.operations.pipelines import Pipeline
from flotilla.types.records import Record
from tests.integration.spark.tables import QUERY_S_MAX, drain, read_stream, start, values
from tests.integration.spark.waiting import wait_until

Topic = Callable[..., str]


def test_a_stream_goes_on_where_it_was(spark: Any, client: Client, servers: str, topic: Topic, tmp_path: Path) -> None:
    """With servers that are listed in another order each time, from a checkpoint that has none of them."""
    name, copy = topic(partitions=2), topic(partitions=1)
    turned = servers.split(",")
    wanted = []
    for turn in range(3):
        fresh = [b"%d/%d" % (turn, number) for number in range(100)]
        client.produce_many(name, fresh)
        wanted += fresh
        turned = [*turned[1:], turned[0]]
        rows = read_stream(spark, ",".join(turned), subscribe=name, startingOffsets="earliest", group="moving")
        drain(rows.select("value"), servers, tmp_path / "checkpoint", topic=copy)
        last = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        text = last.read_text()
        assert f'{{"{name}":' in text
        assert "@" not in text
        # As checkpoints were before: other servers, which are gone.
        last.write_text(text.replace(f'{{"{name}":', f'{{"@group":"moving","@servers":"127.0.0.1:1","{name}":'))
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    assert values(spark, servers, copy) == sorted(value.decode() for value in wanted)


def reports(client: Client, query: Any) -> list[Pipeline]:
    """Of this query: those of drivers that were killed stay for a while."""
    return [each for each in client.admin.pipelines() if each.id == str(query.id)]


def test_the_rate_is_limited_and_the_last_batch_is_reported(
    spark: Any, client: Client, servers: str, topic: Topic, tmp_path: Path
) -> None:
    name = topic(partitions=2)
    for partition, count in ((0, 700), (1, 50)):
        client.produce_many(name, [b"x"] * count, partition=partition)
    rows = read_stream(
        spark, servers, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=200, group="spark-group"
    )

    query = drain(rows, servers, tmp_path / "checkpoint", into="noop")

    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [200, 200, 200, 150]
    latest = json.loads(query.lastProgress.sources[0].latestOffset)
    assert latest[name] == {"0": 700, "1": 50}

    def committed() -> list[int | None]:
        return [client.committed_offset(name, "spark-group", partition) for partition in (0, 1)]

    wait_until(lambda: committed() == [700, 50], "the group's offsets at the end of the topic")
    wait_until(lambda: not reports(client, query), "the end of the query in the list")


def test_a_query_that_is_behind_says_so(spark: Any, client: Client, servers: str, topic: Topic, tmp_path: Path) -> None:
    name = topic(partitions=2)
    for partition, count in ((0, 700), (1, 50)):
        client.produce_many(name, [bytes(1_000)] * count, partition=partition)
    rows = read_stream(spark, servers, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=200)
    hourly = {"processingTime": "1 hour"}
    query = start(rows, servers, tmp_path / "checkpoint", into="noop", name="slow sums", trigger=hourly)
    try:
        wait_until(lambda: reports(client, query) != [], "the report of the first micro-batch", query=query)
        (found,) = reports(client, query)
    finally:
        query.stop()
    assert (found.name, found.topics, found.batch, found.batch_records) == ("slow sums", [name], 0, 200)
    assert found.records_behind == 550
    assert 550_000 <= found.bytes_behind < 700_000
    assert found.batch_ms > 0


def test_bytes_limit_a_micro_batch(spark: Any, client: Client, servers: str, topic: Topic, tmp_path: Path) -> None:
    name = topic(partitions=1)
    client.produce_many(name, [bytes(1_000)] * 1_000)
    rows = read_stream(spark, servers, subscribe=name, startingOffsets="earliest", maxBytesPerTrigger="250KiB")

    query = drain(rows, servers, tmp_path / "checkpoint", into="noop")

    counts = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert sum(counts) == 1_000
    assert max(counts) <= 260


def test_a_topic_grows(spark: Any, client: Client, servers: str, topic: Topic, tmp_path: Path) -> None:
    name, copy = topic(partitions=1), topic(partitions=1)
    client.produce(name, b"old")
    rows = read_stream(spark, servers, subscribe=name, startingOffsets="earliest").select("value")
    query = start(rows, servers, tmp_path / "checkpoint", topic=copy, trigger={"processingTime": "0 seconds"})
    try:
        wait_until(lambda: values(spark, servers, copy) == ["old"], "the first record", query=query)
        client.alter_topic(name, partitions=3)
        for partition in range(3):
            client.produce(name, b"new %d" % partition, partition=partition)
        wait_until(lambda: len(values(spark, servers, copy)) == 4, "records of the new partitions", query=query)
    finally:
        query.stop()
    assert values(spark, servers, copy) == ["new 0", "new 1", "new 2", "old"]


def test_leaders_die_while_it_runs(
    spark: Any, client: Client, cluster: LocalCluster, servers: str, topic: Topic, tmp_path: Path
) -> None:
    name, copy = topic(partitions=3), topic(partitions=2)
    rows = read_stream(spark, servers, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=3_000).select(
        "key", "value"
    )
    query = start(rows, servers, tmp_path / "checkpoint", topic=copy, trigger={"processingTime": "0 seconds"})
    wanted = []
    try:
        for node in cluster.nodes.values():
            fresh = [Record(b"%d/%d" % (node.node, number), b"%d" % number) for number in range(2_000)]
            client.produce_many(name, fresh)
            wanted += [record.payload.decode() for record in fresh]
            node.kill()
            client.produce(name, b"while %d was down" % node.node)
            wanted.append(f"while {node.node} was down")
            cluster.restart_node(node.node)
            cluster.wait_ready(60)
        wait_until(lambda: len(values(spark, servers, copy)) >= len(wanted), "everything in the copy", query=query)
    finally:
        query.stop()
    assert values(spark, servers, copy) == sorted(wanted)


def test_records_that_retention_removed_are_named_or_skipped(
    spark: Any, client: Client, servers: str, topic: Topic, tmp_path: Path
) -> None:
    name = topic(partitions=1, retention_bytes=1 << 20)
    checkpoint = tmp_path / "checkpoint"
    client.produce_many(name, [bytes(100)] * 10)
    drain(_from_start(spark, servers, name), servers, checkpoint, into="noop")
    first = _overflow(client, name)

    query = start(_from_start(spark, servers, name), servers, checkpoint, into="noop")
    with pytest.raises(Exception, match=rf"(?s)offsets 10 to {first - 1} of partition 0 of topic {name} are gone"):
        query.awaitTermination(QUERY_S_MAX)

    query = drain(_from_start(spark, servers, name, failOnDataLoss="false"), servers, checkpoint, into="noop")
    assert json.loads(query.lastProgress.sources[0].endOffset)[name]["0"] == client.find_offset(name, 0, "latest")


def _from_start(spark: Any, servers: str, name: str, **options: object) -> Any:
    return read_stream(spark, servers, subscribe=name, startingOffsets="earliest", **options)


def _overflow(client: Client, name: str) -> int:
    """Writes until retention has moved the start of the log, and waits until it rests; where it begins then."""

    def has_moved() -> bool:
        client.produce_many(name, [bytes(100_000)] * 20)
        return client.find_offset(name, 0, "earliest") > 10

    wait_until(has_moved, "retention")
    seen = [-1]

    def rests() -> bool:
        seen.append(client.find_offset(name, 0, "earliest"))
        return len(seen) > 30 and len(set(seen[-30:])) == 1

    wait_until(rests, "retention to rest", pause_s=0.1)
    return seen[-1]
