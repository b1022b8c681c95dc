"""Schemas in their topic, and archives that store decoded columns with them."""

import json
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import polars
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from flotilla import Client
from flotilla.cli.app import app
from flotilla.lake.archive import ArchiveOptions, run_archive, run_here
from flotilla.lake.compaction import CompactionRules, compact
from flotilla.lake.lake import Lake
from flotilla.lake.schema_topic import SCHEMA_TOPIC, VERSION_HEADER, RegisteredSchema, SchemaTopic
from flotilla.lake.values.value_schema import ValueSchema
from flotilla.lake.verification import verify_table
from flotilla.testing import LocalBroker
from flotilla.types.errors import InvalidArgumentError, NotFoundError


def columns(text: str) -> ValueSchema:
    return ValueSchema("json", text.encode())


def avro(*fields: dict[str, Any]) -> ValueSchema:
    return ValueSchema("avro", json.dumps({"type": "record", "name": "Order", "fields": list(fields)}).encode())


def written(schema: ValueSchema, row: dict[str, Any]) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema.definition)), row)
    return stream.getvalue()


@pytest.fixture
def schemas(client: Client) -> SchemaTopic:
    return SchemaTopic(client)


def test_versions_and_their_rule(client: Client, schemas: SchemaTopic) -> None:
    first, wider = columns("id INT"), columns("id BIGINT, name STRING")
    assert schemas.register("rule", first) == RegisteredSchema("rule", 1, first, "backward")
    assert schemas.register("rule", first).version == 1, "nothing has changed"
    assert schemas.register("rule", wider).version == 2
    with pytest.raises(InvalidArgumentError, match="has the rule backward: values of version 1 cannot be read: id is"):
        schemas.register("rule", columns("id DATE"))
    with pytest.raises(InvalidArgumentError, match="has the rule full"):
        schemas.register("rule", columns("id BIGINT, more INT"), "full")
    assert schemas.register("rule", columns("id DATE"), "none").version == 3
    assert schemas.register("rule", columns("id INT")).version == 4, "the rule stays until it is replaced"
    with pytest.raises(InvalidArgumentError, match="not understood"):
        schemas.register("rule", columns("id INT x"))
    with pytest.raises(InvalidArgumentError, match="a schema name has"):
        schemas.register("a@b", first)
    # Bytes of somebody else do not count, and another process reads the same.
    client.produce(SCHEMA_TOPIC, b"{}", partition=0)
    other = SchemaTopic(client)
    assert [each.version for each in other.versions("rule")] == [1, 2, 3, 4]
    assert other.find("rule@2").schema == wider
    assert "rule" in other.names()
    for missing in ("nothing", "rule@9"):
        with pytest.raises(NotFoundError, match=r"there is no schema 'nothing'|has no version 9"):
            other.find(missing)


