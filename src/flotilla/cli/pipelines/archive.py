"""`flotilla archive`: the archive of topics in one process, and the upkeep of its lake. Needs no Spark.

Reads arguments and prints results. The work is in `flotilla.lake`, which is loaded when a verb runs.
"""

from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import Annotated, Any, TypeAlias

import typer

from flotilla.cli.terminal.arguments import complete_groups, complete_topics
from flotilla.cli.terminal.output import note, print_json, print_table
from flotilla.cli.terminal.pairs import read_pairs
from flotilla.cli.terminal.servers import DEFAULT_SERVERS, AsJson, Servers, read_duration
from flotilla.types.errors import InvalidArgumentError, UnsupportedError
from flotilla.types.topics import check_topic_name

archive_app = typer.Typer(
    name="archive", help="Copy topics into a lake of Delta tables, and keep it in order.", no_args_is_help=True
)

LAKE_DEFAULT = "flotilla-lake"
_HOUR_MS = 3_600_000

LakeAt: TypeAlias = Annotated[
    str, typer.Option("--lake", metavar="PATH", help="A folder, or a URI: s3://, gs://, abfs://.")
]
OnlyTopics: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        help="Only this topic; repeatable.",
        show_default="all in the lake",
        autocompletion=complete_topics,
    ),
]
Schemas: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--schema",
        metavar="TOPIC=NAME[@VERSION]",
        help="Store values of the topic decoded, too, with this schema (`flotilla schema`); repeatable.",
        show_default=False,
    ),
]


@archive_app.command("run")
def run(
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic", "-t", help="The topic; repeatable.", show_default=False, autocompletion=complete_topics
        ),
    ],
    lake: LakeAt = LAKE_DEFAULT,
    group: Annotated[
        str,
        typer.Option("--group", "-g", help="The group whose offset holds retention.", autocompletion=complete_groups),
    ] = "archive",
    batch_rows: Annotated[int, typer.Option("--batch-rows", min=1, help="Rows of one version.")] = 2_000_000,
    grace: Annotated[
        str, typer.Option("--grace", metavar="DURATION", help="How long replaced files stay, for readers.")
    ] = "24h",
    once: Annotated[bool, typer.Option("--once", help="Stop at the present end of the topics.")] = False,
    every: Annotated[
        str, typer.Option("--every", metavar="DURATION", help="Wait with nothing to do, without --once.")
    ] = "5s",
    schema: Schemas = None,
    as_json: AsJson = False,
    servers: Servers = DEFAULT_SERVERS,
) -> None:
    """Copy topics into a lake of Delta tables, each record once, in this process.

    Retention keeps records in the log until their files in the lake were read back. The next run continues where the
    tables end, also those of an archive on Spark.

    Example: `flotilla archive run --topic orders --lake s3://bucket/lake --once`
    """
    check_lake_parts()
    from flotilla.lake.archive import ArchiveOptions, run_archive

    for name in topic:
        check_topic_name(name)
    options = ArchiveOptions(
        servers,
        topic,
        lake,
        group=group,
        batch_rows=batch_rows,
        grace_hours=_hours(grace),
        is_once=once,
        every_ms=read_duration(every, "--every"),
        schemas=read_schemas(schema, topic),
    )
    print_result(asdict(run_archive(options, note)) | {"lake": lake}, as_json=as_json)


@archive_app.command("verify")
def verify(lake: LakeAt = LAKE_DEFAULT, as_json: AsJson = False) -> None:
    """Read a whole lake back and check checksums, rows and offsets.

    Example: `flotilla archive verify --lake flotilla-lake`
    """
    check_lake_parts()
    from flotilla.lake.archive import run_here
    from flotilla.lake.lake import Lake
    from flotilla.lake.verification import verify_lake

    print_result(asdict(verify_lake(Lake(lake), run_here)), as_json=as_json)


@archive_app.command("compact")
def compact(topic: OnlyTopics = None, lake: LakeAt = LAKE_DEFAULT, as_json: AsJson = False) -> None:
    """Merge small files into large ones. Archives and readers may run meanwhile.

    Example: `flotilla archive compact --topic orders`
    """
    check_lake_parts()
    from flotilla.lake.archive import run_here
    from flotilla.lake.compaction import CompactionRules, compact
    from flotilla.lake.lake import Lake

    opened = Lake(lake)
    topics = topic or opened.topics()
    replaced = {name: compact(opened.table(name), CompactionRules(), run_here) for name in topics}
    print_result({f"replaced in {name}": count for name, count in replaced.items()}, as_json=as_json)


@archive_app.command("vacuum")
def vacuum(
    topic: OnlyTopics = None,
    lake: LakeAt = LAKE_DEFAULT,
    grace: Annotated[
        str, typer.Option("--grace", metavar="DURATION", help="Younger files stay, and files replaced since then.")
    ] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count them only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove replaced files and leftovers of killed attempts. Archives and readers may run meanwhile.

    Example: `flotilla archive vacuum --lake flotilla-lake --grace 48h`
    """
    check_lake_parts()
    from flotilla.lake.lake import Lake
    from flotilla.lake.vacuum import removable, vacuum

    opened, work = Lake(lake), removable if dry_run else vacuum
    removed = {name: len(work(opened.table(name), _hours(grace))) for name in topic or opened.topics()}
    print_result({f"removed from {name}": count for name, count in removed.items()}, as_json=as_json)


def read_schemas(given: list[str] | None, topics: Sequence[str]) -> dict[str, str]:
    """References to schemas by topic. Raises InvalidArgumentError."""
    from flotilla.lake.schema_topic import read_reference

    found = read_pairs(given or [], "--schema")
    for topic, reference in found.items():
        read_reference(reference)
        if topic not in topics:
            raise InvalidArgumentError(f"--schema names topic {topic!r}, which is not archived")
    return found


def check_lake_parts() -> None:
    """Raises UnsupportedError when the extra is not installed."""
    if any(find_spec(name) is None for name in ("deltalake", "pyarrow", "numpy", "fastavro")):
        raise UnsupportedError('deltalake is not installed: pip install "flotilla-mq[lake]"')


def print_result(result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        print_table(("what", "value"), [(name.replace("_", " "), str(value)) for name, value in result.items()])


def _hours(text: str) -> int:
    """A duration in hours, rounded up."""
    return -(-read_duration(text, "--grace") // _HOUR_MS)
