"""`flotilla group`: list, describe, reset, pause, alter and delete the groups of a topic."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from flotilla.cli.messages.waiting import blocked_keys
from flotilla.cli.terminal.arguments import Group, Topic, complete_topics
from flotilla.cli.terminal.output import age, ago, note, oldest, print_done, print_json, print_table
from flotilla.cli.terminal.pairs import read_settings_of
from flotilla.cli.terminal.servers import AsJson, Cluster, takes_cluster
from flotilla.cli.terminal.start_point import now_ms, read_start_point
from flotilla.cli.terminal.watching import Watch, show_again
from flotilla.types.errors import InvalidArgumentError, NotFoundError
from flotilla.types.group_settings import GROUP_SETTINGS
from flotilla.types.operations.stream import StreamGroupDescription

if TYPE_CHECKING:
    from flotilla.client.admin.group_info import GroupInfo
    from flotilla.client.client import Client

group_app = typer.Typer(name="group", help="Inspect and change consumer groups.", no_args_is_help=True)

AnyTopic: TypeAlias = Annotated[
    str, typer.Argument(metavar="TOPIC", show_default="all topics", autocompletion=complete_topics)
]

group_app.command("blocked-keys")(blocked_keys)

_COLUMNS = ("group", "kind", "lag", "oldest", "members", "ready", "leased", "delayed", "dead")
#: A stream group has positions and no leases: the columns of single messages mean nothing for it.
_STREAM_COLUMNS = _COLUMNS[:5]
_PARTITION_COLUMNS = ("partition", "floor", "next", "lag", "oldest", "ready", "leased", "delayed", "dying", "dead")


@group_app.command("list")
@takes_cluster
def list_groups(cluster: Cluster, topic: AnyTopic = "", watch: Watch = False, as_json: AsJson = False) -> None:
    """List the groups of a topic, or of all topics, with their lag.

    Example: `flotilla group list orders --watch`
    """
    show_again(lambda: _show_groups(cluster, topic, as_json=as_json), is_watched=watch)


def _show_groups(cluster: Cluster, topic: str, *, as_json: bool) -> None:
    with cluster.connect() as client:
        topics = [topic] if topic else sorted(each.name for each in client.admin.metadata().topics)
        found = [info for each in topics for info in _groups_of(client, each, is_one=bool(topic))]
    if as_json:
        print_json([as_plain(info) for info in found])
    elif not found:
        note(f"{topic or 'no topic'} has {'no' if topic else 'a'} group{'s' if topic else ''}")
    elif topic:
        print_table(_COLUMNS, [_line(info) for info in found])
    else:
        print_table(("topic", *_COLUMNS), [(info.topic, *_line(info)) for info in found])


def _groups_of(client: "Client", topic: str, *, is_one: bool) -> "list[GroupInfo]":
    try:
        return [client.describe_group(topic, name) for name in client.groups(topic)]
    except NotFoundError:
        if is_one:
            raise
        # Deleted since the topics were listed.
        return []


def _line(info: "GroupInfo") -> tuple[object, ...]:
    kind = f"{info.kind}, paused" if info.is_paused else info.kind
    known = info.name, kind, info.lag, oldest(info.oldest_age_ms), info.member_count
    if info.stream is not None:
        return *known, "-", "-", "-", "-"
    return *known, info.ready, info.leased, info.delayed, info.dead_total


@group_app.command("describe")
@takes_cluster
def describe(
    cluster: Cluster,
    topic: Topic,
    name: Group,
    as_json: AsJson = False,
) -> None:
    """Show one group: its partitions, members and settings.

    Example: `flotilla group describe orders billing`
    """
    with cluster.connect() as client:
        info = client.describe_group(topic, name)
        settings = client.alter_group(topic, name)
    if as_json:
        print_json({**as_plain(info), "settings": settings})
        return
    columns = _COLUMNS if info.stream is None else _STREAM_COLUMNS
    print_table(columns, [_line(info)[: len(columns)]])
    typer.echo()
    if info.stream is not None:
        _show_stream(info, info.stream)
    else:
        _show_queue(info)
    _show_retention(info)
    if "expires_after_ms" in settings:
        _show_expiry(info, settings["expires_after_ms"])
    if settings:
        typer.echo()
        rows = [(key, text, GROUP_SETTINGS[key].help) for key, text in settings.items()]
        print_table(("setting", "value", "meaning"), rows)


def _show_stream(info: "GroupInfo", stream: StreamGroupDescription) -> None:
    owners = info.owners
    print_table(
        ("partition", "owner", "committed", "next", "lag", "oldest"),
        [
            (
                number,
                owners.get(number, "-"),
                part.floor if part.floor >= 0 else "-",
                part.next_offset,
                part.lag,
                oldest(part.oldest_age_ms),
            )
            for number, part in sorted(info.partitions.items())
        ],
    )
    if stream.members:
        typer.echo()
        rows = [
            (member.name, member.client, len(member.partitions), ago(member.heard_ms_ago)) for member in stream.members
        ]
        print_table(("member", "client", "partitions", "last heartbeat"), rows)
    typer.echo()
    moved = f"{stream.moved} partition{'' if stream.moved == 1 else 's'} moved"
    rebalanced = f"last rebalance {age(stream.rebalanced_ms_ago)} ago: {stream.cause}; {moved}"
    typer.echo(f"generation {stream.generation}, {stream.strategy}, session {age(stream.session_ms)}; {rebalanced}")


def _show_retention(info: "GroupInfo") -> None:
    if info.held_back:
        typer.echo()
        typer.echo(f"{info.held_back} messages stay for this group although they are beyond the topic's retention.")
    if info.trimmed_total:
        typer.echo()
        typer.echo(f"{info.trimmed_total} messages were removed before this group had settled them.")


def _show_expiry(info: "GroupInfo", after: str) -> None:
    typer.echo()
    typer.echo(f"deleted when nobody has used it for {after}; unused for {age(info.unused_ms)} now")


def _show_queue(info: "GroupInfo") -> None:
    print_table(
        _PARTITION_COLUMNS,
        [
            (
                number,
                part.floor,
                part.next_offset,
                part.lag,
                oldest(part.oldest_age_ms),
                part.ready,
                part.leased,
                part.delayed,
                part.dying,
                part.dead_total,
            )
            for number, part in sorted(info.partitions.items())
        ],
    )
    if info.members:
        typer.echo()
        members = [
            (each.name, each.leased, ago(each.last_poll_ms_ago), "yes" if each.is_live else "no")
            for each in info.members
        ]
        print_table(("member", "leased", "last poll", "live"), members)


@group_app.command("reset")
@takes_cluster
def reset(
    cluster: Cluster,
    topic: Topic,
    name: Group,
    to: Annotated[
        str, typer.Option("--to", metavar="WHERE", help="earliest, latest, an offset, how long ago (10m), or a time.")
    ],
    partition: Annotated[
        list[int], typer.Option("--partition", "-p", min=0, help="Only this one; repeatable.", show_default="all")
    ] = [],  # noqa: B006 - typer copies it.
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move a group backwards or forwards. Its leases and failed attempts are forgotten.

    A stream group must have no members.

    Example: `flotilla group reset orders billing --to 2h --dry-run`
    """
    place = read_start_point(to, now_ms())
    with cluster.connect() as client:
        moved = client.reset_group(
            topic,
            name,
            place.offset if place.offset is not None else "earliest",
            timestamp_ms=place.timestamp_ms,
            partitions=partition or None,
            dry_run=dry_run,
        )
    if as_json:
        print_json({number: asdict(move) for number, move in moved.items()})
        return
    rows = [(number, move.from_offset, move.to_offset) for number, move in sorted(moved.items())]
    print_table(("partition", "from", "to"), rows)
    if dry_run:
        note("nothing was changed")


