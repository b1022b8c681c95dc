"""`flotilla topic`: create, list, describe, alter, rebalance, transfer, purge, trim and delete topics.

Settings are written `name=value`, with units (`retention_ms=7d`). The command checks their names, to suggest the right
one; the broker checks their values.
"""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any, TypeAlias

import typer

from flotilla.cli.messages.waiting import delayed, due_times
from flotilla.cli.terminal.arguments import Topic, complete_nodes
from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.move_progress import moving, watch
from flotilla.cli.terminal.output import note, note_stale, print_done, print_json, print_table
from flotilla.cli.terminal.pairs import read_settings_of
from flotilla.cli.terminal.servers import AsJson, Cluster, find_topic, takes_cluster
from flotilla.cli.terminal.watching import Watch, show_again
from flotilla.cli.transfer.topic_records import export, import_records
from flotilla.metadata.placement import Sites, separating, sharing, site
from flotilla.types.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from flotilla.types.ids import NO_NODE
from flotilla.types.operations import BrokerInfo, Metadata, TopicInfo
from flotilla.types.topics import SETTINGS, resolve_settings, show_settings

topic_app = typer.Typer(name="topic", help="Create, inspect and change topics.", no_args_is_help=True)

Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Settings: TypeAlias = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the topic, as in retention_ms=7d; repeatable."),
]


topic_app.command("export")(export)
topic_app.command("import")(import_records)
topic_app.command("delayed")(delayed)
topic_app.command("due-times")(due_times)


