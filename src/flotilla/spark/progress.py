"""The progress of streaming queries: as committed offsets of a group, and as a report of each query to the cluster.

Spark notifies a source that a micro-batch is done only when it plans the next one, so a query that ends never commits
its last one. A listener hears of every micro-batch when it is done. It finds the servers and the group in the latest
offsets that the source reports, under names that no topic can have; so it knows nothing of the query and works with a
remote session. Spark stores the latest offsets nowhere: a checkpoint has offsets only, and servers may move.

Spark gives a Python source no place for lag in its progress. So the listener reports it to the cluster, which shows it
in `/v1/pipelines`, in its metrics and in the console.
"""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from flotilla.client.app.environment import LogInFiles, environment_log_in
from flotilla.client.bulk.offsets import commit_all
from flotilla.client.bulk.stored_batches import StoredBatches
from flotilla.client.client import Client
from flotilla.codec.batch.header import parse_header
from flotilla.lake.offset_range import Position, from_json
from flotilla.security.client_tls import Tls, read_tls, tls_of_environment
from flotilla.spark.client_cache import borrowed_client
from flotilla.spark.options import Options
from flotilla.types.errors import FlotillaError
from flotilla.types.limits import PIPELINE_TOPICS_MAX
from flotilla.types.operations.pipelines import Pipeline

_GROUP: Final = "@group"
_SERVERS: Final = "@servers"
#: Names of files, and nothing that is in them.
_TLS: Final = "@tls"
_LOG_IN: Final = "@log-in"
_TIMEOUT_MS: Final = 10_000
#: Partitions whose next record is measured, to estimate bytes; those with the longest backlog.
_MEASURED_MAX: Final = 8
_NAME_CHARACTERS_MAX: Final = 200

_log = logging.getLogger(__name__)


def with_servers(position: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """The latest offsets as Spark passes them to listeners, with the servers and the group."""
    found = {**position, _SERVERS: ",".join(options.servers)}
    if options.group:
        found[_GROUP] = options.group
    if options.tls_ca or options.tls_certificate:
        found[_TLS] = [options.tls_ca, options.tls_certificate, options.tls_key]
    if options.user or options.token_file:
        found[_LOG_IN] = [options.user, options.password_file, options.token_file]
    return found


def commit_position(client: Client, group: str, position: Position) -> None:
    """Commits a position. A group never moves back, so a repeated or late commit changes nothing."""
    commit_all(client, group, position, timeout_ms=_TIMEOUT_MS)


class _Cluster(NamedTuple):
    """Where a source reads."""

    servers: tuple[str, ...]
    tls: Tls | None
    log_in: LogInFiles

    @classmethod
    def of(cls, latest: Mapping[str, Any]) -> "_Cluster":
        tls = read_tls(*latest.get(_TLS, ("", "", ""))) or tls_of_environment()
        log_in = LogInFiles(*latest[_LOG_IN]) if _LOG_IN in latest else environment_log_in()
        return cls(tuple(latest[_SERVERS].split(",")), tls, log_in)

    def report(self, pipeline: Pipeline, *, is_over: bool = False) -> None:
        with borrowed_client(self.servers, _TIMEOUT_MS, self.tls, self.log_in) as client:
            client.admin.report_pipeline(pipeline, is_over=is_over)


class ProgressListener(StreamingQueryListener):
    """Commits for each query that has a group, and reports all. Errors are logged only: they must not fail a query."""

    def __init__(self) -> None:
        super().__init__()
        #: The last report of each running query, by its id and cluster.
        self._reported: dict[tuple[str, _Cluster], Pipeline] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is read yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        for source in event.progress.sources:
            latest = _object(source.latestOffset)
            if not isinstance(latest.get(_SERVERS), str):
                continue
            try:
                cluster = _Cluster.of(latest)
                with borrowed_client(cluster.servers, _TIMEOUT_MS, cluster.tls, cluster.log_in) as client:
                    self._take(event.progress, cluster, client, from_json(_object(source.endOffset)), latest)
            except FlotillaError as error:
                _log.warning("progress of query %s was not reported: %s", event.progress.id, error)

    def _take(self, progress: Any, cluster: _Cluster, client: Client, end: Position, latest: Mapping[str, Any]) -> None:
        group = str(latest.get(_GROUP, ""))
        if group:
            commit_position(client, group, end)
        behind = {place: max(offset - end.get(place, 0), 0) for place, offset in from_json(latest).items()}
        pipeline = Pipeline(
            str(progress.id),
            (progress.name or "")[:_NAME_CHARACTERS_MAX],
            sorted({topic for topic, _ in behind})[:PIPELINE_TOPICS_MAX],
            group,
            sum(behind.values()),
            bytes_behind(client, end, behind),
            _whole(progress.processedRowsPerSecond),
            progress.batchId,
            progress.numInputRows,
            progress.durationMs.get("triggerExecution", 0),
        )
        if pipeline.topics:
            client.admin.report_pipeline(pipeline)
            self._reported[pipeline.id, cluster] = pipeline

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing was read, because there is nothing: the query is not behind, and alive."""
        for (query, cluster), pipeline in list(self._reported.items()):
            if query == str(event.id):
                still = replace(pipeline, records_behind=0, bytes_behind=0, records_per_second=0, batch_records=0)
                self._repeat(cluster, still, is_over=False)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Everything is committed already."""
        for query, cluster in list(self._reported):
            if query == str(event.id):
                self._repeat(cluster, self._reported.pop((query, cluster)), is_over=True)

    def _repeat(self, cluster: _Cluster, pipeline: Pipeline, *, is_over: bool) -> None:
        try:
            cluster.report(pipeline, is_over=is_over)
        except FlotillaError as error:
            _log.warning("the state of query %s was not reported: %s", pipeline.id, error)


def bytes_behind(client: Client, end: Position, behind: Mapping[tuple[str, int], int]) -> int:
    """An estimate by the next batch of some partitions."""
    longest = sorted((place for place in behind if behind[place]), key=lambda place: -behind[place])[:_MEASURED_MAX]
    size_bytes = records = 0
    for topic, number in longest:
        first = end.get((topic, number), 0)
        stored = StoredBatches(client, topic, number, first, first + 1, fetch_bytes=1, timeout_ms=_TIMEOUT_MS)
        try:
            header = parse_header(next(iter(stored)))
        except FlotillaError:
            # Retention was faster, or the records are in a lake.
            continue
        size_bytes += header.length
        records += header.count
    return sum(behind.values()) * size_bytes // records if records else 0


def _whole(rate: float | None) -> int:
    return round(rate) if rate is not None and math.isfinite(rate) and rate >= 0 else 0


def _object(text: str | None) -> dict[str, Any]:
    """Offsets of other sources need not be JSON, nor objects."""
    try:
        found = json.loads(text or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
