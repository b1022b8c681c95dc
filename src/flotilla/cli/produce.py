"""`flotilla produce`: sends messages from an argument, the lines of a file, or the lines of standard input.

A message counts when a majority of replicas has it on disk. The first failure ends the command with that error's exit
code, and the line before says how many messages are stored, so that a script knows where to resume.
"""

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from rich.progress import TimeElapsedColumn, TimeRemainingColumn, TransferSpeedColumn

from flotilla.cli.terminal.arguments import Topic
from flotilla.cli.terminal.output import note, print_json
from flotilla.cli.terminal.pairs import read_pairs
from flotilla.cli.terminal.progress import progress_bar
from flotilla.cli.terminal.servers import AsJson, Cluster, read_duration, takes_cluster
from flotilla.types.errors import FlotillaError, InvalidArgumentError
from flotilla.types.records import ContentType

if TYPE_CHECKING:
    from flotilla.client.producer.record_fields import RecordFields
    from flotilla.client.producer.sync import Producer, SyncDelivery

#: Larger than any topic accepts; longer lines are refused before they fill the memory.
_LINE_BYTES_MAX = 17 * 1024 * 1024
#: Bounds the deliveries in memory; the producer itself bounds the bytes in flight.
_IN_FLIGHT_MAX = 100_000


class Content(StrEnum):
    BYTES = "bytes"
    TEXT = "text"
    JSON = "json"
    PROTOBUF = "protobuf"
    AVRO = "avro"
    ARROW = "arrow"


@dataclass(slots=True)
class Tally:
    """Stored messages by partition."""

    counts: Counter[int] = field(default_factory=Counter)
    last_offsets: dict[int, int] = field(default_factory=dict)

    def add(self, partition: int, offset: int) -> None:
        self.counts[partition] += 1
        self.last_offsets[partition] = offset

    @property
    def total(self) -> int:
        return self.counts.total()


