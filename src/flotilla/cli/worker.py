"""`flotilla worker module:function`: runs a handler for messages or tasks until a signal ends it.

The first SIGTERM or Ctrl-C drains: nothing more is taken, running handlers end, what was not begun goes back at
once. The second one ends the process; what it held is delivered to others.
"""

import importlib
import inspect
import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Protocol, cast

import typer

from flotilla.cli.terminal.exit_codes import INTERRUPTED
from flotilla.cli.terminal.output import note
from flotilla.cli.terminal.servers import DEFAULT_SERVERS, Servers, read_duration
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.tasks import DEFAULT_QUEUE, topic_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from flotilla.cli.http_worker import Task
    from flotilla.client.queue.options import QueueSettings
    from flotilla.client.worker import Handler


def worker(
    handler: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="Called with each message.", show_default=False)
    ],
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Whose messages; not with --http.", show_default=False)
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="As a member of this queue group; not with --http.", show_default=False),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Messages at a time.")] = 16,
    visibility: Annotated[
        str | None,
        typer.Option("--visibility", metavar="DURATION", help="Of a lease, which is renewed.", show_default="as set"),
    ] = None,
    ordered: Annotated[bool, typer.Option("--ordered", help="One message of a key at a time, in order.")] = False,
    at_most_once: Annotated[bool, typer.Option("--at-most-once", help="Never twice, perhaps not at all.")] = False,
    drain: Annotated[
        str, typer.Option("--drain", metavar="DURATION", help="How long running handlers may take at the end.")
    ] = "30s",
    servers: Servers = DEFAULT_SERVERS,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="URL,...", help="Tasks of a queue instead, over HTTP.", show_default=False),
    ] = None,
    queue: Annotated[str, typer.Option("--queue", "-q", help="Whose tasks, with --http.")] = DEFAULT_QUEUE,
    types: Annotated[
        str | None,
        typer.Option("--types", metavar="TYPE,...", help="Only tasks of these types.", show_default="all"),
    ] = None,
) -> None:
    """Run a handler for the messages of a queue group; it may be a function or a coroutine function.

    A message is done when the handler returns, and has failed when it raises. SIGTERM and Ctrl-C end it in order.
    With --http the handler is a function of a task, with its id, type and payload.
    """
    duration_ms = None if visibility is None else read_duration(visibility, "--visibility")
    if http is not None:
        if topic is not None or group is not None or ordered or at_most_once:
            raise InvalidArgumentError("--http has --queue and --types, and none of what a topic and a group have")
        chosen = tuple(filter(None, (types or "").split(",")))
        _run(
            _http_worker(http, queue, handler, chosen, concurrency, duration_ms),
            f"tasks of {queue}, {concurrency} at a time",
        )
        return
    if topic is None or group is None:
        raise InvalidArgumentError("--topic and --group are needed, or --http")
    from flotilla.client.worker import Worker

    settings: QueueSettings = {
        "ordered": "key" if ordered else "none",
        "ack_mode": "auto" if at_most_once else "manual",
    }
    if duration_ms is not None:
        settings["visibility_ms"] = duration_ms
    made = Worker(
        servers,
        topic,
        group,
        find_handler(handler),
        concurrency=concurrency,
        drain_ms=read_duration(drain, "--drain"),
        **settings,
    )
    _run(made, f"{topic} in group {group}, {concurrency} at a time")


class _Runs(Protocol):
    """A worker of either kind."""

    @property
    def running_count(self) -> int: ...

    handled_count: int
    failed_count: int

    def run(self) -> None: ...

    def stop(self) -> None: ...


def _http_worker(
    urls: str, queue: str, handler: str, types: tuple[str, ...], concurrency: int, visibility_ms: int | None
) -> "_Runs":
    from flotilla.cli.http_worker import HttpWorker

    topic_of(queue)
    found = cast("Callable[[Task], object]", find_handler(handler))
    if inspect.iscoroutinefunction(found):
        raise InvalidArgumentError("with --http a handler is a plain function")
    lasts_ms = 30_000 if visibility_ms is None else visibility_ms
    return HttpWorker(urls, queue, found, types=types, concurrency=concurrency, visibility_ms=lasts_ms)


def _run(made: "_Runs", what: str) -> None:
    """Until a signal ends it, and the handlers have."""
    # Failed handlers are told of on standard error, as the worker logs them.
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    signals = 0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            os._exit(INTERRUPTED.code)
        note(f"draining {made.running_count} running handlers; once more ends at once")
        made.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    note(f"handling {what}")
    made.run()
    note(f"{made.handled_count} handled, {made.failed_count} of them failed")


def find_handler(text: str) -> "Handler":
    """What `module:function` names, from the current directory too. Raises InvalidArgumentError."""
    module_name, sign, path = text.partition(":")
    if not sign or not module_name or not path:
        raise InvalidArgumentError(f"{text!r} is not of the form module:function")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            # The module is there; what it needs is not. That is for its author to see in full.
            raise
        raise InvalidArgumentError(f"there is no module {error.name!r}") from None
    for name in path.split("."):
        if not hasattr(found, name):
            raise InvalidArgumentError(f"{module_name!r} has no {path!r}")
        found = getattr(found, name)
    if not callable(found):
        raise InvalidArgumentError(f"{text!r} cannot be called")
    return found
