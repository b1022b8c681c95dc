"""The OpenAPI document is true: whatever is sent by it, or slightly beside it, is answered as it says."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import schemathesis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from flotilla.client.credentials import Password
from flotilla.frontends.http.api.records import BATCH_TYPE
from flotilla.frontends.http.app import operations
from flotilla.frontends.http.framework.openapi import make_document
from flotilla.gateway.gateway import Gateway
from flotilla.machine import now_ms
from flotilla.testing import LocalBroker
from flotilla.types.access import CONSUME, MANAGE, PRODUCE
from flotilla.types.address import Address

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
#: Streams end when the client has heard enough, which a generated one never has.
ENDLESS = ("/subscribe", "/follow")
#: A node that drains takes no new partitions, and the other tests need the only one.
EMPTYING = ("/drain", "/undrain")
#: Not asked about the fixture's things: they must stay, and a single node cannot transfer leadership.
SPARED = ("DELETE /v1/topics/{topic}", "POST /v1/topics/{topic}/partitions/{partition}/transfer")
#: What a generated request may wait for.
WAIT_MS_MAX = 5


#: What the table says; that a node serves the same is a test of its own.
DOCUMENT = make_document(operations(Gateway(list)))
ALL: list[Any] = list(schemathesis.openapi.from_dict(DOCUMENT).get_all_operations())
DESCRIBED = [found.ok() for found in ALL if not found.ok().path.endswith((*ENDLESS, *EMPTYING))]


@schemathesis.serializer(BATCH_TYPE)
def serialize_batch(_: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


@pytest.fixture(scope="module")
def things(http: httpx.Client) -> dict[str, Any]:
    """What is there, so that not everything is asked of what is not."""
    http.post("/v1/topics", json={"topic": "fuzzed", "partitions": 2})
    http.post("/v1/topics/fuzzed/records", json={"records": [{"payload_text": "x"}], "partition": 0})
    http.post("/v1/topics/fuzzed/groups/g/poll", json={"member": "m"})
    task = http.post("/tasks", json={"type": "t"}).json()["id"]
    return {"topic": "fuzzed", "group": "g", "partition": 0, "id": task}


@pytest.mark.parametrize("operation", DESCRIBED, ids=lambda operation: operation.label)
def test_every_answer_is_as_described(operation: Any, url: str, things: dict[str, Any]) -> None:
    play(operation, url, things, 8)


def play(
    operation: Any, url: str, things: dict[str, Any], examples: int, headers: dict[str, str] | None = None
) -> None:
    """Asks with generated requests, right and wrong ones, and checks the answers against the document."""
    turns = count()

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of(*[operation.as_strategy(generation_mode=mode) for mode in GenerationMode]))
    def asked(case: Any) -> None:
        for sent in (case.body, case.query):
            if isinstance(sent, dict) and isinstance(sent.get("wait_ms"), int):
                sent["wait_ms"] = min(sent["wait_ms"], WAIT_MS_MAX)
        if next(turns) % 3 and case.path_parameters and operation.label not in SPARED:
            case.path_parameters.update({name: things[name] for name in case.path_parameters.keys() & things.keys()})
        case.call_and_validate(base_url=url, checks=CHECKS, timeout=30, headers=headers)

    asked()


@pytest.mark.slow
def test_every_answer_is_as_described_with_a_token(tmp_path: Path) -> None:
    """The caller may do everything with one topic, and nothing else."""
    key = Ed25519PrivateKey.generate()
    public = jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    (tmp_path / "keys").write_text(json.dumps({"keys": [{**public, "kid": "k"}]}))
    claims = {"sub": "tess", "aud": "flotilla", "exp": now_ms() // 1000 + 3_600}
    bearer = {"Authorization": f"Bearer {jwt.encode(claims, key, 'EdDSA', headers={'kid': 'k'})}"}
    with LocalBroker(
        authentication=True, token_keys=str(tmp_path / "keys"), http_listen=Address("127.0.0.1", 0)
    ) as broker:
        with broker.client() as nobody:
            nobody.admin.users.create_administrator("root", "a long password")
        with broker.client(credentials=Password("root", "a long password")) as admin:
            admin.create_topic("fuzzed", partitions=2)
            admin.create_topic("secret")
            for action in (PRODUCE, CONSUME, MANAGE):
                admin.admin.grants.add("tess", action, "fuzzed")
        things = {"topic": "fuzzed", "group": "g", "partition": 0}
        url = f"http://{broker._server._own.http_address}"  # type: ignore[union-attr]
        for operation in DESCRIBED:
            play(operation, url, things, 2, bearer)
        with broker.client(credentials=Password("root", "a long password")) as admin:
            assert "secret" in [topic.name for topic in admin.topics()]


def test_the_document_is_whole(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    assert document == json.loads(json.dumps(DOCUMENT))
    assert document["openapi"] == "3.1.0"
    described = [(path, method) for path, methods in document["paths"].items() for method in methods]
    assert ("/tasks", "post") in described
    assert ("/v1/topics/{topic}/subscribe", "post") in described
    for path, method in described:
        operation = document["paths"][path][method]
        assert operation["summary"].endswith("."), path
        assert any(status.startswith("2") for status in operation["responses"]), path


def test_the_root_leads_browsers_to_the_console_and_programs_to_the_page(http: httpx.Client) -> None:
    for accepted, place in (("*/*", "/docs"), ("text/html,application/xhtml+xml;q=0.9", "/console")):
        answer = http.get("/", headers={"Accept": accepted}, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (302, place)


def test_the_html_page_loads_nothing_from_other_hosts(http: httpx.Client) -> None:
    page = http.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "http://" not in page.text.replace("http://www.w3.org", "")
    assert "https://" not in page.text
    assert "/openapi.json" in page.text
    assert json.dumps(page.headers["content-security-policy"])