@takes_cluster
def produce(
    cluster: Cluster,
    topic: Topic,
    message: Annotated[
        str | None,
        typer.Argument(metavar="MESSAGE", help="Default: one message for each line of the input.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Send the lines of a file.", exists=True, dir_okay=False),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Send all of the input as one message.")] = False,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every message.")] = None,
    header: Annotated[
        list[str], typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every message; repeatable.")
    ] = [],  # noqa: B006 - typer copies it.
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Instead of the key's.")] = None,
    content_type: Annotated[
        Content, typer.Option("--content-type", help="The kind of the payload, for consumers; it is not checked.")
    ] = Content.BYTES,
    priority: Annotated[int, typer.Option("--priority", min=0, max=7, help="Higher is delivered first.")] = 0,
    delay: Annotated[
        str | None, typer.Option("--delay", metavar="DURATION", help="Deliver to queue groups after this time.")
    ] = None,
    ttl: Annotated[str | None, typer.Option("--ttl", metavar="DURATION", help="Expire after this time.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", help="Store the message once, however often it is sent.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=0.001, help="Maximum messages a second.", show_default="no limit"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send messages: an argument, the lines of a file, or the lines of standard input.

    Example: `flotilla produce orders '{"id": 17}' --key customer-4`
    """
    if message is not None and file is not None:
        raise InvalidArgumentError("give a message or --file, not both")
    fields = _fields(read_pairs(header, "--header"), content_type, priority, delay, ttl, idempotency_key)
    key_bytes = None if key is None else os.fsencode(key)
    started = time.monotonic()
    tally = Tally()
    with cluster.connect() as client, client.producer(topic, compression="none") as producer:
        sender = _Sender(producer, tally, key_bytes, fields, partition)
        try:
            with _payloads(message, file, is_whole=whole) as payloads:
                sender.send_all(_paced(payloads, rate))
        except FlotillaError:
            if message is None:
                note(f"{tally.total:,} messages were stored before this:")
            raise
    _report(tally, topic, time.monotonic() - started, as_json=as_json, is_single=message is not None)


def _fields(
    headers: dict[str, str],
    content: Content,
    priority: int,
    delay: str | None,
    ttl: str | None,
    idempotency_key: str | None,
) -> "RecordFields":
    """Only fields that were given: records without any use the producer's fast path."""
    fields: RecordFields = {}
    if headers:
        fields["headers"] = headers
    if content is not Content.BYTES:
        fields["content_type"] = ContentType[content.name]
    if priority:
        fields["priority"] = priority
    if delay is not None:
        fields["delay_ms"] = read_duration(delay, "--delay")
    if ttl is not None:
        fields["ttl_ms"] = read_duration(ttl, "--ttl")
    if idempotency_key is not None:
        fields["idempotency_key"] = idempotency_key
    return fields


class _Sender:
    """Keeps many messages in flight and takes their receipts in the order of sending."""

    def __init__(
        self,
        producer: "Producer",
        tally: Tally,
        key: bytes | None,
        fields: "RecordFields",
        partition: int | None,
    ) -> None:
        self._producer = producer
        self._tally = tally
        self._key = key
        self._fields = fields
        self._partition = partition
        self._in_flight: deque[SyncDelivery] = deque()

    def send_all(self, payloads: Iterable[bytes]) -> None:
        send = self._producer.send
        for payload in payloads:
            self._in_flight.append(send(payload, key=self._key, partition=self._partition, **self._fields))
            while self._in_flight and (self._in_flight[0].done() or len(self._in_flight) > _IN_FLIGHT_MAX):
                self._take_receipt()
        self._producer.flush()
        while self._in_flight:
            self._take_receipt()

    def _take_receipt(self) -> None:
        receipt = self._in_flight.popleft().result()
        self._tally.add(receipt.partition, receipt.offset)


@contextmanager
def _payloads(message: str | None, file: Path | None, *, is_whole: bool) -> Iterator[Iterable[bytes]]:
    if message is not None:
        # Keeps bytes that are no text in the user's locale.
        yield [os.fsencode(message)]
        return
    if file is None:
        if sys.stdin.isatty():
            note("one message per line; Ctrl-D ends")
        yield [sys.stdin.buffer.read()] if is_whole else _lines(sys.stdin.buffer)
        return
    with file.open("rb") as stream:
        yield [stream.read()] if is_whole else _with_progress(_lines(stream), file.stat().st_size)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(_LINE_BYTES_MAX):
        if len(line) == _LINE_BYTES_MAX:
            raise InvalidArgumentError(
                f"a line is longer than {_LINE_BYTES_MAX:,} bytes, more than any message may have"
            )
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _with_progress(lines: Iterator[bytes], size_bytes: int) -> Iterator[bytes]:
    with progress_bar(TransferSpeedColumn(), TimeElapsedColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task("sending", total=size_bytes)
        for line in lines:
            yield line
            progress.advance(task, len(line) + 1)


def _paced(payloads: Iterable[bytes], rate: float | None) -> Iterable[bytes]:
    if rate is None:
        return payloads
    return _at_rate(payloads, rate)


def _at_rate(payloads: Iterable[bytes], rate: float) -> Iterator[bytes]:
    started = time.monotonic()
    for number, payload in enumerate(payloads):
        ahead_s = started + number / rate - time.monotonic()
        if ahead_s > 0:
            time.sleep(ahead_s)
        yield payload


def _report(tally: Tally, topic: str, elapsed_s: float, *, as_json: bool, is_single: bool) -> None:
    partitions = sorted(tally.counts)
    if as_json:
        parts = [
            {"partition": number, "messages": tally.counts[number], "last_offset": tally.last_offsets[number]}
            for number in partitions
        ]
        print_json({"topic": topic, "messages": tally.total, "seconds": round(elapsed_s, 3), "partitions": parts})
    elif is_single:
        number = partitions[0]
        typer.echo(f"{topic} partition {number} offset {tally.last_offsets[number]}")
    else:
        spread = f" to {len(partitions)} partition(s)" if partitions else ""
        typer.echo(f"{tally.total:,} messages{spread} of {topic} in {elapsed_s:.1f} s")
