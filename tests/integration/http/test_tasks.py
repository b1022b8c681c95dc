"""The task API at a real node: the life of a task, and the answers to workers and to strangers."""

import threading
from typing import Any

import httpx
import pytest

from flotilla.testing import LocalBroker

QUEUES = iter(range(1_000_000))


class Queue:
    """A queue of a test's own."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.name = f"queue-{next(QUEUES)}"

    def enqueue(self, kind: str = "mail", **fields: Any) -> str:
        answer = self.http.post("/tasks", json={"type": kind, "queue": self.name, **fields})
        assert answer.status_code == 201, answer.text
        found: str = answer.json()["id"]
        return found

    def lease(self, worker: str = "w", **fields: Any) -> list[dict[str, Any]]:
        answer = self.http.post("/tasks/lease", json={"worker_id": worker, "queue": self.name, **fields})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["tasks"]
        return found

    def do(self, task: str, verb: str, worker: str = "w", **fields: Any) -> httpx.Response:
        return self.http.post(f"/tasks/{task}/{verb}", json={"worker_id": worker, **fields})

    def status(self, task: str) -> dict[str, Any]:
        answer = self.http.get(f"/tasks/{task}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest.fixture
def queue(http: httpx.Client) -> Queue:
    return Queue(http)


def test_a_task_from_the_beginning_to_the_end(queue: Queue) -> None:
    task = queue.enqueue(payload={"to": "somebody"}, priority=3, max_retries=1)
    found = queue.status(task)
    assert (found["status"], found["attempts"], found["type"]) == ("ready", 0, "mail")
    assert (found["payload"], found["priority"], found["max_retries"]) == ({"to": "somebody"}, 3, 1)
    (leased,) = queue.lease()
    assert (leased["id"], leased["payload"], leased["attempt"]) == (task, {"to": "somebody"}, 1)
    found = queue.status(task)
    assert (found["status"], found["worker_id"], found["attempts"]) == ("leased", "w", 1)
    assert found["leased_until_ms"] > found["created_ms"]
    assert queue.do(task, "ack").json() == {"id": task}
    found = queue.status(task)
    assert (found["status"], found["attempts"]) == ("done", 1)
    assert "last_error" not in found
    assert queue.lease() == []


def test_a_node_that_leads_is_asked_without_a_socket(queue: Queue) -> None:
    def received_bytes() -> float:
        lines = queue.http.get("/metrics").text.splitlines()
        return sum(float(line.split()[1]) for line in lines if line.startswith("flotilla_client_received_bytes_total"))

    before = received_bytes()
    task = queue.enqueue(payload={"size": "x" * 1000})
    assert [each["id"] for each in queue.lease()] == [task]
    assert queue.do(task, "ack").status_code == 200
    assert received_bytes() == before


def test_failures_are_tried_again_and_in_the_end_the_task_is_dead(queue: Queue, broker: LocalBroker) -> None:
    task = queue.enqueue(max_retries=2)
    for attempt in (1, 2, 3):
        (leased,) = queue.lease(wait_ms=10_000)
        assert leased["attempt"] == attempt
        assert queue.do(task, "nack", reason=f"failure {attempt}").status_code == 200
        found = queue.status(task)
        assert (found["attempts"], found["last_error"]) == (attempt, f"failure {attempt}")
        if attempt < 3:
            assert found["status"] == "delayed"
            assert found["due_ms"] > found["created_ms"]
            broker.advance(minutes=10)
    assert found["status"] == "dead"
    assert found["ended_ms"] > 0
    assert queue.lease() == []


def test_a_nack_can_say_when_or_that_it_is_of_no_use(queue: Queue, broker: LocalBroker) -> None:
    soon, never = queue.enqueue(), queue.enqueue()
    assert len(queue.lease(max=2)) == 2
    queue.do(soon, "nack", delay_ms=3_600_000)
    queue.do(never, "nack", retry=False, reason="no such address")
    assert queue.status(soon)["status"] == "delayed"
    found = queue.status(never)
    assert (found["status"], found["last_error"]) == ("dead", "no such address")
    assert queue.lease() == []
    broker.advance(hours=1)
    assert [task["id"] for task in queue.lease()] == [soon]


def test_only_the_worker_that_leases_a_task_settles_it(queue: Queue) -> None:
    task = queue.enqueue()
    assert queue.do(task, "ack").status_code == 409
    (leased,) = queue.lease("first")
    for verb in ("ack", "nack", "extend"):
        answer = queue.do(task, verb, "second")
        assert (answer.status_code, answer.json()["code"]) == (409, "LEASE_EXPIRED")
    assert queue.do(task, "extend", "first", visibility_ms=60_000).json() == {"id": task, "visibility_ms": 60_000}
    # The lease is as good as the name.
    answer = queue.http.post(f"/tasks/{task}/ack", json={"lease": leased["lease"]})
    assert answer.status_code == 200
    assert queue.do(task, "ack", "first").status_code == 409
    assert queue.http.post(f"/tasks/{task}/ack", json={}).status_code == 400
    other = queue.enqueue()
    wrong = queue.http.post(f"/tasks/{other}/ack", json={"lease": leased["lease"]})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "INVALID_ARGUMENT")


def test_a_lease_that_runs_out_is_an_attempt(queue: Queue, broker: LocalBroker) -> None:
    task = queue.enqueue()
    (leased,) = queue.lease(visibility_ms=10_000)
    broker.advance(seconds=11)
    while (found := queue.status(task))["status"] == "leased":
        pass  # That it ran out is on its way to the log.
    assert (found["status"], found["attempts"], found["last_error"]) == ("delayed", 1, "lease expired")
    # No other worker has it yet: an ack that is merely late counts, if it shows its lease.
    assert queue.http.post(f"/tasks/{task}/ack", json={"lease": leased["lease"]}).status_code == 200
    found = queue.status(task)
    assert (found["status"], found["attempts"], found["last_error"]) == ("done", 2, "lease expired")


def test_a_key_answers_with_the_first_task(queue: Queue) -> None:
    body = {"type": "mail", "queue": queue.name, "idempotency_key": "order-42"}
    first = queue.http.post("/tasks", json=body)
    again = queue.http.post("/tasks", json={**body, "payload": "another"})
    assert (first.status_code, first.json()["duplicate"]) == (201, False)
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    assert first.json()["id"] == again.json()["id"]
    assert len(queue.lease(max=10)) == 1


def test_higher_priorities_come_first_and_delayed_ones_later(queue: Queue, broker: LocalBroker) -> None:
    low, high = queue.enqueue(priority=0), queue.enqueue(priority=7)
    later = queue.enqueue(delay_ms=60_000, priority=7)
    found = queue.status(later)
    assert (found["status"], found["attempts"]) == ("delayed", 0)
    assert found["due_ms"] > found["created_ms"]
    assert [task["id"] for task in queue.lease(max=10)] == [high, low]
    broker.advance(minutes=1)
    assert [task["id"] for task in queue.lease(max=10)] == [later]


def test_workers_can_ask_for_types(queue: Queue) -> None:
    mails = [queue.enqueue("mail") for _ in range(3)]
    texts = [queue.enqueue("text") for _ in range(2)]
    assert [task["id"] for task in queue.lease(types=["text"], max=10)] == texts
    assert queue.lease(types=["text"]) == []
    # The others were passed over: not counted, and in their order.
    taken = queue.lease(max=10)
    assert [(task["id"], task["attempt"]) for task in taken] == [(mail, 1) for mail in mails]
    queue.do(texts[0], "nack", delay_ms=0)
    assert [task["id"] for task in queue.lease(types=["text", "fax"], wait_ms=10_000)] == [texts[0]]


def test_a_poll_that_waits_for_a_type_gets_it(queue: Queue) -> None:
    queue.enqueue("mail")
    found: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: found.extend(queue.lease(types=["text"], wait_ms=30_000)))
    waiting.start()
    text = queue.enqueue("text")
    waiting.join(30)
    assert [task["id"] for task in found] == [text]


def test_a_type_far_behind_many_others_is_found(queue: Queue, broker: LocalBroker) -> None:
    queue.enqueue("mail")
    with broker.client() as client:
        client.produce_many(f"tasks.{queue.name}", [b"{}"] * 5_000)
    text = queue.enqueue("text")
    assert [task["id"] for task in queue.lease(types=["text"], wait_ms=30_000)] == [text]


def test_cancelling(queue: Queue) -> None:
    waiting, held, done = queue.enqueue(), queue.enqueue(), queue.enqueue()
    assert queue.http.delete(f"/tasks/{waiting}").json() == {"id": waiting, "status": "cancelled"}
    assert [task["id"] for task in queue.lease(max=2)] == [held, done]
    queue.do(done, "ack")
    assert queue.http.delete(f"/tasks/{held}").status_code == 200
    # Its worker need not know, and changes nothing any more.
    assert queue.do(held, "ack").status_code == 200
    assert queue.status(held)["status"] == queue.status(waiting)["status"] == "cancelled"
    answer = queue.http.delete(f"/tasks/{done}")
    assert (answer.status_code, queue.status(done)["status"]) == (409, "done")
    # Twice is once.
    assert queue.http.delete(f"/tasks/{held}").status_code == 200


@pytest.mark.parametrize("task", ["x", "default.1.0.1", "default.1.0.01", "a.ffffffff.0.0", "..", "default.0.9.0"])
def test_an_id_without_a_task_is_not_found(task: str, http: httpx.Client) -> None:
    for method, path in (("GET", f"/tasks/{task}x9"), ("DELETE", f"/tasks/nowhere.{task}")):
        answer = http.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


def test_ids_of_nothing_are_answered_alike_whatever_is_asked(queue: Queue) -> None:
    _, topic_id, _, _ = queue.enqueue().rsplit(".", 3)
    for task in (
        "nowhere.1.0.0",
        f"{queue.name}.{int(topic_id, 16) + 1:x}.0.0",
        f"{queue.name}.{topic_id}.9.0",
        f"{queue.name}.{topic_id}.0.9",
    ):
        for answer in (
            queue.http.get(f"/tasks/{task}"),
            queue.http.delete(f"/tasks/{task}"),
            *(queue.do(task, verb) for verb in ("ack", "nack", "extend")),
        ):
            said = (answer.status_code, answer.json()["code"], answer.json()["message"])
            assert said == (404, "NOT_FOUND", f"there is no task {task}"), answer.request


def test_an_unused_queue_is_empty(queue: Queue) -> None:
    answer = queue.http.get("/tasks", params={"queue": queue.name})
    assert (answer.status_code, answer.json()) == (200, {"tasks": []})
    # To look at it does not make it.
    assert queue.http.get(f"/v1/topics/tasks.{queue.name}").status_code == 404


def test_a_queue_that_was_made_again_does_not_answer_for_the_one_before(queue: Queue) -> None:
    task = queue.enqueue()
    assert queue.http.delete(f"/v1/topics/tasks.{queue.name}").status_code == 200
    again = queue.enqueue()
    assert again != task
    assert queue.http.get(f"/tasks/{task}").status_code == 404
    assert queue.do(task, "ack").status_code == 404
    assert queue.status(again)["status"] == "ready"


def test_the_open_tasks_are_listed_page_by_page(queue: Queue) -> None:
    tasks = [queue.enqueue(payload=number) for number in range(5)]
    queue.lease()
    queue.do(tasks[0], "ack")
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = queue.http.get("/tasks", params={"queue": queue.name, "limit": 2, **({"after": after} if after else {})})
        found += page.json()["tasks"]
        if "next" not in page.json():
            break
        after = page.json()["next"]
    assert [(task["id"], task["payload"]) for task in found] == [(task, number) for number, task in enumerate(tasks)][
        1:
    ]
    everything = queue.http.get("/tasks", params={"queue": queue.name, "all": "true"}).json()["tasks"]
    assert [task["status"] for task in everything] == ["done", *["ready"] * 4]


def test_statistics(queue: Queue) -> None:
    tasks = [queue.enqueue() for _ in range(5)]
    queue.enqueue(delay_ms=60_000)
    queue.lease(max=3)
    queue.do(tasks[0], "ack")
    queue.do(tasks[1], "nack", retry=False)
    queue.http.delete(f"/tasks/{tasks[4]}")
    stats = queue.http.get("/stats").json()
    (found,) = [each for each in stats["queues"] if each["queue"] == queue.name]
    counts = {name: found[name] for name in ("ready", "leased", "delayed", "done", "dead", "cancelled", "workers")}
    assert counts == {"ready": 1, "leased": 1, "delayed": 1, "done": 1, "dead": 1, "cancelled": 1, "workers": 1}
    assert stats["total"]["done"] >= 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "needs the field type"),
        (b"{", "not JSON"),
        (b"[]", "is an object"),
        (b'{"type": "a", "typo": 1}', "no field typo"),
        (b'{"type": ""}', "1 to 256 characters"),
        (b'{"type": 7}', "is a text"),
        (b'{"type": "a", "priority": 8}', "between 0 and 7"),
        (b'{"type": "a", "priority": true}', "is an integer"),
        (b'{"type": "a", "priority": NaN}', "not JSON"),
        (b'{"type": "a", "payload": "\\ud800"}', "surrogate"),
        (b'{"type": "a", "queue": "../x"}', "matches"),
        (b'{"type": "a", "payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"type": "' + "ä".encode() * 200 + b'"}', "256 bytes"),
    ],
)
def test_an_invalid_body_is_refused_with_the_reason(body: bytes, says: str, http: httpx.Client) -> None:
    answer = http.post("/tasks", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ARGUMENT")
    assert says in answer.json()["message"]


def test_a_form_is_no_json(http: httpx.Client) -> None:
    answer = http.post("/tasks", data={"type": "a"})
    assert (answer.status_code, answer.json()["code"]) == (415, "INVALID_ARGUMENT")


def test_a_worker_that_hangs_up_while_it_waits_takes_nothing_along(queue: Queue, url: str) -> None:
    queue.lease()
    with httpx.Client(base_url=url) as other, pytest.raises(httpx.ReadTimeout):
        other.post("/tasks/lease", json={"worker_id": "gone", "queue": queue.name, "wait_ms": 60_000}, timeout=0.3)
    task = queue.enqueue()
    (leased,) = queue.lease("here", wait_ms=30_000)
    assert (leased["id"], leased["attempt"]) == (task, 1)


def test_a_task_has_a_result(queue: Queue) -> None:
    task = queue.enqueue()
    queue.lease()
    assert "result" not in queue.status(task)
    assert queue.do(task, "ack", result={"sum": [1, None]}).status_code == 200
    assert queue.status(task)["result"] == {"sum": [1, None]}
    assert queue.do(task, "ack", result=2).status_code == 409
    assert queue.status(task)["result"] == {"sum": [1, None]}
    none = queue.enqueue()
    queue.lease()
    queue.do(none, "ack")
    assert "result" not in queue.status(none)


def test_a_status_waits_for_the_end(queue: Queue) -> None:
    task, dying = queue.enqueue(max_retries=0), queue.enqueue(max_retries=0)
    assert queue.http.get(f"/tasks/{task}?wait_ms=1").json()["status"] == "ready"
    queue.lease(max=2)
    found: list[dict[str, Any]] = []

    def wait(each: str) -> None:
        found.append(queue.http.get(f"/tasks/{each}?wait_ms=20000").json())

    threads = [threading.Thread(target=wait, args=(each,)) for each in (task, dying)]
    for thread in threads:
        thread.start()
    queue.do(task, "ack", result="done")
    queue.do(dying, "nack", reason="no luck")
    for thread in threads:
        thread.join()
    by_id = {each["id"]: each for each in found}
    assert (by_id[task]["status"], by_id[task]["result"]) == ("done", "done")
    assert (by_id[dying]["status"], by_id[dying]["last_error"]) == ("dead", "no luck")
    absent = task.rsplit(".", 1)[0] + ".999"
    assert queue.http.get(f"/tasks/{absent}?wait_ms=20000").status_code == 404


def test_results_of_tasks_are_bounded_and_forgotten(queue: Queue, broker: LocalBroker) -> None:
    task = queue.enqueue()
    queue.lease()
    answer = queue.do(task, "ack", result="x" * 65_536)
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ARGUMENT")
    assert queue.status(task)["status"] == "leased"
    path = f"/v1/topics/tasks.{queue.name}/groups/workers"
    assert queue.http.patch(path, json={"settings": {"result_ttl_ms": "0"}}).status_code == 200
    assert queue.do(task, "ack", result="small").status_code == 200
    found = queue.status(task)
    assert "result" not in found
    assert found["result_forgotten"] is True


def test_many_large_results_at_once(queue: Queue) -> None:
    """More than one request to the leader has room for."""
    tasks = [queue.enqueue() for _ in range(6)]
    queue.lease(max=6)
    answers: list[int] = []

    def ack(task: str) -> None:
        answers.append(queue.do(task, "ack", result="x" * 60_000).status_code)

    threads = [threading.Thread(target=ack, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 6
    assert all(len(queue.status(task)["result"]) == 60_000 for task in tasks)
