"""`flotilla cluster backup` and `restore`, `flotilla backup`: take backups, restore, list and verify them."""

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from flotilla.cli.recovery.manifest import Manifest, backup_numbers, read_manifest
from flotilla.cli.recovery.places import Place, open_place
from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.output import print_done, print_json, print_table
from flotilla.cli.terminal.servers import AsJson, Cluster, takes_cluster
from flotilla.types.limits import MIB

if TYPE_CHECKING:
    from flotilla.cli.recovery.taking import Taken

backup_app = typer.Typer(name="backup", help="List and verify backups.", no_args_is_help=True)

Where: TypeAlias = Annotated[
    str, typer.Argument(metavar="DIR|URI", help="The folder, or s3://BUCKET/FOLDER.", show_default=False)
]
Number: TypeAlias = Annotated[
    int, typer.Option("--backup", metavar="NUMBER", min=0, help="Which backup; 0: the newest.")
]


@takes_cluster
def take(
    cluster: Cluster,
    where: Where,
    keep: Annotated[
        int, typer.Option("--keep", metavar="COUNT", min=0, help="Remove older backups than that; 0: remove none.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Copy topics, groups, schedules, users and grants of a running cluster. What is there already is not copied again.

    The place then holds every message, and what proves passwords: guard it like the cluster. It needs the right to
    operate. The settings of an object store are environment variables (AWS_ENDPOINT_URL, AWS_REGION and so on).

    Example: `flotilla cluster backup /mnt/backups/ships`
    """
    place = open_place(where)
    taken = asyncio.run(_take(cluster, place))
    removed = _remove_older(place, keep) if keep else []
    manifest = taken.manifest
    facts = {
        "backup": manifest.number,
        "place": place.address,
        "cluster_id": manifest.cluster_id,
        "partitions": len(manifest.logs) - 1,
        "size_bytes": sum(file.size_bytes for file in manifest.files()),
        "copied_bytes": taken.copied_bytes,
        "held_ms": taken.held_ms,
        "removed": removed,
    }
    text = (
        f"backup {manifest.number} of {len(manifest.logs) - 1} partition(s) is in {place.address}; "
        f"{taken.copied_bytes / MIB:.1f} MiB were new, and settlements were held for {taken.held_ms} ms"
    )
    print_done(facts, text, as_json=as_json)


async def _take(cluster: Cluster, place: Place) -> "Taken":
    from flotilla.cli.recovery.taking import take_backup

    async with cluster.connect_async() as client:
        return await take_backup(client, lambda address: Cluster(address, cluster.timeout).connect_async(), place)


def _remove_older(place: Place, keep: int) -> list[int]:
    """Removes manifests and then what no other one names. Returns their numbers."""
    numbers = backup_numbers(place)
    removed, kept = numbers[:-keep], numbers[-keep:]
    manifests = {number: read_manifest(place, number) for number in numbers}
    needed = {file.path for number in kept for file in manifests[number].files()}
    place.remove(manifests[number].path for number in removed)
    if removed:
        stored = (*place.paths("groups", suffix=".log"), *place.paths("groups", suffix=".snap"))
        place.remove(path for path in stored if path not in needed)
    return removed


def restore(
    where: Where,
    data_dir: Annotated[
        Path, typer.Option("--data-dir", metavar="DIR", help="The new data directory.", show_default=False)
    ],
    node_id: Annotated[int, typer.Option("--node-id", metavar="ID", min=1, help="Of the first node.")] = 1,
    cluster_name: Annotated[
        str, typer.Option("--cluster", metavar="NAME", help="Of the new cluster.", show_default="as it was")
    ] = "",
    number: Number = 0,
    as_json: AsJson = False,
) -> None:
    """Make a new cluster of a backup: write the data directory of its first node. The others join it.

    Example: `flotilla cluster restore /mnt/backups/ships --data-dir /var/lib/flotilla --node-id 1`
    """
    from flotilla.cli.recovery.restoring import restore as restore_backup

    place = open_place(where)
    found = restore_backup(place, read_manifest(place, number), data_dir, node_id, cluster_name)
    text = (
        f"{data_dir} has {found.topics} topic(s) with {found.partitions} partition(s) of backup {found.backup}, as "
        f"cluster {found.cluster_id}; start node {node_id} with --data-dir {data_dir} and --cluster "
        f"{found.cluster_name}, and the others with empty data directories and --join"
    )
    print_done(asdict(found), text, as_json=as_json)


@backup_app.command("list")
def show(where: Where, as_json: AsJson = False) -> None:
    """List the backups of a place, the oldest first.

    Example: `flotilla backup list /mnt/backups/ships`
    """
    place = open_place(where)
    rows = [_row(read_manifest(place, number)) for number in backup_numbers(place)]
    if as_json:
        print_json({"backups": rows})
        return
    columns = ("backup", "taken", "cluster", "partitions", "bytes")
    keys = ("backup", "taken", "cluster_name", "partitions", "size_bytes")
    print_table(columns, [[row[key] for key in keys] for row in rows])


def _row(manifest: Manifest) -> dict[str, object]:
    return {
        "backup": manifest.number,
        "taken": datetime.fromtimestamp(manifest.created_ms / 1000, UTC).isoformat(timespec="seconds"),
        "cluster_id": manifest.cluster_id,
        "cluster_name": manifest.cluster_name,
        "partitions": len(manifest.logs) - 1,
        "size_bytes": sum(file.size_bytes for file in manifest.files()),
        "flotilla": manifest.flotilla,
    }


@backup_app.command("verify")
def verify(where: Where, number: Number = 0, as_json: AsJson = False) -> None:
    """Read everything that a backup needs, as a restore would. The exit code is 1 if something is missing or damaged.

    Example: `flotilla backup verify s3://backups/ships --backup 12`
    """
    from flotilla.cli.recovery.verifying import verify as verify_backup

    place = open_place(where)
    found = verify_backup(place, read_manifest(place, number))
    if as_json:
        print_json(asdict(found))
    else:
        for problem in found.problems:
            typer.echo(problem)
        state = "cannot be restored" if found.problems else "is complete"
        typer.echo(
            f"backup {found.backup} {state}: {found.partitions} partition(s), {found.entries} entries, "
            f"{found.size_bytes / MIB:.1f} MiB"
        )
    if found.problems:
        raise typer.Exit(FAILED.code)
