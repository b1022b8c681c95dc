"""`flotilla pipeline`: data pipelines on Spark, each a verb.

Reads arguments and prints results. The pipelines are in `flotilla.spark.pipelines`, which is loaded when a verb runs,
so that `--help` needs neither Spark nor Java.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial, wraps
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from flotilla.cli.pipelines.archive import LAKE_DEFAULT, LakeAt, Schemas, check_lake_parts, print_result, read_schemas
from flotilla.cli.terminal.arguments import complete_groups, complete_topics
from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.output import age, ago, console, note, print_json, print_table
from flotilla.cli.terminal.servers import DEFAULT_SERVERS, AsJson, Cluster, Servers, read_duration, takes_cluster
from flotilla.cli.terminal.start_point import now_ms, read_time
from flotilla.types.limits import MIB
from flotilla.types.operations.pipelines import Pipeline
from flotilla.types.topics import check_topic_name

pipeline_app = typer.Typer(
    name="pipeline",
    help="Data pipelines on Spark: list, archive, query, replay, triage, measure, audit.",
    no_args_is_help=True,
)

#: The folder of checkpoints.
FOLDER_DEFAULT = "flotilla-pipelines"
MASTER_DEFAULT = "local[*]"
_ROWS_SHOWN = 1_000

Topics: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="TOPIC...", show_default=False, autocompletion=complete_topics)
]
Topic: TypeAlias = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, autocompletion=complete_topics)]
Master: TypeAlias = Annotated[str, typer.Option("--master", metavar="URL", help="Where Spark runs.")]
Checkpoint: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="PATH",
        help="The folder of its progress; the next run with it continues there.",
        show_default=f"below {FOLDER_DEFAULT}",
    ),
]
Once: TypeAlias = Annotated[bool, typer.Option("--once", help="Stop at the present end of the topics.")]
Every: TypeAlias = Annotated[
    str, typer.Option("--every", metavar="DURATION", help="Interval between micro-batches, without --once.")
]
ReportAt: TypeAlias = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write an HTML page with plots.", show_default=False)
]
Rate: TypeAlias = Annotated[
    float | None, typer.Option("--rate", metavar="PER_SECOND", help="Maximum rate.", show_default=False)
]
Since: TypeAlias = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="Rows from this time on: how long ago (2h), or a time."),
]
Until: TypeAlias = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Rows before this time.")]


def _pipeline(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a verb that raises UnsupportedError first when Spark or Java is not installed."""

    def register(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def checked(**options: Any) -> None:
            from flotilla.spark.pipelines.session import check_parts

            check_parts()
            command(**options)

        return pipeline_app.command(name)(checked)

    return register


@pipeline_app.command("list")
@takes_cluster
def list_pipelines(cluster: Cluster, as_json: AsJson = False) -> None:
    """List archives and streaming queries that report their progress: how far behind they are, and their lakes.

    Example: `flotilla pipeline list`
    """
    with cluster.connect() as client:
        found = client.admin.pipelines()
    if as_json:
        print_json([asdict(each) for each in found])
    elif not found:
        note(
            "no pipeline reports its progress; `flotilla archive run` does, and a streaming query of Spark after "
            "`import flotilla.spark`"
        )
    else:
        shown = ("pipeline", "topics", "group", "behind", "per second", "batch", "last batch", "lake", "verified")
        print_table(
            (*shown, "reported"),
            [
                (
                    each.name or each.id,
                    " ".join(each.topics),
                    each.group or "-",
                    each.records_behind,
                    each.records_per_second,
                    each.batch,
                    f"{each.batch_records} in {age(each.batch_ms)}",
                    f"{each.lake_bytes / MIB:,.1f} MiB" if each.lake else "-",
                    _verified(each),
                    ago(max(now_ms() - each.reported_ms, 0)),
                )
                for each in found
            ],
        )


def _verified(pipeline: Pipeline) -> str:
    if not pipeline.lake:
        return "-"
    return ago(max(now_ms() - pipeline.lake_verified_ms, 0)) if pipeline.lake_verified_ms else "never"


@_pipeline("archive")
def archive(
    topics: Topics,
    lake: LakeAt = LAKE_DEFAULT,
    group: Annotated[
        str,
        typer.Option("--group", "-g", help="The group whose offset holds retention.", autocompletion=complete_groups),
    ] = "archive",
    batch_rows: Annotated[int, typer.Option("--batch-rows", min=1, help="Rows of one micro-batch.")] = 2_000_000,
    once: Once = False,
    every: Every = "30s",
    schema: Schemas = None,
    checkpoint: Checkpoint = None,
    master: Master = MASTER_DEFAULT,
    as_json: AsJson = False,
    servers: Servers = DEFAULT_SERVERS,
) -> None:
    """Copy topics into a lake of Delta tables with Spark, each record once.

    Retention keeps records in the log until their files in the lake were read back. `flotilla archive run` does the
    same in one process without Spark.

    Example: `flotilla pipeline archive orders --lake s3://bucket/lake --once`
    """
    from flotilla.lake.archive import ArchiveOptions
    from flotilla.spark.pipelines.archive import archive

    _check_topics(topics)
    every_ms = read_duration(every, "--every")
    options = ArchiveOptions(
        servers,
        topics,
        lake,
        group=group,
        batch_rows=batch_rows,
        is_once=once,
        every_ms=every_ms,
        schemas=read_schemas(schema, topics),
    )
    with _session("archive", master) as (spark, progress):
        done = archive(spark, options, _checkpoint(checkpoint, "archive", *topics), progress)
    print_result(asdict(done) | {"lake": lake}, as_json=as_json)


@_pipeline("verify")
def verify(lake: LakeAt = LAKE_DEFAULT, master: Master = MASTER_DEFAULT, as_json: AsJson = False) -> None:
    """Read a whole lake back with Spark and check checksums, rows and offsets.

    Example: `flotilla pipeline verify --lake flotilla-lake`
    """
    from flotilla.lake.lake import Lake
    from flotilla.lake.verification import verify_lake
    from flotilla.spark.pipelines.executor_jobs import run_executor_jobs

    with _session("verify", master) as (spark, _):
        done = verify_lake(Lake(lake), partial(run_executor_jobs, spark))
    print_result(asdict(done), as_json=as_json)


@pipeline_app.command("migrate-lake")
def migrate(lake: LakeAt = LAKE_DEFAULT, as_json: AsJson = False) -> None:
    """Take over a lake of the format before Delta, with its files as they are. No archive may run meanwhile.

    Example: `flotilla pipeline migrate-lake --lake flotilla-lake`
    """
    check_lake_parts()
    from flotilla.lake.migration import migrate_lake

    print_result(asdict(migrate_lake(lake, note)), as_json=as_json)


@_pipeline("query")
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="Topics are flotilla.<topic>.", show_default=False)],
    lake: Annotated[
        str | None, typer.Option("--lake", metavar="PATH", help="An archive; default: the log alone.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of rows.")] = _ROWS_SHOWN,
    master: Master = MASTER_DEFAULT,
    as_json: AsJson = False,
    servers: Servers = DEFAULT_SERVERS,
) -> None:
    """Run Spark SQL over topics, each one table of its archive and its live log.

    Example: `flotilla pipeline query 'SELECT count(*) FROM flotilla.orders'`
    """
    from flotilla.spark.pipelines.query import first_rows, query

    with _session("query", master) as (spark, progress):
        progress("running the query")
        found = query(spark, sql, servers=servers, lake=lake)
        rows, columns = first_rows(found, limit + 1), found.columns
    shown = [tuple(_plain(value) for value in row) for row in rows[:limit]]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in shown])
    else:
        print_table(columns, shown)
    if len(rows) > limit:
        note(f"there are more rows than {limit}; --limit shows more")