@group_app.command("pause")
@takes_cluster
def pause(
    cluster: Cluster,
    topic: Topic,
    name: Group,
    as_json: AsJson = False,
) -> None:
    """Deliver nothing to the group until it is resumed. Leases stay.

    Example: `flotilla group pause orders billing`
    """
    with cluster.connect() as client:
        client.pause_group(topic, name)
    print_done({"topic": topic, "group": name, "is_paused": True}, f"{name} is paused", as_json=as_json)


@group_app.command("resume")
@takes_cluster
def resume(
    cluster: Cluster,
    topic: Topic,
    name: Group,
    as_json: AsJson = False,
) -> None:
    """End a pause.

    Example: `flotilla group resume orders billing`
    """
    with cluster.connect() as client:
        client.resume_group(topic, name)
    print_done({"topic": topic, "group": name, "is_paused": False}, f"{name} is resumed", as_json=as_json)


@group_app.command("alter")
@takes_cluster
def alter(
    cluster: Cluster,
    topic: Topic,
    name: Group,
    settings: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="As in max_deliveries=3; repeatable.")
    ] = [],  # noqa: B006 - typer copies it.
    unset: Annotated[
        list[str], typer.Option("--unset", metavar="NAME", help="Use the topic's setting again; repeatable.")
    ] = [],  # noqa: B006 - typer copies it.
    as_json: AsJson = False,
) -> None:
    """Override settings of the topic for one group.

    Example: `flotilla group alter orders billing --set max_deliveries=3`
    """
    changes = read_settings_of(GROUP_SETTINGS, settings, unset)
    if not changes:
        raise InvalidArgumentError("nothing to change: give --set or --unset")
    with cluster.connect() as client:
        kept = client.alter_group(topic, name, **changes)
    text = ", ".join(f"{key}={text}" for key, text in sorted(kept.items())) or "uses the settings of its topic"
    print_done(kept, f"{name}: {text}", as_json=as_json)


@group_app.command("delete")
@takes_cluster
def delete(
    cluster: Cluster,
    topic: Topic,
    name: Group,
    force: Annotated[bool, typer.Option("--force", help="Also while it has live members.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a group with everything it has settled; messages stay. It must have no live members, unless forced.

    Example: `flotilla group delete orders billing`
    """
    with cluster.connect() as client:
        client.delete_group(topic, name, force=force)
    print_done({"topic": topic, "group": name, "is_deleted": True}, f"{name} is deleted", as_json=as_json)


def as_plain(info: "GroupInfo") -> dict[str, Any]:
    """The group for JSON: sums, and each partition."""
    sums = ("lag", "oldest_age_ms", "ready", "leased", "delayed", "dying", "dead_total", "acked_total", "failed_total")
    return {
        "topic": info.topic,
        "group": info.name,
        "kind": info.kind,
        "is_paused": info.is_paused,
        **{
            name: getattr(info, name)
            for name in (
                *sums,
                "expired_total",
                "cancelled_total",
                "trimmed_total",
                "unburied",
                "held_back",
                "unused_ms",
            )
        },
        "members": [asdict(member) for member in info.members],
        "stream": None if info.stream is None else asdict(info.stream),
        "partitions": {number: asdict(part) for number, part in sorted(info.partitions.items())},
    }
