"""Purge and trim: what they take, whom they tell, and what they leave."""

import json
import subprocess
import sys

import pytest

from flotilla import InvalidArgumentError, LeaseExpiredError, NotFoundError, OffsetOutOfRangeError
from flotilla.testing import LocalBroker
from tests.integration.testing.waiting import eventually, payloads


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


def filled(client, count=10, **settings):
    client.create_topic("orders", partitions=1, **settings)
    client.produce_many("orders", [b"%d" % number for number in range(count)])


def test_a_purge_takes_owed_held_failed_and_delayed_messages_and_counts_them(broker, client):
    filled(client)
    client.produce("orders", b"later", delay_ms=3_600_000)
    client.alter_group("orders", "held", holds_retention=1)
    with client.queue("orders", group="mail") as mail, client.queue("orders", group="held") as held:
        first, second = mail.poll(2, wait_ms=1_000)
        first.ack()
        second.nack(delay_ms=1)
        assert held.poll(1, wait_ms=1_000)
        assert client.purge("orders") == {0: 11}
        assert mail.poll(wait_ms=0) == held.poll(wait_ms=0) == []
        # Before time passes: the log forgets how it went.
        assert client.explain("orders", "mail", 0, 1).history[-1].endswith("it was trimmed by hand")
        client.produce("orders", b"new")
        assert payloads(mail.poll(wait_ms=1_000)) == payloads(held.poll(wait_ms=1_000)) == [b"new"]
        broker.advance(hours=2)
        assert mail.poll(wait_ms=0) == []
    found = client.describe_group("orders", "mail")
    assert (found.acked_total, found.trimmed_total, found.lag) == (1, 10, 1)
    assert client.describe_group("orders", "held").trimmed_total == 11
    assert client.explain("orders", "mail", 0, 1).state == "trimmed"


def test_leased_messages_are_settled_without_effect_and_never_come_again(client):
    filled(client, max_deliveries=1)
    with client.queue("orders", group="mail", visibility_ms=1_000) as mail:
        acked, failed, rejected, staged = mail.poll(4, wait_ms=1_000)
        client.purge("orders")
        acked.ack()
        failed.nack(reason="no")
        rejected.reject(reason="no")
        transaction = client.transaction()
        transaction.produce("orders", b"product")
        transaction.ack(staged)
        with pytest.raises(LeaseExpiredError, match="has ended"):
            transaction.commit()
        assert mail.poll(wait_ms=0) == []
    found = client.describe_group("orders", "mail")
    assert (found.acked_total, found.dead_total, found.trimmed_total, found.lag) == (0, 0, 10, 0)
    assert client.dead_letters("orders", "mail").list() == []


def test_a_message_on_its_way_to_the_dead_letters_arrives(client):
    filled(client)
    with client.queue("orders", group="mail") as mail:
        mail.poll(1, wait_ms=60_000)[0].reject(reason="broken", wait=False)
        mail.flush()
        client.purge("orders")
    letter = eventually(lambda: client.dead_letters("orders", "mail").list())[0]
    assert letter.payload == b"0"
    client.purge("orders")
    assert len(client.dead_letters("orders", "mail").list()) == 1


def test_stream_groups_and_readers_begin_at_the_new_start(client):
    filled(client)
    client.commit_offset("orders", "reports", 0, 2)
    assert client.trim("orders", {0: 7}) == {0: 7}
    with client.stream("orders", group="reports") as stream, pytest.raises(OffsetOutOfRangeError):
        eventually(lambda: stream.poll(wait_ms=1_000))
    with client.stream("orders", group="reports", skip_removed=True) as stream:
        assert payloads(eventually(lambda: stream.poll(wait_ms=1_000))) == [b"7", b"8", b"9"]
    with client.reader("orders", offset="earliest") as reader:
        assert reader.poll(wait_ms=60_000)[0].payload == b"7"
    with client.queue("orders", group="late") as late:
        assert payloads(late.poll(wait_ms=1_000)) == [b"7", b"8", b"9"]
    assert client.describe_group("orders", "late").trimmed_total == 0


@pytest.mark.parametrize(
    ("offsets", "error"),
    [
        ({0: 3, 2: 0}, NotFoundError),
        ({0: 3, 1: 1}, OffsetOutOfRangeError),
        ({0: 3, 1: -1}, OffsetOutOfRangeError),
        ({0: 3, 1: "0"}, InvalidArgumentError),
    ],
)
def test_a_trim_that_is_wrong_in_one_partition_changes_nothing(client, offsets, error):
    client.create_topic("orders", partitions=2)
    client.produce_many("orders", [b"x"] * 5, partition=0)
    with pytest.raises(error):
        client.trim("orders", offsets)
    assert client.find_offset("orders", 0, "earliest") == 0
    assert client.trim("orders", {0: 3, 1: 0}) == {0: 3, 1: 0}
    assert client.trim("orders", {0: 1}) == {0: 3}
    with pytest.raises(NotFoundError):
        client.purge("nothing")


def test_a_purge_knows_partitions_that_the_client_has_not_heard_of(broker, client):
    filled(client)
    with broker.client() as other:
        other.alter_topic("orders", partitions=3)
        other.produce("orders", b"x", partition=2)
    assert client.purge("orders") == {0: 10, 1: 0, 2: 1}


def test_the_command_asks_first_and_a_group_shows_what_it_lost(broker, client):
    filled(client)
    with client.queue("orders", group="mail") as mail:
        mail.poll(1, wait_ms=60_000)

    def run(*words):
        command = [sys.executable, "-m", "flotilla.cli", *words, "--servers", broker.address]
        return subprocess.run(command, input="", capture_output=True, text=True, timeout=60, check=False)

    refused = run("topic", "purge", "orders")
    assert refused.returncode
    assert "--yes" in refused.stderr
    assert run("topic", "trim", "orders", "0=x", "--yes").returncode
    assert client.find_offset("orders", 0, "earliest") == 0
    assert "were removed" not in run("group", "describe", "orders", "mail").stdout
    assert "partition 0 begins at 4" in run("topic", "trim", "orders", "0=4", "--yes").stdout
    assert "4 messages were removed before this group" in run("group", "describe", "orders", "mail").stdout
    purged = json.loads(run("topic", "purge", "orders", "--yes", "--json").stdout)
    assert purged == {"log_starts": {"orders": {"0": 10}}}


def test_a_purged_topic_has_no_record_of_any_time(client):
    filled(client)
    assert client.find_offset("orders", 0, timestamp_ms=1) == 0
    client.purge("orders")
    assert client.find_offset("orders", 0, timestamp_ms=1) == -1
    client.produce("orders", b"new")
    assert client.find_offset("orders", 0, timestamp_ms=1) == 10
