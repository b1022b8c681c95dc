"""The last act of the demo: archive, query and audit with Spark.

Archives the topic as a Delta table, produces a few more messages, queries log and archive as one table, audits both
against the ledger, and counts the archive with a reader that is not Flotilla's. The lake and the report stay. Needs
Java.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from deltalake import DeltaTable

from flotilla.cli.demo.ledger import Ledger, Place
from flotilla.client.client import Client
from flotilla.lake.archive import ArchiveOptions
from flotilla.lake.lake import Lake
from flotilla.spark.pipelines.archive import archive
from flotilla.spark.pipelines.audit import AuditOptions, audit
from flotilla.spark.pipelines.plots import lines
from flotilla.spark.pipelines.query import query
from flotilla.spark.pipelines.report import Report
from flotilla.spark.pipelines.session import open_session

#: Produced after the archive, so that the query reads from both sides.
LIVE_MESSAGES = 300


@dataclass(frozen=True, slots=True)
class Evidence:
    """The result of the last act, as `--json` prints it."""

    archived: int
    queried: int
    missing: int
    doubled: int
    reordered: int
    #: Rows of the lake as a reader counts them that knows nothing of Flotilla.
    counted: int
    is_good: bool
    lake: str
    report: str


def run_act(topic: str, servers: list[str], ledger: Ledger, report: Callable[[str], None]) -> Evidence:
    """Blocks until everything is done. The cluster must be running."""
    folder = Path(mkdtemp(prefix="flotilla-lake-"))
    report("starting Spark for the last act")
    with open_session("demo", is_brief=True) as spark:
        return _Act(spark, topic, ",".join(servers), ledger, folder, report).run()


class _Act:
    def __init__(
        self,
        spark: Any,
        topic: str,
        servers: str,
        ledger: Ledger,
        folder: Path,
        report: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._topic = topic
        self._servers = servers
        self._ledger = ledger
        self._folder = folder
        self._lake = str(folder / "lake")
        self._report = report

    def run(self) -> Evidence:
        archived = self._archive()
        self._produce()
        rows = self._query(f"SELECT partition, count(*), max(offset) FROM flotilla.{self._topic} GROUP BY 1 ORDER BY 1")
        queried = sum(count for _, count, _ in rows)
        self._report(f"SQL over log and archive as one table: {queried:,} messages in {len(rows)} partitions")
        self._write_ledger()
        options = AuditOptions(
            self._servers, str(self._folder / "ledger.jsonl"), str(self._folder / "audit"), self._lake
        )
        found = audit(self._spark, options)
        self._report(
            f"audit of {found.acknowledged:,} acknowledged messages against log and archive: "
            f"{found.counts['missing']} missing, {found.counts['doubled']} doubled"
        )
        counted = self._count_elsewhere()
        page = self._write_report(found.counts, archived, queried)
        self._report(f"the lake is in {self._lake}, the report is {page}")
        return Evidence(
            archived=archived,
            queried=queried,
            missing=found.counts["missing"],
            doubled=found.counts["doubled"],
            reordered=found.counts["reordered"],
            counted=counted,
            is_good=found.is_good and queried >= found.acknowledged and counted == archived,
            lake=self._lake,
            report=str(page),
        )

    def _archive(self) -> int:
        options = ArchiveOptions(self._servers, [self._topic], self._lake)
        done = archive(self._spark, options, str(self._folder / "checkpoint"))
        self._report(f"archived {done.rows:,} messages in {done.files} Parquet files, each read back and verified")
        return done.rows

    def _count_elsewhere(self) -> int:
        address = Lake(self._lake).table(self._topic).address
        try:
            import polars

            count, reader = int(polars.scan_delta(address).select(polars.len()).collect().item()), "Polars"
        except ImportError:
            # What `deltalake` itself reads; pandas is a part of the extra.
            count, reader = len(DeltaTable(address).to_pandas(columns=["offset"])), "pandas"
        self._report(f"{reader} opens the lake as a Delta table and counts {count:,} messages")
        return count

    def _produce(self) -> None:
        with Client(self._servers) as client:
            numbers = [self._ledger.next_number() for _ in range(LIVE_MESSAGES)]
            receipts = client.produce_many(self._topic, [b"%d" % number for number in numbers])
        for number, receipt in zip(numbers, receipts, strict=True):
            self._ledger.note_acknowledged(number, Place(receipt.partition, receipt.offset))
        self._report(f"{LIVE_MESSAGES} more messages are produced, into the log only")

    def _query(self, sql: str) -> list[Any]:
        return [tuple(row) for row in query(self._spark, sql, servers=self._servers, lake=self._lake).collect()]

    def _write_ledger(self) -> None:
        with (self._folder / "ledger.jsonl").open("w") as file:
            for number, place in self._ledger.acknowledged.items():
                line = {
                    "topic": self._topic,
                    "partition": place.partition,
                    "offset": place.offset,
                    "digest": sha256(b"%d" % number).hexdigest(),
                    # One sender for each partition, with growing numbers.
                    "producer": "demo",
                    "sequence": number,
                }
                print(json.dumps(line), file=file)

    def _write_report(self, counts: dict[str, int], archived: int, queried: int) -> Path:
        rows = self._query(
            f"SELECT date_trunc('SECOND', timestamp) AS second, partition, count(*) FROM flotilla.{self._topic} "
            "GROUP BY 1, 2 ORDER BY 1, 2"
        )
        seconds = sorted({second for second, _, _ in rows})
        partitions = sorted({partition for _, partition, _ in rows})
        table = {(second, partition): float(count) for second, partition, count in rows}
        report = Report("The demo", "messages in log and archive after a leader was killed")
        report.numbers(
            [
                ("acknowledged", len(self._ledger.acknowledged)),
                ("in the archive", archived),
                ("in log and archive", queried),
                *((name, counts[name]) for name in ("missing", "doubled", "reordered")),
            ]
        )
        report.heading("Messages of each second, by partition")
        names = [f"partition {partition}" for partition in partitions]
        values = [[table.get((second, partition), 0.0) for second in seconds] for partition in partitions]
        report.picture(lines([f"{second:%H:%M:%S}" for second in seconds], list(zip(names, values, strict=True))))
        return report.write(self._folder / "report.html")
