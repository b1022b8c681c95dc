"""`flotilla task`: enqueue, show, list and cancel tasks of a queue, over HTTP."""

import json
import time
from typing import Annotated, Any, TypeAlias
from uuid import uuid4

import typer

from flotilla.cli.task_api.client import DEFAULT_HTTP, TaskClient, as_path, query
from flotilla.cli.terminal.output import age, note, print_done, print_json, print_table
from flotilla.cli.terminal.servers import DEFAULT_TIMEOUT, AsJson, Timeout, read_duration
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import PRIORITY_MAX
from flotilla.types.tasks import DEFAULT_QUEUE, MAX_RETRIES_DEFAULT, MAX_RETRIES_MAX, topic_of

Urls: TypeAlias = Annotated[
    str, typer.Option("--http", metavar="URL,...", help="HTTP endpoints of the cluster; any node will do.")
]
Queue: TypeAlias = Annotated[str, typer.Option("--queue", "-q", help="The queue.")]
TaskId: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The id that enqueue prints.", show_default=False)]

task_app = typer.Typer(no_args_is_help=True, help="Enqueue, show, list and cancel tasks over HTTP.")


@task_app.command("enqueue")
def enqueue(
    kind: Annotated[str, typer.Argument(metavar="TYPE", help="The type of the task.", show_default=False)],
    payload: Annotated[str, typer.Argument(metavar="JSON", help="The payload.")] = "null",
    queue: Queue = DEFAULT_QUEUE,
    priority: Annotated[
        int, typer.Option("--priority", min=0, max=PRIORITY_MAX, help="Higher is delivered first.")
    ] = 0,
    max_retries: Annotated[
        int, typer.Option("--max-retries", min=0, max=MAX_RETRIES_MAX, help="Attempts after the first failure.")
    ] = MAX_RETRIES_DEFAULT,
    delay: Annotated[
        str | None, typer.Option("--delay", metavar="DURATION", help="Deliver after this time.", show_default="none")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--idempotency-key", help="A repetition returns the first id.", show_default="random"),
    ] = None,
    as_json: AsJson = False,
    urls: Urls = DEFAULT_HTTP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Enqueue a task, and print its id.

    Example: `flotilla task enqueue mail '{"to": "a@example.com"}' --priority 3`
    """
    try:
        value = json.loads(payload)
    except ValueError as error:
        raise InvalidArgumentError(f"the payload is not JSON: {error}") from None
    body = {
        "type": kind,
        "payload": value,
        "queue": queue,
        "priority": priority,
        "max_retries": max_retries,
        "delay_ms": read_duration(delay, "--delay") if delay is not None else 0,
        "idempotency_key": key or str(uuid4()),
    }
    found = _ask(urls, timeout, "POST", "/tasks", body)
    if as_json:
        print_json(found)
    else:
        typer.echo(found["id"])
        if found["duplicate"]:
            note("a task with this idempotency key existed already")


@task_app.command("status")
def status(
    task: TaskId,
    wait: Annotated[
        str | None,
        typer.Option("--wait", metavar="DURATION", help="Wait until it has ended, up to 5m.", show_default="none"),
    ] = None,
    as_json: AsJson = False,
    urls: Urls = DEFAULT_HTTP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show a task, and its result or why it failed.

    Example: `flotilla task status default.1.0.17 --wait 30s`
    """
    wait_ms = 0 if wait is None else read_duration(wait, "--wait")
    path = as_path("tasks", task) + (query(wait_ms=wait_ms) if wait_ms else "")
    found = _ask(urls, timeout, "GET", path, wait_ms=wait_ms)
    if as_json:
        print_json(found)
        return
    rows = [(name.replace("_", " "), _shown(name, value)) for name, value in found.items()]
    print_table(("task", ""), rows)


@task_app.command("cancel")
def cancel(
    task: TaskId, as_json: AsJson = False, urls: Urls = DEFAULT_HTTP, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Cancel an unfinished task, also while a worker handles it.

    Example: `flotilla task cancel default.1.0.17`
    """
    found = _ask(urls, timeout, "DELETE", as_path("tasks", task))
    print_done(found, f"{found['id']} is {found['status']}", as_json=as_json)


@task_app.command("list")
def list_tasks(
    queue: Queue = DEFAULT_QUEUE,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=10_000, help="Maximum number.")] = 20,
    is_all: Annotated[bool, typer.Option("--all", help="Include finished tasks.")] = False,
    as_json: AsJson = False,
    urls: Urls = DEFAULT_HTTP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """List unfinished tasks of a queue, the oldest first.

    Example: `flotilla task list --queue mail --all`
    """
    topic_of(queue)
    tasks: list[dict[str, Any]] = []
    after: str | None = None
    while len(tasks) < count:
        page = query(queue=queue, limit=min(count - len(tasks), 100), all="true" if is_all else "false", after=after)
        found = _ask(urls, timeout, "GET", f"/tasks{page}")
        tasks += found["tasks"]
        after = found.get("next")
        if after is None:
            break
    if as_json:
        print_json(tasks)
        return
    columns = ("id", "type", "status", "priority", "attempts", "age", "last error")
    now_ms = time.time() * 1000
    print_table(
        columns,
        [
            (
                task["id"],
                task["type"],
                task["status"],
                task["priority"],
                task["attempts"],
                age(max(round(now_ms - task["created_ms"]), 0)),
                task.get("last_error", ""),
            )
            for task in tasks
        ],
    )


@task_app.command("stats")
def stats(as_json: AsJson = False, urls: Urls = DEFAULT_HTTP, timeout: Timeout = DEFAULT_TIMEOUT) -> None:
    """Count the tasks of all queues by status.

    Example: `flotilla task stats`
    """
    found = _ask(urls, timeout, "GET", "/stats")
    if as_json:
        print_json(found)
        return
    names = ("ready", "leased", "delayed", "done", "dead", "cancelled", "workers")
    print_table(("queue", *names), [(each["queue"], *(each[name] for name in names)) for each in found["queues"]])


def _ask(urls: str, timeout: str, method: str, path: str, body: object = None, wait_ms: int = 0) -> Any:
    client = TaskClient(urls, read_duration(timeout, "--timeout"))
    try:
        return client.ask(method, path, body, wait_ms=wait_ms)
    finally:
        client.close()


def _shown(name: str, value: object) -> object:
    if name.endswith("_ms") and isinstance(value, int):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value / 1000))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) or value is None else value
