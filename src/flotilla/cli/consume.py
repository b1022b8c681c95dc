"""`flotilla consume`: messages of a topic to standard output, up to its end or for ever.

Reading changes nothing: no group, no lease, no committed offset. Without `--follow` it ends at what was the end when
it began, so that a busy topic does not keep it for ever.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from flotilla.cli.message_formats import Format, formatter
from flotilla.cli.output import note
from flotilla.cli.servers import DEFAULT_SERVERS, DEFAULT_TIMEOUT, AsJson, Servers, Timeout, connect, find_topic
from flotilla.cli.start_point import read_start_point

if TYPE_CHECKING:
    from flotilla.client.messages import Message
    from flotilla.client.sync import Client
    from flotilla.client.sync_consumer import Consumer

#: How long one look for news may take; Ctrl-C is noticed in between at the latest.
_WAIT_MS = 1_000


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new messages until Ctrl-C.")] = False,
    start: Annotated[
        str,
        typer.Option("--from", metavar="WHERE", help="earliest, latest, an offset, how long ago (10m), or a time."),
    ] = "earliest",
    partition: Annotated[
        list[int], typer.Option("--partition", "-p", min=0, help="Only this one; repeatable.", show_default="all")
    ] = [],  # noqa: B006 - typer copies it.
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many messages.", show_default="no limit")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="long adds offset, time, key and headers; raw adds nothing.")
    ] = Format.TEXT,
    as_json: AsJson = False,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Print messages of a topic, each partition in its order."""
    begin = read_start_point(start, time.time_ns() // 1_000_000)
    chosen = Format.JSON if as_json else form
    with connect(servers, timeout) as client:
        find_topic(client, topic)
        consumer = client.consumer(
            topic,
            mode="manual",
            offset=begin.offset,
            timestamp_ms=begin.timestamp_ms,
            partitions=partition or None,
            skip_removed=True,
        )
        ends = None if follow else _ends(client, consumer)
        try:
            written = _write(_messages(consumer, ends, count), chosen)
        except KeyboardInterrupt:
            # The ordinary way to stop following.
            return
    if not written and sys.stderr.isatty():
        note("no messages")


def _ends(client: "Client", consumer: "Consumer") -> dict[int, int]:
    """For each partition the offset at which to stop."""
    return {number: client.list_offsets(consumer.topic, number, "latest") for number in consumer.positions()}


def _messages(consumer: "Consumer", ends: Mapping[int, int] | None, count: int | None) -> Iterator[list["Message"]]:
    left = sys.maxsize if count is None else count
    while left and (ends is None or _is_behind(consumer.positions(), ends)):
        messages = consumer.poll(min(left, 1_000), wait_ms=_WAIT_MS)
        if ends is not None:
            # One partition may be read past its end while another one is still behind.
            messages = [message for message in messages if message.offset < ends[message.partition]]
        left -= len(messages)
        yield messages


def _is_behind(positions: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    return any(positions[number] < end for number, end in ends.items())


def _write(batches: Iterator[list["Message"]], chosen: Format) -> int:
    stream = sys.stdout.buffer
    shape = formatter(chosen, is_terminal=sys.stdout.isatty())
    written = 0
    for messages in batches:
        stream.write(b"".join(map(shape, messages)))
        stream.flush()
        written += len(messages)
    return written
