"""Both clients over real sockets: one suite for all shells."""

import pytest

from flotilla import (
    AlreadyExistsError,
    BufferFullError,
    ConnectionClosedError,
    DeadlineError,
    InvalidArgumentError,
    NotFoundError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    OverloadedError,
    Receipt,
    Record,
    StaleGenerationError,
)
from flotilla.client.reader import _loop as feed
from flotilla.testing import DAY_MS
from flotilla.types.operations import CreateTopic, Fetch, Produce, TrimPartition


def test_topics(connect):
    client = connect()
    made = client.create_topic("orders", partitions=3, max_deliveries=5, retention_ms="7d")
    assert [part.number for part in made.partitions] == [0, 1, 2]
    assert made.settings.items() >= {("max_deliveries", "5"), ("retention_ms", str(7 * DAY_MS))}
    with pytest.raises(AlreadyExistsError):
        client.create_topic("orders")
    client.alter_topic("orders", partitions=4, visibility_ms=1_000)
    assert len(client.describe_topic("orders").partitions) == 4
    assert [topic.name for topic in client.topics()] == ["orders"]
    assert client.delete_topic("orders").name == "orders"
    with pytest.raises(NotFoundError):
        client.describe_topic("orders")


def test_the_cluster(connect, servers):
    client = connect()
    cluster_id = servers.cluster.cluster_id
    assert client.admin.metadata().cluster_id == cluster_id
    assert [broker.node for broker in client.admin.metadata().brokers] == [1, 2]
    assert client.admin.init_cluster({1: "node1:7601", 2: "node2:7601"}).cluster_id == cluster_id
    assert client.admin.join_cluster(3, peer="c:1", client="c:2").peers[3] == "c:1"
    assert 3 not in client.admin.remove_node(3).peers


def test_a_reader_of_a_whole_topic_also_reads_the_partitions_that_it_gets_later(connect, servers, monkeypatch):
    monkeypatch.setattr(feed, "REFRESH_MS", 0)
    client = connect()
    client.create_topic("orders", partitions=1)
    consumer = client.reader("orders", offset="earliest")
    named = client.reader("orders", offset="earliest", partitions=[0])
    client.produce("orders", b"one", partition=0)
    assert [message.payload for message in consumer.poll(wait_ms=5_000)] == [b"one"]
    assert [message.payload for message in named.poll(wait_ms=5_000)] == [b"one"]
    client.alter_topic("orders", partitions=2)
    connect().produce("orders", b"two", partition=1)
    found = []
    for number in range(200):
        # Each answer is an occasion to look.
        client.produce("orders", b"more %d" % number, partition=0)
        found += [message for message in consumer.poll(wait_ms=100) if message.partition == 1]
        if found:
            break
    assert [message.payload for message in found] == [b"two"]
    named.poll(wait_ms=100)
    assert list(named.positions()) == [0]


@pytest.mark.parametrize("offset", [None, "earliest"])
def test_a_reader_commits_nothing_for_a_group_that_was_deleted_and_made_anew(connect, offset):
    client, other = connect(), connect()
    client.create_topic("orders", partitions=2)
    client.produce("orders", b"one", partition=0)
    reader = client.reader("orders", offset=offset, group="audit")
    assert [message.payload for message in reader.poll(wait_ms=5_000)] == [b"one"]
    other.commit_offset("orders", "audit", 0, 0)
    assert reader.commit() == {0: 1, 1: 0}
    other.delete_group("orders", "audit")
    for made_anew in (False, True):
        if made_anew:
            other.commit_offset("orders", "audit", 0, 0)
        with pytest.raises(StaleGenerationError, match="'audit' was deleted"):
            reader.commit()
    assert [other.committed_offset("orders", "audit", number) for number in (0, 1)] == [0, None]
    anew = client.reader("orders", group="audit")
    assert [message.payload for message in anew.poll(wait_ms=5_000)] == [b"one"]
    assert anew.commit() == {0: 1, 1: 0}


@pytest.mark.parametrize("offset", [-1, -2, -100])
def test_an_offset_is_not_negative(connect, offset):
    client = connect()
    client.create_topic("orders")
    with pytest.raises(InvalidArgumentError, match="is not an offset"):
        client.reader("orders", offset=offset).poll(wait_ms=0)
    with pytest.raises(InvalidArgumentError, match="is not an offset"):
        client.reader("orders").seek(offset)
    with pytest.raises(InvalidArgumentError, match="is not an offset"):
        client.find_offset("orders", 0, offset)


