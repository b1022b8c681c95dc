"""`why`: the history of a message lists every event in order, also at the terminal."""

import re

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.testing import LocalBroker
from tests.integration.testing.waiting import eventually

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")
#: As the terminal has it: local, without the date if that is today.
SHORT = re.compile(r"  (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d\.\d{3}) ")


@pytest.fixture(scope="module")
def broker():
    with LocalBroker() as broker:
        yield broker


def texts(history):
    """Without the times, which are there and in order."""
    moments = [MOMENT.match(line).group() for line in history]
    assert moments == sorted(moments)
    return [MOMENT.sub("", line, count=1).partition("; not again")[0] for line in history]


def fail_thrice(broker, client, topic):
    with client.queue(topic, group="g", visibility_ms=30_000) as consumer:
        for reason in ("no stock", "no money"):
            (message,) = consumer.poll(1, wait_ms=5_000)
            message.nack(reason=reason, delay_ms=60_000)
            broker.advance(minutes=2)
        assert consumer.poll(1, wait_ms=5_000)
        broker.advance(minutes=2)
        assert eventually(lambda: client.explain(topic, "g", 0, 0).attempts == 3)
        broker.advance(minutes=2)


THRICE = [
    "stored (by its own timestamp)",
    "the group was opened at offset 0",
    "attempt 1 of 5 failed: no stock",
    "attempt 2 of 5 failed: no money",
    "attempt 3 of 5 failed: lease expired",
]


def test_a_life_that_ends_well(broker, client):
    client.produce("well", b"1")
    fail_thrice(broker, client, "well")
    with client.queue("well", group="g") as consumer:
        consumer.ack(consumer.poll(1, wait_ms=60_000))
    found = client.explain("well", "g", 0, 0)
    assert (found.state, texts(found.history)) == ("acked", [*THRICE, "acknowledged"])


def test_a_life_that_ends_badly_and_what_is_printed_of_it(broker, client):
    client.produce("badly", b"1")
    fail_thrice(broker, client, "badly")
    asked = ["why", "badly", "0", "0", "-g", "g", "-s", broker.address]
    printed = CliRunner().invoke(app, asked).stdout.splitlines()
    assert printed[0].endswith("for g, 3 failed attempts")
    assert all(SHORT.match(line) for line in printed[1:-1])
    assert [SHORT.sub("", line, count=1).partition("; not again")[0] for line in printed[1:-1]] == THRICE
    assert printed[-1].startswith("next")
    with client.queue("badly", group="g") as consumer:
        (message,) = consumer.poll(1, wait_ms=60_000)
        message.reject(reason="never")
    buried = eventually(lambda: (found := client.explain("badly", "g", 0, 0)).state == "dead" and found)
    assert texts(buried.history) == [*THRICE, "attempt 4 was the last: never", "copied to the dead-letter topic"]
    assert client.dead_letters("badly", "g").redrive().done == 1
    with client.queue("badly", group="g") as consumer:
        (again,) = consumer.poll(1, wait_ms=60_000)
        found = client.explain("badly", "g", again.partition, again.offset)
        assert texts(found.history) == ["stored by redrive 1 of its dead letter (by its own timestamp)"]
