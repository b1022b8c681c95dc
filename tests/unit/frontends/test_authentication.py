"""Who may do what at a real broker: log-ins, users, grants, revocation; HTTP and gRPC with their own rights."""

import asyncio
import json
import re
import threading
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from flotilla.client.client import Client
from flotilla.client.credentials import Password, Token
from flotilla.codec.generated import flotilla_pb2
from flotilla.frontends.http.app import operations
from flotilla.machine import Machine, now_ms, steady_ms
from flotilla.testing import BrokerSettings, LocalBroker
from flotilla.types.access import CONSUME, DESCRIBE, MANAGE, OPERATE, PRODUCE
from flotilla.types.address import Address
from flotilla.types.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    TransactionEndedError,
    UnauthenticatedError,
)

ANY_PORT = Address("127.0.0.1", 0)
ADMIN = Password("root", "a long password")


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(authentication=True, http_listen=ANY_PORT, grpc_listen=ANY_PORT) as started:
        with started.client() as nobody:
            nobody.admin.users.create_administrator("root", "a long password")
        yield started


@pytest.fixture(scope="module")
def admin(broker: LocalBroker) -> Iterator[Client]:
    with broker.client(credentials=ADMIN) as client:
        client.create_topic("orders")
        client.create_topic("secret")
        yield client


@pytest.fixture
def user(admin: Client, request: pytest.FixtureRequest) -> Iterator[Password]:
    """A user of its own for each test."""
    name = re.sub(r"\W", "-", request.node.name)[:60]
    admin.admin.users.create(name, "pencil")
    yield Password(name, "pencil")
    if name in [each.name for each in admin.admin.users.list()]:
        admin.admin.users.delete(name)


def test_there_is_one_first_administrator(broker, admin):
    with broker.client() as nobody, pytest.raises(UnauthenticatedError):
        nobody.admin.users.create_administrator("other", "password")
    with pytest.raises(AlreadyExistsError):
        admin.admin.users.create_administrator("other", "password")
    assert [user.name for user in admin.admin.users.list()] == ["root"]


@pytest.mark.parametrize("credentials", [None, Password("root", "wrong"), Password("nobody", "a long password")])
def test_nobody_gets_in_without_a_proof(broker, admin, credentials):
    with broker.client(credentials=credentials) as client:
        with pytest.raises(UnauthenticatedError):
            client.produce("orders", b"1")
        with pytest.raises(UnauthenticatedError):
            client.topics()


def test_a_user_may_do_what_is_granted_and_sees_no_more(broker, admin, user):
    with broker.client(credentials=user) as client:
        assert client.topics() == []
        with pytest.raises(NotFoundError):
            client.produce("orders", b"1")
        admin.admin.grants.add(user.user, PRODUCE, "ord*")
        assert [topic.name for topic in client.topics()] == ["orders"]
        # Often enough for the connection of the caller's own thread, which logs in by itself.
        for _ in range(20):
            client.produce("orders", b"1")
        with pytest.raises(NotFoundError):
            client.produce("secret", b"1")
        with pytest.raises(PermissionDeniedError), client.reader("orders") as reader:
            reader.poll(wait_ms=100)
        with pytest.raises(PermissionDeniedError):
            client.delete_topic("orders")
        with pytest.raises(PermissionDeniedError):
            client.admin.users.list()
        admin.admin.grants.add(user.user, CONSUME, "orders", "mine")
        with client.queue("orders", group="mine") as consumer:
            assert consumer.poll()
        with pytest.raises(PermissionDeniedError), client.queue("orders", group="other") as consumer:
            consumer.poll()


def test_topics_are_created_by_those_who_manage_them(broker, admin, user):
    with broker.client(credentials=user) as client:
        admin.admin.grants.add(user.user, PRODUCE, "new-*")
        with pytest.raises(NotFoundError):
            client.produce("new-1", b"1")
        admin.admin.grants.add(user.user, MANAGE, "new-*")
        client.produce("new-1", b"1")
        client.delete_topic("new-1")


