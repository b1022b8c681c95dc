"""Our reading of HTTP/1.1 beside that of h11 and of httptools, on 20,000 requests that were damaged at random.

What ours hands to the application, httptools (llhttp, the parser of Node) must read alike; it is the most lenient of
the three, so what it accepts says nothing. What h11 refuses, ours must not hand to the application; what both accept,
both must read alike. Ours is stricter on purpose where two programs in a row could read the same bytes differently:
`STRICTER` lists every such rule, and a refusal that no rule explains fails the test. In one thing ours is more lenient:
empty lines in front of a request are passed over, as RFC 9112 (2.2) asks for, so h11 is not given them.
"""

import asyncio
import re
from random import Random
from typing import Any, NamedTuple
from urllib.parse import unquote

import h11
import httptools
import pytest

from flotilla.frontends.http.http1.connection import Connection

CASES_PER_SEED = 1_000
#: A few of them in the quick tests.
SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 20))]

BASES = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /a/b?c=d HTTP/1.1\r\nHost: a:80\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n",
    b"GET /x HTTP/1.0\r\nUser-Agent: old\r\n\r\n",
    b"DELETE /x%20y HTTP/1.1\r\nHost: a\r\nX-Empty:\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /x HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi",
    b"PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;e=1\r\nabc\r\n0\r\nT: v\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    b"OPTIONS http://a/x HTTP/1.1\r\nHost: a\r\n\r\n",
]
#: Bytes and pieces that parsers have stumbled over.
PIECES = [
    b"\r", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b"\0", b"\t", b" ", b"  ", b"\x0b", b"\x0c", b"\x7f", b"\x80", b"\xff",
    b":", b";", b",", b"%00", b"%", b"#", b"?", b"/", b"-", b"+", b"_", b"0", b"1", b"9", b"x", b"0x", b"\x85", b'"',
    b"HTTP/1.1", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"chunked", b"gzip", b"identity",
]  # fmt: skip
LINES = [
    b"Content-Length: 0", b"Content-Length: 5", b"Content-Length: 05", b"Content-Length: 5, 5", b"Content-Length: 5,6",
    b"Content-Length: -1", b"Content-Length: +5", b"Content-Length: 5 5", b"Content-Length:", b"Content-Length: 0x5",
    b"Content-Length: 1_0", b"Content-Length: " + b"9" * 15, b"Content-Length: " + b"9" * 30, b"Content-Length : 5",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: identity", b"Transfer-Encoding:", b"Transfer-Encoding: chunked;q=1",
    b"Transfer-Encoding : chunked", b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: Chunked", b"transfer-encoding:\tchunked",
    b"Host: b", b"Host:", b" folded", b"\tfolded", b"No-Colon", b": no name", b"X(Y): z", b"X: a\x01b", b"X: \xe9",
    b"Connection: close", b"Connection: a, close", b"Expect: 100-continue", b"",
]  # fmt: skip

_END = rb"\r\n"
#: Why ours may refuse what h11 takes: each rule finds what offends in the bytes.
STRICTER: dict[str, Any] = {
    "a line that ends without CR": lambda data: re.search(rb"(?<!\r)\n", data),
    "a header line that is folded": lambda data: re.search(rb"\r\n[ \t]", data),
    "a Content-Length that is said twice, as a list or in more than 15 digits": lambda data: (
        len(re.findall(rb"(?mi)^content-length:", data)) > 1
        or re.search(rb"(?mi)^content-length:\s*(\d+\s*,|\d{16})", data)
    ),
    "a Content-Length beside a Transfer-Encoding": lambda data: (
        re.search(rb"(?mi)^content-length:", data) and re.search(rb"(?mi)^transfer-encoding:", data)
    ),
    "a Transfer-Encoding in HTTP/1.0": lambda data: (
        re.search(rb"HTTP/1\.0\r?\n", data) and re.search(rb"(?mi)^transfer-encoding:", data)
    ),
    "a version other than 1.0 and 1.1": lambda data: not re.search(rb" HTTP/1\.[01]\r?\n", data),
    "a target that is neither a path nor a URL": lambda data: (
        not re.match(rb"(\r\n)*[^ ]+ (/|\*|https?://)", data, re.IGNORECASE)
    ),
    "a header behind the body that says how to read the request": lambda data: re.search(
        rb"(?s)\r\n\r\n.*\n(content-length|transfer-encoding|host):", data.lower()
    ),
    "a Host that is said twice": lambda data: len(re.findall(rb"(?mi)^host:", data)) > 1,
    "a control character in a value": lambda data: re.search(rb"(?m)^[^ ]+:.*[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f]", data),
    "a chunk of more than eight digits, or what stands behind its size": lambda data: (
        re.search(rb"(?mi)^[0-9a-f]{9,}", data) or re.search(rb"(?mi)^[0-9a-f]+[ \t]*[^0-9a-f\r\n]", data)
    ),
}


