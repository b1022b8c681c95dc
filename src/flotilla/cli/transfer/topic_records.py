"""`flotilla topic export` and `import`: the records of a topic as lines of JSON, or as Parquet.

An export ends where the partitions ended when it began. Offsets are written and not read back: an import appends.
Memory is bounded by a poll, by a row group, and by what a producer has in flight.
"""

import json
import sys
from base64 import b64decode
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from flotilla.cli.terminal.arguments import complete_topics
from flotilla.cli.terminal.message_formats import Format, formatter
from flotilla.cli.terminal.output import note, print_json
from flotilla.cli.terminal.servers import AsJson, Cluster, find_topic, takes_cluster
from flotilla.types.errors import FlotillaError, InvalidArgumentError
from flotilla.types.records import Record

if TYPE_CHECKING:
    from flotilla.client.client import Client
    from flotilla.client.producer.sync import SyncDelivery
    from flotilla.client.reader.message import Message

#: A partition of a record that says none.
ANY_PARTITION: Final = -1
#: Larger than any record; longer lines are refused before they fill the memory.
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024
_IN_FLIGHT_MAX: Final = 10_000
_PARQUET: Final = ".parquet"

Topic = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, autocompletion=complete_topics)]


@takes_cluster
def export(
    cluster: Cluster,
    topic: Topic,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="NAME.parquet, any other name, or - for standard output.")
    ] = Path("-"),
    as_json: AsJson = False,
) -> None:
    """Write all records of a topic to a file: one JSON object in a line, or Parquet for a name that ends so.

    Example: `flotilla topic export orders orders.ndjson`
    """
    counts: dict[int, int] = {}
    with cluster.connect() as client:
        messages = _counted(_messages(client, topic), counts)
        if file.suffix == _PARQUET:
            from flotilla.lake.records_file import write_records

            write_records(file, messages)
        else:
            with _opened(file, "wb") as out:
                out.writelines(map(formatter(Format.JSON, is_terminal=False), messages))
    _report({"topic": topic, "records": sum(counts.values()), "partitions": counts}, "exported", as_json, file)


@takes_cluster
def import_records(
    cluster: Cluster,
    topic: Topic,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="As `export` writes it; - for standard input.")],
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="Into the partitions of before, not by key.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Append the records of a file to a topic, with their keys, headers, timestamps, priorities and content types.

    The first record that is refused ends the command; the line before says how many are stored.

    Example: `flotilla topic import orders-copy orders.ndjson`
    """
    counts: dict[int, int] = {}
    with cluster.connect() as client, client.producer(topic) as producer:
        in_flight: deque[SyncDelivery] = deque()

        def confirm(left: int) -> None:
            while len(in_flight) > left:
                partition = in_flight.popleft().result().partition
                counts[partition] = counts.get(partition, 0) + 1

        try:
            for record, partition in _records(file):
                chosen = partition if keep_partitions and partition != ANY_PARTITION else None
                in_flight.append(
                    producer.send(
                        record.payload,
                        key=record.key,
                        partition=chosen,
                        headers=record.headers,
                        timestamp_ms=record.timestamp_ms,
                        priority=record.priority,
                        content_type=record.content_type,
                    )
                )
                confirm(_IN_FLIGHT_MAX)
            confirm(0)
        except FlotillaError:
            note(f"{sum(counts.values()):,} records were stored before this:")
            raise
    _report({"topic": topic, "records": sum(counts.values()), "partitions": counts}, "imported", as_json)


def _messages(client: "Client", topic: str) -> Iterator["Message"]:
    """One partition after the other, each up to its present end."""
    numbers = range(len(find_topic(client, topic).partitions))
    ends = [client.find_offset(topic, number, "latest") for number in numbers]
    for number, end in zip(numbers, ends, strict=True):
        if client.find_offset(topic, number, "earliest") >= end:
            continue
        with client.reader(topic, partitions=[number], skip_removed=True) as reader:
            for message in reader:
                if message.offset < end:
                    yield message
                if message.offset >= end - 1:
                    break


def _counted(messages: Iterable["Message"], counts: dict[int, int]) -> Iterator["Message"]:
    for message in messages:
        counts[message.partition] = counts.get(message.partition, 0) + 1
        yield message


def _records(file: Path) -> Iterator[tuple[Record, int]]:
    """Records with their partitions."""
    if file.suffix == _PARQUET:
        from flotilla.lake.records_file import read_records

        yield from read_records(file)
        return
    with _opened(file, "rb") as lines:
        number = 0
        while line := lines.readline(_LINE_BYTES_MAX + 1):
            number += 1
            if len(line) > _LINE_BYTES_MAX:
                raise InvalidArgumentError(f"{file}: line {number} is longer than any record")
            if line.strip():
                yield parse_line(line, f"{file}: line {number}")


def parse_line(line: bytes, where: str) -> tuple[Record, int]:
    """A line as `export` and `consume --format json` write it. Raises InvalidArgumentError."""
    try:
        plain = json.loads(line)
        headers = tuple((str(each["name"]), _bytes(each, "value")) for each in plain.get("headers", ()))
        payload = _bytes(plain, "payload")
        if payload is None or any(value is None for _, value in headers):
            raise ValueError("a payload or the value of a header is missing")
        record = Record(
            payload,
            _bytes(plain, "key"),
            headers,  # type: ignore[arg-type]
            int(plain.get("timestamp_ms", 0)),
            int(plain.get("priority", 0)),
            int(plain.get("content_type", 0)),
        )
        return record, int(plain.get("partition", ANY_PARTITION))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"{where} is no record: {error}") from None


def _bytes(plain: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in plain:
        return b64decode(plain[f"{name}_base64"], validate=True)
    value = plain.get(name)
    return None if value is None else str(value).encode()


@contextmanager
def _opened(file: Path, mode: str) -> Iterator[BinaryIO]:
    if str(file) == "-":
        yield sys.stdout.buffer if "w" in mode else sys.stdin.buffer
    else:
        with open(file, mode) as opened:
            yield opened  # type: ignore[misc]


def _report(facts: dict[str, Any], verb: str, as_json: bool, file: Path | None = None) -> None:
    if file is not None and str(file) == "-":
        # Standard output has the records.
        note(f"{verb} {facts['records']:,} records")
    elif as_json:
        print_json(facts)
    else:
        typer.echo(f"{verb} {facts['records']:,} records of {facts['topic']}")