def test_a_topic_that_is_created_by_producing_to_it_has_a_line_with_the_user(broker, url, http, admin, user, caplog):
    caplog.set_level("INFO", logger="flotilla.audit")
    admin.admin.grants.add(user.user, PRODUCE, "made-*")
    admin.admin.grants.add(user.user, MANAGE, "made-*")
    with broker.client(credentials=user) as client:
        for _ in range(2):
            client.produce("made-1", b"1")
    body = {"records": [{"payload": "eA=="}]}
    assert http.post(f"{url}/v1/topics/made-2/records", json=body, headers=basic(user)).status_code < 300
    lines = [record.fields for record in caplog.records if record.message == "change"]
    made = [(line["principal"], line["topic"]) for line in lines if line["operation"] == "create_topic"]
    assert made == [(f"user {user.user}", "made-1"), (f"user {user.user}", "made-2")]
    for name in ("made-1", "made-2"):
        admin.delete_topic(name)


def test_log_ins_by_password_over_http_have_a_line_while_the_password_is_remembered(http, url, admin, user, caplog):
    caplog.set_level("INFO", logger="flotilla.audit")
    for _ in range(2):
        http.get(f"{url}/v1/topics", headers=basic(user))
    for _ in range(2):
        answer = http.post(f"{url}/login", json={"user": user.user, "password": "pencil"})
        assert answer.status_code == 200
        http.cookies.clear()
    lines = [record.fields for record in caplog.records if record.message == "log-in"]
    assert [line["mechanism"] for line in lines if line["principal"] == f"user {user.user}"] == [
        "basic",
        "session",
        "session",
    ]


def test_a_revoked_grant_ends_what_waits(broker, admin, user):
    admin.admin.grants.add(user.user, CONSUME, "secret", "waiters")
    ended: list[Exception] = []

    def wait() -> None:
        with broker.client(credentials=user) as client:
            try:
                with client.queue("secret", group="waiters") as consumer:
                    began.set()
                    consumer.poll(wait_ms=30_000)
            except Exception as error:
                ended.append(error)

    began = threading.Event()
    waiting = threading.Thread(target=wait)
    waiting.start()
    began.wait()
    while "waiters" not in admin.groups("secret"):
        pass
    admin.admin.grants.remove(user.user, CONSUME, "secret", "waiters")
    waiting.join(10)
    assert not waiting.is_alive()
    assert isinstance(ended[0], NotFoundError)


def test_an_application_belongs_to_the_user_who_committed_first(broker, admin, user):
    admin.admin.users.create("thief", "pencil")
    for name in (user.user, "thief"):
        admin.admin.grants.add(name, PRODUCE, "orders")

    def commit(credentials: Password, version: int) -> None:
        with broker.client(credentials=credentials) as client:
            transaction = client.transaction()
            transaction.produce("orders", b"%d" % version)
            transaction.commit(application_id="billing", version=version)

    commit(user, 1)
    with pytest.raises(PermissionDeniedError, match="belongs to another user"):
        commit(Password("thief", "pencil"), 2)
    commit(user, 2)
    # Whoever may operate may commit for everybody.
    commit(ADMIN, 3)
    admin.admin.users.delete("thief")


def test_a_transaction_id_is_each_users_own(broker, admin, user):
    admin.admin.users.create("thief", "pencil")
    for name in (user.user, "thief"):
        admin.admin.grants.add(name, PRODUCE, "orders")
    with broker.client(credentials=user) as client, broker.client(credentials=Password("thief", "pencil")) as thief:
        staged = client.transaction("x")
        staged.stage("orders", [b"mine"])
        stored = f"{user.user}~x"
        assert [each.transaction_id for each in thief.admin.open_transactions("orders", 0)] == [stored]
        with pytest.raises(PermissionDeniedError, match="belongs to another user"):
            thief.transaction(stored).stage("orders", [b"theirs"])
        # Another transaction of the same name.
        other = thief.transaction("x")
        other.stage("orders", [b"theirs"])
        other.abort()
        staged.commit()
        assert staged.receipts[0].offset >= 0
        with pytest.raises(TransactionEndedError):
            thief.transaction("x").stage("orders", [b"aborted before"])
    admin.admin.users.delete("thief")


def test_a_deleted_user_is_out_at_once(broker, admin, user):
    admin.admin.grants.add(user.user, PRODUCE, "orders")
    with broker.client(credentials=user) as client:
        for _ in range(20):
            client.produce("orders", b"1")
        admin.admin.users.delete(user.user)
        with pytest.raises((UnauthenticatedError, OutcomeUnknownError)):
            client.produce("orders", b"1")
        with pytest.raises(UnauthenticatedError):
            client.produce("orders", b"1")


