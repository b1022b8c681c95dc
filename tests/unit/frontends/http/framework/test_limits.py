"""The layer around all routes, by hand: a body that grows past its bound while a route reads it."""

import asyncio
from typing import Any

from flotilla.frontends.http.framework.limits import Guard
from flotilla.frontends.http.framework.response import Response
from flotilla.frontends.http.http1.asgi import Message, Receive, Scope, Send
from flotilla.frontends.tcp.budget import Budgets


async def body_of(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += bytes(message["body"])
        if not message["more_body"]:
            return body


async def reader(_: Scope, receive: Receive, send: Send) -> None:
    await Response(b"%d" % len(await body_of(receive)), "text/plain").send(send)


async def early(_: Scope, receive: Receive, send: Send) -> None:
    """Begins to answer before it has read everything."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await body_of(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def cached(_: Scope, __: Receive, send: Send) -> None:
    await Response(b"a", "text/plain", headers={"Cache-Control": "max-age=60"}).send(send)


def call(app: Any, sizes: list[int], headers: list[tuple[bytes, bytes]] | None = None) -> list[Message]:
    """What comes out of an app that is sent pieces of a body of these sizes."""
    pieces = iter(sizes)
    left = len(sizes)
    sent: list[Message] = []

    async def receive() -> Message:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": bytes(next(pieces)), "more_body": left > 0}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers or []}
    asyncio.run(Guard(app, body_bytes_max=100)(scope, receive, send))
    return sent


def test_a_body_up_to_the_bound_is_read() -> None:
    for sizes in ([100], [50, 50], [0], [99, 0, 1]):
        start, body = call(reader, sizes)
        assert (start["status"], body["body"]) == (200, str(sum(sizes)).encode())


def test_a_body_past_the_bound_is_refused_however_it_comes() -> None:
    for sizes in ([101], [50, 51], [1] * 101):
        start, body = call(reader, sizes)
        assert start["status"] == 413
        assert b"at most 100 bytes" in body["body"]
        assert (b"connection", b"close") in start["headers"]


def test_a_body_that_is_announced_too_large_is_not_read() -> None:
    start, _ = call(reader, [], [(b"content-length", b"101")])
    assert start["status"] == 413


def test_bodies_share_a_budget() -> None:
    async def test() -> None:
        may_end = asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await may_end.wait()
            await Response(b"done", "text/plain").send(send)

        guard = Guard(slow, budgets=Budgets(200_000))

        async def ask(size: int, *, announced: bool = True) -> int:
            sent: list[Message] = []

            async def receive() -> Message:
                return {"type": "http.request", "body": bytes(size), "more_body": False}

            async def send(message: Message) -> None:
                sent.append(message)

            headers = [(b"content-length", b"%d" % size)] if announced else []
            await guard({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive, send)
            status: int = sent[0]["status"]
            if status == 429:
                assert (b"retry-after", b"1") in sent[0]["headers"]
            return status

        held = [asyncio.create_task(ask(100_000, announced=each)) for each in (True, False)]
        while guard.budgets.large.used_bytes < 200_000:
            await asyncio.sleep(0)
        assert await ask(100_000) == await ask(100_000, announced=False) == 429
        # Small ones have a budget of their own.
        small = asyncio.create_task(ask(1_000))
        while not guard.budgets.small.used_bytes:
            await asyncio.sleep(0)
        may_end.set()
        assert [await each for each in (*held, small)] == [200, 200, 200]
        assert (guard.budgets.small.used_bytes, guard.budgets.large.used_bytes) == (0, 0)
        assert await ask(100_000) == 200

    asyncio.run(test())


def test_an_answer_that_has_begun_is_not_begun_again() -> None:
    assert [message["type"] for message in call(early, [101])] == ["http.response.start"]


def test_a_route_may_say_how_long_its_answer_keeps() -> None:
    headers = dict(call(cached, [0])[0]["headers"])
    assert headers[b"cache-control"] == b"max-age=60"
    assert b"date" in headers
