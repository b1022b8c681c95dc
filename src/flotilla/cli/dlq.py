"""`flotilla dlq`: list, show, redrive and purge the dead letters of a group."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from flotilla.cli.terminal.arguments import complete_groups, complete_topics
from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.message_formats import moment, plain_content
from flotilla.cli.terminal.output import escaped, note, print_done, print_json, print_table
from flotilla.cli.terminal.progress import progress_bar
from flotilla.cli.terminal.servers import AsJson, Cluster, find_topic, takes_cluster
from flotilla.cli.terminal.shared_options import share_options
from flotilla.cli.terminal.start_point import read_time
from flotilla.types.dead_letters import summary
from flotilla.types.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flotilla.client.admin.dead_letter import DeadLetter, DeadLetterFilter
    from flotilla.client.admin.dead_letters import DeadLetters, Redriven

dlq_app = typer.Typer(name="dlq", help="List, show, redrive and purge dead letters.", no_args_is_help=True)

#: A table shows this much of a payload.
_PAYLOAD_CHARS = 40
_EVERY = 2**31

Topic: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help="Their original topic.", show_default=False, autocompletion=complete_topics),
]
Group: TypeAlias = Annotated[
    str,
    typer.Option(
        "--group", "-g", help="The group whose attempts failed.", show_default=False, autocompletion=complete_groups
    ),
]
Reason: TypeAlias = Annotated[
    str | None, typer.Option("--reason", metavar="REGEX", help="Only with a matching reason.", show_default=False)
]
Fingerprint: TypeAlias = Annotated[
    str | None,
    typer.Option("--fingerprint", metavar="HEX", help="Only with this shape of the reason.", show_default=False),
]
Key: TypeAlias = Annotated[str | None, typer.Option("--key", help="Only with this key.", show_default=False)]
Since: TypeAlias = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="Dead since: how long ago (2h), or a time.", show_default=False),
]
Until: TypeAlias = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="Dead before this time.", show_default=False),
]
Partition: TypeAlias = Annotated[
    int | None,
    typer.Option("--partition", "-p", min=0, help="Of the dead-letter topic.", show_default=False),
]
Offset: TypeAlias = Annotated[
    int | None, typer.Option("--offset", "-o", min=0, help="An offset in the dead-letter topic.", show_default=False)
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")]
Limit: TypeAlias = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="Maximum number.", show_default=False)
]
Rate: TypeAlias = Annotated[
    float | None, typer.Option("--rate", metavar="PER_SECOND", help="Maximum rate.", show_default=False)
]


def _filter(
    reason: str | None,
    key: str | None,
    since: str | None,
    until: str | None,
    partition: int | None,
    offset: int | None,
    fingerprint: str | None,
) -> "DeadLetterFilter":
    wanted: DeadLetterFilter = {}
    if reason is not None:
        try:
            wanted["reason"] = re.compile(reason)
        except re.error as error:
            raise InvalidArgumentError(f"--reason is a regular expression: {error}") from None
    if fingerprint is not None:
        wanted["fingerprint"] = fingerprint
    if key is not None:
        wanted["key"] = key.encode()
    if since is not None:
        wanted["since_ms"] = read_time(since, "--since")
    if until is not None:
        wanted["until_ms"] = read_time(until, "--until")
    if partition is not None:
        wanted["partition"] = partition
    if offset is not None:
        wanted["offset"] = offset
    return wanted


def _takes_filter(command: Callable[..., None]) -> Callable[..., None]:
    """Turns `command(wanted, **own)` into one with the options of a filter."""
    kinds = {
        "reason": Reason,
        "key": Key,
        "since": Since,
        "until": Until,
        "partition": Partition,
        "offset": Offset,
        "fingerprint": Fingerprint,
    }
    options = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in kinds.items()]
    return share_options(command, options, _filter)


@dlq_app.command("list")
@takes_cluster
@_takes_filter
def list_letters(
    wanted: "DeadLetterFilter",
    cluster: Cluster,
    topic: Topic,
    group: Group,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List dead letters that were neither redriven nor purged, the oldest first.

    Example: `flotilla dlq list orders --group billing --reason timeout --since 2h`
    """
    with cluster.connect() as client:
        letters = client.dead_letters(topic, group).list(limit, **wanted)
        if not letters:
            # Checked last: dead letters outlive the topic that they came from.
            find_topic(client, topic)
    if as_json:
        print_json([_as_plain(letter, group) for letter in letters])
    elif not letters:
        note("no dead letters")
    else:
        print_table(
            ("place", "died", "attempts", "redriven", "reason", "payload"),
            [
                (
                    f"{letter.partition}:{letter.offset}",
                    moment(letter.died_ms),
                    letter.attempts,
                    letter.redriven,
                    summary(letter.reason),
                    _preview(letter.payload),
                )
                for letter in letters
            ],
        )


