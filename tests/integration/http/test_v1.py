"""Everything that a client can do, as JSON: topics, records, messages, groups, dead letters, the cluster."""

from base64 import b64decode, b64encode
from itertools import count
from typing import Any

import httpx
import pytest

from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.frontends.http.api.records import BATCH_TYPE
from flotilla.testing import LocalBroker
from flotilla.types.address import Address
from flotilla.types.records import Record
from tests.integration.http.conftest import http_address

NUMBERS = count()


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


class Topic:
    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.name = f"topic-{next(NUMBERS)}"
        made = http.post("/v1/topics", json={"topic": self.name, "partitions": 2, "settings": {"max_deliveries": "1"}})
        assert made.status_code == 201, made.text

    def post(self, path: str, **body: Any) -> Any:
        answer = self.http.post(f"/v1/topics/{self.name}/{path}", json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def get(self, path: str = "", **query: Any) -> Any:
        answer = self.http.get(f"/v1/topics/{self.name}{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def produce(self, *texts: str, partition: int = 0) -> Any:
        return self.post("records", records=[{"payload_text": text} for text in texts], partition=partition)

    def poll(self, **fields: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.post("groups/g/poll", member="m", **fields)["messages"]
        return found


@pytest.fixture
def topic(http: httpx.Client) -> Topic:
    return Topic(http)


def test_topics(topic: Topic, http: httpx.Client) -> None:
    found = topic.get()
    assert (found["topic"], len(found["partitions"]), found["settings"]["max_deliveries"]) == (topic.name, 2, "1")
    assert topic.name in [each["topic"] for each in http.get("/v1/topics").json()["topics"]]
    assert http.post("/v1/topics", json={"topic": topic.name}).status_code == 409
    altered = http.patch(f"/v1/topics/{topic.name}", json={"partitions": 3, "settings": {"retention_ms": "1h"}}).json()
    assert (len(altered["partitions"]), altered["settings"]["retention_ms"]) == (3, "3600000")
    refused = http.patch(f"/v1/topics/{topic.name}", json={"settings": {"nonsense": "1"}})
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_ARGUMENT")
    assert http.delete(f"/v1/topics/{topic.name}").json()["topic"] == topic.name
    assert http.get(f"/v1/topics/{topic.name}").status_code == 404


def test_records_there_and_back(topic: Topic) -> None:
    record = {
        "payload": encoded(b"\0\xff"),
        "key": encoded(b"k"),
        "headers": [{"name": "h", "value": encoded(b"v")}],
        "priority": 5,
        "content_type": 7,
        "timestamp_ms": 1_000,
        "ttl_ms": 10**9,
        "idempotency_key": "once",
        "max_deliveries": 3,
    }
    stored = topic.post("records", records=[record], partition=1)["receipts"]
    assert [receipt.pop("topic_id") > 0 for receipt in stored] == [True]
    assert stored == [{"partition": 1, "offset": 0, "duplicate": False}]
    assert topic.post("records", records=[record], partition=1)["receipts"][0]["duplicate"]
    fetched = topic.get("/partitions/1/records", offset=0)
    assert (fetched["next"], fetched["log_start"], fetched["end"]) == (1, 0, 1)
    assert fetched["records"] == [{**record, "offset": 0, "idempotency_key": encoded(b"once")}]


def test_payloads_can_be_text_or_json_and_fetches_are_paged(topic: Topic) -> None:
    topic.post("records", records=[{"payload_text": "ä"}, {"payload_json": {"a": [1]}}], partition=0)
    topic.produce("c")
    first = topic.get("/partitions/0/records", offset=0, limit=2)
    assert [b64decode(each["payload"]) for each in first["records"]] == ["ä".encode(), b'{"a":[1]}']
    assert [each["content_type"] for each in first["records"]] == [1, 2]
    rest = topic.get("/partitions/0/records", offset=first["next"])
    assert [(each["offset"], b64decode(each["payload"])) for each in rest["records"]] == [(2, b"c")]
    assert topic.get("/partitions/0/records", offset=3)["records"] == []
    beyond = topic.http.get(f"/v1/topics/{topic.name}/partitions/0/records", params={"offset": 9})
    assert (beyond.status_code, beyond.json()["code"]) == (416, "OFFSET_OUT_OF_RANGE")


def test_a_poll_asks_for_types_and_the_empty_one_is_that_of_messages_without_any(topic: Topic) -> None:
    header = {"name": "flotilla-task-type", "value": encoded(b"mail")}
    topic.post("records", records=[{"payload_text": "0"}, {"payload_text": "1", "headers": [header]}], partition=0)
    assert [each["offset"] for each in topic.poll(types=["mail"])] == [1]
    assert [each["offset"] for each in topic.poll(types=[""])] == [0]


def test_offsets(topic: Topic) -> None:
    topic.produce("a", "b")
    assert topic.get("/partitions/0/offset")["offset"] == 2
    assert topic.get("/partitions/0/offset", timestamp_ms=-2)["offset"] == 0
    assert topic.get("/partitions/0/offset", timestamp_ms=2**50)["offset"] == -1
    position = f"/v1/topics/{topic.name}/groups/reader/partitions/0/offset"
    assert topic.http.get(position).status_code == 404
    assert topic.http.put(position, json={"offset": 2}).json()["offset"] == 2
    assert topic.http.put(position, json={"offset": 1}).json()["offset"] == 2
    assert topic.http.put(position, json={"offset": 1, "reset": True}).json()["offset"] == 1
    assert topic.http.get(position).json()["offset"] == 1


def test_a_topic_that_was_created_anew_is_refused_by_its_id(topic: Topic) -> None:
    topic.produce("old")
    topic_id = topic.get("")["topic_id"]
    part = f"/v1/topics/{topic.name}/partitions/0"
    position = f"/v1/topics/{topic.name}/groups/reader/partitions/0/offset"
    batch = bytes(encode_batch([Record(b"a")], producer_id=7))
    known = {"topic_id": topic_id}

    def answers() -> list[int]:
        return [
            topic.http.post(
                f"{part}/batches", params=known, content=batch, headers={"Content-Type": BATCH_TYPE}
            ).status_code,
            topic.http.get(f"{part}/records", params=known | {"offset": 0}).status_code,
            topic.http.get(f"{part}/batches", params=known | {"offset": 0}).status_code,
            topic.http.get(f"{part}/offset", params=known).status_code,
            topic.http.put(position, json={"offset": 1, "topic_id": topic_id}).status_code,
            topic.http.get(position, params=known).status_code,
        ]

    assert answers() == [201, 200, 200, 200, 200, 200]
    topic.http.delete(f"/v1/topics/{topic.name}")
    topic.http.post("/v1/topics", json={"topic": topic.name, "partitions": 1})
    assert answers() == [409] * 6
    assert topic.get("/partitions/0/records", offset=0)["records"] == []


def test_batches_as_they_are(topic: Topic) -> None:
    batch = encode_batch([Record(b"a"), Record(b"b")], producer_id=7)
    path = f"/v1/topics/{topic.name}/partitions/0/batches"
    headers = {"Content-Type": BATCH_TYPE}
    stored = topic.http.post(path, content=bytes(batch), headers=headers)
    assert (stored.status_code, stored.json()) == (201, {"base_offset": 0, "duplicate": False})
    assert topic.http.post(path, content=bytes(batch), headers=headers).json()["duplicate"]
    fetched = topic.http.get(path, params={"offset": 0})
    assert fetched.headers["content-type"] == BATCH_TYPE
    assert (fetched.headers["flotilla-log-start"], fetched.headers["flotilla-next-offset"]) == ("0", "2")
    assert BatchView(fetched.content).payloads() == [b"a", b"b"]
    assert topic.http.post(path, content=b"garbage", headers=headers).status_code == 400
    count = len(topic.get("")["partitions"])
    assert topic.http.post(path, params={"partition_count": count}, content=bytes(batch), headers=headers).is_success
    topic.http.patch(f"/v1/topics/{topic.name}", json={"partitions": count + 1})
    grown = topic.http.post(path, params={"partition_count": count}, content=bytes(batch), headers=headers)
    assert (grown.status_code, grown.json()["code"]) == (409, "TOPIC_GROWN")
    assert topic.http.post(path, content=bytes(batch)).status_code == 415


def test_messages_and_the_ends_of_their_leases(topic: Topic) -> None:
    topic.produce("a", "b", "c", "d", "e")
    messages = topic.poll(max_messages=5, wait_ms=10_000)
    assert [b64decode(each["payload"]) for each in messages] == [b"a", b"b", b"c", b"d", b"e"]
    leases = [each["lease"] for each in messages]
    assert topic.post("groups/g/ack", leases=leases[:2]) == {"expired": []}
    assert topic.post("groups/g/extend", leases=leases[:3], member="m")["expired"] == leases[:2]
    assert topic.post("groups/g/release", leases=[leases[2]]) == {"expired": []}
    again = topic.poll(wait_ms=10_000)
    assert [(each["offset"], each["attempt"]) for each in again] == [(2, 1)]
    assert topic.post("groups/g/reject", leases=[leases[3]], reason="no good") == {"expired": []}
    assert topic.post("groups/g/nack", leases=[leases[4]], reason="the last one") == {"expired": []}
    wrong = topic.http.post(f"/v1/topics/{topic.name}/groups/g/ack", json={"leases": ["1.2.x"]})
    assert wrong.status_code == 400
    explained = topic.get("/groups/g/partitions/0/messages/2")
    assert (explained["state"], explained["holder"]) == ("leased", "m")
    described = topic.get("/groups/g")
    assert (described["kind"], described["lag"]) == ("queue", 1)
    while len(dead := topic.get("/groups/g/dead-letters")["dead_letters"]) < 2:
        pass  # They are on their way.
    assert sorted(letter["reason"] for letter in dead) == ["no good", "the last one"]
    assert topic.post("groups/g/dead-letters/redrive", reason="no good", dry_run=True)["done"] == 1
    assert topic.post("groups/g/dead-letters/redrive", reason="no good")["done"] == 1
    assert topic.post("groups/g/dead-letters/purge")["done"] == 1
    assert topic.get("/groups/g/dead-letters") == {"dead_letters": []}
    assert [b64decode(each["payload"]) for each in topic.poll(wait_ms=10_000)] == [b"d"]


def test_leases_with_one_number_in_several_partitions_are_distinct(topic: Topic) -> None:
    for partition in (0, 1):
        topic.produce("a", partition=partition)
    messages = [topic.poll(partitions=[partition], wait_ms=10_000)[0] for partition in (0, 1)]
    leases = [message["lease"] for message in messages]
    assert [lease.split(".", 2)[2] for lease in leases] == [leases[0].split(".", 2)[2]] * 2
    assert topic.post("groups/g/ack", leases=leases[:1]) == {"expired": []}
    assert topic.post("groups/g/extend", leases=leases, member="m")["expired"] == leases[:1]
    lease = f"{leases[0].split('.')[0]}.{2**32 - 1}.1.0"
    elsewhere = topic.http.post(f"/v1/topics/{topic.name}/groups/g/ack", json={"leases": [lease]})
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (404, "NOT_FOUND")


def test_at_most_once_has_nothing_to_settle(topic: Topic) -> None:
    topic.produce("a")
    (message,) = topic.poll(at_most_once=True, wait_ms=10_000)
    assert "lease" not in message
    assert topic.poll() == []


def test_groups(topic: Topic) -> None:
    topic.produce("a", "b")
    topic.poll()
    assert topic.get("/groups") == {"groups": [{"group": "g", "kind": "queue"}]}
    path = f"/v1/topics/{topic.name}/groups/g"
    assert topic.http.patch(path, json={"settings": {"paused": "1"}}).json() == {"settings": {"paused": "1"}}
    assert topic.poll() == []
    topic.http.patch(path, json={"settings": {"paused": ""}})
    moved = topic.post("groups/g/reset", start={"offset": 1}, partitions=[0])
    assert moved["partitions"] == [{"partition": 0, "from_offset": 0, "to_offset": 1}]
    assert [each["offset"] for each in topic.poll(wait_ms=10_000)] == [1]
    assert topic.http.post(f"{path}/reset", json={"start": {"offset": 1, "at": "latest"}}).status_code == 400
    topic.http.patch(path, json={"settings": {"paused": "1"}})
    assert topic.http.delete(path).json()["code"] == "GROUP_IN_USE", "its member polled a moment ago"
    assert topic.http.delete(f"{path}?force=true").json() == {"group": "g"}
    assert topic.http.get(path).status_code == 404
    assert [each["offset"] for each in topic.poll(wait_ms=10_000)] == [0, 1]


def test_a_stream_group_without_members_is_moved_and_deleted(topic: Topic, broker: LocalBroker) -> None:
    topic.produce("a", "b")
    path = f"/v1/topics/{topic.name}/groups/s"
    with broker.client() as client, client.stream(topic.name, group="s") as consumer:
        assert next(consumer).offset == 0
        consumer.commit()
        assert topic.get("/groups")["groups"] == [{"group": "s", "kind": "stream"}]
        found = topic.get("/groups/s")
        assert (found["kind"], found["lag"]) == ("stream", 1)
        assert [each["partition"] for each in found["partitions"]] == [0, 1]
        assert found["partitions"][0]["floor"] == 1
        assert [member["name"] for member in found["stream"]["members"]] == [consumer.member]
        for method, place, body in (
            ("DELETE", path, None),
            ("POST", f"{path}/reset", {"start": {"at": "earliest"}}),
            ("POST", f"{path}/reset", {"start": {"at": "earliest"}, "dry_run": True}),
        ):
            refused = topic.http.request(method, place, json=body)
            assert (refused.status_code, refused.json()["code"]) == (409, "GROUP_IN_USE"), (method, body)
    assert topic.get("/groups/s")["stream"]["members"] == []
    moved = topic.post("groups/s/reset", start={"at": "earliest"}, partitions=[0])
    assert [(move["partition"], move["to_offset"]) for move in moved["partitions"]] == [(0, 0)]
    with broker.client() as client, client.stream(topic.name, group="s") as consumer:
        assert next(consumer).offset == 0
    assert topic.http.delete(path).json() == {"group": "s"}
    assert topic.http.get(path).status_code == 404
    assert topic.http.delete(path).status_code == 404
    assert topic.get("/groups") == {"groups": []}


def test_cancelled_records_are_not_delivered(topic: Topic) -> None:
    topic.post("records", records=[{"payload_text": "a", "idempotency_key": "k"}, {"payload_text": "b"}], partition=0)
    assert topic.post("partitions/0/cancel", idempotency_keys=["k"]) == {"offsets": [0]}
    assert [each["offset"] for each in topic.poll(wait_ms=10_000)] == [1]


def test_the_cluster(http: httpx.Client, url: str) -> None:
    cluster = http.get("/v1/cluster").json()
    assert [(node["http"], node["is_alive"]) for node in cluster["nodes"]] == [(url.removeprefix("http://"), True)]


def test_unknown_paths_methods_and_parameters_are_refused(http: httpx.Client) -> None:
    for method, path, status in (
        ("GET", "/v1/topics/nothing", 404),
        ("GET", "/v1/nothing", 404),
        ("PUT", "/v1/topics", 405),
        ("GET", "/v1/topics?typo=1", 400),
        ("GET", "/v1/topics/a b", 404),
        ("GET", "/v1/topics/x/partitions/y/offset", 400),
    ):
        answer = http.request(method, path)
        assert (answer.status_code, answer.json().keys()) == (status, {"code", "message", "retryable"})


# Streams.


class Events:
    """Reads server-sent events until it has heard enough."""

    def __init__(self, lines: Any) -> None:
        self._lines = lines

    def take(self, number: int) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        event: dict[str, str] = {}
        for line in self._lines:
            if not line:
                if event:
                    found.append(event)
                event = {}
                if len(found) == number:
                    break
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                event[name] = value
        return found


def test_a_group_can_be_subscribed_to(topic: Topic) -> None:
    topic.produce("a", "b", "c")
    path = f"/v1/topics/{topic.name}/subscribe"
    body: dict[str, str | int] = {"group": "s", "member": "m", "max_in_flight": 2}
    with topic.http.stream("POST", path, json=body) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        events = Events(stream.iter_lines())
        taken = events.take(2)
        # More come when those are settled.
        with httpx.Client(base_url=topic.http.base_url) as other:
            leases = [event["id"] for event in taken]
            settled = other.post(f"/v1/topics/{topic.name}/groups/s/ack", json={"leases": leases})
            assert settled.json() == {"expired": []}
        (third,) = events.take(1)
        assert b64encode(b"c").decode() in third["data"]


def test_a_log_is_followed_from_where_the_client_was(topic: Topic) -> None:
    topic.produce("a", "b", "c")
    path = f"/v1/topics/{topic.name}/partitions/0/follow"
    with topic.http.stream("GET", path, params={"offset": 1}) as stream:
        assert [event["id"] for event in Events(stream.iter_lines()).take(2)] == ["1", "2"]
    with topic.http.stream("GET", path, headers={"Last-Event-ID": "1"}) as stream:
        events = Events(stream.iter_lines())
        assert [event["id"] for event in events.take(1)] == ["2"]
        with httpx.Client(base_url=topic.http.base_url) as other:
            other.post(f"/v1/topics/{topic.name}/records", json={"records": [{"payload_text": "d"}], "partition": 0})
        assert [event["id"] for event in events.take(1)] == ["3"]
    assert topic.http.get(path, headers={"Last-Event-ID": "x"}).status_code == 400
    assert topic.http.get(path, params={"offset": 99}).status_code == 416
    assert topic.http.get("/v1/topics/nothing/partitions/0/follow").status_code == 404


def produce_regions(topic: Topic, http: httpx.Client | None = None) -> None:
    region = [{"name": "region", "value": b64encode(b"eu").decode()}]
    records = [{"payload_text": str(n), "headers": region * (n % 2)} for n in range(6)]
    body = {"records": records, "partition": 0}
    assert (http or topic.http).post(f"/v1/topics/{topic.name}/records", json=body).status_code == 201


def test_records_are_filtered_by_header(topic: Topic) -> None:
    produce_regions(topic)
    path = f"/v1/topics/{topic.name}/partitions/0"
    found = topic.http.get(f"{path}/records", params={"offset": 0, "headers": "region:eu"}).json()
    assert ([each["offset"] for each in found["records"]], found["next"]) == ([1, 3, 5], 6)
    cut = topic.http.get(f"{path}/records", params={"offset": 0, "headers": "region:eu", "limit": 2}).json()
    assert ([each["offset"] for each in cut["records"]], cut["next"]) == ([1, 3], 4)
    none = topic.http.get(f"{path}/records", params={"offset": 0, "headers": "region:eu,region:us"}).json()
    assert (none["records"], none["next"]) == ([], 6)
    untyped = topic.http.get(f"{path}/records", params={"offset": 4, "types": ""}).json()
    assert [each["offset"] for each in untyped["records"]] == [4, 5]
    assert topic.http.get(f"{path}/records", params={"offset": 0, "headers": "region"}).status_code == 400
    with topic.http.stream("GET", f"{path}/follow", params={"offset": 0, "headers": "region:eu"}) as stream:
        events = Events(stream.iter_lines())
        assert [event["id"] for event in events.take(3)] == ["1", "3", "5"]
        with httpx.Client(base_url=topic.http.base_url) as other:
            produce_regions(topic, other)
        assert [event["id"] for event in events.take(3)] == ["7", "9", "11"]


def test_records_are_searched_by_key_and_text_with_an_answer_that_says_how_far_it_has_come(topic: Topic) -> None:
    # More than one request looks at.
    records = [{"payload_text": f"Order {n}", "key_text": f"k{n % 10}"} for n in range(3_000)]
    topic.post("records", records=records, partition=0)
    path = f"/v1/topics/{topic.name}/partitions/0"

    def search(offset: int, **query: Any) -> tuple[list[int], int, int]:
        found = topic.http.get(f"{path}/records", params={"offset": offset, **query}).json()
        return [each["offset"] for each in found["records"]], found["next"], found["looked"]

    place, requests, found = 0, 0, []
    while place < 3_000:
        offsets, place, looked = search(place, contains="ORDER 299", key="k5")
        assert 0 < looked <= 2_048
        found += offsets
        requests += 1
    assert (found, place) == ([2_995], 3_000)
    assert requests > 1
    assert search(290, contains="order", until=293) == ([290, 291, 292], 293, 3)
    assert search(290, contains="order", until=299, limit=2) == ([290, 291], 292, 2)
    assert search(290, contains="nothing", until=299) == ([], 299, 9)
    assert search(290, until=292) == ([290, 291], 292, 2)
    assert search(5, key="")[0] == []
    assert topic.http.get(f"{path}/records", params={"offset": 0, "contains": "x" * 2_000}).status_code == 400
    with topic.http.stream("GET", f"{path}/follow", params={"offset": 0, "contains": "Order 2999"}) as stream:
        assert [event["id"] for event in Events(stream.iter_lines()).take(1)] == ["2999"]


def test_a_subscription_is_filtered_and_a_member_leaves(topic: Topic) -> None:
    produce_regions(topic)
    wanted = [{"name": "region", "value": b64encode(b"eu").decode()}]
    body = {"group": "f", "member": "m", "headers": wanted}
    with topic.http.stream("POST", f"/v1/topics/{topic.name}/subscribe", json=body) as stream:
        payloads = [event["data"] for event in Events(stream.iter_lines()).take(3)]
        assert [b64encode(b"%d" % n).decode() in text for n, text in zip((1, 3, 5), payloads, strict=True)] == [
            True
        ] * 3
    group = f"/v1/topics/{topic.name}/groups/left"
    (first,) = topic.http.post(f"{group}/poll", json={"member": "a", "max_messages": 1}).json()["messages"]
    assert topic.http.post(f"{group}/leave", json={"member": "a"}).json() == {}
    (again,) = topic.http.post(f"{group}/poll", json={"member": "b", "max_messages": 1}).json()["messages"]
    assert (first["offset"], again["offset"], again["attempt"]) == (0, 0, 1)
    assert topic.http.post(f"{group}/ack", json={"leases": [first["lease"]]}).json() == {"expired": [first["lease"]]}
    topic.http.post(f"{group}/leave", json={"member": "b"})
    assert topic.http.delete(group).status_code == 200


def test_a_stream_ends_with_its_node() -> None:
    broker = LocalBroker(http_listen=Address("127.0.0.1", 0))
    with httpx.Client(base_url=http_address(broker), timeout=30) as client:
        client.post("/v1/topics", json={"topic": "t"})
        client.post("/v1/topics/t/records", json={"records": [{"payload_text": "a"}]})
        with client.stream("GET", "/v1/topics/t/partitions/0/follow", params={"offset": 0}) as stream:
            events = Events(stream.iter_lines())
            assert [event["id"] for event in events.take(1)] == ["0"]
            broker.close()
            try:
                last = events.take(1)
            except httpx.RemoteProtocolError:
                last = []
            assert not last or last[0]["event"] == "error"


def test_a_lease_of_a_topic_that_was_created_anew_has_expired(topic: Topic) -> None:
    topic.produce("old", partition=0)
    (old,) = topic.poll(wait_ms=10_000)
    topic.http.delete(f"/v1/topics/{topic.name}")
    topic.http.post("/v1/topics", json={"topic": topic.name, "partitions": 2})
    topic.produce("new", partition=0)
    (new,) = topic.poll(wait_ms=10_000)
    assert old["lease"].split(".")[1:] == new["lease"].split(".")[1:]
    for verb in ("ack", "nack", "reject", "release"):
        assert topic.post(f"groups/g/{verb}", leases=[old["lease"]]) == {"expired": [old["lease"]]}
    assert topic.post("groups/g/extend", leases=[old["lease"], new["lease"]], member="m")["expired"] == [old["lease"]]
    assert topic.post("groups/g/ack", leases=[new["lease"]]) == {"expired": []}
