"""What waits, as the command shows it."""

import json
from contextlib import nullcontext
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.cli.terminal.servers import Cluster
from flotilla.types.operations.waiting import DUE_EDGES_MS, BlockedKey, BlockedKeys, DueTimes


class Waiting:
    """A client with delayed messages and blocked keys."""

    counts: tuple[int, ...] = (0, 3, 0, 1)
    keys: ClassVar = {
        0: BlockedKeys([BlockedKey(b"anna", 4, "leased", "one", 90_000, 0, "", 2)], 1, 2),
        1: BlockedKeys([BlockedKey(b"\xff", 7, "retrying", "", 5_000, 1, "no stock", 3)], 1, 3),
    }

    def due_times(self, topic: str, group: str) -> DueTimes:
        return DueTimes([*self.counts, *[0] * (len(DUE_EDGES_MS) + 1 - len(self.counts))], bool(group))

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


def test_blocked_keys_come_with_the_message_that_they_wait_for() -> None:
    shown = run("group", "blocked-keys", "orders", "billing")
    first, second = shown.stdout.splitlines()[1:]
    assert first.split() == [r"\xff", "3", "1:7", "retrying,", "5.0", "s", "left", "1", "no", "stock"]
    assert second.split()[:6] == ["anna", "2", "0:4", "leased", "by", "one,"]
    assert "5 messages wait behind 2 keys" in shown.stderr
    found = asked("group", "blocked-keys", "orders", "billing", "--limit", "1")
    assert [(each["partition"], each["key_base64"]) for each in found["keys"]] == [(1, "/w==")]
    assert (found["key_count"], found["message_count"]) == (2, 5)