class Read(NamedTuple):
    """A request as it was understood."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


#: httptools refuses all others.
KNOWN_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
#: A chunk with an extension, which httptools wants to be a token; nobody reads it.
EXTENDED = re.compile(rb"(?mi)^[0-9a-f]+[ \t]*;")
REFUSED = "refused"
INCOMPLETE = "incomplete"


def read_by_h11(data: bytes) -> Read | str:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=32 * 1024)
    request: h11.Request | None = None
    body = b""
    try:
        connection.receive_data(re.sub(rb"^(\r\n)+", b"", data))
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return INCOMPLETE
            if isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                headers = [(bytes(name), bytes(value)) for name, value in request.headers]
                return Read(request.method.decode(), bytes(request.target), headers, body)
    except h11.RemoteProtocolError:
        return REFUSED


class _Parsed:
    """What httptools reports of the first request."""

    def __init__(self) -> None:
        self.target = b""
        self.body = b""
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        if not self.is_complete:
            self.target += url

    def on_body(self, body: bytes) -> None:
        if not self.is_complete:
            self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True


def read_by_httptools(data: bytes) -> tuple[str, bytes, bytes] | str:
    """Method, target and body of the first request. What comes behind it may be anything."""
    parsed = _Parsed()
    parser = httptools.HttpRequestParser(parsed)
    method = ""
    for at in range(len(data)):
        # Byte by byte: an error behind the first request must not hide it.
        try:
            parser.feed_data(data[at : at + 1])
        except httptools.HttpParserUpgrade:
            return INCOMPLETE
        except httptools.HttpParserError:
            return REFUSED
        if parsed.is_complete:
            method = parser.get_method().decode()
            return method, parsed.target, parsed.body
    return INCOMPLETE


class Transport:
    """As much of a transport as a connection needs."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        """Everything is here already."""

    def resume_reading(self) -> None:
        """Everything is here already."""

    def get_write_buffer_size(self) -> int:
        return 0


async def read_by_us(data: bytes) -> Read | str:
    """The first request, read by a whole connection."""
    found: list[Read] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message["more_body"]:
                break
        found.append(Read(scope["method"], _target(scope), scope["headers"], body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    transport = Transport()
    connection = Connection(app, {})
    connection.connection_made(transport)  # type: ignore[arg-type]
    connection.data_received(data)
    for _ in range(6):
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await asyncio.sleep(0)
    if found:
        return found[0]
    return REFUSED if re.match(rb"(HTTP/1.1 100 Continue\r\n\r\n)?HTTP/1.1 4", transport.written) else INCOMPLETE


def _target(scope: Any) -> bytes:
    target: bytes = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    return target


def _plain(target: bytes) -> bytes:
    """A target without what only a proxy needs, and without a fragment or an empty query."""
    path = re.sub(rb"^https?://[^/?#]*", b"", target, flags=re.IGNORECASE) if not target.startswith(b"/") else target
    head, mark, query = path.partition(b"?")
    query = query.partition(b"#")[0]
    return (head or b"/") + (mark + query if query else b"")


def _comparable(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """h11 hands the name of a transfer coding on in small letters."""
    name, value = header
    return name, value.lower() if name == b"transfer-encoding" else value


def damaged(chance: Random) -> bytes:
    """A request with one to three things wrong with it, or none."""
    data = bytearray(chance.choice(BASES))
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(7)
        if kind == 0:
            data[at:at] = chance.choice(PIECES)
        elif kind == 1:
            data[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 2:
            del data[at : at + chance.randint(1, 4)]
        elif kind == 3:
            data[at:at] = data[at : at + chance.randint(1, 20)]
        elif kind == 4:
            data = data.replace(b"\r\n", chance.choice([b"\n", b"\r", b"\r\r\n"]), 1)
        else:
            # A line more, somewhere behind the first.
            ends = [found.end() for found in re.finditer(_END, data)]
            if ends:
                place = chance.choice(ends)
                data[place:place] = chance.choice(LINES) + b"\r\n"
    return bytes(data)


def explained(data: bytes) -> list[str]:
    return [rule for rule, offends in STRICTER.items() if offends(data)]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_gets_through_that_h11_refuses(seed: int) -> None:
    chance = Random(seed)

    async def compare() -> dict[str, int]:
        counts = {"both accept": 0, "both refuse": 0, "ours is stricter": 0}
        for _ in range(CASES_PER_SEED):
            data = damaged(chance)
            theirs, ours = read_by_h11(data), await read_by_us(data)
            if isinstance(ours, Read):
                assert isinstance(theirs, Read), f"h11 has it {theirs}: {data!r}"
                assert (ours.method, _plain(ours.target)) == (theirs.method, _plain(theirs.target)), data
                assert [*map(_comparable, ours.headers)] == [*map(_comparable, theirs.headers)], data
                assert ours.body == theirs.body, data
                third = read_by_httptools(data)
                if ours.method in KNOWN_METHODS and not (third is REFUSED and EXTENDED.search(data)):
                    assert not isinstance(third, str), f"httptools has it {third}: {data!r}"
                    assert (third[0], _plain(third[1]), third[2]) == (ours.method, _plain(ours.target), ours.body), data
                counts["both accept"] += 1
            elif theirs is REFUSED:
                counts["both refuse"] += 1
            elif isinstance(theirs, Read):
                assert explained(data), f"no rule says why it is {ours}: {data!r}"
                counts["ours is stricter"] += 1
        return counts

    counts = asyncio.run(compare())
    # The cases would prove little if most were of one kind.
    assert min(counts.values()) >= CASES_PER_SEED // 50, counts


@pytest.mark.parametrize("data", BASES)
def test_a_valid_request_is_read_alike(data: bytes) -> None:
    theirs, ours = read_by_h11(data), asyncio.run(read_by_us(data))
    assert isinstance(ours, Read)
    assert isinstance(theirs, Read)
    assert unquote(_plain(ours.target)) == unquote(_plain(theirs.target))
    assert ours.body == theirs.body
