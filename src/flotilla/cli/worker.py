"""`flotilla worker module:function`: runs a handler for the messages of a queue group until a signal ends it.

The first SIGTERM or Ctrl-C drains: nothing more is taken, running handlers end, what was not begun goes back at
once. The second one ends the process; what it held is delivered to others.
"""

import importlib
import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from flotilla.cli.exit_codes import INTERRUPTED
from flotilla.cli.output import note
from flotilla.cli.servers import DEFAULT_SERVERS, Servers, read_duration
from flotilla.types.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flotilla.client.queue_options import QueueSettings
    from flotilla.client.worker import Handler


def worker(
    handler: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="Called with each message.", show_default=False)
    ],
    topic: Annotated[str, typer.Option("--topic", "-t", help="Whose messages.", show_default=False)],
    group: Annotated[str, typer.Option("--group", "-g", help="As a member of this queue group.", show_default=False)],
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
) -> None:
    """Run a handler for the messages of a queue group; it may be a function or a coroutine function.

    A message is done when the handler returns, and has failed when it raises. SIGTERM and Ctrl-C end it in order.
    """
    from flotilla.client.worker import Worker

    settings: QueueSettings = {
        "ordered": "key" if ordered else "none",
        "ack_mode": "auto" if at_most_once else "manual",
    }
    if visibility is not None:
        settings["visibility_ms"] = read_duration(visibility, "--visibility")
    made = Worker(
        servers,
        topic,
        group,
        find_handler(handler),
        concurrency=concurrency,
        drain_ms=read_duration(drain, "--drain"),
        **settings,
    )
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
    note(f"handling {topic} in group {group}, {concurrency} at a time")
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
