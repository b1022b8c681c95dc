"""Progress of a streaming query as that of an ordinary group: its committed offsets, and so its lag.

Spark tells a source that a micro-batch is done only when it plans the next one, so a query that ends never says that
its last one was done. A listener hears of every micro-batch when it is over. Which group is meant travels with the
position, under a name that no topic can have; so the listener needs to know nothing of the query, and it works with a
session that is elsewhere.
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

from flotilla.client.bulk.offsets import commit_all
from flotilla.client.client import Client
from flotilla.spark.client_cache import borrowed_client
from flotilla.spark.offset_range import Position, from_json
from flotilla.spark.options import Options
from flotilla.types.errors import FlotillaError

_GROUP: Final = "@group"
_SERVERS: Final = "@servers"
_TIMEOUT_MS: Final = 10_000

_log = logging.getLogger(__name__)


def with_group(position: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """A position as Spark keeps it, with what the listener has to know."""
    if not options.group:
        return dict(position)
    return {**position, _GROUP: options.group, _SERVERS: ",".join(options.servers)}


def commit_position(client: Client, group: str, position: Position) -> None:
    """Where a group goes on. It never moves back, so doing it twice or late changes nothing."""
    commit_all(client, group, position, timeout_ms=_TIMEOUT_MS)


class ProgressListener(StreamingQueryListener):
    """Commits for each query that has a group. What goes wrong is logged: it must not hurt the query."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is read yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        for source in event.progress.sources:
            try:
                _commit(source.endOffset)
            except FlotillaError as error:
                _log.warning("progress of query %s was not committed: %s", event.progress.id, error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Everything that was done has been told."""


def _commit(end_offset: str | None) -> None:
    table = _object(end_offset)
    group, servers = table.get(_GROUP), table.get(_SERVERS)
    if isinstance(group, str) and isinstance(servers, str):
        with borrowed_client(servers.split(","), _TIMEOUT_MS) as client:
            commit_position(client, group, from_json(table))


def _object(text: str | None) -> dict[str, Any]:
    """What a source of another kind calls its offset need not be JSON, nor an object."""
    try:
        found = json.loads(text or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
