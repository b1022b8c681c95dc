"""`flotilla schedule`: create, list, pause, resume, delete and run recurring messages."""

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer

from flotilla.cli.terminal.arguments import complete_topics
from flotilla.cli.terminal.message_formats import moment
from flotilla.cli.terminal.output import escaped, note, print_done, print_json, print_table
from flotilla.cli.terminal.pairs import read_pairs
from flotilla.cli.terminal.servers import AsJson, Cluster, read_duration, takes_cluster
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.notation import format_duration
from flotilla.types.schedules import MISSED_COUNT, MISSED_POLICIES, ONE

if TYPE_CHECKING:
    from flotilla.client.admin.schedules import Missed
    from flotilla.types.operations.schedules import ScheduleInfo

schedule_app = typer.Typer(name="schedule", help="Recurring messages.", no_args_is_help=True)

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


@schedule_app.command("create")
@takes_cluster
def create(
    cluster: Cluster,
    name: Name,
    topic: Annotated[
        str, typer.Option("--topic", help="Where its messages go.", show_default=False, autocompletion=complete_topics)
    ],
    cron: Annotated[
        str | None, typer.Option("--cron", help="When, as in '0 3 * * *', or @daily.", show_default=False)
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="DURATION", help="Or at this interval.", show_default=False)
    ] = None,
    tz: Annotated[str, typer.Option("--tz", metavar="ZONE", help="The time zone of --cron.", show_default="UTC")] = "",
    payload: Annotated[str, typer.Option("--payload", help="The payload of its messages.")] = "",
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of its messages.", show_default=False)] = None,
    header: Annotated[
        list[str], typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of its messages; repeatable.")
    ] = [],  # noqa: B006 - typer copies it.
    priority: Annotated[int, typer.Option("--priority", min=0, max=7, help="Higher is delivered first.")] = 0,
    missed: Annotated[
        str, typer.Option("--missed", help=f"What becomes of missed occurrences: {', '.join(MISSED_POLICIES)}.")
    ] = ONE,
    missed_max: Annotated[
        int, typer.Option("--missed-max", min=1, help="The most that --missed all makes up for.")
    ] = MISSED_COUNT,
    update: Annotated[bool, typer.Option("--update", help="Change it if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Produce a message at every time of a cron expression, or at an interval.

    Example: `flotilla schedule create nightly --cron "0 3 * * *" --tz Europe/Berlin --topic reports --payload all`
    """
    if missed not in MISSED_POLICIES:
        raise InvalidArgumentError(f"--missed is one of {', '.join(MISSED_POLICIES)}, not {missed!r}")
    headers = read_pairs(header, "--header")
    with cluster.connect() as client:
        made = client.schedules.create(
            name,
            topic,
            payload.encode(),
            cron=cron,
            every_ms=None if every is None else read_duration(every, "--every"),
            time_zone=tz,
            missed=cast("Missed", missed),
            missed_max=missed_max,
            key=None if key is None else key.encode(),
            headers=headers,
            priority=priority,
            update=update,
        )
    _show(made, as_json=as_json)


@schedule_app.command("list")
@takes_cluster
def list_schedules(
    cluster: Cluster,
    upcoming: Annotated[int, typer.Option("--next", min=1, max=20, help="Next occurrences of each.")] = 1,
    as_json: AsJson = False,
) -> None:
    """List all schedules with their next occurrences, in UTC.

    Example: `flotilla schedule list --next 3`
    """
    with cluster.connect() as client:
        found = client.schedules.list(upcoming=upcoming)
    if as_json:
        print_json([as_plain(each) for each in found])
    elif not found:
        note("there are no schedules; `flotilla schedule create` makes one")
    else:
        print_table(("schedule", "when", "topic", "next", "last", "runs", "trouble"), [_line(each) for each in found])


def _line(schedule: "ScheduleInfo") -> tuple[object, ...]:
    return (
        schedule.name,
        _when(schedule),
        schedule.definition.topic,
        _next(schedule),
        moment(schedule.last_ms) if schedule.last_ms else "never",
        schedule.runs,
        escaped(schedule.error),
    )


def _when(schedule: "ScheduleInfo") -> str:
    definition = schedule.definition
    if definition.every_ms:
        return f"every {format_duration(definition.every_ms)}"
    return escaped(f"{definition.cron} {definition.time_zone or 'UTC'}")


def _next(schedule: "ScheduleInfo") -> str:
    return "paused" if schedule.is_paused else ", ".join(map(moment, schedule.upcoming_ms)) or "never"


@schedule_app.command("pause")
@takes_cluster
def pause(cluster: Cluster, name: Name, as_json: AsJson = False) -> None:
    """Pause a schedule: nothing is produced until it is resumed.

    Example: `flotilla schedule pause nightly`
    """
    with cluster.connect() as client:
        _show(client.schedules.pause(name), as_json=as_json)


@schedule_app.command("resume")
@takes_cluster
def resume(cluster: Cluster, name: Name, as_json: AsJson = False) -> None:
    """Resume a schedule with its next occurrence from now.

    Example: `flotilla schedule resume nightly`
    """
    with cluster.connect() as client:
        _show(client.schedules.resume(name), as_json=as_json)


@schedule_app.command("delete")
@takes_cluster
def delete(cluster: Cluster, name: Name, as_json: AsJson = False) -> None:
    """Delete a schedule. Messages that it has produced stay.

    Example: `flotilla schedule delete nightly`
    """
    with cluster.connect() as client:
        deleted = client.schedules.delete(name)
    print_done(as_plain(deleted), f"deleted {deleted.name}", as_json=as_json)


@schedule_app.command("run")
@takes_cluster
def run(cluster: Cluster, name: Name, as_json: AsJson = False) -> None:
    """Produce the message of a schedule now. Its occurrences stay as they are.

    Example: `flotilla schedule run nightly`
    """
    with cluster.connect() as client:
        _show(client.schedules.run(name), as_json=as_json)


def _show(schedule: "ScheduleInfo", *, as_json: bool) -> None:
    text = f"{schedule.name}: {_when(schedule)} to {schedule.definition.topic}, next {_next(schedule)}"
    print_done(as_plain(schedule), text, as_json=as_json)


def as_plain(schedule: "ScheduleInfo") -> dict[str, Any]:
    definition = schedule.definition
    return {
        "name": schedule.name,
        "schedule_id": schedule.schedule_id,
        "topic": definition.topic,
        "cron": definition.cron,
        "time_zone": definition.time_zone,
        "every_ms": definition.every_ms,
        "missed": definition.missed,
        "payload": definition.payload.decode("utf-8", "backslashreplace"),
        "is_paused": schedule.is_paused,
        "runs": schedule.runs,
        "last_ms": schedule.last_ms,
        "skipped_ms": schedule.skipped_ms,
        "upcoming_ms": schedule.upcoming_ms,
        "error": schedule.error,
    }
