"""What waits, as the command shows it."""

import json
from contextlib import nullcontext
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.cli.terminal.servers import Cluster
from flotilla.types.operations.waiting import (
    DUE_EDGES_MS,
    BlockedKey,
    BlockedKeys,
    DelayedMessage,
    DelayedPage,
    DueTimes,
)


class Waiting:
    """A client with delayed messages and blocked keys."""

    counts: tuple[int, ...] = (0, 3, 0, 1)

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    keys: ClassVar = {
        0: BlockedKeys([BlockedKey(b"anna", 4, "leased", "one", 90_000, 0, "", 2)], 1, 2),
        1: BlockedKeys([BlockedKey(b"\xff", 7, "retrying", "", 5_000, 1, "no stock", 3)], 1, 3),
    }

    def due_times(self, topic: str, group: str) -> DueTimes:
        return DueTimes([*self.counts, *[0] * (len(DUE_EDGES_MS) + 1 - len(self.counts))], bool(group))

    def delayed(self, topic: str, group: str, *, limit: int, after: str) -> DelayedPage:
        rows = [(0, DelayedMessage(4, 60_000)), (1, DelayedMessage(7, 90_000, 2, "no stock"))]
        self.asked.append((topic, group, limit, after))
        return DelayedPage(rows[:limit], "60000-0-4" if limit < 2 else "", is_cut=not group)

    def deliver_now(self, topic: str, partition: int, offset: int, *, group: str) -> None:
        self.asked.append((topic, partition, offset, group))

    def blocked_keys(self, topic: str, group: str, *, limit: int) -> dict[int, BlockedKeys]:
        return self.keys


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    made = Waiting()
    monkeypatch.setattr(Cluster, "connect", lambda _: nullcontext(made))
    return made


def run(*words: str) -> Any:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result


def asked(*words: str) -> Any:
    return json.loads(run(*words, "--json").stdout)


def test_due_times_are_a_histogram_up_to_the_last_bucket_with_messages() -> None:
    shown = run("topic", "due-times", "orders", "--group", "billing")
    rows = shown.stdout.splitlines()[1:]
    assert [row.partition("  ")[0] for row in rows] == ["within 10s", "10s to 1m", "1m to 5m", "5m to 15m"]
    assert [row.count("#") for row in rows] == [0, 40, 0, 14]
    assert "estimates" in shown.stderr
    found = asked("topic", "due-times", "orders")
    assert (found["delayed"], found["is_estimated"], len(found["counts"])) == (4, False, len(found["edges_ms"]) + 1)


def test_the_last_bucket_has_no_end(client: Waiting) -> None:
    client.counts = (*[0] * len(DUE_EDGES_MS), 1)
    assert run("topic", "due-times", "orders").stdout.splitlines()[-1].startswith("after 30d")
    client.counts = (0,)
    assert run("topic", "due-times", "orders").stdout == ""


def test_delayed_messages_are_listed_a_page_at_a_time(client: Waiting) -> None:
    shown = run("topic", "delayed", "orders", "--limit", "1", "--after", "5-0-1")
    assert shown.stdout.splitlines()[1].split() == ["0:4", "1970-01-01T00:01:00.000Z", "0", "-"]
    assert "--after 60000-0-4" in shown.stderr
    assert "not all are listed" in shown.stderr
    found = asked("topic", "delayed", "orders", "--group", "billing")
    assert found["messages"][1] == {"partition": 1, "offset": 7, "due_ms": 90_000, "attempts": 2, "reason": "no stock"}
    assert (found["next"], found["is_cut"]) == ("", False)
    assert client.asked == [("orders", "", 1, "5-0-1"), ("orders", "billing", 100, "")]


def test_a_message_is_delivered_now(client: Waiting) -> None:
    assert "orders 0:42 is due now" in run("deliver-now", "orders", "0", "42", "--group", "billing").stdout
    assert asked("deliver-now", "orders", "0", "42")["offset"] == 42
    assert client.asked == [("orders", 0, 42, "billing"), ("orders", 0, 42, "")]


def test_blocked_keys_come_with_the_message_that_they_wait_for() -> None:
    shown = run("group", "blocked-keys", "orders", "billing")
    first, second = shown.stdout.splitlines()[1:]
    assert first.split() == [r"\xff", "3", "1:7", "retrying,", "5.0", "s", "left", "1", "no", "stock"]
    assert second.split()[:6] == ["anna", "2", "0:4", "leased", "by", "one,"]
    assert "5 messages wait behind 2 keys" in shown.stderr
    found = asked("group", "blocked-keys", "orders", "billing", "--limit", "1")
    assert [(each["partition"], each["key_base64"]) for each in found["keys"]] == [(1, "/w==")]
    assert (found["key_count"], found["message_count"]) == (2, 5)
