"""Which web pages and which names a node answers to."""

import asyncio
from typing import Any

import pytest

from flotilla.frontends.http.framework.response import Response
from flotilla.frontends.http.framework.site_guard import SiteGuard
from flotilla.frontends.http.http1.asgi import Message, Receive, Scope, Send

HOST = "localhost:7680"
PAGE = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


async def served(_: Scope, __: Receive, send: Send) -> None:
    await Response(b"served", "text/plain").send(send)


def ask(method: str = "POST", *hosts: str, path: str = "/tasks", **headers: str | None) -> int:
    """The status; underscores in names of headers are dashes."""
    sent: list[Message] = []

    async def receive() -> Message:
        raise AssertionError("no body is read")

    async def send(message: Message) -> None:
        sent.append(message)

    given = {"host": HOST, **headers}
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items() if value],
    }
    if headers.get("host") == "":
        scope["headers"].append((b"host", b""))
    asyncio.run(SiteGuard(served, hosts)(scope, receive, send))
    status: int = sent[0]["status"]
    return status


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "localhost:7680", "LOCALHOST.", "node.localhost:1", "127.0.0.1:7680", "10.1.2.3",
        "[::1]:7680", "[::1]", "node1.example:7680", "Node1.Example.", None,
    ],
)  # fmt: skip
def test_addresses_and_own_names_are_served(host: str | None) -> None:
    assert ask("GET", "node1.example", host=host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:7680", "node1.example.evil", "xlocalhost", "localhost.evil.example",
        "a b/c", "", "::1", "[127.0.0.1]", "127.0.0.1.evil.example", "127.1.1", "localhost:x", "*",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_name_is_refused(method: str, host: str) -> None:
    assert ask(method, "node1.example", host=host) == 421


def test_any_name_may_be_allowed() -> None:
    assert ask("GET", "*", host="anything.example") == 200


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/ready", 200), ("/metrics", 421), ("/%68ealth", 421)])
def test_probes_may_use_any_name(path: str, status: int) -> None:
    assert ask("GET", host="balancer.example", path=path) == status


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://localhost"},
        {"origin": "https://localhost:7680.evil.example"},
        {"origin": "file://localhost:7680"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "anything"},
        {"origin": f"http://{HOST}", "sec_fetch_site": "cross-site"},
        {"origin": "http://evil.example", "sec_fetch_site": "same-origin"},
        {"origin": "http://evil.example", **PAGE},
        {"sec_fetch_site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        {"origin": f"http://{HOST}", "host": None},
    ],
    ids=str,
)
def test_a_page_of_another_site_is_refused(method: str, headers: dict[str, str | None]) -> None:
    assert ask(method, **headers) == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": f"http://{HOST}", "sec_fetch_site": "same-origin"},
        {"origin": f"https://{HOST.upper()}"},
        {"origin": "https://q.example", "host": "q.example"},
        {"origin": "https://q.example", "host": "q.example:443"},
        {"sec_fetch_site": "none"},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_programs_and_own_pages_are_served(method: str, headers: dict[str, str | None]) -> None:
    assert ask(method, "q.example", **headers) == 200


def test_a_link_may_lead_here_and_a_form_may_not() -> None:
    assert ask("GET", sec_fetch_site="cross-site", **PAGE) == 200
    assert ask("POST", sec_fetch_site="cross-site", **PAGE) == 403