def test_another_password_keeps_open_connections(broker, admin, user):
    admin.admin.grants.add(user.user, PRODUCE, "orders")
    with broker.client(credentials=user) as client:
        client.produce("orders", b"1")
        admin.admin.users.set_password(user.user, "another")
        client.produce("orders", b"1")
    with broker.client(credentials=user) as client, pytest.raises(UnauthenticatedError):
        client.produce("orders", b"1")


def test_nothing_is_lost_while_users_grants_and_passwords_change(broker, admin, user):
    """A producer keeps its right by a role while its own grant goes, and the other way round."""
    admin.create_topic("steady")
    admin.admin.roles.grant("writers", PRODUCE, "steady")
    admin.admin.grants.add(user.user, PRODUCE, "steady")
    offsets: list[int] = []
    is_over = threading.Event()

    def push(client: Client) -> None:
        while not is_over.is_set():
            offsets.append(client.produce("steady", b"%d" % len(offsets)).offset)

    with broker.client(credentials=user) as client, ThreadPoolExecutor() as pool:
        pushing = pool.submit(push, client)
        for turn in range(3):
            admin.admin.roles.assign("writers", user.user)
            admin.admin.grants.remove(user.user, PRODUCE, "steady")
            admin.admin.users.create(f"passing-{turn}", "pencil")
            admin.admin.users.set_password(f"passing-{turn}", "another")
            admin.admin.grants.add(user.user, PRODUCE, "steady")
            admin.admin.roles.unassign("writers", user.user)
            admin.admin.users.delete(f"passing-{turn}")
        is_over.set()
        pushing.result()
    assert offsets
    assert offsets == [*range(len(offsets))]
    assert [record.payload for record in admin.peek("steady", max_messages=len(offsets) + 1)] == [
        b"%d" % number for number in offsets
    ]
    admin.admin.roles.delete("writers")
    admin.delete_topic("steady")


def test_the_last_operator_stays(admin):
    with pytest.raises(InvalidArgumentError):
        admin.admin.grants.remove("root", OPERATE)
    with pytest.raises(InvalidArgumentError):
        admin.admin.users.delete("root")


def test_password_files(broker, admin, tmp_path):
    (tmp_path / "password").write_text("a long password\n")
    seen = Client(broker.address, user="root", password_file=str(tmp_path / "password"))
    with seen, pytest.raises(UnauthenticatedError, match="chmod 600"):
        seen.topics()
    (tmp_path / "password").chmod(0o600)
    with Client(broker.address, user="root", password_file=str(tmp_path / "password")) as client:
        assert client.topics()
    lost = Client(broker.address, user="root", password_file=str(tmp_path / "missing"))
    with lost, pytest.raises(UnauthenticatedError, match="cannot be read"):
        lost.topics()
    with pytest.raises(InvalidArgumentError):
        Client(broker.address, user="root")
    with pytest.raises(InvalidArgumentError):
        Client(broker.address, token_file="t", credentials=ADMIN)


# HTTP.


@pytest.fixture(scope="module")
def url(broker: LocalBroker) -> str:
    return f"http://{broker._server._own.http_address}"  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=40) as client:
        yield client


def basic(credentials: Password) -> dict[str, str]:
    text = f"{credentials.user}:{credentials.keys._password}"
    return {"Authorization": f"Basic {b64encode(text.encode()).decode()}"}


def test_http_asks_who_calls(http, url, admin):
    assert http.get(f"{url}/v1/topics").status_code == 401
    assert "Basic" in http.get(f"{url}/v1/topics").headers["www-authenticate"]
    for wrong in (Password("root", "wrong"), Password("nobody", "x")):
        answer = http.get(f"{url}/v1/topics", headers=basic(wrong))
        assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")
    for header in ("Basic", "Basic !!!", "Basic YQ==", "Digest x", "Bearer x", "x" * 20_000):
        assert http.get(f"{url}/v1/topics", headers={"Authorization": header}).status_code == 401
    topics = http.get(f"{url}/v1/topics", headers=basic(ADMIN)).json()["topics"]
    assert {"orders", "secret"} <= {topic["topic"] for topic in topics}


