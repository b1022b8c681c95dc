"""`flotilla schedule` against a broker in this process."""

import json

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.testing import LocalBroker


@pytest.fixture(scope="module")
def flotilla():
    with LocalBroker() as broker:

        def run(*words, code=0):
            result = CliRunner(env={"FLOTILLA_SERVERS": broker.address, "COLUMNS": "200"}).invoke(app, words)
            assert result.exit_code == code, result.output
            return result

        yield run


def test_a_schedule_from_the_shell(flotilla):
    words = ("--cron", "0 3 * * *", "--tz", "Europe/Berlin", "--topic", "reports", "--payload", "all", "-H", "a=b")
    assert (
        "nightly: 0 3 * * * Europe/Berlin to reports, next 20"
        in flotilla("schedule", "create", "nightly", *words).output
    )
    flotilla("schedule", "create", "nightly", *words, code=5)
    flotilla("schedule", "create", "nightly", *words, "--update")
    flotilla("schedule", "create", "beat", "--every", "30s", "--topic", "reports", "--missed", "skip")
    (beat, nightly) = json.loads(flotilla("schedule", "list", "--next", "2", "--json").output)
    assert (beat["every_ms"], nightly["payload"], len(nightly["upcoming_ms"])) == (30_000, "all", 2)
    assert "paused" in flotilla("schedule", "pause", "nightly").output
    assert json.loads(flotilla("schedule", "run", "nightly", "--json").output)["runs"] == 1
    table = flotilla("schedule", "list").output
    assert "paused" in table
    assert "every 30s" in table
    assert "next 20" in flotilla("schedule", "resume", "nightly").output
    flotilla("schedule", "delete", "nightly")
    flotilla("schedule", "delete", "nightly", code=3)


def test_bad_words_are_refused(flotilla):
    for words in (
        ("--cron", "0 25 * * *"),
        ("--every", "soon"),
        (),
        ("--cron", "@daily", "--tz", "Mars/Base"),
        ("--cron", "@daily", "--missed", "some"),
    ):
        flotilla("schedule", "create", "x", "--topic", "reports", *words, code=2)
