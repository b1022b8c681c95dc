"""The operations behind the web console, each over HTTP: nodes, partitions, settings, rights, held messages."""

import time
from typing import Any

import httpx
import pytest

from flotilla.frontends.http.console_files import console_pages
from flotilla.testing import LocalBroker


def post(http: httpx.Client, path: str, expected: int = 200, **body: Any) -> Any:
    answer = http.post(path, json=body)
    assert answer.status_code == expected, answer.text
    return answer.json()


def get(http: httpx.Client, path: str, expected: int = 200) -> Any:
    answer = http.get(path)
    assert answer.status_code == expected, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def topic(http: httpx.Client) -> str:
    post(http, "/v1/topics", 201, topic="shop", partitions=2, settings={"retention_ms": "2d"})
    post(http, "/v1/topics/shop/records", 201, records=[{"payload_text": str(n)} for n in range(6)], partition=1)
    return "shop"


def test_topics_come_by_pages_and_by_a_part_of_their_name(http: httpx.Client, topic: str) -> None:
    for name in ("page-a", "page-b", "page-c"):
        post(http, "/v1/topics", 201, topic=name)
    first = get(http, "/v1/topics?search=page-&limit=2")
    assert ([each["topic"] for each in first["topics"]], first["total"]) == (["page-a", "page-b"], 3)
    rest = get(http, "/v1/topics?search=page-&limit=2&after=page-b")
    assert [each["topic"] for each in rest["topics"]] == ["page-c"]
    assert len(get(http, "/v1/topics")["topics"]) >= 4


def test_a_partition_says_where_its_replicas_and_its_log_are(http: httpx.Client, topic: str) -> None:
    found = get(http, "/v1/topics/shop/partitions/1")
    assert (found["first_offset"], found["next_offset"], found["leader"]) == (0, 6, 1)
    assert min(found["term"], found["size_bytes"]) > 0
    assert [(each["node"], each["role"]) for each in found["replicas"]] == [(1, "leader")]
    assert get(http, "/v1/topics/shop/partitions/9", 404)["code"] == "NOT_FOUND"


def test_settings_say_where_they_come_from(http: httpx.Client, topic: str) -> None:
    rows = {row["name"]: row for row in get(http, "/v1/topics/shop/settings")["settings"]}
    assert (rows["retention_ms"]["value"], rows["retention_ms"]["origin"]) == ("2d", "topic")
    assert rows["max_deliveries"]["origin"] == "default"
    post(http, "/v1/topics/shop/groups/set/poll", member="m")
    http.patch("/v1/topics/shop/groups/set", json={"settings": {"max_deliveries": "3"}}).raise_for_status()
    rows = {row["name"]: row for row in get(http, "/v1/topics/shop/groups/set/settings")["settings"]}
    assert (rows["max_deliveries"]["value"], rows["max_deliveries"]["origin"]) == ("3", "group")
    assert rows["lost_ms"] == {**rows["lost_ms"], "value": "1s", "origin": "default"}


def test_nodes_describe_themselves_and_their_last_hour(http: httpx.Client, topic: str) -> None:
    cluster = get(http, "/v1/cluster")
    assert (cluster["without_leader"], cluster["moving"]) == (0, 0)
    assert cluster["nodes"][0]["leads"] == cluster["partitions"] == cluster["nodes"][0]["replicas"]
    (node,) = get(http, "/v1/cluster/nodes")["nodes"]
    assert node["disk_total_bytes"] >= node["disk_free_bytes"] > 0
    deadline = time.monotonic() + 30
    history = get(http, "/v1/metrics/history")
    while not history["series"]["produced"] and time.monotonic() < deadline:
        time.sleep(0.1)
        history = get(http, "/v1/metrics/history")
    assert (history["nodes"], history["silent"], history["step_ms"]) == ([1], [], 5_000)
    assert len({len(values) for values in history["series"].values()}) == 1
    assert get(http, "/v1/metrics/history?node=9", 404)["code"] == "NOT_FOUND"


def test_clients_that_are_connected_are_listed(http: httpx.Client, broker: LocalBroker) -> None:
    with broker.client(name="clerk") as client:
        client.topics()
        found = get(http, "/v1/cluster/clients")
        names = {(each["endpoint"], each["name"].split()[-1]) for each in found["clients"]}
        assert {("tcp", "clerk"), ("http", http.headers["user-agent"])} <= names
        assert {(each["node"], each["principal"]) for each in found["clients"]} == {(1, "")}
        assert (found["total"], found["silent"]) == (len(found["clients"]), [])
        one = get(http, "/v1/cluster/clients?limit=1&node=1")
        assert (len(one["clients"]), one["total"] >= 2) == (1, True)
    while any(each["name"].endswith("clerk") for each in get(http, "/v1/cluster/clients")["clients"]):
        pass
    assert get(http, "/v1/cluster/clients?node=9", 404)["code"] == "NOT_FOUND"


