"""`flotilla consume`: writes messages of a topic to standard output, up to its end or for ever.

Without a group, reading changes nothing: no lease, no committed offset. Without `--follow` the command ends at the
offsets that were the end when it began, so that it also ends on a busy topic. With `--group` it is a member of a queue
group, or with `--mode stream` of a stream group: printed messages are acknowledged or committed.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

from flotilla.cli.terminal.arguments import Topic, complete_groups
from flotilla.cli.terminal.message_formats import Format, formatter
from flotilla.cli.terminal.output import note
from flotilla.cli.terminal.pairs import WantedHeaders, read_pairs
from flotilla.cli.terminal.servers import AsJson, Cluster, find_topic, takes_cluster
from flotilla.cli.terminal.start_point import now_ms, read_start_point
from flotilla.types.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flotilla.client.client import Client
    from flotilla.client.queue.sync import QueueConsumer
    from flotilla.client.reader.message import Message
    from flotilla.client.reader.sync import Reader
    from flotilla.client.stream.sync import StreamConsumer

#: The longest wait of one poll, and so the delay of Ctrl-C.
_WAIT_MS = 1_000
_POLL_MESSAGES = 256


class _Wanted(TypedDict):
    """The filter, as consumers take it."""

    types: tuple[str, ...] | None
    headers: dict[str, str] | None


class GroupMode(StrEnum):
    """How a group shares a topic."""

    QUEUE = "queue"
    STREAM = "stream"


@takes_cluster
def consume(
    cluster: Cluster,
    topic: Topic,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new messages until Ctrl-C.")] = False,
    start: Annotated[
        str,
        typer.Option("--from", metavar="WHERE", help="earliest, latest, an offset, how long ago (10m), or a time."),
    ] = "earliest",
    group: Annotated[
        str,
        typer.Option(
            "--group",
            "-g",
            help="Take messages as a member of this group.",
            show_default=False,
            autocompletion=complete_groups,
        ),
    ] = "",
    mode: Annotated[
        GroupMode, typer.Option("--mode", help="Members share messages (queue) or partitions (stream).")
    ] = GroupMode.QUEUE,
    partition: Annotated[
        list[int], typer.Option("--partition", "-p", min=0, help="Only this partition; repeatable.", show_default="all")
    ] = [],  # noqa: B006 - typer copies it.
    types: Annotated[
        str | None,
        typer.Option("--types", metavar="TYPE,...", help="Only messages of these types.", show_default="all"),
    ] = None,
    header: WantedHeaders = [],  # noqa: B006 - typer copies it.
    key: Annotated[
        str | None,
        typer.Option("--key", "-k", help="Only messages with this key; without a group.", show_default="all"),
    ] = None,
    contains: Annotated[
        str,
        typer.Option(
            "--contains",
            metavar="TEXT",
            help="Only messages with this text in payload, key or headers, in any case; without a group.",
            show_default="all",
        ),
    ] = "",
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after this many messages.", show_default="no limit")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="long adds offset, time, key and headers; raw adds nothing.")
    ] = Format.TEXT,
    as_json: AsJson = False,
) -> None:
    """Print messages of a topic, each partition in its order.

    Example: `flotilla consume orders --follow --from 10m --format long`
    """
    begin = read_start_point(start, now_ms())
    chosen = Format.JSON if as_json else form
    if mode is GroupMode.STREAM and (partition or not group):
        raise InvalidArgumentError("--mode stream needs --group and takes no --partition: the group assigns partitions")
    if group and (key is not None or contains):
        raise InvalidArgumentError("--key and --contains search a topic: they take no --group")
    wanted: _Wanted = {
        "types": tuple(filter(None, (types or "").split(","))) or None,
        "headers": read_pairs(header, "--header") or None,
    }
    with cluster.connect() as client:
        find_topic(client, topic)
        batches: Iterator[list[Any]]
        if mode is GroupMode.STREAM:
            stream = client.stream(
                topic, group, start=begin.offset, timestamp_ms=begin.timestamp_ms, skip_removed=True, **wanted
            )
            batches = _of_group(
                stream,
                lambda _: stream.commit(),
                lambda: stream.is_assigned and not any(stream.lag().values()),
                count,
                is_following=follow,
            )
        elif group:
            queue = client.queue(
                topic,
                group,
                start=begin.offset,
                timestamp_ms=begin.timestamp_ms,
                partitions=partition or None,
                **wanted,
            )
            # A queue that no broker has answered for may have messages.
            batches = _of_group(queue, queue.ack, lambda: queue.behind is not None, count, is_following=follow)
        else:
            reader = client.reader(
                topic,
                offset=begin.offset,
                timestamp_ms=begin.timestamp_ms,
                partitions=partition or None,
                skip_removed=True,
                key=key,
                contains=contains,
                **wanted,
            )
            batches = _messages(reader, None if follow else _ends(client, reader), count)
        try:
            written = _write(batches, chosen)
        except KeyboardInterrupt:
            # The usual way to end `--follow`.
            return
    if not written and sys.stderr.isatty():
        note("no messages")


def _of_group(
    consumer: "QueueConsumer | StreamConsumer",
    settle: Callable[[list[Any]], object],
    is_read: Callable[[], bool],
    count: int | None,
    *,
    is_following: bool,
) -> Iterator[list[Any]]:
    """Messages of a group. Each batch is settled when the next is requested: by then it has been written.

    Without `is_following` they end with a poll that gets none, once `is_read` says that there may be no more.
    """
    left = sys.maxsize if count is None else count
    with consumer:
        while left:
            messages = consumer.poll(min(left, _POLL_MESSAGES), wait_ms=_WAIT_MS)
            if not messages and not is_following and is_read():
                return
            left -= len(messages)
            yield messages
            settle(messages)


def _ends(client: "Client", consumer: "Reader") -> dict[int, int]:
    """For each partition the offset at which to stop."""
    return {number: client.find_offset(consumer.topic, number, "latest") for number in consumer.positions()}


def _messages(consumer: "Reader", ends: Mapping[int, int] | None, count: int | None) -> Iterator[list["Message"]]:
    left = sys.maxsize if count is None else count
    while left and (ends is None or _is_behind(consumer.positions(), ends)):
        messages = consumer.poll(min(left, 1_000), wait_ms=_WAIT_MS)
        if ends is not None:
            # One partition may be read past its end while another is not there yet.
            messages = [message for message in messages if message.offset < ends[message.partition]]
        left -= len(messages)
        yield messages


def _is_behind(positions: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    return any(positions[number] < end for number, end in ends.items())


def _write(batches: Iterator[list[Any]], chosen: Format) -> int:
    stream = sys.stdout.buffer
    shape = formatter(chosen, is_terminal=sys.stdout.isatty())
    written = 0
    for messages in batches:
        stream.write(b"".join(map(shape, messages)))
        stream.flush()
        written += len(messages)
    return written