def test_versions_that_are_registered_at_once(broker: LocalBroker) -> None:
    """Each gets its own number, and was checked against all before it."""
    told: list[str] = []
    barrier = threading.Barrier(4)

    def register(number: int) -> None:
        with broker.client() as client:
            schemas = SchemaTopic(client)
            barrier.wait()
            for step in range(5):
                try:
                    schemas.register("race", columns(f"c{number}_{step} INT, same {('INT', 'DATE')[number % 2]}"))
                except InvalidArgumentError as error:
                    told.append(str(error))

    threads = [threading.Thread(target=register, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with broker.client() as client:
        found = SchemaTopic(client).versions("race")
    kinds = {str(each.schema.type().field("same").type) for each in found}
    assert len(kinds) == 1, "both kinds break the rule of each other"
    assert len(found) == 10
    assert len(told) == 10


def run(*words: str, broker: LocalBroker) -> Any:
    return CliRunner().invoke(app, ["schema", *words, "--servers", broker.address])


def test_the_command(broker: LocalBroker, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("id INT")
    (tmp_path / "two").write_text("id DATE")
    words = ("cli", "--format", "json", "--file")
    assert run("register", *words, str(tmp_path / "one"), broker=broker).stdout == "cli@1\n"
    assert run("check", *words, str(tmp_path / "one"), broker=broker).stdout == "compatible\n"
    refused = run("check", *words, str(tmp_path / "two"), broker=broker)
    assert (refused.exit_code, "id is INT, and is read as DATE" in refused.output) == (1, True)
    refused = run("register", *words, str(tmp_path / "two"), broker=broker)
    assert (refused.exit_code != 0, "has the rule backward" in refused.output) == (True, True)
    shown = json.loads(run("show", "cli@1", "--json", broker=broker).stdout)
    assert (shown["columns"], shown["definition"], shown["compatibility"]) == ({"id": "INT"}, "id INT", "backward")
    listed = json.loads(run("list", "--json", broker=broker).stdout)
    assert {"name": "cli", "version": 1, "format": "json", "message": "", "compatibility": "backward"} in listed


def decoded(lake: str, topic: str) -> list[tuple[int, Any, bytes | None]]:
    table = DeltaTable(Lake(lake).table(topic).address)
    rows = table.to_pyarrow_table(columns=["offset", "decoded", "_corrupt_record"]).to_pylist()
    return sorted(((row["offset"], row["decoded"], row["_corrupt_record"]) for row in rows), key=lambda row: row[0])


def test_an_archive_with_decoded_columns_that_grow(
    broker: LocalBroker, client: Client, schemas: SchemaTopic, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, lake = topic(partitions=1), str(tmp_path)
    plain = ArchiveOptions(broker.address, [name], lake, compaction=CompactionRules(files_min=99))
    said = ArchiveOptions(broker.address, [name], lake, schemas={name: name}, compaction=plain.compaction)

    def archive(options: ArchiveOptions, *values: bytes) -> list[str]:
        client.produce_many(name, [*values], partition=0)
        lines: list[str] = []
        run_archive(options, lines.append)
        return lines

    archive(plain, b'{"id": 1}')
    with pytest.raises(NotFoundError, match="there is no schema"):
        run_archive(said)
    schemas.register(name, columns("id INT, inner STRUCT<a: INT>"))
    archive(said, b'{"id": 2, "inner": {"a": 1}}', b"no json")
    schemas.register(name, columns("id BIGINT, inner STRUCT<a: INT, b: STRING>, name STRING"))
    lines = archive(said, b'{"id": 3, "inner": {"a": 1, "b": "x"}, "name": "n"}', b'{"id": 5000000000}')
    assert "id stays INT, and does not become BIGINT: values that do not fit are in _corrupt_record" in lines[0]
    # An archive without schemas continues the same table.
    archive(plain, b'{"id": 4}')
    rows = [
        (0, None, None),
        (1, {"id": 2, "inner": {"a": 1, "b": None}, "name": None}, None),
        (2, None, b"no json"),
        (3, {"id": 3, "inner": {"a": 1, "b": "x"}, "name": "n"}, None),
        (4, None, b'{"id": 5000000000}'),
        (5, None, None),
    ]
    table = Lake(lake).table(name)
    assert decoded(lake, name) == rows
    assert verify_table(table, run_here).rows == 6
    assert compact(table, CompactionRules(files_min=2), run_here) == 4
    assert decoded(lake, name) == rows
    assert verify_table(table, run_here).rows == 6
    assert table.decoded() == "STRUCT<`id`: INT, `inner`: STRUCT<`a`: INT, `b`: STRING>, `name`: STRING>"
    found = polars.read_delta(table.address).sort("offset")
    assert [row["decoded"] for row in found.to_dicts()] == [row[1] for row in rows]
    delta = DeltaTable(table.address).to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
    counted = duckdb.sql("SELECT sum(decoded.id), count(_corrupt_record), count(*) FROM delta")
    assert counted.fetchall() == [(5, 2, 6)]


def test_avro_values_are_read_with_the_version_that_wrote_them(
    broker: LocalBroker, client: Client, schemas: SchemaTopic, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=1)
    first = avro({"name": "id", "type": "int"})
    second = avro({"name": "name", "type": "string", "default": "?"}, {"name": "id", "type": "int"})
    schemas.register(name, first)
    schemas.register(name, second)
    values = [
        (written(first, {"id": 1}), b"1"),
        (written(second, {"id": 2, "name": "x"}), b"2"),
        (written(second, {"id": 3, "name": "y"}), None),
        (written(first, {"id": 4}), b"7"),
        (written(first, {"id": 5}), b"one"),
        (written(first, {"id": 6}), b"1"),
    ]
    for value, version in values:
        client.produce(name, value, partition=0, headers={} if version is None else {VERSION_HEADER: version})
    said = ArchiveOptions(broker.address, [name], str(tmp_path), schemas={name: f"{name}@2"})
    run_archive(said)
    assert decoded(str(tmp_path), name) == [
        (0, {"name": "?", "id": 1}, None),
        (1, {"name": "x", "id": 2}, None),
        (2, {"name": "y", "id": 3}, None),
        (3, None, values[3][0]),
        (4, None, values[4][0]),
        (5, {"name": "?", "id": 6}, None),
    ]
