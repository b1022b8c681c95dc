"""Sessions of browsers: a cookie after a log-in, a token for what changes something, and an end to both."""

import json
import re
import ssl
import threading
from collections.abc import Iterator
from importlib import resources

import httpx
import pytest

from flotilla import Password
from flotilla.frontends.http import browser_sessions
from flotilla.testing import LocalBroker
from flotilla.types.address import Address, parse_address
from tests.unit.security.issuing import node_files, trusting

FREE = Address("127.0.0.1", 0)
ADMIN = Password("root", "a long password")
ANNA = {"user": "anna", "password": "another password"}


@pytest.fixture(scope="module", params=["plain", "tls"])
def broker(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    files = dict(zip(("tls_certificate", "tls_key", "tls_ca"), node_files(1), strict=True))
    tls = trusting() if request.param == "tls" else None
    with LocalBroker(http_listen=FREE, authentication=True, **(files if tls else {})) as made:
        made.tls = tls  # type: ignore[attr-defined]
        with made.client(tls=tls) as nobody:
            nobody.admin.users.create_administrator("root", "a long password")
        with made.client(tls=tls, credentials=ADMIN) as admin:
            admin.create_topic("mine")
            admin.create_topic("other")
            admin.admin.users.create("anna", ANNA["password"])
            admin.admin.grants.add("anna", "produce", "mine")
            admin.admin.grants.add("anna", "consume", "mine")
        yield made


@pytest.fixture
def browser(broker: LocalBroker) -> Iterator[httpx.Client]:
    tls = broker.tls  # type: ignore[attr-defined]
    port = parse_address(broker._server._own.http_address).port  # type: ignore[union-attr]
    context = ssl.create_default_context(cafile=tls.ca) if tls else False
    url = f"{'https' if tls else 'http'}://localhost:{port}"
    with httpx.Client(base_url=url, verify=context, timeout=20) as client:
        yield client


def log_in(browser: httpx.Client) -> dict[str, str]:
    answer = browser.post("/login", json=ANNA)
    assert answer.status_code == 200, answer.text
    return {"Flotilla-Csrf": answer.json()["csrf"]}


RECORDS = {"records": [{"payload": "eA=="}]}


def test_a_browser_logs_in_acts_with_its_own_rights_and_logs_out(browser: httpx.Client) -> None:
    page = browser.get("/docs", headers={"Accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (303, "/login?next=/docs")
    assert browser.get(page.headers["location"]).status_code == 200
    assert browser.get("/session").status_code == 401
    token = log_in(browser)
    [cookie] = list(browser.cookies.jar)
    is_encrypted = browser.base_url.scheme == "https"
    assert cookie.name == ("__Host-flotilla" if is_encrypted else "flotilla")
    assert cookie.secure is is_encrypted
    assert browser.get("/session").json() == {"user": "anna", "csrf": token["Flotilla-Csrf"]}
    assert browser.get("/docs").status_code == 200
    assert browser.get("/v1/topics/mine").status_code == 200
    assert browser.get("/v1/topics/other").status_code == 404
    assert browser.post("/v1/topics/mine/records", json=RECORDS, headers=token).status_code < 300
    assert browser.post("/logout", json={}).status_code == 403
    kept = {"Cookie": f"{cookie.name}={cookie.value}"}
    assert browser.post("/logout", json={}, headers=token).status_code == 200
    assert not browser.cookies
    # The cookie itself means nothing any more.
    assert browser.get("/session", headers=kept).status_code == 401


def test_the_cookie_is_for_pages_of_this_node_alone(browser: httpx.Client) -> None:
    set_cookie = browser.post("/login", json=ANNA).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in set_cookie.split(";")}
    assert "domain" not in set_cookie.lower()


@pytest.mark.parametrize("headers", [{}, {"Flotilla-Csrf": "wrong"}, {"Flotilla-Csrf": ""}])
def test_a_change_without_the_token_is_refused(browser: httpx.Client, headers: dict[str, str]) -> None:
    log_in(browser)
    for method, path in (("POST", "/v1/topics/mine/records"), ("DELETE", "/v1/topics/mine")):
        answer = browser.request(method, path, json=RECORDS, headers=headers)
        assert answer.status_code == 403, (method, path, answer.text)


def test_a_wrong_password_begins_nothing(browser: httpx.Client) -> None:
    answer = browser.post("/login", json={**ANNA, "password": "wrong"})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert browser.post("/login", content=json.dumps(ANNA)).status_code == 415
    foreign = browser.post("/login", json=ANNA, headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 403


def test_a_new_log_in_ends_the_session_before(browser: httpx.Client) -> None:
    log_in(browser)
    [old] = list(browser.cookies.jar)
    log_in(browser)
    browser.cookies.clear()
    assert browser.get("/session", headers={"Cookie": f"{old.name}={old.value}"}).status_code == 401


def test_sessions_are_bounded_and_end_when_idle(browser: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    log_in(browser)
    monkeypatch.setattr(browser_sessions, "HTTP_SESSION_IDLE_MS_MAX", -1)
    assert browser.get("/session").status_code == 401
    monkeypatch.undo()
    log_in(browser)
    [first] = list(browser.cookies.jar)
    monkeypatch.setattr(browser_sessions, "HTTP_SESSION_USER_COUNT_MAX", 2)
    for _ in range(2):
        browser.cookies.clear()
        log_in(browser)
    browser.cookies.clear()
    assert browser.get("/session", headers={"Cookie": f"{first.name}={first.value}"}).status_code == 401


def test_pages_have_nothing_inline_and_a_strict_policy(browser: httpx.Client) -> None:
    log_in(browser)
    for path in ("/docs", "/login"):
        page = browser.get(path)
        policy = page.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        for source in re.findall(r'(?:src|href)="(/[^"]*\.(?:js|css))"', page.text):
            found = browser.get(source)
            assert found.status_code == 200, source
            assert found.headers["content-type"].startswith(("text/javascript", "text/css"))
    folder = resources.files("flotilla.frontends.http")
    for name in ("docs.html", "login.html"):
        text = folder.joinpath(name).read_text("utf-8")
        assert "<style" not in text
        assert re.search(r"<script(?! src=)|\son[a-z]+=|\sstyle=|javascript:", text) is None, name


def test_whoever_is_removed_is_out_with_the_streams_of_the_session(broker: LocalBroker, browser: httpx.Client) -> None:
    tls = broker.tls  # type: ignore[attr-defined]
    with broker.client(tls=tls, credentials=ADMIN) as admin:
        admin.admin.users.create("gone", "a third password")
        admin.admin.grants.add("gone", "consume", "mine")
        answer = browser.post("/login", json={"user": "gone", "password": "a third password"})
        token = {"Flotilla-Csrf": answer.json()["csrf"]}
        ended = threading.Event()
        body = {"group": "g", "member": "m"}
        with browser.stream("POST", "/v1/topics/mine/subscribe", json=body, headers=token) as stream:
            assert stream.status_code == 200, stream.read()

            def read() -> None:
                for _ in stream.iter_lines():
                    pass
                ended.set()

            reader = threading.Thread(target=read)
            reader.start()
            admin.admin.users.delete("gone")
            assert ended.wait(10)
            reader.join()
        assert browser.get("/session").status_code == 401
