"""What a node offers over HTTP beside single requests: by nobody, with wrong grants, and with exactly the right ones.

Tasks, dead letters, schedules and server-sent events take several requests each, so `test_every_right` does not see
them whole. The steps build on each other; each is made by a user of its own who has the named grants and no more.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest

from flotilla.client.client import Client
from flotilla.client.credentials import Password
from flotilla.testing import LocalBroker
from flotilla.types.access import CONSUME, DESCRIBE, MANAGE, PRODUCE
from tests.unit.frontends.test_authentication import ADMIN, ANY_PORT, basic

pytestmark = pytest.mark.slow

QUEUE, TOPIC, GROUP = "tasks.jobs", "orders", "billing"
LETTERS = f"/v1/topics/{TOPIC}/groups/{GROUP}/dead-letters"
PLAN = {"topic": TOPIC, "message": {"payload": "eA=="}, "cron": "0 3 * * *"}
WORK = (CONSUME, QUEUE, "workers")
OF_LETTERS = (MANAGE, TOPIC, GROUP)
TASK = {"type": "t", "queue": "jobs"}


class Step(NamedTuple):
    method: str
    path: str
    body: Any
    #: Action, topic and group of each.
    grants: tuple[tuple[str, ...], ...]
    #: Of the answer, so that later steps can use it.
    keeps: Callable[[Any], str] | None = None


def tasks(answer: Any) -> str:
    return str(answer["tasks"][0]["id"])


LEASE = Step("POST", "/tasks/lease", {"worker_id": "w", "queue": "jobs"}, (WORK,), tasks)
STEPS = [
    Step("POST", "/tasks", TASK, ((PRODUCE, QUEUE),), lambda answer: str(answer["id"])),
    Step("GET", "/tasks/{kept}", None, (WORK,)),
    LEASE,
    Step("POST", "/tasks/{kept}/extend", {"worker_id": "w"}, (WORK,)),
    Step("POST", "/tasks/{kept}/nack", {"worker_id": "w", "delay_ms": 0}, (WORK,)),
    LEASE,
    Step("POST", "/tasks/{kept}/ack", {"worker_id": "w"}, (WORK,)),
    Step("POST", "/tasks", TASK, ((PRODUCE, QUEUE),), lambda answer: str(answer["id"])),
    # The answer shows the task.
    Step("DELETE", "/tasks/{kept}", None, ((MANAGE, QUEUE), WORK)),
    Step("GET", LETTERS, None, (OF_LETTERS,)),
    Step("POST", f"{LETTERS}/redrive", {"dry_run": True}, (OF_LETTERS, (PRODUCE, TOPIC))),
    Step("POST", f"{LETTERS}/redrive", {"limit": 1}, (OF_LETTERS, (PRODUCE, TOPIC))),
    Step("POST", f"{LETTERS}/purge", {}, (OF_LETTERS,)),
    Step("POST", "/v1/schedules", {"name": "nightly", **PLAN}, ((MANAGE, TOPIC), (PRODUCE, TOPIC))),
    Step("PUT", "/v1/schedules/nightly", PLAN, ((MANAGE, TOPIC), (PRODUCE, TOPIC))),
    Step("GET", "/v1/schedules/nightly", None, ((DESCRIBE, TOPIC),)),
    Step("POST", "/v1/schedules/nightly/pause", {}, ((MANAGE, TOPIC),)),
    Step("POST", "/v1/schedules/nightly/resume", {}, ((MANAGE, TOPIC),)),
    Step("POST", "/v1/schedules/nightly/run", {}, ((MANAGE, TOPIC), (PRODUCE, TOPIC))),
    Step("DELETE", "/v1/schedules/nightly", None, ((MANAGE, TOPIC),)),
]
STREAMS = [
    Step("POST", f"/v1/topics/{TOPIC}/subscribe", {"group": "live", "member": "m"}, ((CONSUME, TOPIC, "live"),)),
    Step("GET", f"/v1/topics/{TOPIC}/partitions/0/follow?offset=0", None, ((CONSUME, TOPIC),)),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(authentication=True, http_listen=ANY_PORT) as started:
        with started.client() as nobody:
            nobody.admin.users.create_administrator("root", "a long password")
        yield started


@pytest.fixture(scope="module")
def admin(broker: LocalBroker) -> Iterator[Client]:
    with broker.client(credentials=ADMIN) as client:
        prepare(client)
        yield client


def user_of(step: Step) -> str:
    return "-".join([".".join(grant) for grant in step.grants])


def prepare(admin: Client) -> None:
    for topic in (QUEUE, TOPIC):
        admin.create_topic(topic)
    for _ in range(2):
        admin.produce(TOPIC, b"dies")
    rejected = 0
    with admin.queue(TOPIC, group=GROUP) as consumer:
        while rejected < 2:
            for message in consumer.poll(wait_ms=10_000):
                message.reject()
                rejected += 1
    # All rights, but elsewhere; and each right alone where several are needed.
    admin.admin.users.create("wrong", "pencil")
    for action in (PRODUCE, CONSUME, DESCRIBE, MANAGE):
        admin.admin.grants.add("wrong", action, "other")
    for step in {user_of(step): step for step in (*STEPS, *STREAMS)}.values():
        admin.admin.users.create(user_of(step), "pencil")
        for grant in step.grants:
            admin.admin.grants.add(user_of(step), *grant)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def http(broker: LocalBroker, admin: Client) -> Iterator[httpx.Client]:
    url = f"http://{broker._server._own.http_address}"  # type: ignore[union-attr]
    with httpx.Client(base_url=url, timeout=30) as client:
        yield client


def asked(http: httpx.Client, step: Step, kept: str, user: str) -> httpx.Response:
    headers = {} if user == "nobody" else basic(Password(user, "pencil"))
    return http.request(step.method, step.path.format(kept=kept), json=step.body, headers=headers)


def test_each_step_by_nobody_with_wrong_grants_and_with_the_right_ones(http):
    kept = ""
    for step in STEPS:
        assert asked(http, step, kept, "nobody").status_code == 401, step
        alone = [user_of(step._replace(grants=(grant,))) for grant in step.grants if len(step.grants) > 1]
        known = {user_of(each) for each in STEPS}
        for user in ("wrong", *[name for name in alone if name in known]):
            assert asked(http, step, kept, user).status_code in (403, 404), (user, step)
        answer = asked(http, step, kept, user_of(step))
        assert answer.status_code < 300, (step, answer.text)
        if step.keeps is not None:
            kept = step.keeps(answer.json())


def test_a_dead_letter_topic_of_another_name_is_worked_off_with_the_rights_on_that_topic(broker, admin, http):
    admin.create_topic("pile")
    admin.create_topic("inbox")
    admin.produce("inbox", b"confidential")
    admin.admin.users.create("anna", "pencil")
    grants = admin.admin.grants
    for action, topic in ((MANAGE, "pile"), (PRODUCE, "pile"), (MANAGE, "inbox")):
        grants.add("anna", action, topic)
    path, anna = "/v1/topics/pile/groups/g/dead-letters", Password("anna", "pencil")
    with broker.client(credentials=anna) as client:
        client.alter_group("pile", "g", dead_letter_topic="inbox")
        grants.remove("anna", MANAGE, "inbox")

        def ask(rest: str = "", body: Any = None) -> httpx.Response:
            method = "GET" if body is None else "POST"
            return http.request(method, path + rest, json=body, headers=basic(anna))

        assert client.dead_letters("pile", "g").list() == []
        for refused in (ask(), ask("/redrive", {}), ask("/redrive", {"dry_run": True}), ask("/purge", {})):
            assert refused.status_code in (403, 404), refused.text
        grants.add("anna", CONSUME, "inbox")
        assert len(client.dead_letters("pile", "g").list()) == len(ask().json()["dead_letters"]) == 1
        assert ask("/redrive", {}).json()["done"] == 1


def test_a_redrive_ends_when_the_right_to_the_letters_does(admin, http):
    admin.create_topic("slow")
    admin.create_topic("letters")
    admin.produce_many("letters", [b"x"] * 60)
    admin.alter_group("slow", "g", dead_letter_topic="letters")
    admin.admin.users.create("bert", "pencil")
    for action, topic in ((MANAGE, "slow"), (PRODUCE, "slow"), (CONSUME, "letters")):
        admin.admin.grants.add("bert", action, topic)
    path, headers = "/v1/topics/slow/groups/g/dead-letters/redrive", basic(Password("bert", "pencil"))
    with ThreadPoolExecutor(1) as pool, admin.reader("slow") as reader:
        answer = pool.submit(http.post, path, json={"rate": 1}, headers=headers)
        assert reader.poll(wait_ms=10_000)
        admin.admin.grants.remove("bert", CONSUME, "letters")
        assert answer.result(10).status_code in (403, 404)


@pytest.mark.parametrize("step", STREAMS, ids=["subscribe", "follow"])
def test_server_sent_events_by_nobody_with_wrong_grants_and_with_the_right_ones(http, step):
    assert asked(http, step, "", "nobody").status_code == 401
    assert asked(http, step, "", "wrong").status_code in (403, 404)
    headers = basic(Password(user_of(step), "pencil"))
    with http.stream(step.method, step.path, json=step.body, headers=headers) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        assert next(line for line in lines if line.startswith("data:"))