def test_passwords_and_tokens_are_written_nowhere(broker, admin, user, http, url, caplog):
    planted = ["planted-password-1", "planted-password-2", "planted-token-3"]
    caplog.set_level("DEBUG")
    admin.admin.users.set_password(user.user, planted[0])
    said: list[str] = []
    for password in planted[:2]:
        credentials = Password(user.user, password)
        said.append(http.get(f"{url}/v1/topics", headers=basic(credentials)).text)
        with broker.client(credentials=credentials) as client:
            try:
                client.topics()
            except UnauthenticatedError as refused:
                said.append(str(refused))
    http.get(f"{url}/v1/topics", headers={"Authorization": f"Bearer {planted[2]}"})
    shown = [*said, *[repr(record.__dict__) for record in caplog.records]]
    assert any("log-in" in each for each in shown)
    shown.append(http.get(f"{url}/metrics", headers=basic(ADMIN)).text)
    files = [file for file in Path(broker._server.settings.data_dir).rglob("*") if file.is_file()]
    assert files
    shown += [file.read_bytes().decode("latin-1") for file in files]
    encoded = [b64encode(f"{user.user}:{each}".encode()).decode() for each in planted]
    assert [each for each in (*planted, *encoded) if any(each in text for text in shown)] == []


def test_probes_say_yes_or_no_to_everybody(http, url, admin):
    for path in ("/health", "/ready"):
        answer = http.get(f"{url}{path}")
        assert (answer.status_code, answer.json()) == (200, {"ok": True})
        assert "ok" not in http.get(f"{url}{path}", headers=basic(ADMIN)).json()
    assert http.get(f"{url}/metrics").status_code == 401
    assert http.get(f"{url}/metrics", headers=basic(ADMIN)).status_code == 200
    assert http.get(f"{url}/openapi.json").status_code == 401
    described = http.get(f"{url}/openapi.json", headers=basic(ADMIN)).json()
    assert set(described["components"]["securitySchemes"]) == {"basic", "bearer"}


def test_metrics_are_for_those_who_may_describe_all(http, url, admin, user):
    assert http.get(f"{url}/metrics", headers=basic(user)).status_code == 403
    admin.admin.grants.add(user.user, DESCRIBE)
    assert http.get(f"{url}/metrics", headers=basic(user)).status_code == 200


def test_a_changed_password_counts_over_http_at_once(http, url, admin, user):
    assert http.get(f"{url}/v1/topics", headers=basic(user)).status_code == 200
    admin.admin.users.set_password(user.user, "another")
    assert http.get(f"{url}/v1/topics", headers=basic(user)).status_code == 401
    assert http.get(f"{url}/v1/topics", headers=basic(Password(user.user, "another"))).status_code == 200
    admin.admin.users.delete(user.user)
    assert http.get(f"{url}/v1/topics", headers=basic(Password(user.user, "another"))).status_code == 401


_PARTS = {"topic": "secret", "partition": "0", "offset": "0", "group": "g", "id": "1-0-0", "queue": "secret"}
#: Calls that everybody who has logged in may make; the answer shows what the caller may describe.
_OPEN = {"listTopics", "getCluster", "getSession", "listSchedules", "listTasks", "getStats", "listPipelines"}


def _sample(schema: dict[str, Any]) -> Any:
    """The smallest value that a schema allows."""
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: _sample(properties[name]) for name in schema.get("required", ())}
    if kind == "array":
        return [_sample(schema["items"])] * schema.get("minItems", 0)
    if kind == "integer":
        return schema.get("minimum", 0)
    if kind == "boolean":
        return False
    if kind == "string":
        return "secret"[: max(schema.get("maxLength", 6), 1)].ljust(schema.get("minLength", 0), "x")
    if "oneOf" in schema or "anyOf" in schema:
        return _sample((schema.get("oneOf") or schema["anyOf"])[0])
    return {}


