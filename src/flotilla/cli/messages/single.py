"""`flotilla peek`, `why`, `release`, `reject`, `deliver-now` and `cancel`: single messages."""

import sys
from dataclasses import asdict
from typing import Annotated, TypeAlias

import typer

from flotilla.cli.terminal.arguments import Topic, complete_groups
from flotilla.cli.terminal.message_formats import Format, formatter, with_short_times
from flotilla.cli.terminal.output import age, escaped, note, print_done, print_json
from flotilla.cli.terminal.servers import AsJson, Cluster, takes_cluster
from flotilla.types.dead_letters import summary
from flotilla.types.errors import InvalidArgumentError, NotFoundError

Partition: TypeAlias = Annotated[int, typer.Argument(metavar="PARTITION", min=0, show_default=False)]
Offset: TypeAlias = Annotated[int, typer.Argument(metavar="OFFSET", min=0, show_default=False)]
QueueGroup: TypeAlias = Annotated[
    str,
    typer.Option("--group", "-g", help="The queue group.", show_default=False, autocompletion=complete_groups),
]


@takes_cluster
def peek(
    cluster: Cluster,
    topic: Topic,
    partition: Annotated[int, typer.Option("--partition", "-p", min=0, help="The partition to read.")] = 0,
    offset: Annotated[
        int | None, typer.Option("--offset", "-o", min=0, help="The first offset.", show_default="the oldest")
    ] = None,
    newest: Annotated[bool, typer.Option("--newest", help="The newest messages instead of the oldest.")] = False,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Maximum number.")] = 10,
    form: Annotated[Format, typer.Option("--format", help="As in consume.")] = Format.LONG,
    as_json: AsJson = False,
) -> None:
    """Show messages of a partition. Nothing changes for any group.

    Example: `flotilla peek orders --partition 1 --offset 100 -n 5`
    """
    if newest and offset is not None:
        raise InvalidArgumentError("--newest and --offset exclude each other")
    with cluster.connect() as client:
        if newest:
            offset = max(client.find_offset(topic, partition, "latest") - count, 0)
        messages = client.peek(topic, partition, offset=offset, max_messages=count)
    shape = formatter(Format.JSON if as_json else form, is_terminal=sys.stdout.isatty())
    sys.stdout.buffer.write(b"".join(map(shape, messages)))
    sys.stdout.flush()
    if not messages and not as_json:
        note("no messages")


@takes_cluster
def why(
    cluster: Cluster,
    topic: Topic,
    partition: Partition,
    offset: Offset,
    group: QueueGroup,
    as_json: AsJson = False,
) -> None:
    """Explain the state of a message for a group: its history, and what comes next.

    Times are local; `--json` prints them in full.

    Example: `flotilla why orders 0 42 --group billing`
    """
    with cluster.connect() as client:
        found = client.explain(topic, group, partition, offset)
    if as_json:
        shown = asdict(found)
        # `peek` shows the content.
        del shown["batch"]
        print_json(shown)
        return
    attempts = f", {found.attempts} failed attempts" if found.attempts else ""
    typer.echo(f"{topic} {partition}:{offset} is {found.state} for {group}{attempts}")
    for event in found.history:
        for line in with_short_times(event).split("\n"):
            typer.echo(f"  {escaped(line)}")
    if found.holder:
        typer.echo(f"  leased by {found.holder}")
    if found.reason and not any(found.reason in line for line in found.history):
        typer.echo(f"  last reason: {summary(found.reason)}")
    if found.next:
        waits = f" in {age(found.remaining_ms)}" if found.remaining_ms else ""
        typer.echo(f"next{waits}: {with_short_times(found.next)}")


@takes_cluster
def release(
    cluster: Cluster, topic: Topic, partition: Partition, offset: Offset, group: QueueGroup, as_json: AsJson = False
) -> None:
    """Take a leased message from its member and deliver it again. No attempt is counted.

    The member is not notified, and its own settlement is refused.

    Example: `flotilla release orders 0 42 --group billing`
    """
    with cluster.connect() as client:
        holder = client.release(topic, group, partition, offset)
    print_done({"holder": holder}, f"{topic} {partition}:{offset} is released; {holder} had it", as_json=as_json)


@takes_cluster
def reject(
    cluster: Cluster,
    topic: Topic,
    partition: Partition,
    offset: Offset,
    group: QueueGroup,
    reason: Annotated[str, typer.Option("--reason", help="The dead letter keeps it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Take a leased message from its member and move it to the dead letters.

    The member is not notified, and its own settlement is refused.

    Example: `flotilla reject orders 0 42 --group billing --reason "no such customer"`
    """
    with cluster.connect() as client:
        holder = client.reject(topic, group, partition, offset, reason=reason)
    print_done({"holder": holder}, f"{topic} {partition}:{offset} is rejected; {holder} had it", as_json=as_json)


@takes_cluster
def deliver_now(
    cluster: Cluster,
    topic: Topic,
    partition: Partition,
    offset: Offset,
    group: Annotated[
        str,
        typer.Option(
            "--group",
            "-g",
            help="Also the next attempt in this queue group.",
            show_default="retries stay as they are",
            autocompletion=complete_groups,
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Make a delayed message due: every group gets it now.

    Example: `flotilla deliver-now orders 0 42`
    """
    with cluster.connect() as client:
        client.deliver_now(topic, partition, offset, group=group)
    done = {"topic": topic, "partition": partition, "offset": offset, "group": group}
    print_done(done, f"{topic} {partition}:{offset} is due now", as_json=as_json)


@takes_cluster
def cancel(
    cluster: Cluster,
    topic: Topic,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="The partition of the message.", show_default="any")
    ] = None,
    offset: Annotated[
        int | None, typer.Option("--offset", "-o", min=0, help="The offset of the message.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="The message with this idempotency key.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a message: no group gets it any more. Groups that have settled it keep their result.

    Example: `flotilla cancel orders --idempotency-key order-17`
    """
    with cluster.connect() as client:
        cancelled = client.cancel(topic, partition, offset=offset, idempotency_key=key)
    if not cancelled:
        raise NotFoundError("there is no such message")
    done = {"topic": topic, "cancelled": [{"partition": number, "offset": place} for number, place in cancelled]}
    print_done(done, f"cancelled {', '.join(f'{number}:{place}' for number, place in cancelled)}", as_json=as_json)
