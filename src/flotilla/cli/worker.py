"""`flotilla worker module:function`: runs a handler for messages or tasks, or an App, until a signal ends it.

The first SIGTERM or Ctrl-C drains: the worker leases nothing more, running handlers finish, and prefetched messages are
released at once. A second one ends the process; its leases expire and their messages are redelivered.
"""

import importlib
import inspect
import logging
import os
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Protocol, cast

import typer

from flotilla.cli.terminal.arguments import complete_groups, complete_topics
from flotilla.cli.terminal.exit_codes import FAILED, INTERRUPTED
from flotilla.cli.terminal.output import complain, note
from flotilla.cli.terminal.pairs import WantedHeaders, read_pairs
from flotilla.cli.terminal.reloading import run_reloading
from flotilla.cli.terminal.servers import DEFAULT_SERVERS, Servers, read_duration, report_silence
from flotilla.cli.terminal.worker_processes import FLAG, own_address, run_processes
from flotilla.security.client_tls import tls_of_environment
from flotilla.types.address import Address
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.tasks import DEFAULT_QUEUE, topic_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from flotilla.cli.task_api.worker import Task
    from flotilla.client.app.app import App
    from flotilla.client.queue.options import QueueSettings
    from flotilla.client.worker import Handler


def worker(
    handler: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="A function for each message, or an App.", show_default=False)
    ],
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            "-t",
            help="The topic to handle; not with --http.",
            show_default=False,
            autocompletion=complete_topics,
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="The queue group to join; not with --http.",
            show_default=False,
            autocompletion=complete_groups,
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Messages handled at a time.")] = 16,
    visibility: Annotated[
        str | None,
        typer.Option(
            "--visibility", metavar="DURATION", help="Length of a lease, which is renewed.", show_default="as set"
        ),
    ] = None,
    ordered: Annotated[bool, typer.Option("--ordered", help="One message of each key at a time, in order.")] = False,
    at_most_once: Annotated[
        bool, typer.Option("--at-most-once", help="Acknowledge before handling: never twice, perhaps not at all.")
    ] = False,
    drain: Annotated[
        str, typer.Option("--drain", metavar="DURATION", help="How long running handlers may take after a signal.")
    ] = "30s",
    servers: Servers = DEFAULT_SERVERS,
    http: Annotated[
        str | None,
        typer.Option(
            "--http", metavar="URL,...", help="Handle tasks of a queue instead, over HTTP.", show_default=False
        ),
    ] = None,
    queue: Annotated[str, typer.Option("--queue", "-q", help="The queue of tasks, with --http.")] = DEFAULT_QUEUE,
    types: Annotated[
        str | None,
        typer.Option("--types", metavar="TYPE,...", help="Only messages or tasks of these types.", show_default="all"),
    ] = None,
    header: WantedHeaders = [],  # noqa: B006 - typer copies it.
    burst: Annotated[bool, typer.Option("--burst", help="End when nothing is ready; of an App.")] = False,
    processes: Annotated[
        int, typer.Option(FLAG, min=1, max=256, help="Processes, each of which handles --concurrency messages.")
    ] = 1,
    metrics_listen: Annotated[
        str | None,
        typer.Option(
            "--metrics-listen",
            metavar="HOST:PORT",
            help="Serve /metrics for Prometheus; with --processes, the next ports too.",
            show_default="off",
        ),
    ] = None,
    reload: Annotated[bool, typer.Option("--reload", help="Start again when a Python file here changes.")] = False,
) -> None:
    """Run a function or coroutine function for each message of a queue group, or the tasks of an App.

    A message is acknowledged when the handler returns, and failed when it raises. SIGTERM and Ctrl-C drain the worker.
    With --http the handler gets a task, with its id, type and payload. An App names topics and groups itself; --topic
    chooses one of its topics.

    Example: `flotilla worker shop.handlers:handle_order --topic orders --group billing`
    """
    if reload:
        raise typer.Exit(run_reloading(Path.cwd(), sys.argv[1:]))
    if processes > 1:
        raise typer.Exit(run_processes(processes, sys.argv[1:]))
    page = None if metrics_listen is None else own_address(metrics_listen)
    chosen = tuple(filter(None, (types or "").split(",")))
    headers = read_pairs(header, "--header")
    duration_ms = None if visibility is None else read_duration(visibility, "--visibility")
    if http is not None:
        if topic is not None or group is not None or ordered or at_most_once or headers:
            raise InvalidArgumentError(
                "--http goes with --queue and --types, not with --topic, --group, --header, --ordered or --at-most-once"
            )
        _run(
            _http_worker(http, queue, handler, chosen, concurrency, duration_ms),
            f"tasks of {queue}, {concurrency} at a time",
            page,
        )
        return
    found = find_object(handler)
    from flotilla.client.app.app import App

    if isinstance(found, App):
        if group is not None or ordered or at_most_once or visibility is not None or chosen or headers:
            raise InvalidArgumentError("an App says itself how its messages are handled; --topic chooses some of them")
        _run_app(found, topic, concurrency, read_duration(drain, "--drain"), servers, page, burst=burst)
        return
    if topic is None or group is None or burst:
        raise InvalidArgumentError("a function needs --topic and --group, or --http; --burst goes with an App")
    from flotilla.client.app.environment import environment_credentials
    from flotilla.client.client import Client
    from flotilla.client.worker import Worker

    settings: QueueSettings = {
        "ordered": "key" if ordered else "none",
        "ack_mode": "auto" if at_most_once else "manual",
    }
    if duration_ms is not None:
        settings["visibility_ms"] = duration_ms
    if chosen:
        settings["types"] = chosen
    if headers:
        settings["headers"] = headers
    made = Worker(
        servers,
        topic,
        group,
        checked_handler(handler, found),
        concurrency=concurrency,
        drain_ms=read_duration(drain, "--drain"),
        tls=tls_of_environment(),
        credentials=environment_credentials(),
        **settings,
    )
    with Client(servers, tls=tls_of_environment(), credentials=environment_credentials()) as client:
        report_silence(client, f"no answer from {servers} yet; trying until the worker is stopped")
    _run(made, f"{topic} in group {group}, {concurrency} at a time", page)