def test_no_operation_over_http_does_more_than_its_caller_may(http, broker, url, admin, user):
    """Every row of the table, by nobody and by a user without a grant for it."""
    admin.admin.grants.add(user.user, PRODUCE, "orders")
    table = operations(broker._server.gateway)
    assert len(table) > 40
    reached: list[str] = []
    for row in table:
        path = url + re.sub(r"{(\w+)}", lambda found: _PARTS.get(found[1], "x"), row.path)
        query = {each.name: _sample(each.schema) for each in row.query if each.is_required}
        body = None if row.body is None else _sample(row.body)
        headers = {"Content-Type": row.body_type}
        sent = {"params": query, "json": body} if row.body_type == "application/json" else {"content": b"x"}
        assert http.request(row.method, path, headers=headers, **sent).status_code == 401, row.name
        answer = http.request(row.method, path, headers={**headers, **basic(user)}, **sent)
        if answer.status_code < 400:
            reached.append(row.name)
            assert "secret" not in answer.text, row.name
        else:
            assert answer.status_code in (400, 403, 404, 415), (row.name, answer.text)
    assert set(reached) <= _OPEN, reached
    assert [topic.name for topic in admin.topics() if topic.name not in ("orders", "secret")] == []


def test_settlements_of_different_callers_never_share_a_request(http, url, admin, user):
    """Tasks are settled in batches: somebody without rights must not slip into the batch of somebody with them."""
    made = http.post(f"{url}/tasks", json={"type": "t", "queue": "jobs"}, headers=basic(ADMIN))
    assert made.status_code == 201, made.text
    leased = http.post(f"{url}/tasks/lease", json={"worker_id": "w", "queue": "jobs"}, headers=basic(ADMIN))
    task = leased.json()["tasks"][0]["id"]

    async def both() -> list[int]:
        async with httpx.AsyncClient() as client:
            answers = await asyncio.gather(
                *[
                    client.post(f"{url}/tasks/{task}/ack", json={"worker_id": "w"}, headers=basic(who))
                    for who in (user, user, user, ADMIN, user)
                ]
            )
        return [answer.status_code for answer in answers]

    assert asyncio.run(both()) == [404, 404, 404, 200, 404]


# gRPC.


#: A stream that the server ends while the client is still sending ends with the second one at the client.
_UNKNOWN = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INTERNAL)
_REFUSED = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT)


def _methods() -> list[str]:
    service = flotilla_pb2.DESCRIPTOR.services_by_name["Flotilla"]
    return [f"/{service.full_name}/{method.name}" for method in service.methods]


def test_no_call_over_grpc_does_more_than_its_caller_may(broker, admin, user):
    """Every method, by nobody and by a user without grants."""
    wanted = flotilla_pb2.ProduceRequest(topic="secret", records=[flotilla_pb2.Record(payload=b"x")])
    stored = admin.find_offset("secret", 0, "latest")

    async def outcome(channel: grpc.aio.Channel, method: str, metadata: tuple[tuple[str, str], ...]) -> Any:
        # The topic is the first field of most requests.
        call = channel.stream_stream(method)(iter([wanted.SerializeToString()]), metadata=metadata, timeout=10)
        try:
            replies = [reply async for reply in call]
        except grpc.aio.AioRpcError as error:
            return error.code()
        return replies

    async def play() -> None:
        async with grpc.aio.insecure_channel(broker.grpc_address) as channel:
            mine = (("authorization", basic(user)["Authorization"]),)
            for method in _methods():
                assert await outcome(channel, method, ()) in _UNKNOWN, method
                found = await outcome(channel, method, mine)
                if isinstance(found, list):
                    assert method.rpartition("/")[2] in ("Describe", "ListSchedules", "ProduceStream"), method
                    assert b"secret" not in b"".join(found) or b"there is no topic" in b"".join(found)
                else:
                    assert found in _REFUSED, (method, found)

    asyncio.run(play())
    assert admin.find_offset("secret", 0, "latest") == stored


def test_health_over_grpc_needs_no_log_in_and_reflection_does(broker, admin):
    async def play() -> list[Any]:
        async with grpc.aio.insecure_channel(broker.grpc_address) as channel:
            health = await channel.unary_unary("/grpc.health.v1.Health/Check")(b"")
            listing = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")(
                iter([b"\x3a\x00"])
            )
            try:
                return [health, [reply async for reply in listing]]
            except grpc.aio.AioRpcError as error:
                return [health, error.code()]

    health, listed = asyncio.run(play())
    assert health == b"\x08\x01"
    assert listed in _UNKNOWN


