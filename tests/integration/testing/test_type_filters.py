"""Consumers that ask for some types or headers only: what they get, and what becomes of the rest."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest
from typer.testing import CliRunner

from flotilla import InvalidArgumentError, Record, Worker
from flotilla.cli.app import app
from flotilla.testing import MINUTE_MS, LocalBroker
from tests.integration.testing.waiting import eventually, payloads

TOPIC = "jobs"
TYPE = "flotilla-task-type"


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


def produce(client, *types):
    """One message of each type, in one batch, with its place and type as payload."""
    client.produce_many(
        TOPIC,
        [
            Record(f"{place}{kind}".encode(), headers=[(TYPE, kind.encode())] if kind else ())
            for place, kind in enumerate(types)
        ],
    )


def test_a_member_gets_its_types_and_the_rest_waits_for_others_in_order(client):
    produce(client, "mail", "text", "", "mail", "fax", "text")
    with client.queue(TOPIC, "g", types=["mail", "text"]) as some:
        found = some.poll(100)
        assert payloads(found) == [b"0mail", b"1text", b"3mail", b"5text"]
        some.ack(found)
        assert some.poll(wait_ms=0) == []
    info = client.describe_group(TOPIC, "g")
    assert (info.lag, info.ready) == (2, 2)
    with client.queue(TOPIC, "g") as everything:
        found = everything.poll(100)
        # To be passed over is no attempt.
        assert [(message.payload, message.attempt) for message in found] == [(b"2", 1), (b"4fax", 1)]
        everything.ack(found)
    assert client.describe_group(TOPIC, "g").lag == 0


def test_the_empty_type_is_that_of_messages_without_one(client):
    produce(client, "mail", "", "fax")
    with client.queue(TOPIC, "g", types=[""]) as rest:
        assert payloads(rest.poll(100)) == [b"1"]


def test_other_groups_get_everything(client):
    produce(client, "mail", "text")
    with client.queue(TOPIC, "g", types=["mail"]) as some, client.queue(TOPIC, "other") as other:
        assert payloads(some.poll()) == [b"0mail"]
        assert payloads(other.poll()) == [b"0mail", b"1text"]


def test_a_member_that_waits_gets_a_message_behind_very_many_of_other_types(client):
    produce(client, *["text"] * 5_000, "mail")
    with client.queue(TOPIC, "g", types=["mail"]) as some:
        assert payloads(some.poll()) == [b"5000mail"]


def test_iterations_of_two_members_share_the_messages_by_type(client):
    produce(client, *["mail", "text"] * 50)
    with client.queue(TOPIC, "g", types=["mail"]) as mails, client.queue(TOPIC, "g", types=["text"]) as texts:
        for consumer, kind in ((mails, b"mail"), (texts, b"text")):
            for _ in range(50):
                message = next(consumer)
                assert message.payload.endswith(kind)
                message.ack()
    assert client.describe_group(TOPIC, "g").lag == 0


def test_a_failed_message_comes_again_to_members_that_ask_for_its_type(broker, client):
    produce(client, "mail", "text")
    with client.queue(TOPIC, "g", types=["mail"]) as mails, client.queue(TOPIC, "g", types=["text"]) as texts:
        (message,) = mails.poll()
        message.nack()
        broker.advance(minutes=1)
        (message,) = mails.poll()
        assert message.attempt == 2
        assert payloads(texts.poll()) == [b"1text"]


def test_a_message_that_nobody_asks_for_does_not_even_expire(broker, client):
    client.produce(TOPIC, b"1", headers={TYPE: b"fax"}, ttl_ms=MINUTE_MS)
    with client.queue(TOPIC, "g", types=["mail"]) as some:
        broker.advance(minutes=2)
        assert some.poll(wait_ms=0) == []
        assert client.describe_group(TOPIC, "g").expired_total == 0
    with client.queue(TOPIC, "g") as everything:
        assert everything.poll(wait_ms=0) == []
    eventually(lambda: client.describe_group(TOPIC, "g").expired_total == 1)


def test_at_most_once(client):
    produce(client, "mail", "text", "mail")
    with client.queue(TOPIC, "g", types=["mail"], ack_mode="auto") as some:
        assert payloads(some.poll()) == [b"0mail", b"2mail"]
    assert client.describe_group(TOPIC, "g").lag == 1


def test_a_worker_handles_its_types_only(broker, client):
    produce(client, "mail", "text", "mail")
    handled = []
    enough = threading.Semaphore(0)

    def handle(message):
        handled.append(message.payload)
        enough.release()

    with Worker(broker.address, TOPIC, "g", handle, types=["mail"]):
        for _ in range(2):
            assert enough.acquire(timeout=60)
    assert sorted(handled) == [b"0mail", b"2mail"]
    assert client.describe_group(TOPIC, "g").lag == 1


def test_the_worker_command_takes_types_without_http(broker, client, tmp_path):
    produce(client, "text", "mail")
    tmp_path.joinpath("typed_handlers.py").write_text("def handle(message): print(message.text, flush=True)\n")
    words = ["worker", "typed_handlers:handle", "-t", TOPIC, "-g", "g", "--types", "fax,mail", "-s", broker.address]
    worker = subprocess.Popen(
        [sys.executable, "-m", "flotilla.cli", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stdout.readline() == "1mail\n"
        worker.send_signal(signal.SIGTERM)
        output, _ = worker.communicate(timeout=60)
    finally:
        worker.kill()
    assert (worker.returncode, output) == (0, "")
    assert client.describe_group(TOPIC, "g").lag == 1


def test_the_consume_command_takes_types_of_a_queue_group(broker, client):
    produce(client, "text", "mail", "fax")
    runner = CliRunner(env={"FLOTILLA_SERVERS": broker.address})
    found = runner.invoke(app, ["consume", TOPIC, "--group", "g", "--types", "fax,mail"])
    assert (found.exit_code, found.stdout) == (0, "1mail\n2fax\n"), found.output
    assert client.describe_group(TOPIC, "g").lag == 1
    for words in ([], ["--group", "s", "--mode", "stream"]):
        found = runner.invoke(app, ["consume", TOPIC, "--types", "mail", *words])
        assert (found.exit_code, found.stdout) == (0, "1mail\n"), found.output


# Headers.


def produce_with(client, *headers):
    client.produce_many(
        TOPIC, [Record(b"%d" % place, headers=tuple(each.items())) for place, each in enumerate(headers)]
    )


EU, US = {"region": b"eu"}, {"region": b"us"}


def test_a_member_gets_messages_that_have_all_its_headers(client):
    produce_with(client, EU, {**EU, "plan": b"free"}, US, {"plan": b"free"}, {"plan": b"free", **EU})
    with client.queue(TOPIC, "g", headers={"region": "eu", "plan": b"free"}) as some:
        found = some.poll(100)
        assert payloads(found) == [b"1", b"4"]
        some.ack(found)
    with client.queue(TOPIC, "g", headers={"region": "eu"}) as europe:
        found = europe.poll(100)
        assert payloads(found) == [b"0"]
        europe.ack(found)
    with client.queue(TOPIC, "g") as everything:
        assert payloads(everything.poll(100)) == [b"2", b"3"]


def test_headers_and_types_go_together(client):
    produce_with(client, {TYPE: b"mail"}, {TYPE: b"mail", **EU}, {TYPE: b"fax", **EU})
    with client.queue(TOPIC, "g", types=["mail", "text"], headers=[("region", "eu")]) as some:
        assert payloads(some.poll(100)) == [b"1"]


def test_a_waiting_member_gets_a_message_with_its_header_as_soon_as_it_is_there(client):
    produce_with(client, *[US] * 3_000)
    with client.queue(TOPIC, "g", headers=EU) as europe:
        assert europe.poll(wait_ms=0) == []
        produce_with(client, US, EU)
        assert payloads(europe.poll(wait_ms=60_000)) == [b"1"]


def test_why_says_that_no_member_takes_a_message(broker, client):
    produce_with(client, US, EU)
    with client.queue(TOPIC, "g", headers=EU) as europe, client.queue(TOPIC, "g", types=["mail"]) as mails:
        assert europe.poll(wait_ms=0)
        assert mails.poll(wait_ms=0) == []
        said = client.explain(TOPIC, "g", 0, 0).next
        assert "waits for a member that takes it" in said
        assert "region='eu'" in said
        assert "types 'mail'" in said
        with client.queue(TOPIC, "g") as everything:
            assert payloads(everything.poll(wait_ms=0)) == [b"0"]


def test_the_consume_command_takes_headers(broker, client):
    produce_with(client, US, EU)
    runner = CliRunner(env={"FLOTILLA_SERVERS": broker.address})
    found = runner.invoke(app, ["consume", TOPIC, "--group", "g", "-H", "region=eu"])
    assert (found.exit_code, found.stdout) == (0, "1\n"), found.output


# Readers and stream groups.


def test_a_reader_gets_matching_records_and_moves_past_the_rest(client):
    produce_with(client, US, EU, US, EU, *[US] * 5_000)
    with client.reader(TOPIC, headers=EU) as reader:
        assert payloads(reader.poll(1)) == [b"1"]
        assert payloads(reader.poll()) == [b"3"]
        assert reader.poll(wait_ms=1) == []
        eventually(lambda: (reader.poll(wait_ms=1), reader.positions())[1] == {0: 5_004})
        produce_with(client, US, EU)
        assert [message.offset for message in reader.poll(wait_ms=60_000)] == [5_005]
        reader.seek(2)
        assert [message.offset for message in reader.poll(1)] == [3]


def test_a_reader_filters_by_type_too(client):
    produce(client, "mail", "", "fax", "mail")
    with client.reader(TOPIC, types=["mail", ""]) as reader:
        assert payloads(reader.poll()) == [b"0mail", b"1", b"3mail"]


def test_a_stream_group_commits_past_what_its_filter_has_skipped(client):
    produce_with(client, US, EU, *[US] * 10)
    with client.stream(TOPIC, "s", headers=EU) as stream:
        assert payloads(stream.poll(wait_ms=60_000)) == [b"1"]
        eventually(lambda: (stream.poll(wait_ms=1), stream.positions())[1] == {0: 12})
        assert stream.commit() == {0: 12}
    produce_with(client, EU)
    with client.stream(TOPIC, "s", headers=EU) as stream:
        assert [message.offset for message in stream.poll(wait_ms=60_000)] == [12]


def test_commits_by_themselves_do_not_pass_a_message_in_hand(client):
    produce_with(client, US, EU, US)
    with client.stream(TOPIC, "s", headers=EU, auto_commit_ms=1) as stream:
        assert [message.offset for message in stream.poll(wait_ms=60_000)] == [1]
        assert stream.committed()[0] in (None, 0, 1)
        eventually(lambda: (stream.poll(wait_ms=1), stream.committed())[1] == {0: 3})


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({}, "at least one"),
        ("region=eu", "as in"),
        ({"region": 1}, "as in"),
        ({b"region": b"eu"}, "as in"),
        ({"\ud800": "eu"}, "as in"),
        ({str(number): "" for number in range(17)}, "16 headers"),
        ({"region": "x" * 4_096}, "4096 bytes"),
    ],
)
def test_bad_headers_are_refused_at_once(client, headers, says):
    with pytest.raises(InvalidArgumentError, match=says):
        client.queue(TOPIC, "g", headers=headers)


def test_coroutines_ask_for_types_too(broker, client):
    produce(client, "mail", "text")

    async def take():
        async with broker.async_client() as here, here.queue(TOPIC, "g", types=["text"]) as some:
            return await some.poll()

    assert payloads(asyncio.run(take())) == [b"1text"]


@pytest.mark.parametrize(
    ("types", "more", "says"),
    [
        ("mail", {}, r"as in \['mail'\]"),
        ([], {}, "at least one"),
        ([b"mail"], {}, "text"),
        (["\ud800"], {}, "UTF-8"),
        (["x" * 257], {}, "256 bytes"),
        ([str(number) for number in range(65)], {}, "64 types"),
        (["mail"], {"ordered": "key"}, "not both"),
    ],
)
def test_bad_types_are_refused_at_once(client, types, more, says):
    with pytest.raises(InvalidArgumentError, match=says):
        client.queue(TOPIC, "g", types=types, **more)
