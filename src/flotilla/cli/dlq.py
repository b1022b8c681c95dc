"""`flotilla dlq`: the dead letters of a group: look at them, send them again, throw them away."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.message_formats import moment, plain_content
from flotilla.cli.terminal.output import escaped, note, print_done, print_json, print_table
from flotilla.cli.terminal.progress import progress_bar
from flotilla.cli.terminal.servers import AsJson, Cluster, find_topic, takes_cluster
from flotilla.cli.terminal.start_point import now_ms, read_start_point
from flotilla.types.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flotilla.client.admin.dead_letter import DeadLetter, DeadLetterFilter
    from flotilla.client.admin.dead_letters import DeadLetters, Redriven

dlq_app = typer.Typer(name="dlq", help="Dead letters: look at them, send them again.", no_args_is_help=True)

#: As much of a payload as a table shows.
_PAYLOAD_CHARS = 40
_EVERY = 2**31

Topic: TypeAlias = Annotated[str, typer.Argument(metavar="TOPIC", help="Where they came from.", show_default=False)]
Group: TypeAlias = Annotated[
    str, typer.Option("--group", "-g", help="The group that gave them up.", show_default=False)
]
Reason: TypeAlias = Annotated[str, typer.Option("--reason", metavar="REGEX", help="Whose reason matches.")]
Key: TypeAlias = Annotated[str | None, typer.Option("--key", help="Of this key.", show_default=False)]
Since: TypeAlias = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="Dead since: how long ago (2h), or a time.", show_default=False),
]
Until: TypeAlias = Annotated[
    str | None, typer.Option("--until", metavar="WHEN", help="Dead before that.", show_default=False)
]
Partition: TypeAlias = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, help="Of the dead-letter topic.", show_default=False)
]
Offset: TypeAlias = Annotated[
    int | None, typer.Option("--offset", "-o", min=0, help="Of the dead-letter topic.", show_default=False)
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Only tell what would happen.")]
Limit: TypeAlias = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="At most so many.", show_default=False)
]
Rate: TypeAlias = Annotated[
    float | None, typer.Option("--rate", metavar="PER_SECOND", help="Not quicker than this.", show_default=False)
]


@dlq_app.callback()
def dlq() -> None:
    """Dead letters: look at them, send them again, throw them away."""


@dlq_app.command("list")
@takes_cluster
def list_letters(
    cluster: Cluster,
    topic: Topic,
    group: Group,
    reason: Reason = "",
    key: Key = None,
    since: Since = None,
    until: Until = None,
    partition: Partition = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List dead letters that nobody has dealt with, the oldest first."""
    wanted = _filter(reason, key, since, until, partition, None)
    with cluster.connect() as client:
        letters = client.dead_letters(topic, group).list(limit, **wanted)
        if not letters:
            # Only then: dead letters outlive the topic that they came from.
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
                    letter.reason,
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
    offset: Annotated[int, typer.Option("--offset", "-o", min=0, help="Of the dead-letter topic.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter whole. Nothing changes by it."""
    with cluster.connect() as client:
        letter = client.dead_letters(topic, group).peek(partition, offset)
    plain = _as_plain(letter, group)
    if as_json:
        print_json(plain)
    else:
        print_table(("field", "value"), list(plain.items()))


@dlq_app.command("redrive")
@takes_cluster
def redrive(
    cluster: Cluster,
    topic: Topic,
    group: Group,
    reason: Reason = "",
    key: Key = None,
    since: Since = None,
    until: Until = None,
    partition: Partition = None,
    offset: Offset = None,
    limit: Limit = None,
    rate: Rate = None,
    force: Annotated[bool, typer.Option("--force", help="Also what was sent again too often already.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Send dead letters to their topic again, with their key, headers and priority."""
    wanted = _filter(reason, key, since, until, partition, offset)
    with cluster.connect() as client:
        letters = client.dead_letters(topic, group)
        with _progress(letters, wanted, limit, "sending again") as show:
            done = letters.redrive(
                limit=limit, dry_run=dry_run, rate_per_second=rate, force=force, progress=show, **wanted
            )
    _tell(done, "would be sent again" if dry_run else "sent again", as_json=as_json)


@dlq_app.command("purge")
@takes_cluster
def purge(
    cluster: Cluster,
    topic: Topic,
    group: Group,
    reason: Reason = "",
    key: Key = None,
    since: Since = None,
    until: Until = None,
    partition: Partition = None,
    offset: Offset = None,
    limit: Limit = None,
    rate: Rate = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Throw dead letters away."""
    wanted = _filter(reason, key, since, until, partition, offset)
    if not yes and not dry_run and not typer.confirm(f"Throw away dead letters of {group} in {topic}?", err=True):
        note("nothing was thrown away")
        raise typer.Exit(FAILED.code)
    with cluster.connect() as client:
        letters = client.dead_letters(topic, group)
        with _progress(letters, wanted, limit, "throwing away") as show:
            done = letters.purge(limit=limit, dry_run=dry_run, rate_per_second=rate, progress=show, **wanted)
    _tell(done, "would be thrown away" if dry_run else "thrown away", as_json=as_json)


def _filter(
    reason: str, key: str | None, since: str | None, until: str | None, partition: int | None, offset: int | None
) -> "DeadLetterFilter":
    wanted: DeadLetterFilter = {}
    if reason:
        try:
            wanted["reason"] = re.compile(reason)
        except re.error as error:
            raise InvalidArgumentError(f"--reason is a regular expression: {error}") from None
    if key is not None:
        wanted["key"] = key.encode()
    if since is not None:
        wanted["since_ms"] = _moment("--since", since)
    if until is not None:
        wanted["until_ms"] = _moment("--until", until)
    if partition is not None:
        wanted["partition"] = partition
    if offset is not None:
        wanted["offset"] = offset
    return wanted


def _moment(flag: str, text: str) -> int:
    found = read_start_point(text, now_ms()).timestamp_ms
    if found is None:
        raise InvalidArgumentError(f"{flag} is how long ago (2h), or a time; not {text!r}")
    return found


@contextmanager
def _progress(
    letters: "DeadLetters", wanted: "DeadLetterFilter", limit: int | None, doing: str
) -> "Iterator[Callable[[Redriven], None]]":
    with progress_bar(MofNCompleteColumn(), TimeRemainingColumn()) as bar:
        # To count them is work of its own, which nobody needs who does not look.
        total = None if bar.disable else len(letters.list(_EVERY if limit is None else limit, **wanted))
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, completed=done.done)


def _tell(done: "Redriven", what: str, *, as_json: bool) -> None:
    counts = {"done": done.done, "refused": done.refused, "skipped": done.skipped}
    print_done(counts, f"{done.done} {what}", as_json=as_json)
    if done.refused and not as_json:
        note(f"{done.refused} were sent again too often already and stay; --force takes them too")


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