def test_a_revoked_grant_ends_a_long_poll_over_http(http, url, admin, user):
    admin.admin.grants.add(user.user, CONSUME, "secret", "http-waiters")
    answers: list[httpx.Response] = []

    def wait() -> None:
        body = {"member": "m", "wait_ms": 30_000}
        path = f"{url}/v1/topics/secret/groups/http-waiters/poll"
        answers.append(http.post(path, json=body, headers=basic(user)))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while "http-waiters" not in admin.groups("secret"):
        pass
    admin.admin.grants.remove(user.user, CONSUME, "secret", "http-waiters")
    waiting.join(10)
    assert not waiting.is_alive()
    assert answers[0].status_code == 404


# Tokens.


def test_tokens_name_users_at_all_endpoints_and_end(tmp_path, caplog):
    caplog.set_level("INFO", logger="flotilla.audit")
    key = ed25519.Ed25519PrivateKey.generate()
    keys = tmp_path / "jwks.json"
    public = jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    keys.write_text(json.dumps({"keys": [{**public, "kid": "k"}]}))

    def token(life_s: int, user: str = "tess") -> str:
        claims = {"sub": user, "aud": "flotilla", "exp": now_ms() // 1_000 + life_s}
        return jwt.encode(claims, key, "EdDSA", headers={"kid": "k"})

    settings: BrokerSettings = {
        "authentication": True,
        "token_keys": str(keys),
        "http_listen": ANY_PORT,
        "grpc_listen": ANY_PORT,
    }
    with LocalBroker(**settings) as broker:
        with broker.client() as nobody:
            nobody.admin.users.create_administrator("root", "a long password")
        with broker.client(credentials=ADMIN) as admin:
            admin.create_topic("orders")
            admin.admin.grants.add("tess", PRODUCE, "orders")
        file = tmp_path / "token"
        file.write_text(token(600) + "\n")
        file.chmod(0o600)
        with Client(broker.address, token_file=str(file)) as client:
            client.produce("orders", b"1")
            with pytest.raises(PermissionDeniedError):
                client.delete_topic("orders")
        with broker.client(credentials=Token(token(-120))) as late, pytest.raises(UnauthenticatedError):
            late.produce("orders", b"1")
        url = f"http://{broker._server._own.http_address}/v1/topics"  # type: ignore[union-attr]
        for life_s, status in ((600, 200), (700, 200), (-120, 401)):
            answer = httpx.get(url, headers={"Authorization": f"Bearer {token(life_s)}"})
            assert answer.status_code == status
        with grpc.insecure_channel(broker.grpc_address) as channel:
            for _ in range(2):
                described = channel.unary_unary("/flotilla.v1.Flotilla/Describe")
                described(b"", metadata=(("authorization", f"Bearer {token(600)}"),))
        # A line for each caller at each endpoint, not for each request.
        lines = [record.fields for record in caplog.records if record.message == "log-in"]
        by_request = [line for line in lines if line["endpoint"] != "tcp"]
        assert [(line["principal"], line["mechanism"], line["endpoint"]) for line in by_request] == [
            ("user tess", "bearer", "http"),
            ("user tess", "bearer", "grpc"),
        ]
        with broker.client(credentials=ADMIN) as admin:
            admin.admin.grants.add("tess", CONSUME, "orders")
        # It is good for a minute after its end, because clocks differ: two seconds are left.
        bearer = f"Bearer {token(-58)}"
        with ThreadPoolExecutor() as pool:
            # Streams that are open then end with it.
            events = pool.submit(_all_events, f"{url}/orders/subscribe", bearer)
            streamed = pool.submit(asyncio.run, _stream_for_ever(broker.grpc_address, bearer))
            with broker.client(credentials=Token(token(-58))) as brief:
                brief.produce("orders", b"1")
                with pytest.raises((UnauthenticatedError, OutcomeUnknownError)):
                    _produce_for_ever(brief)
            assert "UNAUTHENTICATED" in events.result(20)
            replies = streamed.result(20)
        assert not replies[0].HasField("error")
        assert replies[-1].error.name == "UNAUTHENTICATED"
        assert not broker._server._gate.guard.expiring  # type: ignore[union-attr]


def test_a_wall_clock_that_jumps_ends_no_token(tmp_path, monkeypatch):
    key = ed25519.Ed25519PrivateKey.generate()
    keys = tmp_path / "jwks.json"
    public = jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    keys.write_text(json.dumps({"keys": [{**public, "kid": "k"}]}))
    claims = {"sub": "tess", "aud": "flotilla", "exp": now_ms() // 1_000 + 3_600}
    bearer = jwt.encode(claims, key, "EdDSA", headers={"kid": "k"})
    with LocalBroker(authentication=True, token_keys=str(keys), http_listen=ANY_PORT) as broker:
        url = f"http://{broker._server._own.http_address}/v1/topics"  # type: ignore[union-attr]
        really = Machine.now_ms
        for years in (0, 1, -1):
            ahead_ms = years * 365 * 86_400_000
            monkeypatch.setattr(Machine, "now_ms", lambda machine, ahead_ms=ahead_ms: really(machine) + ahead_ms)
            answer = httpx.get(url, headers={"Authorization": f"Bearer {bearer}"})
            assert answer.status_code == 200, answer.text


def _all_events(url: str, bearer: str) -> str:
    body = {"group": "g", "member": "m"}
    until, found = steady_ms() + 15_000, ""
    with httpx.stream("POST", url, json=body, headers={"Authorization": bearer}, timeout=15) as answer:
        for text in answer.iter_text():
            found += text
            # A stream that does not end has heartbeats for ever.
            if steady_ms() > until:
                break
    return found


async def _stream_for_ever(address: str, bearer: str) -> list[Any]:
    """The replies up to the first that is an error."""
    wanted = flotilla_pb2.ProduceRequest(topic="orders", records=[flotilla_pb2.Record(payload=b"x")])
    replies = []
    async with grpc.aio.insecure_channel(address) as channel:
        method = channel.stream_stream("/flotilla.v1.Flotilla/ProduceStream")
        call = method(metadata=(("authorization", bearer),), timeout=15)
        while not (replies and replies[-1].HasField("error")):
            await call.write(wanted.SerializeToString())
            replies += flotilla_pb2.ProduceStreamReply.FromString(await call.read()).replies
        await call.done_writing()
    return replies


def _produce_for_ever(client: Client) -> None:
    while True:
        client.produce("orders", b"1")


# Dead letters.


def test_dead_letters_need_the_same_rights_over_tcp_and_http(broker, http, url, admin, user, caplog):
    caplog.set_level("INFO", logger="flotilla.audit")
    admin.create_topic("fragile", max_deliveries=1)
    admin.produce("fragile", b"1")
    with admin.queue("fragile", group="g") as consumer:
        (message,) = consumer.poll()
        message.nack(reason="broken")
    while not admin.dead_letters("fragile", "g").list(10):
        pass
    path = f"{url}/v1/topics/fragile/groups/g/dead-letters"
    with broker.client(credentials=user) as client:
        letters = client.dead_letters("fragile", "g")
        assert http.get(path, headers=basic(user)).status_code == 404
        # A topic that is not there has no dead letters.
        assert letters.list(10) == []
        admin.admin.grants.add(user.user, MANAGE, "fragile", "g")
        assert len(http.get(path, headers=basic(user)).json()["dead_letters"]) == 1
        assert len(letters.list(10)) == 1
        assert http.post(f"{path}/redrive", json={}, headers=basic(user)).status_code == 403
        with pytest.raises(PermissionDeniedError):
            letters.redrive()
        admin.admin.grants.add(user.user, PRODUCE, "fragile")
        assert letters.redrive().done == 1
    for verb in ("redrive", "purge"):
        assert http.post(f"{path}/{verb}", json={}, headers=basic(user)).json()["done"] == 0
    changes = [record.fields for record in caplog.records if record.message == "change"]
    worked = [line for line in changes if "dead_letters" in line["operation"]]
    assert [(line["principal"], line["operation"], line["topic"], line["group"]) for line in worked] == [
        (f"user {user.user}", f"{verb}_dead_letters", "fragile", "g") for verb in ("redrive", "purge")
    ]
    assert {(line["endpoint"], line["outcome"]) for line in worked} == {("http", "done")}