@_pipeline("replay")
def replay(
    topic: Topic,
    into: Annotated[
        str, typer.Option("--into", metavar="TOPIC", help="The target topic.", autocompletion=complete_topics)
    ] = "",
    into_group: Annotated[
        str,
        typer.Option("--into-group", metavar="GROUP", help="Or a shadow group, which reads shadow.<group>.<topic>."),
    ] = "",
    lake: Annotated[
        str | None, typer.Option("--lake", metavar="PATH", help="An archive; default: the log alone.")
    ] = None,
    since: Since = None,
    until: Until = None,
    first_offset: Annotated[int | None, typer.Option("--first-offset", min=0, help="First offset.")] = None,
    end_offset: Annotated[
        int | None, typer.Option("--end-offset", min=0, help="End offset, which is not sent.")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition; repeatable.")
    ] = None,
    where: Annotated[
        str, typer.Option("--where", metavar="SQL", help="Only rows for which this condition holds.")
    ] = "",
    rate: Rate = None,
    checkpoint: Checkpoint = None,
    master: Master = MASTER_DEFAULT,
    as_json: AsJson = False,
    servers: Servers = DEFAULT_SERVERS,
) -> None:
    """Send rows of a topic again, from the lake or the log, in order and each once.

    The next run with the same checkpoint continues with the same rows and repeats none.

    Example: `flotilla pipeline replay orders --into orders-copy --since 2h`

    A condition may use all columns of the topic, and `decoded` if the lake stores it.
    """
    from flotilla.spark.pipelines.replay import ReplayOptions, replay

    asked = (servers, topic, into, into_group, lake, since, until, first_offset, end_offset, partition)
    options = ReplayOptions(
        servers=servers,
        topic=topic,
        into_topic=into,
        into_group=into_group,
        lake=lake,
        # The same arguments are the same replay.
        checkpoint=_checkpoint(checkpoint, "replay", topic, _digest((*asked, where) if where else asked)),
        since_ms=None if since is None else read_time(since, "--since"),
        until_ms=None if until is None else read_time(until, "--until"),
        first_offset=first_offset,
        end_offset=end_offset,
        partitions=partition,
        where=where,
        rows_per_second=rate,
    )
    with _session("replay", master) as (spark, progress):
        done = replay(spark, options, progress)
    print_result(asdict(done), as_json=as_json)
    if done.lots == done.lots_before:
        note("nothing to do: this replay was finished before; another --checkpoint repeats it")


