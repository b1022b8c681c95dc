"""Requests as bytes: what is understood, what is refused, and that it does not matter in which pieces they come."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.frontends.http.http1.body import Body
from flotilla.frontends.http.http1.head import CHUNKED, BadRequestError, parse_head

HOST = b"\r\nHost: a"


def test_a_head() -> None:
    head = parse_head(b"POST /a%20b/c?x=1&y=%2F#z HTTP/1.1\r\nHost: here\r\nX-Y:  two words \t\r\nContent-Length: 5")
    assert (head.method, head.path, head.raw_path, head.query) == ("POST", "/a b/c", b"/a%20b/c", b"x=1&y=%2F")
    assert head.headers == [(b"host", b"here"), (b"x-y", b"two words"), (b"content-length", b"5")]
    assert (head.body_bytes, head.is_kept_alive, head.is_old, head.expects_continue) == (5, True, False, False)


@pytest.mark.parametrize(
    ("text", "is_kept_alive"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close", False),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close", False),
        (b"GET / HTTP/1.0", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive", True),
    ],
)
def test_keep_alive(text: bytes, is_kept_alive: bool) -> None:
    assert parse_head(text).is_kept_alive == is_kept_alive


def test_equivalent_spellings_of_a_head() -> None:
    assert parse_head(b"GET http://here:7680/x?y HTTP/1.1\r\nHost: here").path == "/x"
    assert parse_head(b"GET http://here HTTP/1.1\r\nHost: here").path == "/"
    assert parse_head(b"GET http://here?y HTTP/1.1\r\nHost: here").query == b"y"
    assert parse_head(b"OPTIONS * HTTP/1.1\r\nHost: here").path == "*"
    assert parse_head(b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked").body_bytes == CHUNKED
    assert parse_head(b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue").expects_continue


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"GET /",
        b"GET  / HTTP/1.1" + HOST,
        b"GET / HTTP/1.2" + HOST,
        b"GET x HTTP/1.1" + HOST,
        b"GET xhttp://a/ HTTP/1.1" + HOST,
        b"GET / HTTP/2.0" + HOST,
        b"G(T / HTTP/1.1" + HOST,
        b"GET /\x00 HTTP/1.1" + HOST,
        b"GET /\xff HTTP/1.1" + HOST,
        b"GET / HTTP/1.1",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b",
        b"GET / HTTP/1.1\r\nHost : a",
        b"GET / HTTP/1.1\r\nHost: a\r\n folded",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\nY: b",
        b"GET / HTTP/1.1\r\nHost: a\r\nnothing",
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1",
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1",
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: -1",
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: +1",
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0",
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 5_000,
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
        b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked",
        b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"PUT / HTTP/1.0\r\nTransfer-Encoding: chunked",
    ],
)
def test_an_ambiguous_or_malformed_head_is_refused(text: bytes) -> None:
    with pytest.raises(BadRequestError):
        parse_head(text)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_head_or_are_refused(data: bytes) -> None:
    try:
        parse_head(data)
    except BadRequestError:
        return


def taken(body: Body, pieces: list[bytes]) -> tuple[bytes, bytes]:
    """The body, and what is left behind it."""
    buffer = bytearray()
    found = b""
    for piece in pieces:
        buffer += piece
        if not body.is_over:
            found += body.take(buffer)
    return found, bytes(buffer)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[first:end] for first, end in pairwise(borders)]


@given(st.binary(max_size=50), st.lists(st.integers(0, 10_000), max_size=6))
def test_a_body_by_its_length_in_any_pieces(content: bytes, places: list[int]) -> None:
    body = Body(len(content))
    assert taken(body, cut(content + b"next", places)) == (content, b"next")
    assert body.is_over


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.lists(st.integers(0, 10_000), max_size=8))
def test_a_body_in_chunks_in_any_pieces(chunks: list[bytes], places: list[int]) -> None:
    data = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\nTrailer: x\r\n\r\n"
    body = Body(CHUNKED)
    assert taken(body, cut(data + b"next", places)) == (b"".join(chunks), b"next")
    assert body.is_over


@pytest.mark.parametrize(
    "data",
    [
        b"x\r\n",
        b"\r\n",
        b"-1\r\n",
        b"0x1\r\n",
        b"fffffffff\r\n",
        b"1\r\nab\r\n",
        b"1" * 300,
        b"0\r\n" + b"a: b\r\n" * 20,
        b"0\r\nno field\r\n",
        b"0\r\nContent-Length: 1\r\n",
        b"1\t;x\r\n",
        b"1 \n",
    ],
)
def test_chunks_that_are_none(data: bytes) -> None:
    with pytest.raises(BadRequestError):
        taken(Body(CHUNKED), [data, b"x" * 300])
