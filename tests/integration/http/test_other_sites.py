"""A web page that a developer visits can neither read from a node nor change anything there."""

import re
from itertools import count
from typing import Any

import httpx
import pytest

from tests.integration.http.test_openapi import DOCUMENT

NUMBERS = count()
GROUP = "billing"
SAMPLES = {"partition": "0", "node": "1", "offset": "0", "group": GROUP, "id": "1-0-0"}
OPERATIONS = [(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods]
#: What a browser sends for a page of another site, whatever the page asks for.
FOREIGN = {
    "another site": ({"Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}, 403),
    "another port": ({"Sec-Fetch-Site": "same-site", "Content-Type": "application/json"}, 403),
    "another origin": ({"Origin": "http://evil.example", "Content-Type": "application/json"}, 403),
    "a rebound name": ({"Host": "evil.example:7680", "Content-Type": "application/json"}, 421),
}


def fill(path: str, topic: str) -> str:
    return re.sub(r"{(\w+)}", lambda found: {**SAMPLES, "topic": topic}.get(found[1], "x"), path)


class Queue:
    """A topic with messages and dead letters."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.name = f"visited-{next(NUMBERS)}"
        self.path = f"/v1/topics/{self.name}"
        self.post("/v1/topics", topic=self.name, partitions=1)
        self.produce("dead")
        (dead,) = self.poll()
        self.post(f"{self.path}/groups/{GROUP}/reject", leases=[dead["lease"]], reason="broken")
        while self.dead() != 1:
            pass
        self.produce("a", "b", "c")

    def post(self, path: str, **body: Any) -> Any:
        answer = self.http.post(path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def produce(self, *texts: str) -> None:
        self.post(f"{self.path}/records", records=[{"payload_text": text} for text in texts])

    def poll(self) -> list[dict[str, Any]]:
        body = {"member": "honest", "max_messages": 10, "wait_ms": 10_000}
        found: list[dict[str, Any]] = self.post(f"{self.path}/groups/{GROUP}/poll", **body)["messages"]
        return found

    def dead(self) -> int:
        return len(self.http.get(f"{self.path}/groups/{GROUP}/dead-letters").json()["dead_letters"])

    def assert_untouched(self) -> None:
        assert self.dead() == 1
        messages = self.poll()
        assert [each["offset"] for each in messages] == [1, 2, 3]
        assert {each["attempt"] for each in messages} == {1}
        self.post(f"{self.path}/groups/{GROUP}/release", leases=[each["lease"] for each in messages])


@pytest.fixture
def queue(http: httpx.Client) -> Queue:
    return Queue(http)


def test_a_picture_consumes_nothing(queue: Queue) -> None:
    # No header that tells a browser: such as they send to an address that is not loopback.
    path = f"{queue.path}/subscribe?group={GROUP}&member=x&at_most_once=true"
    with queue.http.stream("GET", path) as answer:
        assert answer.status_code == 405
    queue.assert_untouched()


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_request_that_a_page_may_send_unasked_changes_nothing(queue: Queue, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    for method, path in OPERATIONS:
        if method != "POST":
            continue
        filled = fill(path, queue.name)
        answer = queue.http.post(filled, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (415, "INVALID_ARGUMENT"), path
    queue.assert_untouched()


@pytest.mark.parametrize("name", FOREIGN)
def test_no_operation_answers_a_page_of_another_site(queue: Queue, name: str) -> None:
    headers, status = FOREIGN[name]
    for method, path in OPERATIONS:
        filled = fill(path, queue.name)
        answer = queue.http.request(method, filled, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (status, "PERMISSION_DENIED"), (method, path)
        assert "access-control-allow-origin" not in answer.headers
    queue.assert_untouched()


def test_the_own_page_may_ask_everything(queue: Queue, url: str) -> None:
    headers = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
    answer = queue.http.post(f"{queue.path}/groups/{GROUP}/dead-letters/purge", json={}, headers=headers)
    assert (answer.status_code, answer.json()["done"]) == (200, 1)