def test_leadership_moves(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    client.produce("orders", b"one")
    client.admin.transfer_leadership("orders", 0, 2)
    assert client.produce("orders", b"two") == Receipt(0, 1, topic="orders", topic_id=1)
    assert servers.cluster.leader("orders").node == 2


def test_produce_returns_where_the_record_is(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    assert client.produce("orders", b"one", key=b"42", priority=5) == Receipt(0, 0, topic="orders", topic_id=1)
    assert client.produce("orders", b"two", headers={"a": b"1"}, ttl_ms=5_000) == Receipt(
        0, 1, topic="orders", topic_id=1
    )
    assert client.produce("orders", b"three", partition=0, delay_ms=60_000) == Receipt(0, 2, topic="orders", topic_id=1)
    assert servers.cluster.stored("orders") == [b"one", b"two", b"three"]


@pytest.mark.parametrize(
    ("payload", "options"),
    [
        ("text", {}),
        (b"x", {"key": "text"}),
        (b"x", {"priority": 8}),
        (b"x", {"priority": "high"}),
        (b"x", {"partition": 7}),
        (b"x", {"partition": -1}),
        (b"x", {"headers": {"a": 1}}),
        (b"x", {"delay_ms": -1}),
        (b"x", {"timeout_ms": 0}),
    ],
)
def test_a_record_that_cannot_be_is_refused_and_the_next_one_is_not(connect, servers, payload, options):
    servers.cluster.create("orders")
    client = connect()
    with pytest.raises(InvalidArgumentError):
        client.produce("orders", payload, **options)
    assert client.produce("orders", b"fine") == Receipt(0, 0, topic="orders", topic_id=1)


def test_produce_many(connect, servers):
    servers.cluster.create("orders", partitions=3)
    client = connect()
    payloads = [b"%05d" % number for number in range(25_000)]
    receipts = client.produce_many("orders", payloads)
    assert len(receipts) == len(payloads)
    for number in (0, 9_999, 10_000, 24_999, -1):
        receipt = receipts[number]
        assert servers.cluster.records("orders", receipt.partition)[receipt.offset].payload == payloads[number]
    assert sorted(servers.cluster.stored("orders")) == payloads
    assert servers.cluster.count(Produce) == 3
    assert list(client.produce_many("orders", [])) == []


def test_produce_many_records(connect, servers):
    servers.cluster.create("orders", partitions=3)
    client = connect()
    records = [Record(b"%d" % number, key=b"%d" % (number % 7)) for number in range(100)]
    receipts = client.produce_many("orders", records)
    stored = [servers.cluster.records("orders", number) for number in range(3)]
    for record, receipt in zip(records, receipts, strict=True):
        assert stored[receipt.partition][receipt.offset].payload == record.payload
    shared = client.produce_many("orders", [b"a", b"b"], key=b"same", headers=[("x", "1")])
    assert shared[0].partition == shared[1].partition
    assert shared[1].offset == shared[0].offset + 1


def test_produce_many_reports_how_far_it_came(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    with pytest.raises(InvalidArgumentError) as caught:
        client.produce_many("orders", [b"fine"] * 10_000 + ["text"])
    assert caught.value.__notes__ == ["10000 of 10001 records are stored"]


def test_a_topic_that_does_not_exist(connect):
    with pytest.raises(NotFoundError, match="create it first"):
        connect().produce("nothing", b"x")


def test_a_producer_sends_in_the_background(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    with client.producer("orders", linger_ms=60_000) as producer:
        deliveries = [producer.send(b"%d" % number) for number in range(1_000)]
        assert not deliveries[0].done()
        producer.flush()
        assert all(delivery.done() for delivery in deliveries)
        assert [delivery.result() for delivery in deliveries] == [
            Receipt(0, number, topic="orders", topic_id=1) for number in range(1_000)
        ]
        assert deliveries[0].exception() is None
    assert servers.cluster.count(Produce) < 10
    with pytest.raises(ConnectionClosedError):
        producer.send(b"late")


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_compression(connect, servers, compression):
    payload = b"".join([b"the quick brown fox and number %d; " % number for number in range(2_000)])
    servers.cluster.create("orders")
    client = connect()
    with client.producer("orders", compression=compression) as producer:
        producer.send(payload).result()
    size = len(servers.cluster.batches("orders")[0])
    assert size > len(payload) if compression == "none" else size < len(payload)
    assert client.reader("orders").poll()[0].payload == payload


def test_leaving_a_producer_sends_the_rest(connect, servers):
    servers.cluster.create("orders")
    with connect().producer("orders", linger_ms=60_000) as producer:
        producer.send(b"rest")
    assert servers.cluster.stored("orders") == [b"rest"]


def test_an_unobserved_error_is_raised_at_the_end(connect, servers):
    servers.cluster.create("orders")
    servers.cluster.fault = lambda node, request: InvalidArgumentError("no") if isinstance(request, Produce) else None
    client = connect()
    producer = client.producer("orders")
    producer.send(b"x")
    with pytest.raises(InvalidArgumentError):
        producer.flush()
    looked_at = producer.send(b"x")
    with pytest.raises(InvalidArgumentError):
        looked_at.result()
    assert isinstance(looked_at.exception(), InvalidArgumentError)
    producer.close()


def test_a_full_buffer_makes_send_wait_and_then_fail(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    with client.producer("orders", linger_ms=0, buffer_bytes_max=2_000) as producer:
        for _ in range(100):
            producer.send(b"x" * 500)
    assert len(servers.cluster.stored("orders")) == 100
    cut_off(client, servers)
    producer = client.producer("orders", buffer_bytes_max=2_000)
    for _ in range(3):
        producer.send(b"x" * 500)
    with pytest.raises(BufferFullError, match="buffer_bytes_max"):
        producer.send_record(Record(b"x" * 500), None, 50)


def cut_off(client, servers):
    """From now on the client sends nothing, so nothing can have happened, however slow this machine is."""
    for node in servers.cluster.addresses:
        servers.shut(node)
    with pytest.raises(DeadlineError):
        # Until then it has noticed that its connections are gone.
        client.topics(timeout_ms=50)


def test_a_record_that_runs_out_of_time_says_so(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    client.produce("orders", b"x")
    cut_off(client, servers)
    delivery = client.producer("orders", timeout_ms=100).send(b"x")
    with pytest.raises(DeadlineError):
        delivery.result()


def test_closing_with_records_unsent_fails_them_in_time(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    client.produce("orders", b"x")
    cut_off(client, servers)
    producer = client.producer("orders")
    delivery = producer.send(b"x")
    producer.close(timeout_ms=50)
    with pytest.raises(ConnectionClosedError):
        delivery.result()


def test_every_call_ends_by_its_deadline(connect, servers):
    servers.cluster.create("orders")
    servers.cluster.fault = lambda node, request: OverloadedError("full")
    client = connect(timeout_ms=200)
    for action in (client.topics, lambda: client.produce("orders", b"x"), lambda: client.create_topic("new")):
        with pytest.raises(DeadlineError):
            action()


def test_an_unknown_outcome_is_raised_as_such(connect, servers):
    servers.cluster.fault = lambda node, request: (
        OutcomeUnknownError("leadership was lost") if isinstance(request, CreateTopic) else None
    )
    with pytest.raises(OutcomeUnknownError):
        connect().create_topic("orders")
    assert servers.cluster.count(CreateTopic) == 1


def test_a_broker_that_restarts_is_found_again(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    assert client.produce("orders", b"one") == Receipt(0, 0, topic="orders", topic_id=1)
    port = int(servers.cluster.addresses[1].rpartition(":")[2])
    servers.shut(1)
    servers.open(1, port)
    assert client.produce("orders", b"two") == Receipt(0, 1, topic="orders", topic_id=1)


def test_no_broker_is_reachable(connect, servers):
    cut_off(connect(), servers)


# Reading.


def test_reading_from_the_beginning(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    client.produce("orders", b"one", key=b"k", headers={"a": "1"}, priority=3, content_type=2, timestamp_ms=77)
    client.produce_many("orders", [b"two", b"three"])
    with client.reader("orders", offset=0) as consumer:
        first = consumer.poll(1)[0]
        assert first == ("orders", 0, 0, b"one", b"k", (("a", b"1"),), 77, 3, 2)
        assert [message.payload for message in consumer.take(2)] == [b"two", b"three"]
        assert consumer.positions() == {0: 3}
        assert consumer.poll(wait_ms=20) == []
        client.produce("orders", b"four")
        assert [message.payload for message in consumer.poll()] == [b"four"]


def test_reading_all_partitions(connect, servers):
    servers.cluster.create("orders", partitions=3)
    client = connect()
    for number in range(30):
        client.produce("orders", b"%d" % number, partition=number % 3)
    consumer = client.reader("orders")
    found = []
    while len(found) < 30:
        found += consumer.poll(4)
    assert sorted(int(message.payload) for message in found) == list(range(30))
    for partition in range(3):
        assert [m.offset for m in found if m.partition == partition] == list(range(10))
    some = client.reader("orders", partitions=[2], offset=7)
    assert [message.offset for message in some.take(3)] == [7, 8, 9]
    with pytest.raises(InvalidArgumentError):
        client.reader("orders", partitions=[3]).poll()


@pytest.mark.parametrize(
    ("start", "first"),
    [({"offset": 2}, 2), ({"offset": "earliest"}, 0), ({"timestamp_ms": 1_004}, 4), ({}, 0), ({"offset": "latest"}, 6)],
)
def test_where_a_reader_begins(connect, servers, start, first):
    servers.cluster.create("orders")
    client = connect()
    for number in range(6):
        client.produce("orders", b"x", timestamp_ms=1_000 + number)
    assert client.reader("orders", **start).positions() == {0: first}


def test_seeking_is_replaying(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    for number in range(5):
        client.produce("orders", b"%d" % number, timestamp_ms=1_000 + number)
    consumer = client.reader("orders")
    assert [message.offset for message in consumer.take(5)] == [0, 1, 2, 3, 4]
    consumer.seek(3)
    assert [message.offset for message in consumer.take(2)] == [3, 4]
    consumer.seek("earliest", partition=0)
    assert consumer.poll(1)[0].offset == 0
    consumer.seek(timestamp_ms=1_002)
    assert consumer.poll(1)[0].offset == 2
    consumer.seek("latest")
    assert consumer.poll(wait_ms=10) == []
    with pytest.raises(InvalidArgumentError):
        consumer.seek(0, partition=5)
    with pytest.raises(InvalidArgumentError):
        consumer.seek("middle")


def test_committing_and_going_on(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    client.produce_many("orders", [b"a", b"b", b"c"])
    with client.reader("orders", group="billing") as consumer:
        assert consumer.committed() == {0: None}
        consumer.take(2)
        assert consumer.commit() == {0: 2}
        assert consumer.committed() == {0: 2}
    assert client.reader("orders", group="billing").poll()[0].payload == b"c"
    assert client.committed_offset("orders", "billing", 0) == 2
    assert client.commit_offset("orders", "billing", 0, 1) == 2
    assert client.commit_offset("orders", "billing", 0, 1, reset=True) == 1
    assert client.committed_offset("orders", "absent", 0) is None
    with pytest.raises(InvalidArgumentError, match="group"):
        client.reader("orders").commit()


def test_reading_records_that_retention_removed(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    for number in range(6):
        client.produce("orders", b"%d" % number)
    servers.cluster.answer("orders", 0, TrimPartition("orders", 0, 4))
    with pytest.raises(OffsetOutOfRangeError):
        client.reader("orders", offset=1).poll()
    lenient = client.reader("orders", offset=1, skip_removed=True)
    assert [message.offset for message in lenient.take(2)] == [4, 5]
    beyond = client.reader("orders", offset=99, skip_removed=True)
    with pytest.raises(OffsetOutOfRangeError):
        beyond.poll()


def test_the_next_messages_are_fetched_while_the_application_works(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    for number in range(3):
        client.produce("orders", b"x" * 600 + b"%d" % number)
    consumer = client.reader("orders", fetch_bytes=800)
    consumer.poll(1)
    for _ in range(1_000):
        # A turn of the client's loop, and of the broker's.
        client.topics()
        if servers.cluster.count(Fetch) >= 2:
            break
    assert servers.cluster.count(Fetch) >= 2


def test_offsets(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    client.produce("orders", b"x", timestamp_ms=500)
    assert client.find_offset("orders", 0, "earliest") == 0
    assert client.find_offset("orders", 0, "latest") == 1
    assert client.find_offset("orders", 0, timestamp_ms=400) == 0
    assert client.find_offset("orders", 0, timestamp_ms=501) == -1
    with pytest.raises(InvalidArgumentError):
        client.find_offset("orders", 0)


def test_unsupported_settings_are_refused(connect):
    with pytest.raises(TypeError, match="visibility_ms"):
        connect().reader("orders", visibility_ms=30_000)
    with pytest.raises(InvalidArgumentError):
        connect().reader("orders", offset=0, timestamp_ms=0)


def test_nothing_goes_on_after_the_end(connect, servers):
    servers.cluster.create("orders")
    client = connect()
    consumer = client.reader("orders")
    consumer.poll(wait_ms=1)
    producer = client.producer("orders")
    client.close()
    client.close()
    for action in (
        client.topics,
        lambda: client.produce("orders", b"x"),
        lambda: producer.send(b"x"),
        consumer.poll,
        lambda: client.reader("orders"),
    ):
        with pytest.raises(ConnectionClosedError):
            action()


@pytest.mark.parametrize("addresses", ["", "host:port", ["a:1", ""], [], "a:99999"])
def test_addresses_that_are_none(addresses):
    from flotilla import AsyncClient, Client

    for kind in (Client, AsyncClient):
        with pytest.raises(InvalidArgumentError):
            kind(addresses)