def _run_app(
    app: "App", topic: str | None, concurrency: int, drain_ms: int, servers: str, page: Address | None, *, burst: bool
) -> None:
    # An App that was made for some cluster keeps it unless another one is named.
    with app.use(servers) if servers != DEFAULT_SERVERS else app:
        topics = None if topic is None else [topic]
        made = app.worker(concurrency=concurrency, topics=topics, drain_ms=drain_ms, burst=burst)
        _run(made, f"tasks of {', '.join(dict.fromkeys(made.topics))}, {concurrency} of each topic at a time", page)


class _Runs(Protocol):
    """A worker for messages or for tasks."""

    @property
    def running_count(self) -> int: ...

    @property
    def handled_count(self) -> int: ...

    @property
    def failed_count(self) -> int: ...

    @property
    def rejected_count(self) -> int: ...

    def metrics(self) -> str: ...

    def run(self) -> None: ...

    def stop(self) -> None: ...


def _http_worker(
    urls: str, queue: str, handler: str, types: tuple[str, ...], concurrency: int, visibility_ms: int | None
) -> "_Runs":
    from flotilla.cli.task_api.worker import HttpWorker

    topic_of(queue)
    found = cast("Callable[[Task], object]", find_handler(handler))
    if inspect.iscoroutinefunction(found):
        raise InvalidArgumentError("with --http a handler is a plain function, not a coroutine function")
    lasts_ms = 30_000 if visibility_ms is None else visibility_ms
    return HttpWorker(urls, queue, found, types=types, concurrency=concurrency, visibility_ms=lasts_ms)


def _run(made: "_Runs", what: str, page: Address | None) -> None:
    """Returns after a signal, when all handlers have finished. `page` is where metrics are served."""
    # The worker logs failed handlers.
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    signals = 0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            os._exit(INTERRUPTED.code)
        made.stop()
        note(f"draining {made.running_count} running handlers; a second signal ends the worker at once")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    note(f"handling {what}")
    if page is None:
        made.run()
    else:
        from flotilla.cli.terminal.metrics_page import metrics_page

        with metrics_page(page, made.metrics) as address:
            note(f"metrics at http://{address}/metrics")
            made.run()
    note(f"{made.handled_count} handled, {made.failed_count} of them failed, {made.rejected_count} rejected")


def find_handler(text: str) -> "Handler":
    """The function that `module:function` names. Raises InvalidArgumentError."""
    return checked_handler(text, find_object(text))


def checked_handler(text: str, found: object) -> "Handler":
    from flotilla.client.worker import check_handler

    if not callable(found):
        raise InvalidArgumentError(f"{text!r} cannot be called")
    check_handler(found)
    return found


def find_object(text: str) -> object:
    """What `module:name` names, also from the current directory. Raises InvalidArgumentError."""
    module_name, sign, path = text.partition(":")
    if not sign or not module_name or not path:
        raise InvalidArgumentError(f"{text!r} is not of the form module:name")
    sys.path.insert(0, str(Path.cwd()))
    found = _import(module_name)
    for name in path.split("."):
        if not hasattr(found, name):
            raise InvalidArgumentError(f"{module_name!r} has no {path!r}")
        found = getattr(found, name)
    return found


def _import(name: str) -> object:
    """Raises InvalidArgumentError when there is no such module, and typer.Exit when it fails to import."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent is not None and f"{name}.".startswith(f"{absent}."):
            raise InvalidArgumentError(f"there is no module {absent!r}") from None
        trace = error.__traceback__
        # The user's frames come after those of this module and of the import machinery.
        while trace is not None and ("importlib" in (file := trace.tb_frame.f_code.co_filename) or file == __file__):
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)
        complain(f"module {name!r} cannot be imported")
        raise typer.Exit(FAILED.code) from None
