"""The progress of a streaming query as committed offsets of a group, and so its lag.

Spark notifies a source that a micro-batch is done only when it plans the next one, so a query that ends never commits
its last one. A listener hears of every micro-batch when it is done. It finds the group and the servers in the latest
offsets that the source reports, under names that no topic can have; so it knows nothing of the query and works with a
remote session. Spark stores the latest offsets nowhere: a checkpoint has offsets only, and servers may move.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

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
from flotilla.lake.offset_range import Position, from_json
from flotilla.security.client_tls import read_tls, tls_of_environment
from flotilla.spark.client_cache import borrowed_client
from flotilla.spark.options import Options
from flotilla.types.errors import FlotillaError

_GROUP: Final = "@group"
_SERVERS: Final = "@servers"
#: Names of files, and nothing that is in them.
_TLS: Final = "@tls"
_LOG_IN: Final = "@log-in"
_TIMEOUT_MS: Final = 10_000

_log = logging.getLogger(__name__)


def with_group(position: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """The latest offsets as Spark passes them to listeners, with the group and the servers."""
    if not options.group:
        return dict(position)
    found = {**position, _GROUP: options.group, _SERVERS: ",".join(options.servers)}
    if options.tls_ca or options.tls_certificate:
        found[_TLS] = [options.tls_ca, options.tls_certificate, options.tls_key]
    if options.user or options.token_file:
        found[_LOG_IN] = [options.user, options.password_file, options.token_file]
    return found


def commit_position(client: Client, group: str, position: Position) -> None:
    """Commits a position. A group never moves back, so a repeated or late commit changes nothing."""
    commit_all(client, group, position, timeout_ms=_TIMEOUT_MS)


class ProgressListener(StreamingQueryListener):
    """Commits for each query that has a group. Errors are logged only: they must not fail the query."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is read yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        for source in event.progress.sources:
            try:
                _commit(_object(source.endOffset), _object(source.latestOffset))
            except FlotillaError as error:
                _log.warning("progress of query %s was not committed: %s", event.progress.id, error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Everything is committed already."""


def _commit(end: Mapping[str, Any], latest: Mapping[str, Any]) -> None:
    group, servers = latest.get(_GROUP), latest.get(_SERVERS)
    if isinstance(group, str) and isinstance(servers, str):
        tls = read_tls(*latest.get(_TLS, ("", "", ""))) or tls_of_environment()
        log_in = LogInFiles(*latest[_LOG_IN]) if _LOG_IN in latest else environment_log_in()
        with borrowed_client(servers.split(","), _TIMEOUT_MS, tls, log_in) as client:
            commit_position(client, group, from_json(end))


def _object(text: str | None) -> dict[str, Any]:
    """Offsets of other sources need not be JSON, nor objects."""
    try:
        found = json.loads(text or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
