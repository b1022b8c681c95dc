"""How a streaming query of a pipeline runs: to the end of what is there, or for ever; and what is told meanwhile."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from flotilla.spark.lake.store import Store
from flotilla.types.errors import ALL_ERRORS, FlotillaError, NotLeaderError, UnavailableError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

#: Told what happened, in one line.
Tell: TypeAlias = Callable[[str], None]

_LOOK_S: Final = 1
#: The last line of a traceback.
_RAISED: Final = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Warning)): (.+)")
_JAVA: Final = ("org.", "java.", "py4j.")
#: Errors of ours by name; those that are made of more than a text are left out.
_OURS: Final = {error.__name__: error for error in ALL_ERRORS if error is not NotLeaderError}


@dataclass(frozen=True, slots=True)
class RunOptions:
    #: Where Spark keeps how far it has come.
    checkpoint: str
    #: Ends when everything is done that was there at the beginning.
    is_once: bool = True
    #: Between the beginnings of two micro-batches of a query that goes on.
    every: str = "5 seconds"


def run_query(writer: "DataStreamWriter", options: RunOptions, tell: Tell) -> None:
    """Starts a query and stays with it. Interrupted, it stops in order. Raises what ended it."""
    # Whole, because a relative path would begin where the JVM was started, which need not be here.
    writer = writer.option("checkpointLocation", Store(options.checkpoint).address)
    if options.is_once:
        query = writer.trigger(availableNow=True).start()
    else:
        query = writer.trigger(processingTime=options.every).start()
    try:
        _watch(query, tell)
    except KeyboardInterrupt:
        tell("stopping after this batch")
        query.stop()
    except BaseException:
        query.stop()
        raise


def _watch(query: "StreamingQuery", tell: Tell) -> None:
    from pyspark.errors import StreamingQueryException

    told = -1
    while True:
        try:
            is_over = query.awaitTermination(_LOOK_S)
        except StreamingQueryException as error:
            raise typed_error(error) from error
        progress = query.lastProgress
        if progress is not None and progress.batchId != told:
            told = progress.batchId
            tell(_shown(progress))
        if is_over:
            return


def _shown(progress: Any) -> str:
    took_ms = progress.durationMs.get("triggerExecution", 0)
    return f"{progress.name or 'query'}: batch {progress.batchId} took {took_ms:,} ms"


def typed_error(error: BaseException) -> FlotillaError:
    """What Spark raised as one of our errors: the very one that was raised inside of a task or a batch, if any was."""
    lines = [line.strip() for line in str(error).splitlines()]
    raised = [found for line in lines if (found := _RAISED.match(line)) and not found[1].startswith(_JAVA)]
    # Errors of ours tell more than what was made of them on the way; the last one is the innermost.
    for found in reversed(raised):
        if found[1].startswith("flotilla."):
            return _OURS.get(found[1].rpartition(".")[2], UnavailableError)(found[2])
    if raised:
        return UnavailableError(raised[-1][2])
    return UnavailableError(next((line for line in lines if line), type(error).__name__))