@_pipeline("dead-letters")
def dead_letters(
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="Only of this topic.", show_default=False, autocompletion=complete_topics),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Only of this group.", show_default=False, autocompletion=complete_groups),
    ] = None,
    where: Annotated[
        str, typer.Option("--where", metavar="SQL", help="Only letters for which this condition holds.")
    ] = "true",
    redrive_them: Annotated[bool, typer.Option("--redrive", help="Redrive exactly these, each once.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also those that were redriven too often.")] = False,
    rate: Rate = None,
    report: ReportAt = None,
    checkpoint: Checkpoint = None,
    master: Master = MASTER_DEFAULT,
    as_json: AsJson = False,
    servers: Servers = DEFAULT_SERVERS,
) -> None:
    """Group dead letters by reason, show samples, and redrive some of them.

    Example: `flotilla pipeline dead-letters --where "attempts > 3" --redrive`

    A condition may use topic, group, reason, fingerprint, shape, attempts, died_at, produced_at, redriven, key, value
    and the places partition, offset, dlq, dlq_partition and dlq_offset.
    """
    from flotilla.spark.pipelines.condition import chosen_rows
    from flotilla.spark.pipelines.dead_letters import letters_table, triage, write_report
    from flotilla.spark.pipelines.redrive import RedriveOptions, redrive

    with _session("dead-letters", master) as (spark, progress):
        progress("reading dead letters")
        letters = chosen_rows(letters_table(spark, servers=servers, topic=topic, group=group), where)
        found = triage(letters)
        if report is not None:
            write_report(found, report)
        sent = None
        if redrive_them:
            options = RedriveOptions(servers, _checkpoint(checkpoint, "dead-letters"), rate, force)
            sent = redrive(spark, letters, options, progress)
    if as_json:
        print_json(asdict(found) | {"redriven": asdict(sent) if sent is not None else None})
        return
    columns = ("fingerprint", "letters", "topic", "group", "last", "reason")
    print_table(
        columns,
        [(each.fingerprint, each.count, each.topic, each.group, each.last_died, each.shape) for each in found.groups],
    )
    note(f"{found.letters:,} dead letters in {len(found.groups):,} groups")
    if sent is not None:
        typer.echo(f"{sent.sent + sent.finished} redriven")
    if report is not None:
        note(f"the report is in {report}")


