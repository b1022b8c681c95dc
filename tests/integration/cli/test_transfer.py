"""Records and definitions that leave a cluster and come into another one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.cli.transfer.definitions import decode
from flotilla.client.client import Client
from flotilla.testing import LocalBroker
from flotilla.types.operations.quotas import Quota


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def flotilla(broker: LocalBroker, *args: object, code: int = 0, stdin: bytes | None = None) -> Any:
    result = CliRunner(env={"FLOTILLA_SERVERS": broker.address}).invoke(app, [*map(str, args)], input=stdin)
    assert result.exit_code == code, result.output
    return result


def content(client: Client, topic: str) -> list[tuple[Any, ...]]:
    found = []
    for partition in range(len(client.describe_topic(topic).partitions)):
        with client.reader(topic, partitions=[partition]) as reader:
            while reader.behind != 0:
                found += reader.poll(wait_ms=100)
    fields = [(m.partition, m.payload, m.key, m.headers, m.timestamp_ms, m.priority, m.content_type) for m in found]
    return sorted(fields, key=repr)


def fill(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=2)
    client.produce(topic, b"plain", partition=0)
    client.produce(topic, b"\xff\x00", partition=1, key=b"\xfe", headers=[("h", b"\xfd"), ("h", b"2")], priority=3)
    client.produce(topic, "naïve\n".encode(), key=b"k", timestamp_ms=1_000, content_type=2, headers={"t": b""})


@pytest.mark.parametrize("name", ["records.ndjson", "records.parquet"])
def test_records_come_back_as_they_were(broker: LocalBroker, tmp_path: Path, name: str) -> None:
    topic, copy = f"from-{name}", f"to-{name}"
    with broker.client() as client:
        fill(client, topic)
        client.create_topic(copy, partitions=2)
        flotilla(broker, "topic", "export", topic, tmp_path / name)
        flotilla(broker, "topic", "import", copy, tmp_path / name, "--keep-partitions")
        assert content(client, copy) == content(client, topic)


def test_an_import_says_where_it_stopped(broker: LocalBroker) -> None:
    lines = b'{"payload": "one"}\n\n{"payload_base64": "b2s="}\n{"key": "no payload"}\n'
    with broker.client() as client:
        client.create_topic("stopped")
        said = flotilla(broker, "topic", "import", "stopped", "-", stdin=lines, code=2).output
        assert "-: line 4 is no record" in said
        assert "records were stored before this" in said
        assert {payload for _, payload, *_ in content(client, "stopped")} <= {b"one", b"ok"}


@pytest.mark.parametrize("name", ["ships.toml", "ships.json"])
def test_definitions_make_an_equal_cluster_and_then_change_nothing(
    broker: LocalBroker, tmp_path: Path, name: str
) -> None:
    file, again = tmp_path / name, tmp_path / f"again-{name}"
    with broker.client() as client, LocalBroker() as other, other.client() as target:
        if "orders" not in [topic.name for topic in client.topics()]:
            client.create_topic("orders", partitions=3, retention_ms="3d")
            client.alter_group("orders", "workers", max_deliveries="7")
            with client.queue("orders", group="workers") as consumer:
                consumer.poll(wait_ms=0)
            headers = {"h": b"\xff"}
            client.schedules.create("nightly", "orders", b"\x00", cron="0 3 * * *", headers=headers, key=b"k")
            client.schedules.pause("nightly")
            client.admin.users.create("ann", "a long password")
            client.admin.grants.add("ann", "consume", "orders", "work*")
            client.admin.roles.grant("readers", "describe", "*")
            client.admin.roles.assign("readers", "ann")
            client.admin.quotas.set(Quota(user="ann", requests_per_second=100))
        flotilla(broker, "cluster", "definitions", "export", file)
        shown = json.loads(flotilla(other, "cluster", "definitions", "import", file, "--dry-run", "--json").stdout)
        assert any(step.startswith("create topic orders") for step in shown["changes"])
        assert shown["missing_users"] == ["ann"]
        assert [topic.name for topic in target.topics()] == [], "a dry run changes nothing"
        done = json.loads(flotilla(other, "cluster", "definitions", "import", file, "--json").stdout)
        assert done["changes"] == shown["changes"]
        second = json.loads(flotilla(other, "cluster", "definitions", "import", file, "--json").stdout)
        assert second["changes"] == []
        target.admin.users.create("ann", "a long password")
        target.alter_topic("orders", retention_ms="5d")
        assert (
            "alter topic orders: retention_ms 5d -> 3d"
            in flotilla(other, "cluster", "definitions", "import", file).stdout
        )
        with target.queue("orders", group="workers") as consumer:
            consumer.poll(wait_ms=0)
        flotilla(other, "cluster", "definitions", "export", again)
        have, want = json_of(again), json_of(file)
        assert [topic for topic in have["topics"] if topic["name"] == "orders"] == [
            topic for topic in want["topics"] if topic["name"] == "orders"
        ]
        assert {part: have[part] for part in have if part != "topics"} == {
            part: want[part] for part in want if part != "topics"
        }


def json_of(file: Path) -> Any:
    return decode(file.read_text(), is_toml=file.suffix == ".toml")


def test_a_document_of_another_kind_or_version_is_refused(broker: LocalBroker, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    for document, complaint in (
        ({"format": "x"}, "does not begin with"),
        ({"format": "flotilla definitions", "version": 2}, "and this flotilla reads 1"),
        ({"format": "flotilla definitions", "version": 1, "topcs": []}, "unknown parts: topcs"),
        ({"format": "flotilla definitions", "version": 1, "topics": [{}]}, "not understood"),
    ):
        file.write_text(json.dumps(document))
        assert complaint in flotilla(broker, "cluster", "definitions", "import", file, code=2).output