@topic_app.command("create")
@takes_cluster
def create(
    cluster: Cluster,
    name: Topic,
    partitions: Annotated[int, typer.Option("--partitions", min=0, help="0: the cluster's default.")] = 0,
    replication_factor: Annotated[
        int,
        typer.Option("--replication-factor", "-r", min=0, help="Per partition; 0: the cluster's default."),
    ] = 0,
    settings: Settings = [],  # noqa: B006 - typer copies it.
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Succeed if the topic exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a topic.

    Example: `flotilla topic create orders --partitions 3 --set retention_ms=7d`
    """
    chosen = read_settings_of(SETTINGS, settings)
    with cluster.connect() as client:
        try:
            made = client.create_topic(name, partitions=partitions, replication_factor=replication_factor, **chosen)
            _warn_of_sharing(made, client.admin.metadata([name]).brokers)
        except AlreadyExistsError:
            if not if_not_exists:
                raise
            made = find_topic(client, name)
    show_topic(made, as_json=as_json)


def _warn_of_sharing(topic: TopicInfo, brokers: list[BrokerInfo]) -> None:
    """A new topic: its replicas share a machine or a zone only where there are too few."""
    labelled = [broker for broker in brokers if broker.machine or broker.zone]
    sites: Sites = {broker.node: site(broker.node, machine=broker.machine, zone=broker.zone) for broker in labelled}
    # Where all nodes are in one place, that is known, and nothing can be done about it.
    sites = separating([broker.node for broker in brokers], sites)
    found = [sharing(part.replicas, sites) for part in topic.partitions]
    noun = "machine" if any(each.machines for each in found) else "zone" if any(each.zones for each in found) else ""
    if noun:
        note(f"warning: replicas of a partition share a {noun}, because there are fewer {noun}s than replicas")


@topic_app.command("list")
@takes_cluster
def list_topics(cluster: Cluster, watch_it: Watch = False, as_json: AsJson = False) -> None:
    """List all topics.

    Example: `flotilla topic list --watch`
    """
    show_again(lambda: _show_topics(cluster, as_json=as_json), is_watched=watch_it)


def _show_topics(cluster: Cluster, *, as_json: bool) -> None:
    with cluster.connect() as client:
        metadata = client.admin.metadata()
    note_stale(metadata)
    topics = sorted(metadata.topics, key=lambda each: each.name)
    if as_json:
        print_json([as_plain(each) for each in topics])
    elif not topics:
        note("there are no topics; `flotilla topic create NAME` makes one")
    else:
        columns = ("topic", "partitions", "replicas", "without leader", "set")
        print_table(columns, [_line(each) for each in topics])


def _line(topic: TopicInfo) -> tuple[object, ...]:
    without_leader = sum(part.leader == NO_NODE for part in topic.partitions)
    defaults = show_settings(resolve_settings(()))
    changed = [f"{name}={text}" for name, text in sorted(_chosen(topic).items()) if text != defaults[name]]
    return topic.name, len(topic.partitions), replicas_of(topic), without_leader, " ".join(changed)


@topic_app.command("describe")
@takes_cluster
def describe(cluster: Cluster, name: Topic, as_json: AsJson = False) -> None:
    """Show a topic: partitions with leader, replicas and offsets, and every setting.

    Example: `flotilla topic describe orders`
    """
    with cluster.connect() as client:
        found = find_topic(client, name)
        offsets = {
            part.number: (
                client.find_offset(name, part.number, "earliest"),
                client.find_offset(name, part.number, "latest"),
            )
            for part in found.partitions
            if part.leader != NO_NODE
        }
    if as_json:
        print_json(as_plain(found, offsets))
        return
    rows = []
    for part in found.partitions:
        first, end = offsets.get(part.number, (-1, -1))
        leader = part.leader if part.leader != NO_NODE else "none"
        known = (first, end, end - first) if end >= 0 else ("?", "?", "?")
        move = f" -> {_nodes(part.target)}" if part.target else ""
        rows.append((part.number, leader, _nodes(part.replicas) + move, *known))
    print_table(("partition", "leader", "replicas", "first", "next", "messages"), rows)
    if found.owner:
        typer.echo(f"\nowner: {found.owner}")
    typer.echo()
    chosen = _chosen(found)
    print_table(
        ("setting", "value", "origin", "meaning"),
        [
            (key, text, "topic" if key in chosen else "default", SETTINGS[key].help)
            for key, text in _in_force(found).items()
        ],
    )


@topic_app.command("alter")
@takes_cluster
def alter(
    cluster: Cluster,
    name: Topic,
    partitions: Annotated[int, typer.Option("--partitions", min=0, help="The number can only grow.")] = 0,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            "-r",
            min=0,
            help="Per partition; takes effect in the background.",
        ),
    ] = 0,
    settings: Settings = [],  # noqa: B006 - typer copies it.
    unset: Annotated[list[str], typer.Option("--unset", metavar="NAME", help="Restore the default; repeatable.")] = [],  # noqa: B006 - typer copies it.
    as_json: AsJson = False,
) -> None:
    """Change a topic: more partitions, more or fewer replicas, other settings.

    Example: `flotilla topic alter orders --partitions 6 --unset retention_ms`
    """
    changes = read_settings_of(SETTINGS, settings, unset)
    if not partitions and not replication_factor and not changes:
        raise InvalidArgumentError("nothing to change: give --partitions, --replication-factor, --set or --unset")
    with cluster.connect() as client:
        altered = client.alter_topic(name, partitions=partitions, replication_factor=replication_factor, **changes)
    show_topic(altered, as_json=as_json)


@topic_app.command("rebalance")
@takes_cluster
def rebalance(
    cluster: Cluster,
    names: Annotated[
        list[str], typer.Argument(metavar="TOPIC...", help="Default: all topics.", show_default=False)
    ] = [],  # noqa: B006 - typer copies it.
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would move, and move nothing.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stop moves that are in progress.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until everything has moved.")] = True,
    as_json: AsJson = False,
) -> None:
    """Spread replicas and leaders evenly over the brokers, with the fewest moves.

    Moves continue in the background when the command is interrupted. Partitions with too few replicas get the missing
    ones.

    Example: `flotilla topic rebalance --dry-run`
    """
    if dry_run and cancel:
        raise InvalidArgumentError("--dry-run and --cancel exclude each other")
    with cluster.connect() as client:
        moves = client.admin.cancel_moves(names) if cancel else client.admin.rebalance(names, dry_run=dry_run)
        if as_json:
            print_json([asdict(move) for move in moves])
        elif moves:
            rows = [(f"{move.topic}/{move.partition}", _nodes(move.replicas), _nodes(move.target)) for move in moves]
            print_table(("partition", "from", "to"), rows)
        if moves and wait and not dry_run:
            planned = {(move.topic, move.partition): move.target for move in moves}
            watch(
                client,
                "moving",
                lambda found: [move for move in moving(found) if (move.topic, move.partition) in planned],
                lambda found: _have_arrived(found, planned),
            )
    if not as_json:
        verb = "would move" if dry_run else "moved" if wait else "move"
        note(f"{len(moves)} partition(s) {verb}" if moves else "nothing to move: replicas and leaders are balanced")


def _have_arrived(metadata: Metadata, planned: dict[tuple[str, int], list[int]]) -> bool:
    """Compares replicas with the plan: a lagging broker may not list the moves yet."""
    places = {(topic.name, part.number): part for topic in metadata.topics for part in topic.partitions}
    found = [(places[key], target) for key, target in planned.items() if key in places]
    return all(part.replicas == target and not part.target for part, target in found)


@topic_app.command("transfer")
@takes_cluster
def transfer(
    cluster: Cluster,
    name: Topic,
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0, show_default=False)],
    to: Annotated[
        int | None,
        typer.Option(
            "--to",
            metavar="NODE",
            min=1,
            help="The replica that is to lead.",
            show_default="any other one",
            autocompletion=complete_nodes,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Transfer the leadership of a partition to another of its replicas. No data moves.

    Example: `flotilla topic transfer orders 2 --to 3`
    """
    with cluster.connect() as client:
        client.admin.transfer_leadership(name, partition, NO_NODE if to is None else to)
    leader = "another leader" if to is None else f"node {to} as its leader"
    print_done({"topic": name, "partition": partition, "to": to}, f"{name}/{partition} gets {leader}", as_json=as_json)


def _nodes(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))


