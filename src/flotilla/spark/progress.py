"""The progress of streaming queries: as committed offsets of a group, and as a report of each query to the cluster.

Spark notifies a source that a micro-batch is done only when it plans the next one, so a query that ends never commits
its last one. A listener hears of every micro-batch when it is done. It finds the servers and the group in the latest
offsets that the source reports, under names that no topic can have; so it knows nothing of the query and works with a
remote session. Spark stores the latest offsets nowhere: a checkpoint has offsets only, and servers may move.

Spark gives a Python source no place for lag in its progress. So the listener reports it to the cluster, which shows it
in `/v1/pipelines`, in its metrics and in the console. The archive tells it what to add: the state of its lake.
"""

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from flotilla.client.app.environment import LogInFiles, environment_log_in
from flotilla.client.bulk.offsets import commit_all
from flotilla.client.client import Client
from flotilla.lake.backlog import bytes_behind, records_behind
from flotilla.lake.offset_range import Position, from_json
from flotilla.security.client_tls import Tls, read_tls, tls_of_environment
from flotilla.spark.client_cache import borrowed_client
from flotilla.spark.options import Options
from flotilla.types.errors import FlotillaError
from flotilla.types.limits import PIPELINE_TOPICS_MAX
from flotilla.types.operations.pipelines import TEXT_CHARACTERS_MAX, Pipeline

_GROUP: Final = "@group"
_SERVERS: Final = "@servers"
#: Names of files, and nothing that is in them.
_TLS: Final = "@tls"
_LOG_IN: Final = "@log-in"
_TIMEOUT_MS: Final = 10_000

#: Adds the state of a lake to a report. Raises OSError.
AddLake: TypeAlias = Callable[[Pipeline], Pipeline]
#: By the session, and the name of the query, which no other one of that session has while it runs.
_lakes: dict[tuple[str, str], AddLake] = {}

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


@contextmanager
def reporting_lake(session: str, query: str, add: AddLake) -> Iterator[None]:
    """Reports of the query of this name in a session have the state of the lake that it writes."""
    name = session, query[:TEXT_CHARACTERS_MAX]
    _lakes[name] = add
    try:
        yield
    finally:
        _lakes.pop(name, None)


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

    def __init__(self, session: str) -> None:
        """`session` is the id of the one whose queries it hears of."""
        super().__init__()
        self._session = session
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
        behind = records_behind(end, from_json(latest))
        pipeline = Pipeline(
            str(progress.id),
            (progress.name or "")[:TEXT_CHARACTERS_MAX],
            sorted({topic for topic, _ in behind})[:PIPELINE_TOPICS_MAX],
            group,
            sum(behind.values()),
            bytes_behind(client, end, behind, timeout_ms=_TIMEOUT_MS),
            _whole(progress.processedRowsPerSecond),
            progress.batchId,
            progress.numInputRows,
            progress.durationMs.get("triggerExecution", 0),
        )
        if pipeline.topics:
            pipeline = self._with_lake(pipeline)
            client.admin.report_pipeline(pipeline)
            self._reported[pipeline.id, cluster] = pipeline

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing was read, because there is nothing: the query is not behind, and alive."""
        for (query, cluster), pipeline in list(self._reported.items()):
            if query == str(event.id):
                still = replace(pipeline, records_behind=0, bytes_behind=0, records_per_second=0, batch_records=0)
                self._repeat(cluster, self._with_lake(still), is_over=False)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Everything is committed already. A query that failed is not over: it is silent, which raises an alert."""
        for query, cluster in list(self._reported):
            if query == str(event.id):
                pipeline = self._reported.pop((query, cluster))
                if event.exception is None:
                    self._repeat(cluster, pipeline, is_over=True)

    def _repeat(self, cluster: _Cluster, pipeline: Pipeline, *, is_over: bool) -> None:
        try:
            cluster.report(pipeline, is_over=is_over)
        except FlotillaError as error:
            _log.warning("the state of query %s was not reported: %s", pipeline.id, error)

    def _with_lake(self, pipeline: Pipeline) -> Pipeline:
        add = _lakes.get((self._session, pipeline.name))
        if add is None:
            return pipeline
        try:
            return add(pipeline)
        except OSError as error:
            _log.warning("the lake of query %s cannot be read: %s", pipeline.id, error)
            return pipeline


def _whole(rate: float | None) -> int:
    return round(rate) if rate is not None and math.isfinite(rate) and rate >= 0 else 0


def _object(text: str | None) -> dict[str, Any]:
    """Offsets of other sources need not be JSON, nor objects."""
    try:
        found = json.loads(text or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