@dlq_app.command("peek")
@takes_cluster
def peek(
    cluster: Cluster,
    topic: Topic,
    group: Group,
    partition: Annotated[int, typer.Option("--partition", "-p", min=0, help="Of the dead-letter topic.")] = 0,
    offset: Annotated[int, typer.Option("--offset", "-o", min=0, help="An offset in the dead-letter topic.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter with all its fields. Nothing changes.

    Example: `flotilla dlq peek orders --group billing --partition 0 --offset 7`
    """
    with cluster.connect() as client:
        letter = client.dead_letters(topic, group).peek(partition, offset)
    plain = _as_plain(letter, group)
    if as_json:
        print_json(plain)
    else:
        headers = [(f"header {header['name']}", *list(header.values())[1:]) for header in plain.pop("headers", ())]
        print_table(("field", "value"), [*plain.items(), *headers])


@dlq_app.command("redrive")
@takes_cluster
@_takes_filter
def redrive(
    wanted: "DeadLetterFilter",
    cluster: Cluster,
    topic: Topic,
    group: Group,
    limit: Limit = None,
    rate: Rate = None,
    force: Annotated[bool, typer.Option("--force", help="Also those that were redriven too often.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Send dead letters to their topic again, with their key, headers and priority.

    Example: `flotilla dlq redrive orders --group billing --reason timeout --rate 50 --dry-run`
    """
    with cluster.connect() as client:
        letters = client.dead_letters(topic, group)
        with _progress(letters, wanted, limit, "redriving") as show:
            done = letters.redrive(
                limit=limit, dry_run=dry_run, rate_per_second=rate, force=force, progress=show, **wanted
            )
    _report(done, "would be redriven" if dry_run else "redriven", as_json=as_json)


@dlq_app.command("purge")
@takes_cluster
@_takes_filter
def purge(
    wanted: "DeadLetterFilter",
    cluster: Cluster,
    topic: Topic,
    group: Group,
    limit: Limit = None,
    rate: Rate = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete dead letters.

    Example: `flotilla dlq purge orders --group billing --until 7d --yes`
    """
    if not yes and not dry_run and not typer.confirm(f"Delete dead letters of {group} in {topic}?", err=True):
        note("nothing was deleted")
        raise typer.Exit(FAILED.code)
    with cluster.connect() as client:
        letters = client.dead_letters(topic, group)
        with _progress(letters, wanted, limit, "purging") as show:
            done = letters.purge(limit=limit, dry_run=dry_run, rate_per_second=rate, progress=show, **wanted)
    _report(done, "would be deleted" if dry_run else "deleted", as_json=as_json)


@contextmanager
def _progress(
    letters: "DeadLetters", wanted: "DeadLetterFilter", limit: int | None, doing: str
) -> "Iterator[Callable[[Redriven], None]]":
    with progress_bar(MofNCompleteColumn(), TimeRemainingColumn()) as bar:
        # Counting reads all letters, so only for a bar that is shown.
        total = None if bar.disable else len(letters.list(_EVERY if limit is None else limit, **wanted))
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, completed=done.done)


def _report(done: "Redriven", what: str, *, as_json: bool) -> None:
    counts = {"done": done.done, "refused": done.refused, "skipped": done.skipped}
    print_done(counts, f"{done.done} {what}", as_json=as_json)
    if done.refused and not as_json:
        note(f"{done.refused} were redriven too often and stay; --force includes them")


def _preview(payload: bytes) -> str:
    text = escaped(payload[: 4 * _PAYLOAD_CHARS].decode("utf-8", "backslashreplace"))
    return text if len(text) <= _PAYLOAD_CHARS else text[: _PAYLOAD_CHARS - 1] + "…"


def _as_plain(letter: "DeadLetter", group: str) -> dict[str, Any]:
    return {
        "place": f"{letter.partition}:{letter.offset}",
        "origin": f"{letter.topic} {letter.origin_partition}:{letter.origin_offset}",
        "group": group,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "died": moment(letter.died_ms),
        "redriven": letter.redriven,
        "priority": letter.priority,
        **plain_content(letter.payload, letter.key, letter.headers),
    }