@topic_app.command("delete")
@takes_cluster
def delete(
    cluster: Cluster,
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...", show_default=False)],
    yes: Yes = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if a topic does not exist.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete topics with everything in them.

    Example: `flotilla topic delete orders --yes`
    """
    if not yes:
        _confirm(f"Delete {', '.join(names)} with all messages?", "deleting", "deleted")
    deleted = []
    with cluster.connect() as client:
        for name in names:
            try:
                client.delete_topic(name)
            except NotFoundError:
                if not if_exists:
                    raise
            else:
                deleted.append(name)
    text = f"deleted {', '.join(deleted)}" if deleted else "nothing to delete"
    print_done({"deleted": deleted}, text, as_json=as_json)


@topic_app.command("purge")
@takes_cluster
def purge(
    cluster: Cluster,
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...", show_default=False)],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove every message that topics hold now.

    Topics, groups and settings stay. Nothing is spared: not what a group owes, holds or has leased, not delayed
    messages. Messages that are produced meanwhile stay.

    Example: `flotilla topic purge orders --yes`
    """
    if not yes:
        _confirm(f"Remove all messages of {', '.join(names)}?", "purging", "removed")
    with cluster.connect() as client:
        for name in names:
            client.describe_topic(name)
        purged = {name: client.purge(name) for name in names}
    print_done({"log_starts": purged}, f"purged {', '.join(names)}", as_json=as_json)


@topic_app.command("trim")
@takes_cluster
def trim(
    cluster: Cluster,
    name: Topic,
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="PARTITION=OFFSET...", help="Where the log of a partition is to begin.", show_default=False
        ),
    ],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove the messages below an offset of each given partition, also those that a group still needs.

    If a partition or an offset does not exist, nothing is removed.

    Example: `flotilla topic trim orders 0=1200 1=980 --yes`
    """
    offsets = _read_places(places)
    if not yes:
        below = ", ".join(f"{offset} of partition {number}" for number, offset in offsets.items())
        _confirm(f"Remove the messages of {name} below {below}?", "trimming", "removed")
    with cluster.connect() as client:
        starts = client.trim(name, offsets)
    text = ", ".join(f"partition {number} begins at {start}" for number, start in starts.items())
    print_done({"log_starts": starts}, f"{name}: {text}", as_json=as_json)


def _read_places(places: Iterable[str]) -> dict[int, int]:
    found: dict[int, int] = {}
    for place in places:
        parts = place.split("=")
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
            raise InvalidArgumentError(f"{place!r}: expected PARTITION=OFFSET, as in 0=1200")
        number, offset = map(int, parts)
        if number in found:
            raise InvalidArgumentError(f"partition {number} is given twice")
        found[number] = offset
    return found


def _confirm(question: str, doing: str, done: str) -> None:
    """Asks, and ends the command after a no."""
    if not sys.stdin.isatty():
        raise InvalidArgumentError(f"{doing} cannot be undone; confirm it with --yes where there is no terminal")
    if not typer.confirm(question, err=True):
        note(f"nothing was {done}")
        raise typer.Exit(FAILED.code)


def show_topic(topic: TopicInfo, *, as_json: bool) -> None:
    settings = "".join(f", {name}={text}" for name, text in sorted(_chosen(topic).items()))
    text = f"{topic.name}: {len(topic.partitions)} partition(s), {replicas_of(topic)} replica(s){settings}"
    print_done(as_plain(topic), text, as_json=as_json)


def replicas_of(topic: TopicInfo) -> int:
    return max((len(part.replicas) for part in topic.partitions), default=0)


def _chosen(topic: TopicInfo) -> dict[str, str]:
    """The settings of this topic, with units, without those of the cluster."""
    in_force = _in_force(topic)
    return {name: in_force[name] for name in topic.settings if name in SETTINGS}


def _in_force(topic: TopicInfo) -> dict[str, str]:
    return show_settings(topic.settings_in_force)


def as_plain(topic: TopicInfo, offsets: dict[int, tuple[int, int]] | None = None) -> dict[str, Any]:
    plain = asdict(topic)
    for part in plain["partitions"]:
        if offsets is not None and part["number"] in offsets:
            part["first_offset"], part["next_offset"] = offsets[part["number"]]
    return plain
