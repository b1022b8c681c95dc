"""Every row of the table of operations over HTTP: by nobody, without a grant, with a wrong and with the right one.

What a caller without a grant gets must differ from what one with exactly the row's grants gets, so a request that is
turned away for another reason proves nothing and fails. `test_http_rights` plays what takes several requests.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from flotilla.client.client import Client
from flotilla.client.credentials import Password
from flotilla.codec.batch.records import encode_batch
from flotilla.frontends.http.app import operations
from flotilla.frontends.http.framework.operation import Operation
from flotilla.testing import LocalBroker
from flotilla.types.access import CONSUME, DESCRIBE, MANAGE, OPERATE, PRODUCE
from flotilla.types.records import Record
from tests.unit.frontends.test_authentication import _PARTS, ADMIN, ANY_PORT, _sample, basic

pytestmark = pytest.mark.slow

TOPIC, GROUP, QUEUE = "secret", "g", "tasks.secret"
Grants = tuple[tuple[str, str, str], ...]
SEES: Grants = ((DESCRIBE, TOPIC, "*"),)
READS: Grants = ((CONSUME, TOPIC, "*"),)
OF_GROUP: Grants = ((CONSUME, TOPIC, GROUP),)
SEES_GROUP: Grants = ((DESCRIBE, TOPIC, GROUP),)
STORES: Grants = ((PRODUCE, TOPIC, "*"),)
MANAGES: Grants = ((MANAGE, TOPIC, "*"),)
MANAGES_GROUP: Grants = ((MANAGE, TOPIC, GROUP),)
WORKS: Grants = ((CONSUME, QUEUE, "workers"),)
PLANS: Grants = (*MANAGES, *STORES)
OPERATES: Grants = ((OPERATE, "*", "*"),)
#: By `operationId`. Everybody who has logged in may make those of `OPEN`, and sees what they may describe.
GRANTS: dict[str, Grants] = {
    "enqueueTask": ((PRODUCE, QUEUE, "*"),),
    **dict.fromkeys(("leaseTasks", "ackTask", "nackTask", "extendTask", "getTask"), WORKS),
    "cancelTask": ((MANAGE, QUEUE, "*"), *WORKS),
    **dict.fromkeys(("getTopic", "getPartition", "getTopicSettings", "findOffset"), SEES),
    **dict.fromkeys(("createTopic", "alterTopic", "deleteTopic", "purgeTopic", "trimTopic"), MANAGES),
    **dict.fromkeys(("cancelRecords", "deliverNow"), MANAGES),
    **dict.fromkeys(("produceRecords", "produceBatch"), STORES),
    **dict.fromkeys(("fetchRecords", "fetchBatches", "followRecords"), READS),
    **dict.fromkeys(("pollMessages", "ackMessages", "nackMessages", "rejectMessages", "releaseMessages"), OF_GROUP),
    **dict.fromkeys(("extendLeases", "leaveQueue", "releaseMessage", "rejectMessage", "subscribe"), OF_GROUP),
    **dict.fromkeys(("readOffset", "commitOffset", "readResult", "listBlockedKeys"), OF_GROUP),
    **dict.fromkeys(("getGroup", "explainMessage"), SEES_GROUP),
    **dict.fromkeys(("listGroups", "readDueTimes", "readGroupDueTimes", "listDelayed", "listGroupDelayed"), SEES),
    **dict.fromkeys(("getGroupSettings", "alterGroup", "deleteGroup", "resetGroup"), MANAGES_GROUP),
    **dict.fromkeys(("listDeadLetters", "purgeDeadLetters"), MANAGES_GROUP),
    "redriveDeadLetters": (*MANAGES_GROUP, *STORES),
    **dict.fromkeys(("createSchedule", "putSchedule", "runSchedule"), PLANS),
    "getSchedule": SEES,
    **dict.fromkeys(("deleteSchedule", "pauseSchedule", "resumeSchedule"), MANAGES),
    **dict.fromkeys(("transferLeadership", "describeNodes", "listClients", "drainNode", "undrainNode"), OPERATES),
    **dict.fromkeys(("rebalance", "cancelMoves", "upgradeCluster", "readHistory"), OPERATES),
    **dict.fromkeys(("listUsers", "deleteUser", "listGrants", "grantAccess", "revokeAccess"), OPERATES),
    **dict.fromkeys(("listRoles", "assignRole", "unassignRole", "listQuotas", "setQuota", "removeQuota"), OPERATES),
}
OPEN = {"listTasks", "getStats", "listTopics", "listSchedules", "getCluster", "listPipelines", "getSession"}
PLAN = {"topic": TOPIC, "message": {"payload": "eA=="}, "cron": "0 3 * * *"}
BODIES: dict[str, Any] = {
    "enqueueTask": {"type": "t", "queue": "secret"},
    "leaseTasks": {"worker_id": "w", "queue": "secret"},
    **{name: {"worker_id": "w"} for name in ("ackTask", "nackTask", "extendTask")},
    "createTopic": {"topic": "secret"},
    "produceRecords": {"records": [{"payload": "eA=="}]},
    "cancelRecords": {"offsets": [0]},
    "deliverNow": {"offsets": [0]},
    "trimTopic": {"partitions": {"0": 0}},
    "setQuota": {"user": "nobody", "requests_per_second": 1},
    "removeQuota": {"user": "nobody"},
    "subscribe": {"group": GROUP, "member": "m"},
    "createSchedule": {"name": "second", **PLAN},
    "putSchedule": PLAN,
}
PARTS = {**_PARTS, "schedule": "nightly", "node": "99", "user": "nobody"}
OF_LEASES = ("ackMessages", "nackMessages", "rejectMessages", "releaseMessages", "extendLeases")


def test_every_row_has_its_grants() -> None:
    with LocalBroker(http_listen=ANY_PORT) as broker:
        assert {row.name for row in operations(broker._server.gateway)} == set(GRANTS) | OPEN


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(authentication=True, http_listen=ANY_PORT) as started:
        with started.client() as nobody:
            nobody.admin.users.create_administrator("root", "a long password")
        yield started


@pytest.fixture
def admin(broker: LocalBroker) -> Iterator[Client]:
    with broker.client(credentials=ADMIN) as client:
        yield client


def name_of(grants: Grants) -> str:
    return "-".join([".".join(each).replace("*", "all") for each in grants])


def asked(http: httpx.Client, row: Operation, user: str, task: str, leases: Any) -> tuple[int, Any]:
    """The status, and the error if it is one."""
    path = re.sub(r"{(\w+)}", lambda found: {**PARTS, "id": task}.get(found[1], "x"), row.path)
    query = {each.name: _sample(each.schema) for each in row.query if each.is_required}
    headers = {"Content-Type": row.body_type, **(basic(Password(user, "pencil")) if user else {})}
    content = None
    if row.body is not None:
        is_json = row.body_type == "application/json"
        sample = BODIES.get(row.name) or _sample(row.body)
        if row.name in OF_LEASES:
            sample = leases if "member" in sample else {"leases": leases["leases"]}
        content = json.dumps(sample).encode() if is_json else bytes(encode_batch([Record(b"1")]))
    with http.stream(row.method, path, params=query, headers=headers, content=content) as answer:
        return answer.status_code, json.loads(answer.read()) if answer.status_code >= 400 else None


def test_every_row_by_nobody_without_a_wrong_and_the_right_grant(broker: LocalBroker, admin: Client) -> None:
    for name in ("none", "wrong", *{name_of(each) for each in GRANTS.values()}):
        admin.admin.users.create(name, "pencil")
    for action in (PRODUCE, CONSUME, DESCRIBE, MANAGE):
        admin.admin.grants.add("wrong", action, "other")
    for grants in set(GRANTS.values()):
        for grant in grants:
            admin.admin.grants.add(name_of(grants), *grant)  # type: ignore[arg-type]
    for topic in (TOPIC, QUEUE):
        admin.create_topic(topic)
        admin.produce(topic, b"1")
    admin.schedules.create("nightly", TOPIC, b"1", cron="0 3 * * *")
    rows = {row.name: row for row in operations(broker._server.gateway)}
    # What is deleted is needed by the others.
    late = [name for name in GRANTS if name.startswith("delete")]
    faults = []
    with httpx.Client(base_url=f"http://{broker._server._own.http_address}", timeout=30) as http:  # type: ignore[union-attr]
        boss = basic(ADMIN)
        task = http.post("/tasks", json=BODIES["enqueueTask"], headers=boss).json()["id"]
        polled = http.post(f"/v1/topics/{TOPIC}/groups/{GROUP}/poll", json={"member": "m"}, headers=boss).json()
        leases = {"leases": [polled["messages"][0]["lease"]], "member": "m"}
        for name in [*[name for name in GRANTS if name not in late], *sorted(late, key="deleteTopic".__eq__)]:
            row = rows[name]
            nobody = asked(http, row, "", task, leases)
            if nobody[0] != 401:
                faults.append((name, "by nobody", nobody))
            none, wrong, right = (
                asked(http, row, user, task, leases) for user in ("none", "wrong", name_of(GRANTS[name]))
            )
            if none[0] not in (403, 404) or wrong[0] != none[0]:
                faults.append((name, "without a grant", none, wrong))
            if right[0] in (401, 403) or right == none:
                faults.append((name, "with the right one", right, none))
    assert faults == [], "\n".join(map(str, faults))
