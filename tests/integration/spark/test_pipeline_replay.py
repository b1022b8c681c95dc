"""Replays from the lake and the log: in order, each row once, however often it is started."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client
from flotilla.client.reader.message import Message
from flotilla.lake.archive import ArchiveOptions
from flotilla.lake.store import Store
from flotilla.spark.pipelines import replay as replay_module
from flotilla.spark.pipelines.archive import archive
from flotilla.spark.pipelines.replay import ORIGIN_HEADER, ReplayOptions, replay
from flotilla.spark.pipelines.session import prepare
from tests.integration.spark.pipeline_ledger import BEGAN_MS, PANDAS, Ledger

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(PANDAS)]


def messages(client: Client, topic: str, partition: int) -> list[Message]:
    end = client.find_offset(topic, partition, "latest")
    return client.peek(topic, partition, max_messages=end) if end else []


def test_log_and_lake_on_s3_into_a_topic_over_two_runs_and_a_crash(
    spark: Any,
    client: Client,
    servers: str,
    topic: Callable[..., str],
    tmp_path: Path,
    object_store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare(spark)
    name, into, lake = topic(), topic(), f"{object_store}/replay"
    ledger = Ledger(name)
    ledger.produce(client, 300)
    archive(spark, ArchiveOptions(servers, [name], lake), str(tmp_path / "archive"))
    ledger.produce(client, 300)
    options = ReplayOptions(servers, name, into_topic=into, lake=lake, checkpoint=f"{object_store}/checkpoint")

    # Two lots of each partition, and a driver that dies after the first one was sent and before that was noted.
    monkeypatch.setattr(replay_module, "BLOCK_ROWS", 10)
    monkeypatch.setattr(replay_module, "LOT_BLOCKS", 15)

    put = Store.put

    def die(self: Store, path: str, data: bytes, **how: bool) -> None:
        if path == "progress.json":
            raise RuntimeError("the driver dies here")
        put(self, path, data, **how)

    with monkeypatch.context() as broken:
        broken.setattr(Store, "put", die)
        with pytest.raises(RuntimeError, match="dies here"):
            replay(spark, options)
    sent = client.find_offset(into, 0, "latest") + client.find_offset(into, 1, "latest")
    assert sent == 300

    done = replay(spark, options)
    assert (done.target, done.rows, done.lots, done.lots_before) == (into, 600, 2, 0)
    again = replay(spark, options)
    assert (again.rows, again.lots_before) == (0, 2)
    # The same without a checkpoint: the plan is the same, and so is its name.
    replay(spark, replace(options, checkpoint=None))

    for partition in (0, 1):
        before, after = messages(client, name, partition), messages(client, into, partition)
        assert [each.payload for each in after] == [each.payload for each in before], "all of them, in their order"
        for old, new in zip(before, after, strict=True):
            assert (new.key, new.priority, new.timestamp_ms, new.content_type) == (
                old.key,
                old.priority,
                old.timestamp_ms,
                old.content_type,
            )
            origin = f"{name}/{partition}/{old.offset}".encode()
            assert new.headers == (*old.headers, (ORIGIN_HEADER, origin))


def test_a_range_of_time_into_a_shadow_group_at_a_rate(
    spark: Any, client: Client, servers: str, topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    ledger = Ledger(name)
    ledger.produce(client, 100)
    options = ReplayOptions(
        servers,
        name,
        into_group="tester",
        since_ms=BEGAN_MS + 20_000,
        until_ms=BEGAN_MS + 50_000,
        rows_per_second=200.0,
    )
    done = replay(spark, options)
    assert (done.target, done.rows) == (f"shadow.tester.{name}", 30)
    found = {each.payload for number in (0, 1) for each in messages(client, done.target, number)}
    assert found == {b"%d" % number for number in range(20, 50)}
    narrow = ReplayOptions(servers, name, into_topic=topic(partitions=3), first_offset=5, end_offset=9, partitions=[1])
    assert replay(spark, narrow).rows == 4
    rest = [each for number in range(3) for each in messages(client, narrow.into_topic, number)]
    assert {each.payload for each in rest} == {ledger.rows[1, offset] for offset in range(5, 9)}