def test_a_balanced_cluster_has_nothing_to_move(http: httpx.Client, topic: str) -> None:
    assert post(http, "/v1/cluster/rebalance", dry_run=True) == {"moves": []}
    assert post(http, "/v1/cluster/cancel-moves") == {"moves": []}


def test_a_held_message_is_released_or_rejected_for_its_holder(http: httpx.Client, topic: str) -> None:
    path = "/v1/topics/shop/groups/held"
    leased = post(http, f"{path}/poll", member="worker", max_messages=2, wait_ms=2_000)["messages"]
    first, second = (f"{path}/partitions/1/messages/{each['offset']}" for each in leased)
    assert post(http, f"{first}/release") == {"holder": "worker"}
    assert get(http, first)["state"] == "ready"
    assert post(http, f"{first}/release", 409)["code"] == "LEASE_EXPIRED"
    assert post(http, f"{second}/reject", reason="broken") == {"holder": "worker"}
    assert post(http, f"{path}/ack", leases=[leased[1]["lease"]])["expired"]
    while not (letters := get(http, f"{path}/dead-letters")["dead_letters"]):
        # It is on its way there; pytest bounds the wait.
        time.sleep(0.01)
    (letter,) = letters
    assert (letter["reason"], letter["shape"]) == ("broken", "broken")
    chosen = {"fingerprint": letter["fingerprint"], "rate": 100}
    assert post(http, f"{path}/dead-letters/redrive", fingerprint="other", dry_run=True)["done"] == 0
    assert post(http, f"{path}/dead-letters/redrive", **chosen)["done"] == 1


def test_grants_are_given_and_taken_back(http: httpx.Client) -> None:
    assert get(http, "/v1/session") == {
        "principal": "",
        "is_known": False,
        "actions": ["produce", "consume", "describe", "manage", "operate"],
    }
    grant = {"user": "anna", "action": "consume", "topic": "shop*", "group": "*"}
    assert post(http, "/v1/grants", 201, user="anna", action="consume", topic="shop*") == grant
    assert get(http, "/v1/grants?user=anna")["grants"] == [grant]
    assert post(http, "/v1/grants/revoke", **grant) == grant
    assert post(http, "/v1/grants/revoke", 404, **grant)["code"] == "NOT_FOUND"
    assert post(http, "/v1/grants", 400, user="anna", action="operate", topic="shop")["code"] == "INVALID_ARGUMENT"
    assert get(http, "/v1/users") == {"users": []}


def test_roles_are_assigned_and_quotas_set(http: httpx.Client) -> None:
    role = {"user": "anna", "role": "readers"}
    assert post(http, "/v1/roles", 201, **role) == role
    assert role in get(http, "/v1/roles")["roles"]
    assert post(http, "/v1/roles/unassign", **role) == role
    assert post(http, "/v1/roles/unassign", 404, **role)["code"] == "NOT_FOUND"
    quota = http.put("/v1/quotas", json={"user": "anna", "requests_per_second": 10}).json()
    assert quota["requests_per_second"] == 10
    assert {**quota, "usage": {"partitions": 0, "stored_bytes": 0}} in get(http, "/v1/quotas")["quotas"]
    assert http.put("/v1/quotas", json={"user": "anna"}).json()["code"] == "INVALID_ARGUMENT"
    assert post(http, "/v1/quotas/remove", user="anna") == {"user": "anna", "namespace": ""}
    assert post(http, "/v1/quotas/remove", 404, user="anna")["code"] == "NOT_FOUND"
    assert post(http, "/v1/quotas/remove", 400)["code"] == "INVALID_ARGUMENT"


def test_files_of_the_console_are_typed_and_kept_by_browsers(http: httpx.Client) -> None:
    page = http.get("/console")
    policy = page.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    again = http.get("/console", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert page.headers["cache-control"] == "no-cache"
    assert [text for text in ("<script>", "<style", "style=", "://") if text in page.text] == []
    paths = [row.path for row in console_pages()]
    assert len([path for path in paths if path.endswith(".js")]) > 10
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    for path in paths[2:]:
        file = http.get(path)
        assert file.headers["content-type"].startswith(kinds[path[path.rindex(".") :]]), path
        assert "immutable" in file.headers["cache-control"]
    assert http.get("/console/0000000000000000/main.js").status_code == 404
    assert http.get("/console/", follow_redirects=False).headers["location"] == "/console"
