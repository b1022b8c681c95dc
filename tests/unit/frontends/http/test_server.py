"""The HTTP endpoint over a real socket: what it answers, what it refuses, and how it ends."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from flotilla.frontends.http.framework.limits import BODY_BYTES_MAX, Guard
from flotilla.frontends.http.framework.response import Response
from flotilla.frontends.http.http1.asgi import Receive, Scope, Send
from flotilla.frontends.http.server import HttpServer
from flotilla.frontends.listener import ConnectionBudget
from flotilla.frontends.tcp.budget import Budgets
from flotilla.types.errors import DiskFullError, OverloadedError
from flotilla.types.limits import MIB
from tests.unit.frontends.http.harness import Caller, Endpoint, run
from tests.unit.runtime.exposition import parse

NEVER_MS = 3_600_000
#: More than the buffers of any socket hold.
MUCH_BYTES = 32 * 1024 * 1024


async def much() -> bytes:
    return bytes(MUCH_BYTES)


def test_health(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        answer = await endpoint.get("/health")
        assert answer.status == 200
        assert (answer.json["status"], answer.json["storage"], answer.json["node"]) == ("ok", "ok", 1)
        endpoint.single.driver.storage_error = DiskFullError("no room")
        answer = await endpoint.get("/health")
        assert answer.status == 503
        assert (answer.json["status"], answer.json["storage"]) == ("failing", "DISK_FULL")

    run(tmp_path, test)


def test_readiness(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        answer = await endpoint.get("/ready")
        assert answer.status == 503
        message = "the node is not part of a cluster yet"
        assert answer.json == {"ready": False, "reasons": [{"code": "NO_CLUSTER", "message": message}], "warnings": []}
        await endpoint.single.found()
        answer = await endpoint.get("/ready")
        assert answer.status == 200
        assert answer.json == {"ready": True, "reasons": [], "warnings": []}

    run(tmp_path, test)


def test_metrics(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        answer = await endpoint.get("/metrics")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "flotilla_build_info" in parse(answer.body.decode())

    run(tmp_path, test)


def test_every_answer_is_dated_and_not_kept(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        for path in ("/health", "/ready", "/metrics", "/nothing"):
            headers = (await endpoint.get(path)).headers
            assert headers["date"].endswith("GMT")
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "NOT_FOUND"),
        ("GET", "/nothing", 404, "NOT_FOUND"),
        ("GET", "/health/", 404, "NOT_FOUND"),
        ("GET", "//health", 404, "NOT_FOUND"),
        ("GET", "/%ff", 404, "NOT_FOUND"),
        ("GET", "/%68ealth", 404, "NOT_FOUND"),
        ("POST", "/health", 405, "INVALID_ARGUMENT"),
        ("BREW", "/metrics", 405, "INVALID_ARGUMENT"),
    ],
)
def test_errors_have_one_shape(method: str, path: str, status: int, code: str, tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        answer = await endpoint.get(path, method)
        assert answer.status == status
        assert answer.json.keys() == {"code", "message", "retryable"}
        assert (answer.json["code"], answer.json["retryable"]) == (code, False)
        expected = f"{method} is not allowed at {path}; allowed: GET" if status == 405 else "there is nothing at /"
        assert answer.json["message"].startswith(expected)
        assert (status == 405) == ("allow" in answer.headers)

    run(tmp_path, test)


def test_typed_errors_and_faults_have_that_shape_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[dict[str, Any]] = []

    async def test(endpoint: Endpoint) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        overloaded = OverloadedError("too much")
        overloaded.retry_after_ms = 1_500
        for error, status, body in (
            (overloaded, 429, {"code": "OVERLOADED", "message": "too much", "retryable": True}),
            (
                RuntimeError("a secret"),
                500,
                {
                    "code": "UNKNOWN",
                    "message": "internal error; the log of the node has the details",
                    "retryable": False,
                },
            ),
        ):

            def fail(error: Exception = error) -> None:
                raise error

            monkeypatch.setattr(endpoint.single.status, "reasons", fail)
            answer = await endpoint.get("/ready")
            assert (answer.status, answer.json) == (status, body)
            assert (answer.headers.get("retry-after") == "2") == (error is overloaded)
        assert (await endpoint.get("/health")).status == 200

    run(tmp_path, test)
    assert [str(context["exception"]) for context in reported] == ["a secret"]


def test_head_has_no_body(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        caller = await endpoint.connect()
        caller.ask("HEAD", "/health")
        caller.ask("GET", "/ready")
        assert (await caller.answer(has_body=False)).status == 200
        assert (await caller.answer()).status == 503

    run(tmp_path, test)


def test_a_connection_serves_many_requests_in_order(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        caller = await endpoint.connect()
        for path in ("/health", "/ready", "/nothing", "/metrics"):
            caller.ask("GET", path)
        assert [(await caller.answer()).status for _ in range(4)] == [200, 503, 404, 200]

    run(tmp_path, test)


def test_a_request_may_come_in_any_pieces(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        caller = await endpoint.connect()
        request = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
        for size in (1, 7, len(request)):
            for at in range(0, len(request), size):
                caller.writer.write(request[at : at + size])
                await asyncio.sleep(0)
                await asyncio.sleep(0.001)
            assert (await caller.answer()).body == b"hello"
        # A client that expects it gets 100 Continue.
        caller.ask("POST", "/echo", "Content-Length: 2", "Expect: 100-continue")
        assert (await caller.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        caller.send("ab")
        assert (await caller.answer()).body == b"ab"
        caller.ask("POST", "/echo", "Transfer-Encoding: chunked")
        caller.send("3\r\nabc\r\n0\r\n\r\n")
        assert (await caller.answer()).body == b"abc"

    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + bytes(message["body"]), message["more_body"]
        await Response(body, "text/plain").send(send)

    run(tmp_path, test, app=echo)


def test_an_answer_bit_by_bit(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        for version, expected in (("1.1", b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"), ("1.0", b"abc")):
            caller = await endpoint.connect()
            caller.send(f"GET / HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n")
            head, _, body = (await caller.reader.read()).partition(b"\r\n\r\n")
            assert body == expected
            assert (b"transfer-encoding: chunked" in head) == (version == "1.1")

    async def pieces(_: Scope, __: Receive, send: Send) -> None:
        async def body() -> AsyncIterator[bytes]:
            yield b"ab"
            yield b"c"

        await Response(body(), "text/plain").send(send)

    run(tmp_path, test, app=pieces)


def test_an_answer_that_breaks_off_ends_the_connection(tmp_path: Path) -> None:
    reported: list[dict[str, Any]] = []

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        raise RuntimeError("no more")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(pieces(), "text/plain").send(send)

    async def test(endpoint: Endpoint) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        caller = await endpoint.connect()
        caller.ask("GET", "/pieces")
        assert (await caller.answer()).status == 200
        assert await caller.reader.read() == b"3\r\none\r\n"

    run(tmp_path, test, app=app)
    assert [str(context["exception"]) for context in reported] == ["no more"]


def test_a_request_whose_client_is_gone_is_cancelled(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        caller = await endpoint.connect()
        caller.ask("GET", "/")
        await begun.wait()
        caller.close()
        await ended.wait()

    async def slow(_: Scope, __: Receive, ___: Send) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    begun, ended = asyncio.Event(), asyncio.Event()
    run(tmp_path, test, app=slow)


def test_bodies_are_bounded(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        caller = await endpoint.connect()
        caller.ask("POST", "/health", f"Content-Length: {BODY_BYTES_MAX + 1}")
        answer = await caller.answer()
        assert (answer.status, answer.json["code"]) == (413, "INVALID_ARGUMENT")
        assert await caller.is_closed()
        # A body that the application does not read is skipped, and the connection goes on.
        caller = await endpoint.connect()
        caller.ask("POST", "/health", "Content-Length: 100000")
        caller.send("x" * 100_000)
        caller.ask("GET", "/health")
        assert [(await caller.answer()).status for _ in range(2)] == [405, 200]

    run(tmp_path, test)


@pytest.mark.parametrize(
    "text",
    [
        "garbage\r\n\r\n",
        "GET /health HTTP/1.1\r\nno colon\r\n\r\n",
        f"GET /{'x' * 100_000} HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: a\r\n" + "X: y\r\n" * 10_000 + "\r\n",
        "POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    ],
    ids=lambda text: text[:20].replace("\r\n", " "),
)
def test_bytes_that_are_no_request_are_refused_and_cut_off(text: str, tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        caller = await endpoint.connect()
        caller.send(text)
        try:
            answer = await caller.answer()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # Cut off while it was still sending.
        else:
            assert answer.status in (400, 431)
            assert (answer.headers["connection"], answer.headers["content-type"]) == ("close", "application/json")
        assert await caller.is_closed()
        assert (await endpoint.get("/health")).status == 200

    run(tmp_path, test)


def test_garbage_in_a_body_whose_answer_has_begun_ends_only_that_connection(tmp_path: Path) -> None:
    reported: list[dict[str, Any]] = []

    async def test(endpoint: Endpoint) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        caller = await endpoint.connect()
        caller.ask("POST", "/health", "Transfer-Encoding: chunked")
        assert (await caller.answer()).status == 405
        caller.send("this is no chunk\r\n\r\n")
        assert await caller.is_closed()
        assert (await endpoint.get("/health")).status == 200

    run(tmp_path, test)
    assert reported == []


def test_a_silent_or_slow_client_is_cut_off(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        silent, slow, idle = [await endpoint.connect() for _ in range(3)]
        idle.ask("GET", "/health")
        assert (await idle.answer()).status == 200
        slow.send("GET /health HTTP/1.1\r\n")
        dripping = asyncio.create_task(drip(slow.writer))
        for caller in (silent, slow, idle):
            assert await caller.is_closed()
        dripping.cancel()
        assert (await endpoint.get("/health")).status == 200

    async def drip(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"X-More: and more\r\n")
            await asyncio.sleep(0.005)

    run(tmp_path, test, idle_ms_max=60)


def test_a_client_that_does_not_read_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(endpoint: Endpoint) -> None:
        monkeypatch.setattr(endpoint.single.status, "metrics", much)
        caller = await endpoint.connect()
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(2):
            caller.ask("GET", "/metrics")
        while not endpoint.server.connections:
            await asyncio.sleep(0.005)
        while endpoint.server.connections:
            await asyncio.sleep(0.005)

    run(tmp_path, test, idle_ms_max=60)


@pytest.mark.slow
def test_answers_that_nobody_reads_are_bounded(tmp_path: Path) -> None:
    """The sockets of a connection buffer a part of an answer, which is as large as the bound of all."""
    budgets = Budgets(output_bytes_max=20 * MIB)
    output = budgets.output

    async def answer(scope: Scope, _: Receive, send: Send) -> None:
        size_bytes = 20 * MIB if scope["path"] == "/large" else 1_000
        await Response(bytes(size_bytes), "text/plain").send(send)

    async def ask(endpoint: Endpoint, method: str, path: str) -> tuple[Caller, bytes]:
        caller = await endpoint.connect()
        caller.ask(method, path)
        first = await caller.reader.readuntil(b"\r\n")
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
        return caller, first.split()[1]

    async def test(endpoint: Endpoint) -> None:
        endpoint.server.app = Guard(answer)
        unread, status = await ask(endpoint, "GET", "/large")
        assert status == b"200"
        assert MIB < output.used_bytes <= 20 * MIB
        assert (await ask(endpoint, "GET", "/large"))[1] == b"429"
        assert (await endpoint.get("/small")).status == 200
        # What cannot be repeated leaves all the same, and counts.
        before = output.used_bytes
        other, status = await ask(endpoint, "POST", "/large")
        assert status == b"200"
        assert output.used_bytes > before
        # A second request waits with its answer until the first one is read.
        before = output.used_bytes
        other.ask("POST", "/large")
        while output.used_bytes < before + 20 * MIB:
            await asyncio.sleep(0.002)
        other.close()
        unread.writer.transport.resume_reading()  # type: ignore[attr-defined]
        reading = asyncio.create_task(unread.reader.read())
        while output.used_bytes:
            await asyncio.sleep(0.002)
        assert (await endpoint.get("/large")).status == 200
        unread.close()
        await reading

    run(tmp_path, test, idle_ms_max=NEVER_MS, budgets=budgets)


@pytest.mark.parametrize("kind", ["Content-Length: 100000", "Transfer-Encoding: chunked"])
def test_a_slow_body_is_cut_off(kind: str, tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        slow = await endpoint.connect()
        slow.ask("POST", "/", kind)
        slow.send("5\r\nhello\r\n")
        answer = await slow.answer()
        assert (answer.status, answer.json["message"]) == (408, "the body did not come in time")
        assert await slow.is_closed()
        # A body that is large, and not slow, has the time that it needs.
        large = await endpoint.connect()
        large.ask("POST", "/", "Content-Length: 1000000")
        large.send("x" * 999_999)
        await asyncio.sleep(0.15)
        large.send("x")
        assert (await large.answer()).body == b"1000000"

    async def count(_: Scope, receive: Receive, send: Send) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        await Response(str(size).encode(), "text/plain").send(send)

    run(tmp_path, test, app=count, idle_ms_max=NEVER_MS, body_ms_max=100)


@pytest.mark.parametrize("path", ["/%2fhealth", "/..%5chealth", "/health%00", "/x%0a", "/x%", "/x%zz"])
def test_a_path_that_can_be_read_in_two_ways_is_refused(path: str, tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        answer = await endpoint.get(path)
        assert (answer.status, answer.json["code"]) == (400, "INVALID_ARGUMENT")

    run(tmp_path, test)


def test_connections_are_bounded(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        first, second = await endpoint.connect(), await endpoint.connect()
        for caller in (first, second):
            caller.ask("GET", "/health")
            assert (await caller.answer()).status == 200
        # Status pages have connections of their own, for one answer each.
        for path in ("/health", "/metrics"):
            probe = await endpoint.connect()
            probe.ask("GET", path)
            answer = await probe.answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert await probe.is_closed()
        assert await (await endpoint.connect()).is_closed(), "a silent one is cut off soon"
        third = await endpoint.connect()
        third.ask("GET", "/v1/topics")
        refused = await third.answer()
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert refused.json["code"] == "OVERLOADED"
        assert await third.is_closed()
        first.close()
        while len(endpoint.server.connections) == 2:
            await asyncio.sleep(0.002)
        assert (await endpoint.get("/health")).status == 200

    run(tmp_path, test, idle_ms_max=NEVER_MS, connections_max=2)


def test_status_pages_have_connections_when_other_clients_have_all_descriptors(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        answer = await endpoint.get("/health")
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        refused = await endpoint.get("/v1/topics")
        assert refused.status == 503
        assert "descriptors for 5" in refused.json["message"]
        # They count for themselves: the silent ones take no room from other clients.
        silent = [await endpoint.connect() for _ in range(3)]
        others.pop()
        assert (await endpoint.get("/v1/topics")).status == 404
        for each in silent:
            each.close()

    others = [0] * 5
    budget = ConnectionBudget(5)
    budget.add(lambda: len(others))
    run(tmp_path, test, budget=budget)


def test_connections_that_have_asked_for_nothing_make_room(tmp_path: Path) -> None:
    """Also those that send a head slowly. A connection that has asked for something keeps its place."""

    async def test(endpoint: Endpoint) -> None:
        silent = [await endpoint.connect() for _ in range(2)]
        silent[0].send("GET /slow")
        while len(endpoint.server.connections) < 2:
            await asyncio.sleep(0)
        # There is no gateway: a full endpoint answers 503.
        assert [(await endpoint.get("/v1/topics")).status for _ in range(3)] == [404, 404, 503]
        for each in silent:
            assert await each.reader.read() == b""

    run(tmp_path, test, connections_max=2)


def test_connections_make_room_while_others_are_beyond_the_bounds(tmp_path: Path) -> None:
    """As those from within the process are, which nobody accepts."""

    async def test(endpoint: Endpoint) -> None:
        silent = await endpoint.connect()
        while not endpoint.server.connections:
            await asyncio.sleep(0)
        others.append(0)
        assert (await endpoint.get("/v1/topics")).status == 404
        assert await silent.reader.read() == b""

    others = [0] * 4
    budget = ConnectionBudget(5)
    budget.add(lambda: len(others))
    run(tmp_path, test, budget=budget)


def test_a_crowd_that_arrives_at_once_makes_room_for_the_last(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        crowd = await asyncio.gather(*(endpoint.connect() for _ in range(200)))
        assert (await endpoint.get("/v1/topics")).status == 404
        assert len(endpoint.server.connections) <= 10
        for each in crowd:
            each.close()

    run(tmp_path, test, connections_max=10)


def test_a_port_that_is_taken_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        with pytest.raises(OSError, match="in use"):
            await HttpServer(endpoint.single.status).start("127.0.0.1", endpoint.port)
        assert (await endpoint.get("/health")).status == 200

    run(tmp_path, test)


def test_signals_stay_as_they_were(tmp_path: Path) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    async def test(endpoint: Endpoint) -> None:
        assert (await endpoint.get("/health")).status == 200
        assert signal.getsignal(signal.SIGTERM) == before[signal.SIGTERM]

    run(tmp_path, test)
    assert {number: signal.getsignal(number) for number in before} == before


def test_closing_lets_an_answer_finish_and_ends_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(endpoint: Endpoint) -> None:
        may_go = asyncio.Event()

        async def slow() -> bytes:
            await may_go.wait()
            return b"done\n"

        monkeypatch.setattr(endpoint.single.status, "metrics", slow)
        idle, half, busy = [await endpoint.connect() for _ in range(3)]
        idle.ask("GET", "/health")
        await idle.answer()
        half.send("GET /health")
        busy.ask("GET", "/metrics")
        while not endpoint.server.request_count:
            await asyncio.sleep(0.002)
        closing = asyncio.create_task(endpoint.server.close(drain_ms=10_000))
        assert await idle.is_closed()
        assert await half.is_closed()
        with pytest.raises(OSError):
            await endpoint.connect()
        assert not closing.done()
        may_go.set()
        assert (await busy.answer()).body == b"done\n"
        assert await busy.is_closed()
        await closing

    run(tmp_path, test)


def test_closing_lets_a_large_answer_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(endpoint: Endpoint) -> None:
        monkeypatch.setattr(endpoint.single.status, "metrics", much)
        caller = await endpoint.connect()
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
        caller.ask("GET", "/metrics")
        while not endpoint.server.connections or not endpoint.server.connections[0].is_write_paused:
            await asyncio.sleep(0.002)
        closing = asyncio.create_task(endpoint.server.close(drain_ms=10_000))
        await asyncio.sleep(0)
        caller.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len((await caller.answer()).body) == MUCH_BYTES
        await closing

    run(tmp_path, test)


def test_closing_does_not_wait_for_a_client_that_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(endpoint: Endpoint) -> None:
        monkeypatch.setattr(endpoint.single.status, "metrics", much)
        caller = await endpoint.connect()
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(2):
            caller.ask("GET", "/metrics")
        while not endpoint.server.connections or not endpoint.server.connections[0].is_write_paused:
            await asyncio.sleep(0.002)
        await endpoint.server.close(drain_ms=20)
        assert (endpoint.server.connections, endpoint.server.request_count) == ([], 0)

    run(tmp_path, test)


def test_closing_while_a_connection_is_being_cut_off(tmp_path: Path) -> None:
    async def test(endpoint: Endpoint) -> None:
        caller = await endpoint.connect()
        caller.ask("POST", "/health", "Transfer-Encoding: chunked")
        assert (await caller.answer()).status == 405
        [ours] = endpoint.server.connections
        # In one turn of the loop: the connection is closing, and not gone yet.
        ours.data_received(b"this is no chunk\r\n\r\n")
        await endpoint.server.close()
        assert await caller.is_closed()

    run(tmp_path, test)


@pytest.mark.parametrize("drain_ms", [0, 20])
def test_closing_does_not_wait_for_ever(drain_ms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(endpoint: Endpoint) -> None:
        async def never() -> bytes:
            await asyncio.Event().wait()
            return b""

        monkeypatch.setattr(endpoint.single.status, "metrics", never)
        caller = await endpoint.connect()
        caller.ask("GET", "/metrics")
        while not endpoint.server.request_count:
            await asyncio.sleep(0.002)
        await endpoint.server.close(drain_ms)
        assert await caller.is_closed()
        assert (endpoint.server.connections, endpoint.server.request_count) == ([], 0)
        await endpoint.server.close()

    run(tmp_path, test)


def test_an_address_of_the_other_family_works(tmp_path: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")

    async def test(endpoint: Endpoint) -> None:
        server = HttpServer(endpoint.single.status)
        try:
            port = await server.start("::1", 0)
        except OSError:
            pytest.skip("no IPv6 loopback here")
        reader, writer = await asyncio.open_connection("::1", port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        await server.close()

    run(tmp_path, test)
