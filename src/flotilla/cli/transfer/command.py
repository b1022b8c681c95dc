"""`flotilla cluster definitions`: export what a cluster is made of, and import it elsewhere."""

from pathlib import Path
from typing import Annotated, Final

import typer

from flotilla.cli.terminal.output import note, print_done, print_json
from flotilla.cli.terminal.servers import AsJson, Cluster, takes_cluster
from flotilla.cli.transfer.definitions import changes, collect, decode, encode, missing_users

definitions_app = typer.Typer(
    name="definitions", help="Export and import topics, schedules and rights, without messages.", no_args_is_help=True
)

_TOML: Final = ".toml"


@definitions_app.command("export")
@takes_cluster
def export(
    cluster: Cluster,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="NAME.toml, or any other name for JSON.")],
    as_json: AsJson = False,
) -> None:
    """Write topics with settings, settings of groups, schedules, grants, roles, quotas and the names of users.

    Example: `flotilla cluster definitions export ships.toml`
    """
    with cluster.connect() as client:
        document = collect(client)
    file.write_text(encode(document, is_toml=file.suffix == _TOML), "utf-8")
    counts = {part: len(found) for part, found in document.items() if isinstance(found, list)}
    text = ", ".join(f"{count} {part}" for part, count in counts.items())
    print_done({"file": str(file), **counts}, f"{file} has {text}", as_json=as_json)


@definitions_app.command("import")
@takes_cluster
def import_definitions(
    cluster: Cluster,
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the difference.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create and alter what a file of definitions says. Nothing is deleted, and a second import changes nothing.

    Passwords are in no file: users who are missing are named, for `flotilla user create`.

    Example: `flotilla cluster definitions import ships.toml --dry-run`
    """
    wanted = decode(file.read_text("utf-8"), is_toml=file.suffix == _TOML)
    with cluster.connect() as client:
        steps = list(changes(client, wanted))
        for step in steps:
            if not dry_run:
                step.apply(client)
            if not as_json:
                typer.echo(f"{'would ' if dry_run else ''}{step.text}")
        missing = missing_users(client, wanted)
    if as_json:
        print_json({"is_dry_run": dry_run, "changes": [step.text for step in steps], "missing_users": missing})
    elif not steps:
        typer.echo("nothing to change")
    if missing:
        note(f"these users do not exist; `flotilla user create` makes them: {', '.join(missing)}")
