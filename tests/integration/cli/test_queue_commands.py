"""Queue groups, single messages, dead letters and workers of one real broker, through the command."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client, ContentType
from flotilla.cli.local_cluster import LocalCluster
from tests.integration.cli.test_processes import SOURCE
from tests.integration.testing.waiting import eventually

pytestmark = pytest.mark.slow

HANDLER = """
import time
from pathlib import Path

def handle(message):
    print("began", message.payload.decode(), flush=True)
    if message.payload == b"bad":
        raise OSError("not this one")
    while not Path("go").exists():
        time.sleep(0.01)
    print("ended", message.payload.decode(), flush=True)

not_a_function = 5
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker instead of three: these tests need no more."""
    with LocalCluster.on_free_ports(tmp_path_factory.mktemp("broker"), node_count=1) as started:
        started.start()
        started.wait_ready()
        yield started


@pytest.fixture
def asked(flotilla: Callable[..., Any]) -> Callable[..., Any]:
    """What a command answers as JSON."""

    def ask(*words: str) -> Any:
        return json.loads(flotilla(*words, "--json").stdout)

    return ask


def produce(flotilla: Callable[..., Any], topic: str, *payloads: str) -> None:
    flotilla("produce", topic, stdin="".join(f"{payload}\n" for payload in payloads))


def test_members_of_a_queue_group_share_messages_and_each_is_printed_once(flotilla, asked):
    produce(flotilla, "shared", "a", "b", "c")
    first = flotilla("consume", "shared", "--group", "g", "-n", "2", "--json").stdout.splitlines()
    assert [(json.loads(line)["offset"], json.loads(line)["payload"]) for line in first] == [(0, "a"), (1, "b")]
    assert flotilla("consume", "shared", "-g", "g", "-n", "1").stdout == "c\n"
    (listed,) = asked("group", "list", "shared")
    assert (listed["group"], listed["kind"], listed["lag"], listed["acked_total"]) == ("g", "queue", 0, 3)
    assert flotilla("consume", "shared", "-g", "g").stdout == ""
    assert flotilla("consume", "shared", "-g", "other", "--from", "2", "-n", "1").stdout == "c\n"


def test_a_group_is_paused_resumed_and_altered(flotilla, asked):
    produce(flotilla, "held", "a", "b")
    flotilla("consume", "held", "-g", "g", "-n", "1")
    altered = asked("group", "alter", "held", "g", "--set", "max_deliveries=2", "--set", "visibility_ms=10s")
    assert altered == asked("group", "describe", "held", "g")["settings"]
    assert (altered["max_deliveries"], set(altered)) == ("2", {"max_deliveries", "visibility_ms"})
    unset = flotilla("group", "alter", "held", "g", "--unset", "max_deliveries", "--unset", "visibility_ms")
    assert unset.stdout == "g: uses the settings of its topic\n"
    assert asked("group", "describe", "held", "g")["settings"] == {}

    assert flotilla("group", "pause", "held", "g").stdout == "g is paused\n"
    assert asked("group", "describe", "held", "g")["is_paused"]
    assert flotilla("consume", "held", "-g", "g").stdout == ""
    assert "paused" in asked("why", "held", "0", "1", "-g", "g")["next"]
    assert flotilla("group", "resume", "held", "g").stdout == "g is resumed\n"
    assert flotilla("consume", "held", "-g", "g", "-n", "1").stdout == "b\n"

    group = {"topic": "held", "group": "g"}
    assert asked("group", "pause", "held", "g") == group | {"is_paused": True}
    assert asked("group", "describe", "held", "g")["is_paused"]
    assert asked("group", "resume", "held", "g") == group | {"is_paused": False}
    assert not asked("group", "describe", "held", "g")["is_paused"]
    assert asked("group", "delete", "held", "g") == group | {"is_deleted": True}
    assert asked("group", "list", "held") == []


def test_single_messages_are_shown_explained_and_cancelled(flotilla, asked):
    produce(flotilla, "single", "a", "b")
    flotilla("produce", "single", "later", "--delay", "1h", "--idempotency-key", "k")
    flotilla("consume", "single", "-g", "g", "-n", "1")
    assert flotilla("peek", "single", "--format", "text").stdout.split() == ["a", "b", "later"]
    found = flotilla("peek", "single", "-o", "1", "-n", "1", "--json").stdout
    assert (json.loads(found)["offset"], json.loads(found)["payload"]) == (1, "b")
    empty = flotilla("peek", "single", "-o", "3")
    assert (empty.stdout, "no messages" in empty.stderr) == ("", True)

    found = asked("why", "single", "0", "2", "-g", "g")
    assert (found["state"], 3_500_000 < found["remaining_ms"] <= 3_600_000) == ("delayed", True)
    shown = flotilla("why", "single", "0", "0", "--group", "g").stdout
    assert shown.splitlines()[0] == "single 0:0 is acked for g"

    cancelled = {"topic": "single", "cancelled": [{"partition": 0, "offset": 1}]}
    assert asked("cancel", "single", "-p", "0", "-o", "1") == cancelled
    assert flotilla("cancel", "single", "--idempotency-key", "k").stdout == "cancelled 0:2\n"
    assert [asked("why", "single", "0", str(offset), "-g", "g")["state"] for offset in (1, 2)] == ["cancelled"] * 2
    assert flotilla("consume", "single", "-g", "g").stdout == ""


def test_a_leased_message_is_released_and_rejected_for_its_member(flotilla, asked, cluster: LocalCluster):
    produce(flotilla, "leased", "a", "b")
    with Client(cluster.servers[0]) as client, client.queue("leased", "g") as consumer:
        assert [message.offset for message in consumer.poll(max_messages=2, wait_ms=10_000)] == [0, 1]
        holder = asked("why", "leased", "0", "0", "-g", "g")["holder"]
        assert asked("release", "leased", "0", "0", "-g", "g") == {"holder": holder}
        assert asked("why", "leased", "0", "0", "-g", "g")["state"] == "ready"
        rejected = flotilla("reject", "leased", "0", "1", "-g", "g", "--reason", "broken")
        assert rejected.stdout == f"leased 0:1 is rejected; {holder} had it\n"
        flotilla("reject", "leased", "0", "1", "-g", "g", code=5)
    eventually(lambda: asked("why", "leased", "0", "1", "-g", "g")["state"] == "dead")
    (letter,) = asked("dlq", "list", "leased", "-g", "g")
    assert (letter["reason"], letter["payload"]) == ("broken", "b")


def test_what_waits_is_shown(flotilla, asked, cluster: LocalCluster):
    flotilla("topic", "create", "waiting", "--partitions", "1")
    assert "no message waits" in flotilla("topic", "due-times", "waiting").stderr
    flotilla("produce", "waiting", "later", "--delay", "2h")
    flotilla("produce", "waiting", '{"a":1}', "--key", "k", "--content-type", "json")
    flotilla("produce", "waiting", "next", "--key", "k")
    assert "1h to 3h" in flotilla("topic", "due-times", "waiting").stdout
    assert flotilla("group", "blocked-keys", "waiting", "nobody", code=3).stderr.count("no group") == 1
    with Client(cluster.servers[0]) as client, client.queue("waiting", "g", ordered="key") as consumer:
        (message,) = consumer.poll(max_messages=5, wait_ms=10_000)
        assert message.content_type == ContentType.JSON
        eventually(lambda: asked("group", "blocked-keys", "waiting", "g")["message_count"] == 1)
        (key,) = asked("group", "blocked-keys", "waiting", "g")["keys"]
        assert (key["key"], key["offset"], key["state"]) == ("k", 1, "leased")
        assert asked("topic", "due-times", "waiting", "-g", "g")["delayed"] == 1
    assert flotilla("peek", "waiting", "--newest", "-n", "1", "--format", "text").stdout == "next\n"
    flotilla("peek", "waiting", "--newest", "-o", "1", code=2)


def test_dead_letters_are_listed_shown_redriven_and_purged(flotilla, asked, cluster: LocalCluster):
    produce(flotilla, "deadly", "timeout", "garbage")
    with Client(cluster.servers) as client, client.queue("deadly", group="g") as consumer:
        for message in consumer.poll(2):
            message.reject(reason=f"because of {message.payload.decode()}")

    def places(*words: str) -> list[str]:
        return [letter["place"] for letter in asked("dlq", "list", "deadly", "-g", "g", *words)]

    assert eventually(lambda: len(places()) == 2 and places()) == ["0:0", "0:1"]
    (place,) = places("--reason", "g.rbage")
    garbage = ("deadly", "-g", "g", "-p", "0", "-o", place.removeprefix("0:"))
    assert places("--until", "1h") == []
    assert "because of garbage" in flotilla("dlq", "list", "deadly", "-g", "g", "-n", "2").stdout
    letter = asked("dlq", "peek", *garbage)
    assert (letter["payload"], letter["origin"], letter["attempts"]) == ("garbage", "deadly 0:1", 1)
    assert "because of garbage" in flotilla("dlq", "peek", *garbage).stdout

    chosen = ("deadly", "-g", "g", "--reason", "timeout")
    assert asked("dlq", "redrive", *chosen, "--dry-run")["done"] == 1
    assert len(places()) == 2
    assert asked("dlq", "redrive", *chosen) == {"done": 1, "refused": 0, "skipped": 1}
    assert flotilla("consume", "deadly", "-g", "g", "-n", "1").stdout == "timeout\n"

    kept = flotilla("dlq", "purge", "deadly", "-g", "g", stdin="n\n", code=1)
    assert "nothing was deleted" in kept.stderr
    assert places() == [place]
    assert asked("dlq", "purge", *garbage, "--yes") == {"done": 1, "refused": 0, "skipped": 0}
    assert places() == []
    assert "no dead letters" in flotilla("dlq", "list", "deadly", "-g", "g").stderr


def test_dead_letters_outlive_their_topic(flotilla, asked, cluster: LocalCluster):
    produce(flotilla, "origin", "garbage")
    with Client(cluster.servers) as client, client.queue("origin", group="g") as consumer:
        for message in consumer.poll(1):
            message.reject(reason="no")
    eventually(lambda: asked("dlq", "list", "origin", "-g", "g"))
    flotilla("topic", "delete", "origin", "--yes")
    assert [letter["payload"] for letter in asked("dlq", "list", "origin", "-g", "g")] == ["garbage"]


def test_a_stopping_worker_finishes_running_handlers_and_releases_the_rest(
    flotilla, asked, cluster: LocalCluster, tmp_path: Path
):
    tmp_path.joinpath("queue_handlers.py").write_text(HANDLER)
    produce(flotilla, "work", "bad", "slow", "never")
    words = ["worker", "queue_handlers:handle", "--topic", "work", "--group", "g", "-c", "1"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FLOTILLA_")}
    worker = subprocess.Popen(
        [sys.executable, "-m", "flotilla.cli", *words, "--servers", ",".join(cluster.servers)],
        cwd=tmp_path,
        env={**environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert worker.stderr is not None
    try:
        assert [worker.stdout.readline(), worker.stdout.readline()] == ["began bad\n", "began slow\n"]
        worker.send_signal(signal.SIGTERM)
        while "draining" not in (line := worker.stderr.readline()):
            assert line, "it ended without a line"
        assert worker.poll() is None, "its handler has not ended"
        tmp_path.joinpath("go").touch()
        output, errors = worker.communicate(timeout=30)
    finally:
        worker.kill()
    assert (worker.returncode, output) == (0, "ended slow\n"), errors
    assert "draining 1 running handlers" in line
    assert "2 handled, 1 of them failed" in errors
    states = [asked("why", "work", "0", str(offset), "-g", "g")["state"] for offset in range(3)]
    assert states[1:] == ["acked", "ready"]
    assert states[0] in ("retrying", "ready")
    assert "not this one" in asked("why", "work", "0", "0", "-g", "g")["reason"]


MISTAKES = {
    3: [
        "consume nowhere -g g",
        "peek nowhere",
        "peek some -p 7",
        "why nowhere 0 0 -g g",
        "why some 0 0 -g absent",
        "cancel nowhere -p 0 -o 0",
        "cancel some --idempotency-key unused",
        "cancel some --idempotency-key unused --json",
        "group pause nowhere g",
        "group resume nowhere g",
        "group resume nowhere g --json",
        "group alter nowhere g --set max_deliveries=2",
        "group describe some absent",
        "dlq peek some -g absent",
        "dlq list nowhere -g g",
        "dlq list nowhere -g g --json",
    ],
    2: [
        "consume some -g g --from yesterdayish",
        "consume some -g g -p 7",
        "why some 0 99 -g g",
        "why some 0 0",
        "why some zero 0 -g g",
        "cancel some",
        "group alter some g",
        "group alter some g --set max_delivery=2",
        "group alter some g --set max_deliveries=many",
        "group alter some g --set max_deliveries",
        "dlq list some",
        "dlq list some -g g --reason (",
        "dlq redrive some -g g --since yesterdayish",
        "worker nowhere:handle -t some -g g",
        "worker queue_handlers -t some -g g",
        "worker queue_handlers:nothing -t some -g g",
        "worker queue_handlers:not_a_function -t some -g g",
        "worker queue_handlers:handle -t some",
        "worker queue_handlers:handle -t some -g g --drain soon",
    ],
}


def test_a_mistake_of_the_user_is_one_line_and_an_exit_code(flotilla, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tmp_path.joinpath("queue_handlers.py").write_text(HANDLER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    produce(flotilla, "some", "a")
    flotilla("consume", "some", "-g", "g", "-n", "1")
    for code, typed in MISTAKES.items():
        for line in typed:
            refused = flotilla(*line.split(), code=code)
            assert refused.stdout == "", line
            assert "Traceback" not in refused.stderr, line
            last = refused.stderr.splitlines()[-1]
            assert last.startswith("flotilla: ") or "Usage: flotilla" in refused.stderr, (line, refused.stderr)


def test_transactions_are_listed_aborted_and_forgotten(flotilla, asked, cluster):
    with Client(cluster.servers) as client:
        client.create_topic("orders-of-transactions", partitions=1)
        staged = client.transaction("job-7/42", transaction_timeout_ms=600_000)
        staged.stage("orders-of-transactions", [b"a", b"b"])
        (found,) = asked("transaction", "list", "--topic", "orders-of-transactions")
        assert (found["transaction_id"], found["partition"], found["record_count"]) == ("job-7/42", 0, 2)
        assert asked("transaction", "abort", "job-7/42") == {"aborted": "job-7/42"}
        assert asked("transaction", "list", "--topic", "orders-of-transactions") == []
        assert "no open transactions" in flotilla("transaction", "list", "-t", "orders-of-transactions").stderr
        with client.transaction() as txn:
            txn.produce("orders-of-transactions", b"a")
            txn.commit(application_id="job-7", version=1)
        assert asked("transaction", "list")["application_count"] == 1
        assert "1 applications are remembered" in flotilla("transaction", "list").stderr
        flotilla("transaction", "forget", "--application", "job-7")
        assert asked("transaction", "list")["application_count"] == 0
        # Nothing waits under this id; and one of the two is named.
        assert "no partition is waited for" in flotilla("transaction", "forget", "job-7/42", code=3).stderr
        assert "name a transaction or an application" in flotilla("transaction", "forget", code=2).stderr
