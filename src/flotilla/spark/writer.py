"""The writers of rows into topics, as a table or as a stream: tasks stage rows, and the driver commits them together.

Every attempt of a task stages under its own transaction ids and reports them to the driver. The driver commits those of
the successful attempts by one decision, under the query's id and the number of the micro-batch. So rows of a failed
attempt never become visible, and a micro-batch that runs again after its commit is dropped as a whole, however its rows
are divided among tasks. The cluster aborts undecided transactions after a quarter of an hour.

Two weaker guarantees cost less. `idempotent`: every task writes directly, under a producer id derived from query,
micro-batch and task; exact if a repetition has the same rows in the same tasks. `atLeastOnce`: every task writes
directly.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from secrets import token_hex
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from flotilla.spark.client_cache import borrowed_client
from flotilla.spark.gc_tuning import spare_collections
from flotilla.spark.options import AT_LEAST_ONCE, TRANSACTIONAL, Options
from flotilla.spark.task_writer import TaskWriter
from flotilla.types.errors import FlotillaError

#: Spark's local properties of a task of a streaming query.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
#: Short, because an undecided transaction expires by itself.
_ABORT_MS: Final = 5_000

Members = dict[str, list[tuple[str, int]]]


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """The report of a task."""

    #: Ids of transactions with the partitions in which each has staged rows; empty if rows are written directly.
    members: Members
    query_id: str = ""


class FlotillaWriter(DataSourceArrowWriter):
    """One batch write. Created once by the driver; tasks and the commit have copies."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._job = token_hex(8)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        options = self._options
        name = f"{options.application_id}/{options.version}" if options.application_id else self._job
        return TaskWritten(_write(iterator, options, name))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._options.delivery_guarantee == TRANSACTIONAL:
            application_id, version = self._options.application_id, self._options.version or 0
            _commit(self._options, _members(messages), application_id, version)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _abort(self._options, _members(messages))


class FlotillaStreamWriter(DataSourceStreamArrowWriter):
    """The writes of a streaming query. Spark creates a new one for every commit, so all state is in the messages."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query_id = context.getLocalProperty(_QUERY_ID)
        batch_id = context.getLocalProperty(_BATCH_ID)
        assert query_id is not None
        assert batch_id is not None
        return TaskWritten(_write(iterator, self._options, f"{query_id}/{batch_id}"), query_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        queries = [each.query_id for each in messages if isinstance(each, TaskWritten)]
        if self._options.delivery_guarantee == TRANSACTIONAL and queries:
            _commit(self._options, _members(messages), f"spark/{queries[0]}", batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        _abort(self._options, _members(messages))


def _write(iterator: Iterator[pa.RecordBatch], options: Options, work: str) -> Members:
    """Writes rows in a task. `work` is the name that all tasks of a micro-batch or job share."""
    context = TaskContext.get()
    assert context is not None
    task = context.partitionId()
    if options.delivery_guarantee == AT_LEAST_ONCE:
        work = token_hex(8)
    digest = blake2b(f"{work}/{task}".encode(), digest_size=8).digest()
    # Brokers assign ids of the upper half.
    producer_id = int.from_bytes(digest, "little") >> 1 or 1
    with borrowed_client(options.servers, options.timeout_ms, options.tls, options.log_in) as client:
        writer = TaskWriter(client, options, producer_id, task)
        try:
            for batch in iterator:
                writer.add(batch)
            members = writer.finish()
        except BaseException:
            _abort(options, writer.members)
            raise
    spare_collections()
    return members


def _members(messages: Sequence[WriterCommitMessage | None]) -> Members:
    found: Members = {}
    for message in messages:
        if isinstance(message, TaskWritten):
            found.update(message.members)
    return found


def _commit(options: Options, members: Members, application_id: str, version: int) -> None:
    """Commits on the driver. A micro-batch without rows is committed too, to record its number."""
    with borrowed_client(options.servers, options.timeout_ms, options.tls, options.log_in) as client:
        client.commit_transaction(
            f"spark-{token_hex(12)}", members=members, application_id=application_id, version=version
        )


def _abort(options: Options, members: Members) -> None:
    """Best effort: an earlier commit stands, and undecided transactions expire."""
    if not members:
        return
    with suppress(FlotillaError), borrowed_client(options.servers, _ABORT_MS, options.tls, options.log_in) as client:
        for transaction_id, partitions in members.items():
            client.abort_transaction(transaction_id, partitions=partitions)
