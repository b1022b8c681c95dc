"""`flotilla task` and `flotilla worker --http` against real nodes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flotilla.cli.local_cluster import LocalCluster
from tests.integration.cli.test_processes import SOURCE

pytestmark = pytest.mark.slow

HANDLER = """
from flotilla import Reject

def handle(task):
    if task.payload == "bad":
        raise Reject("no good")
    if task.payload == "once" and task.attempt == 1:
        raise OSError("not this time")
    print(task.type, task.payload, flush=True)
    return {"length": len(task.payload)} if task.payload == "good" else object()
"""


@pytest.fixture
def urls(cluster: LocalCluster) -> str:
    """The first endpoint does not answer: the client goes on to the next."""
    return ",".join(["http://127.0.0.1:1", *(f"http://127.0.0.1:{node.ports.http}" for node in cluster.nodes.values())])


def test_tasks_are_enqueued_shown_listed_and_cancelled(flotilla: Callable[..., Any], urls: str) -> None:
    def task(*words: str, code: int = 0) -> Any:
        return flotilla("task", *words, "--http", urls, code=code)

    first = task("enqueue", "mail", '{"to": "a"}', "--priority", "3", "--idempotency-key", "k").stdout.strip()
    assert task("enqueue", "mail", "--idempotency-key", "k").stdout.splitlines()[0] == first
    later = json.loads(task("enqueue", "text", "--delay", "1h", "--json").stdout)["id"]
    found = json.loads(task("status", first, "--json").stdout)
    assert (found["status"], found["priority"], found["payload"]) == ("ready", 3, {"to": "a"})
    assert "delayed" in task("status", later).stdout
    listed = json.loads(task("list", "--json").stdout)
    assert [each["id"] for each in listed] == [first, later]
    assert "cancelled" in task("cancel", first).stdout
    assert [line.split()[0] for line in task("list").stdout.splitlines()[1:]] == [later]
    assert task("list", "--all").stdout.splitlines()[1].split()[2] == "cancelled"
    (counts,) = json.loads(task("stats", "--json").stdout)["queues"]
    assert (counts["delayed"], counts["cancelled"]) == (1, 1)
    assert "default" in task("stats").stdout
    task("status", "default.1.0.99", code=3)
    task("status", "../x", code=2)
    task("enqueue", "mail", "{", code=2)
    flotilla("task", "stats", "--http", "ftp://x", code=2)
    flotilla("task", "stats", "--http", "http://127.0.0.1:1", code=4)


def test_an_unused_queue_is_empty_and_has_no_task(flotilla: Callable[..., Any], urls: str) -> None:
    listed = flotilla("task", "list", "-q", "unused", "--http", urls)
    assert [line.split()[:3] for line in listed.stdout.splitlines()] == [["id", "type", "status"]]
    assert json.loads(flotilla("task", "list", "-q", "unused", "--json", "--http", urls).stdout) == []
    for verb in ("status", "cancel"):
        refused = flotilla("task", verb, "unused.1.0.0", "--http", urls, code=3)
        assert refused.stderr.strip() == "flotilla: there is no task unused.1.0.0"


def test_a_worker_handles_a_queue_over_http(flotilla: Callable[..., Any], urls: str, tmp_path: Path) -> None:
    tmp_path.joinpath("handlers.py").write_text(HANDLER)

    def enqueue(kind: str, payload: str) -> str:
        found: str = flotilla("task", "enqueue", kind, json.dumps(payload), "-q", "work", "--http", urls).stdout.strip()
        return found

    tasks = {payload: enqueue("mail", payload) for payload in ("good", "bad", "once")}
    other = enqueue("text", "left alone")
    words = ["worker", "handlers:handle", "--http", urls, "--queue", "work", "--types", "mail", "-c", "2"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FLOTILLA_")}
    worker = subprocess.Popen(
        [sys.executable, "-m", "flotilla.cli", *words],
        cwd=tmp_path,
        env={**environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    expected = {"good": "done", "bad": "dead", "once": "done"}
    try:
        deadline = time.monotonic() + 60
        while (found := _statuses(flotilla, urls, tasks)) != expected:
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
        worker.send_signal(signal.SIGTERM)
        output, errors = worker.communicate(timeout=60)
    finally:
        worker.kill()
    assert worker.returncode == 0, errors
    assert sorted(output.split()) == sorted(["mail", "good", "mail", "once"])
    assert "4 handled, 1 of them failed, 1 rejected" in errors
    assert _statuses(flotilla, urls, {"other": other}) == {"other": "ready"}
    done = json.loads(flotilla("task", "status", tasks["good"], "--wait", "30s", "--http", urls, "--json").stdout)
    assert done["result"] == {"length": 4}
    assert "its result is not JSON" in errors
    waited = flotilla("task", "status", other, "--wait", "10ms", "--http", urls)
    assert "ready" in waited.stdout


def _statuses(flotilla: Callable[..., Any], urls: str, tasks: dict[str, str]) -> dict[str, str]:
    return {
        name: json.loads(flotilla("task", "status", task, "--http", urls, "--json").stdout)["status"]
        for name, task in tasks.items()
    }


def test_a_worker_says_what_it_needs(flotilla: Callable[..., Any]) -> None:
    flotilla("worker", "os:getcwd", code=2)
    flotilla("worker", "os:getcwd", "--http", "http://127.0.0.1:1", "--topic", "t", code=2)
    flotilla("worker", "os:getcwd", "--http", "nonsense://", code=2)