@_pipeline("rollup")
def rollup(
    topics: Topics,
    out: Annotated[str, typer.Option("--out", metavar="PATH", help="The folder for windows, as Parquet.")] = (
        f"{FOLDER_DEFAULT}/rollup-windows"
    ),
    into: Annotated[
        str,
        typer.Option(
            "--into", metavar="TOPIC", help="Also send windows to this topic.", autocompletion=complete_topics
        ),
    ] = "",
    window: Annotated[str, typer.Option("--window", metavar="DURATION", help="Length of a window.")] = "1m",
    late: Annotated[str, typer.Option("--late", metavar="DURATION", help="How late a record may arrive.")] = "1m",
    latency_header: Annotated[
        str,
        typer.Option(
            "--latency-header",
            metavar="NAME",
            help="Latency starts at the time in this header, in ms since 1970; default: at the record's timestamp.",
        ),
    ] = "",
    top_keys: Annotated[int, typer.Option("--top-keys", min=1, max=100, help="Most frequent keys of each window.")] = 5,
    report: ReportAt = None,
    once: Once = False,
    every: Every = "10s",
    checkpoint: Checkpoint = None,
    master: Master = MASTER_DEFAULT,
    as_json: AsJson = False,
    servers: Servers = DEFAULT_SERVERS,
) -> None:
    """Count messages, bytes, latencies and keys of topics by window.

    A window is written once, when no more of its records are expected.

    Example: `flotilla pipeline rollup orders --window 5m --report rollup.html --once`
    """
    from flotilla.spark.pipelines.rollup import RollupOptions, rollup, write_report
    from flotilla.spark.pipelines.streaming_run import RunOptions

    _check_topics(topics)
    options = RollupOptions(
        servers=servers,
        topics=topics,
        out=out,
        run=RunOptions(_checkpoint(checkpoint, "rollup", *topics), once, _seconds(every)),
        window=_seconds(window),
        late=_seconds(late),
        into_topic=into,
        latency_header=latency_header,
        top_keys=top_keys,
    )
    with _session("rollup", master) as (spark, progress):
        done = rollup(spark, options, progress)
        if report is not None:
            write_report(spark, options, report)
    print_result(asdict(done) | {"out": out}, as_json=as_json)


@_pipeline("audit")
def audit(
    ledger: Annotated[
        str, typer.Argument(metavar="LEDGER", help="Acknowledged records: JSON lines or Parquet.", show_default=False)
    ],
    consumed: Annotated[
        str | None, typer.Option("--consumed", metavar="LEDGER", help="Records that consumers have handled.")
    ] = None,
    lake: Annotated[str | None, typer.Option("--lake", metavar="PATH", help="An archive to audit too.")] = None,
    out: Annotated[
        str, typer.Option("--out", metavar="PATH", help="The folder for findings.")
    ] = f"{FOLDER_DEFAULT}/audit",
    master: Master = MASTER_DEFAULT,
    as_json: AsJson = False,
    servers: Servers = DEFAULT_SERVERS,
) -> None:
    """Compare a ledger of acknowledged records with the log, a lake, and the records that consumers have handled.

    The exit code is 1 if records are missing, doubled, different or out of order; the findings list them.

    Example: `flotilla pipeline audit ledger.jsonl --lake flotilla-lake`
    """
    from flotilla.spark.pipelines.audit import AuditOptions, audit

    with _session("audit", master) as (spark, progress):
        progress("comparing")
        found = audit(spark, AuditOptions(servers, ledger, out, lake, consumed))
    counts = {"acknowledged": found.acknowledged, "in_log": found.in_log, "in_lake": found.in_lake, **found.counts}
    print_result(counts | {"findings": out, "is_good": found.is_good}, as_json=as_json)
    if not found.is_good:
        raise typer.Exit(FAILED.code)


# Shared parts.


@contextmanager
def _session(name: str, master: str) -> Iterator[tuple[Any, Callable[[str], None]]]:
    """A session, and a function that shows progress."""
    from flotilla.spark.pipelines.session import open_session

    printer = console(is_stderr=True)
    if not printer.is_terminal:
        with open_session(name, master) as spark:
            yield spark, note
        return
    with printer.status("starting Spark") as status, open_session(name, master) as spark:
        status.update(name)
        yield spark, status.update


def _plain(value: Any) -> Any:
    """A value of a row, for a table and for JSON."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _check_topics(topics: list[str]) -> None:
    for topic in topics:
        check_topic_name(topic)


def _checkpoint(given: str | None, *words: str) -> str:
    return given or f"{FOLDER_DEFAULT}/{'-'.join(words)}"


def _digest(asked: tuple[object, ...]) -> str:
    return blake2b(repr(asked).encode(), digest_size=6).hexdigest()


def _seconds(text: str) -> str:
    """A duration in Spark's notation."""
    return f"{read_duration(text, 'a duration')} milliseconds"
