"""`flotilla topic due-times` and `delayed`, and `flotilla group blocked-keys`: what waits, and for what."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from flotilla.cli.terminal.arguments import Group, Topic, complete_groups
from flotilla.cli.terminal.message_formats import moment, put_bytes
from flotilla.cli.terminal.output import age, escaped, note, print_json, print_table
from flotilla.cli.terminal.servers import AsJson, Cluster, takes_cluster
from flotilla.types.dead_letters import summary
from flotilla.types.notation import format_duration
from flotilla.types.operations.waiting import BLOCKED_KEYS_SHOWN_MAX, DELAYED_SHOWN_MAX, DUE_EDGES_MS, most_blocked

if TYPE_CHECKING:
    from flotilla.types.operations.waiting import BlockedKey

#: The longest bar of a histogram, in characters.
_BAR_MAX = 40


_Waiting: TypeAlias = Annotated[
    str,
    typer.Option(
        "--group",
        "-g",
        help="What this queue group waits for, with its retries.",
        show_default="whatever groups have done",
        autocompletion=complete_groups,
    ),
]


@takes_cluster
def delayed(
    cluster: Cluster,
    topic: Topic,
    group: _Waiting = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=DELAYED_SHOWN_MAX, help="Maximum number.")] = 100,
    after: Annotated[
        str, typer.Option("--after", help="Go on where the page before has ended.", show_default="the next to come due")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the delayed messages of a topic, those that come due next first. Times are in UTC.

    Example: `flotilla topic delayed orders --group billing -n 20`
    """
    with cluster.connect() as client:
        found = client.delayed(topic, group, limit=limit, after=after)
    if as_json:
        rows = [{"partition": number, **asdict(message)} for number, message in found.messages]
        print_json({"messages": rows, "next": found.next, "is_cut": found.is_cut})
        return
    if not found.messages:
        note("no message waits for a time")
        return
    print_table(
        ("message", "due", "failed attempts", "reason"),
        [
            (f"{number}:{each.offset}", moment(each.due_ms), each.attempts, summary(each.reason) or "-")
            for number, each in found.messages
        ],
    )
    if found.next:
        note(f"there are more: --after {found.next}")
    if found.is_cut:
        note("so many messages are delayed that not all are listed")


@takes_cluster
def due_times(
    cluster: Cluster,
    topic: Topic,
    group: _Waiting = "",
    as_json: AsJson = False,
) -> None:
    """Count the delayed messages of a topic by the time in which they come due.

    Example: `flotilla topic due-times orders --group billing`
    """
    with cluster.connect() as client:
        found = client.due_times(topic, group)
    if as_json:
        print_json({"edges_ms": DUE_EDGES_MS, **asdict(found), "delayed": sum(found.counts)})
        return
    if not any(found.counts):
        note("no message waits for a time")
        return
    most = max(found.counts)
    shown = max(at for at, count in enumerate(found.counts) if count) + 1
    rows = [(_bucket(at), count, "#" * -(-_BAR_MAX * count // most)) for at, count in enumerate(found.counts[:shown])]
    print_table(("comes due", "messages", ""), rows)
    if found.is_estimated:
        note("so many messages are delayed that only some were looked at: the numbers are estimates")


def _bucket(at: int) -> str:
    """The name of a bucket of DUE_EDGES_MS."""
    if at == 0:
        return f"within {format_duration(DUE_EDGES_MS[0])}"
    begin = format_duration(DUE_EDGES_MS[at - 1])
    return f"{begin} to {format_duration(DUE_EDGES_MS[at])}" if at < len(DUE_EDGES_MS) else f"after {begin}"


@takes_cluster
def blocked_keys(
    cluster: Cluster,
    topic: Topic,
    name: Group,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=BLOCKED_KEYS_SHOWN_MAX, help="Maximum number.")
    ] = 100,
    as_json: AsJson = False,
) -> None:
    """List keys whose next messages wait for one that is leased or retried, those with the most first.

    Only queue groups in order by key (`ordered`) have them. It needs the right to consume.

    Example: `flotilla group blocked-keys orders billing`
    """
    with cluster.connect() as client:
        found = client.blocked_keys(topic, name, limit=limit)
    keys = most_blocked(found, limit)
    key_count = sum(each.key_count for each in found.values())
    message_count = sum(each.message_count for each in found.values())
    if as_json:
        print_json({"keys": [_plain(*each) for each in keys], "key_count": key_count, "message_count": message_count})
        return
    if not keys:
        note("no key is blocked: no message waits for another of its key")
        return
    columns = ("key", "waiting", "behind", "which is", "failed attempts", "reason")
    print_table(columns, [_line(number, key) for number, key in keys])
    note(f"{message_count} messages wait behind {key_count} keys")


def _plain(number: int, key: "BlockedKey") -> dict[str, Any]:
    plain = {"partition": number, **asdict(key)}
    return put_bytes(plain, "key", plain.pop("key"))


def _line(number: int, key: "BlockedKey") -> tuple[object, ...]:
    text = escaped(key.key.decode("utf-8", "backslashreplace"))
    holder = f" by {key.holder}" if key.holder else ""
    left = f", {age(key.remaining_ms)} left" if key.remaining_ms else ""
    return (
        text,
        key.blocked,
        f"{number}:{key.offset}",
        f"{key.state}{holder}{left}",
        key.attempts,
        summary(key.reason) or "-",
    )
