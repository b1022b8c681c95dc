"""The reports of archives to the cluster, which shows them among its pipelines.

`LakeReport` knows the state of the tables that an archive writes; both kinds of archives report it. The sizes come from
the log of each table, which the archive follows anyway, so no file is looked at. `ArchivePipeline` is the pipeline that
an archive without Spark reports; Spark's own listener reports the query of the other (`flotilla.spark.progress`).
"""

import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from flotilla.client.client import Client
from flotilla.lake.backlog import bytes_behind, records_behind
from flotilla.lake.lake import Lake
from flotilla.lake.offset_range import Position
from flotilla.lake.table import TopicTable
from flotilla.lake.verification import last_verified_ms
from flotilla.types.errors import FlotillaError
from flotilla.types.limits import PIPELINE_TOPICS_MAX
from flotilla.types.operations.pipelines import LAKE_CHARACTERS_MAX, TEXT_CHARACTERS_MAX, Pipeline

#: The archive waits for its report.
_TIMEOUT_MS: Final = 5_000
#: A key and its secret, which an address of S3 may have in front.
_SECRET: Final = re.compile(r"://[^/@]*:[^/@]*@")

_log = logging.getLogger(__name__)


def archive_name(topics: Sequence[str]) -> str:
    return f"archive {', '.join(topics)}"


class LakeReport:
    """The state of the tables of some topics."""

    def __init__(self, lake: Lake, tables: Mapping[str, TopicTable], group: str) -> None:
        """`group` is the one in which the archive commits its progress."""
        self.address = _SECRET.sub("://", lake.address)[:LAKE_CHARACTERS_MAX]
        self._tables = tables
        self._group = group

    def added_to(self, pipeline: Pipeline) -> Pipeline:
        """The report of a pipeline that writes this lake; any thread may ask. Raises OSError.

        Sizes are as of the archive's last look at the logs; the marks of verifications are read.
        """
        contents = [table.content for table in self._tables.values()]
        return replace(
            pipeline,
            group=self._group,
            lake=self.address,
            lake_bytes=sum(each.size_bytes for each in contents),
            lake_rows=sum(each.rows for each in contents),
            lake_files=sum(each.files for each in contents),
            lake_verified_ms=min(last_verified_ms(table) for table in self._tables.values()),
        )


class ArchivePipeline:
    """Reports an archive in this process, once a round. Errors are logged only: they must not fail the archive."""

    def __init__(self, client: Client, lake: LakeReport, topics: Sequence[str], group: str) -> None:
        self._client = client
        self._lake = lake
        # The same after a restart.
        known_by = "\n".join((lake.address, group, *sorted(topics)))
        self._pipeline = Pipeline(
            f"archive-{blake2b(known_by.encode(), digest_size=8).hexdigest()}",
            archive_name(topics)[:TEXT_CHARACTERS_MAX],
            sorted(topics)[:PIPELINE_TOPICS_MAX],
        )
        self._began_s = 0.0

    def planned(self, position: Position, latest: Position) -> None:
        """Reports the last batch. The next one begins: the archive has come this far, and the log that far."""
        behind = records_behind(position, latest)
        self._pipeline.records_behind = sum(behind.values())
        try:
            self._pipeline.bytes_behind = bytes_behind(self._client, position, behind, timeout_ms=_TIMEOUT_MS)
            reported = self._lake.added_to(self._pipeline)
            self._client.admin.report_pipeline(reported, timeout_ms=_TIMEOUT_MS)
        except (FlotillaError, OSError) as error:
            _log.warning("the progress of the archive was not reported: %s", error)
        # Unless there is a next batch.
        self._pipeline.records_per_second = 0
        self._began_s = time.monotonic()

    def batch_done(self, rows: int) -> None:
        took_ms = max(round((time.monotonic() - self._began_s) * 1_000), 1)
        self._pipeline.batch += 1
        self._pipeline.batch_records, self._pipeline.batch_ms = rows, took_ms
        self._pipeline.records_per_second = rows * 1_000 // took_ms

    def over(self) -> None:
        try:
            self._client.admin.report_pipeline(self._pipeline, is_over=True, timeout_ms=_TIMEOUT_MS)
        except FlotillaError as error:
            _log.warning("the end of the archive was not reported: %s", error)
