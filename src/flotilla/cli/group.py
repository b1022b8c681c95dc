"""`flotilla group`: look at the groups of a topic, move them, pause them, set them up and delete them."""

from collections.abc import Mapping
from dataclasses import asdict
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from flotilla.cli.terminal.output import age, note, print_done, print_json, print_table
from flotilla.cli.terminal.pairs import read_pairs
from flotilla.cli.terminal.servers import AsJson, Cluster, takes_cluster
from flotilla.cli.terminal.start_point import now_ms, read_start_point
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.group_settings import GROUP_SETTING_BY_NAME
from flotilla.types.operations.stream import StreamGroupDescription

if TYPE_CHECKING:
    from flotilla.client.admin.group_info import GroupInfo

group_app = typer.Typer(name="group", help="Look at consumer groups and change them.", no_args_is_help=True)

Topic: TypeAlias = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]

_COLUMNS = ("group", "kind", "lag", "oldest", "ready", "leased", "delayed", "dead", "members")
_PARTITION_COLUMNS = ("partition", "floor", "next", "lag", "oldest", "ready", "leased", "delayed", "dying", "dead")


@group_app.callback()
def group() -> None:
    """Look at consumer groups and change them."""


@group_app.command("list")
@takes_cluster
def list_groups(cluster: Cluster, topic: Topic, as_json: AsJson = False) -> None:
    """List the groups of a topic with what each has before it."""
    with cluster.connect() as client:
        found = [client.describe_group(topic, name) for name in client.groups(topic)]
    if as_json:
        print_json([as_plain(info) for info in found])
    elif not found:
        note(f"nobody has read {topic} as a group yet")
    else:
        print_table(_COLUMNS, [_line(info) for info in found])


def _line(info: "GroupInfo") -> tuple[object, ...]:
    kind = f"{info.kind}, paused" if info.is_paused else info.kind
    counts = (info.ready, info.leased, info.delayed, info.dead_total)
    return info.name, kind, info.lag, age(info.oldest_age_ms), *counts, info.member_count


@group_app.command("describe")
@takes_cluster
def describe(
    cluster: Cluster,
    topic: Topic,
    name: Name,
    as_json: AsJson = False,
) -> None:
    """Show one group: each partition, its members, and what is set for it."""
    with cluster.connect() as client:
        info = client.describe_group(topic, name)
        settings = client.alter_group(topic, name)
    if as_json:
        print_json({**as_plain(info), "settings": settings})
        return
    print_table(_COLUMNS, [_line(info)])
    typer.echo()
    if info.stream is not None:
        _show_stream(info, info.stream)
    else:
        _show_queue(info)
    if settings:
        typer.echo()
        rows = [(key, text, GROUP_SETTING_BY_NAME[key].help) for key, text in settings.items()]
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
                age(part.oldest_age_ms),
            )
            for number, part in sorted(info.partitions.items())
        ],
    )
    if stream.members:
        typer.echo()
        rows = [
            (member.name, member.client, len(member.partitions), age(member.heard_ms_ago)) for member in stream.members
        ]
        print_table(("member", "client", "partitions", "heard ago"), rows)
    typer.echo()
    moved = f"{stream.moved} partition{'' if stream.moved == 1 else 's'} moved"
    rebalanced = f"last rebalance {age(stream.rebalanced_ms_ago)} ago: {stream.cause}; {moved}"
    typer.echo(f"generation {stream.generation}, {stream.strategy}, session {age(stream.session_ms)}; {rebalanced}")


def _show_queue(info: "GroupInfo") -> None:
    print_table(
        _PARTITION_COLUMNS,
        [
            (
                number,
                part.floor,
                part.next_offset,
                part.lag,
                age(part.oldest_age_ms),
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
        members = [(each.name, each.leased, age(each.last_poll_ms_ago)) for each in info.members]
        print_table(("member", "holds", "last poll ago"), members)


@group_app.command("reset")
@takes_cluster
def reset(
    cluster: Cluster,
    topic: Topic,
    name: Name,
    to: Annotated[
        str, typer.Option("--to", metavar="WHERE", help="earliest, latest, an offset, how long ago (10m), or a time.")
    ],
    partition: Annotated[
        list[int], typer.Option("--partition", "-p", min=0, help="Only this one; repeatable.", show_default="all")
    ] = [],  # noqa: B006 - typer copies it.
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would happen.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move a group backwards or forwards. Leases and failures of it are forgotten.

    A stream group is moved while it has no members.
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
    name: Name,
    as_json: AsJson = False,
) -> None:
    """Give the group nothing until it is resumed. What is leased stays leased."""
    with cluster.connect() as client:
        client.pause_group(topic, name)
    print_done({"topic": topic, "group": name, "is_paused": True}, f"{name} is paused", as_json=as_json)


@group_app.command("resume")
@takes_cluster
def resume(
    cluster: Cluster,
    topic: Topic,
    name: Name,
    as_json: AsJson = False,
) -> None:
    """End a pause."""
    with cluster.connect() as client:
        client.resume_group(topic, name)
    print_done({"topic": topic, "group": name, "is_paused": False}, f"{name} goes on", as_json=as_json)


@group_app.command("alter")
@takes_cluster
def alter(
    cluster: Cluster,
    topic: Topic,
    name: Name,
    settings: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="As in max_deliveries=3; repeatable.")
    ] = [],  # noqa: B006 - typer copies it.
    unset: Annotated[
        list[str], typer.Option("--unset", metavar="NAME", help="As the topic says again; repeatable.")
    ] = [],  # noqa: B006 - typer copies it.
    as_json: AsJson = False,
) -> None:
    """Set something for one group that differs from its topic."""
    changes = _checked({**read_pairs(settings), **dict.fromkeys(unset, "")})
    if not changes:
        raise InvalidArgumentError("nothing to change: give --set or --unset")
    with cluster.connect() as client:
        kept = client.alter_group(topic, name, **changes)
    told = ", ".join(f"{key}={text}" for key, text in kept.items()) or "as its topic says"
    print_done(kept, f"{name}: {told}", as_json=as_json)


def _checked(changes: Mapping[str, str]) -> dict[str, Any]:
    for key in changes:
        if key not in GROUP_SETTING_BY_NAME:
            close = get_close_matches(key, GROUP_SETTING_BY_NAME, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(GROUP_SETTING_BY_NAME)}"
            raise InvalidArgumentError(f"there is no group setting {key!r}; {hint}")
    return dict(changes)


@group_app.command("delete")
@takes_cluster
def delete(
    cluster: Cluster,
    topic: Topic,
    name: Name,
    as_json: AsJson = False,
) -> None:
    """Forget a group with everything it has settled. The messages stay. A stream group has no members then."""
    with cluster.connect() as client:
        client.delete_group(topic, name)
    print_done({"topic": topic, "group": name, "is_deleted": True}, f"{name} is deleted", as_json=as_json)


def as_plain(info: "GroupInfo") -> dict[str, Any]:
    """For JSON: the sums, and each partition."""
    sums = ("lag", "oldest_age_ms", "ready", "leased", "delayed", "dying", "dead_total", "acked_total", "failed_total")
    return {
        "topic": info.topic,
        "group": info.name,
        "kind": info.kind,
        "is_paused": info.is_paused,
        **{name: getattr(info, name) for name in (*sums, "expired_total", "cancelled_total")},
        "members": [asdict(member) for member in info.members],
        "stream": None if info.stream is None else asdict(info.stream),
        "partitions": {number: asdict(part) for number, part in sorted(info.partitions.items())},
    }
