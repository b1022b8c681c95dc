"""The run of a pipeline's streaming query: to the present end of its topics, or for ever; with progress and errors."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flotilla.lake.archive import ReportProgress
from flotilla.lake.store import Store
from flotilla.types.errors import ALL_ERRORS, FlotillaError, NotLeaderError, UnavailableError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_POLL_S: Final = 1
#: Spark waits 10 s for the process that plans a Python source, which is too short on a busy machine. Nothing has
#: happened by then, so the query is started again.
_NOT_CONNECTED: Final = "Python worker failed to connect back"
_STARTS: Final = 10
#: The last line of a traceback.
_RAISED: Final = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Warning)): (.+)")
_JAVA: Final = ("org.", "java.", "py4j.")
#: Flotilla's errors by name, without those that take more than a text.
_OURS: Final = {error.__name__: error for error in ALL_ERRORS if error is not NotLeaderError}


@dataclass(frozen=True, slots=True)
class RunOptions:
    #: Spark's checkpoint.
    checkpoint: str
    #: Ends when everything that existed at the start is processed.
    is_once: bool = True
    #: The interval between micro-batches of a continuous query.
    every: str = "5 seconds"


def run_query(writer: "DataStreamWriter", options: RunOptions, report: ReportProgress) -> None:
    """Runs a query to its end. An interrupt stops it in order. Raises its error."""
    # Absolute, because the JVM may have another working directory.
    writer = writer.option("checkpointLocation", Store(options.checkpoint).address)
    if options.is_once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=options.every)
    for start in range(1, _STARTS + 1):
        query = writer.start()
        try:
            _watch(query, report)
            return
        except KeyboardInterrupt:
            report("stopping after this batch")
            query.stop()
            return
        except UnavailableError as error:
            query.stop()
            if _NOT_CONNECTED not in str(error) or start == _STARTS:
                raise
            report("Spark's Python planner did not start in time; starting the query again")
        except BaseException:
            query.stop()
            raise


def _watch(query: "StreamingQuery", report: ReportProgress) -> None:
    from pyspark.errors import StreamingQueryException

    reported = -1
    while True:
        try:
            is_over = query.awaitTermination(_POLL_S)
        except StreamingQueryException as error:
            raise typed_error(error) from error
        progress = query.lastProgress
        if progress is not None and progress.batchId != reported:
            reported = progress.batchId
            report(_shown(progress))
        if is_over:
            return


def _shown(progress: Any) -> str:
    took_ms = progress.durationMs.get("triggerExecution", 0)
    return f"{progress.name or 'query'}: batch {progress.batchId} took {took_ms:,} ms"


def typed_error(error: BaseException) -> FlotillaError:
    """An error of Spark as one of Flotilla: the one that a task or a batch raised, if any."""
    lines = [line.strip() for line in str(error).splitlines()]
    raised = [found for line in lines if (found := _RAISED.match(line)) and not found[1].startswith(_JAVA)]
    # Flotilla's errors say more than their wrappers; the last one is the innermost.
    for found in reversed(raised):
        if found[1].startswith("flotilla."):
            return _OURS.get(found[1].rpartition(".")[2], UnavailableError)(found[2])
    if raised:
        return UnavailableError(raised[-1][2])
    return UnavailableError(next((line for line in lines if line), type(error).__name__))
