"""What is fuzzed: each decoder of bytes that a stranger may send, with whole examples to begin with.

A target returns, or raises an error of this project. Anything else is a finding. Checksums are mended, so that damage
behind them is reached.
"""

import asyncio
import json
from atexit import register
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final, NamedTuple

from crc32c import crc32c
from cryptography.hazmat.primitives.asymmetric import ed25519

from flotilla.codec.batch.check import validate
from flotilla.codec.batch.records import decode_batch, encode_batch
from flotilla.codec.client.frames import decode_request, decode_response
from flotilla.codec.grpc import calls
from flotilla.codec.log import decode_configuration, encode_configuration
from flotilla.codec.log_copy import decode_entries, encode_entries
from flotilla.codec.peer.frames import decode_frame, encode_frame
from flotilla.codec.peer.reading_frames import CLOCK, ROOM, decode_reading, encode_reading, is_reading
from flotilla.frontends.caller import read_basic
from flotilla.frontends.http.app import operations
from flotilla.frontends.http.authentication import _cookie as read_cookie
from flotilla.frontends.http.framework.operation import Answer, Call
from flotilla.frontends.http.framework.router import Router
from flotilla.frontends.http.framework.schema import read_json
from flotilla.frontends.http.http1.asgi import Message
from flotilla.frontends.http.http1.connection import Connection
from flotilla.gateway.gateway import Gateway
from flotilla.metadata import commands as metadata_commands
from flotilla.metadata.security.commands import PutGrant
from flotilla.metadata.security.join_tokens import PutJoinToken
from flotilla.metadata.snapshot import decode_snapshot as decode_metadata
from flotilla.partition.commands import partition_commands
from flotilla.partition.state.snapshot import decode_snapshot as decode_partition
from flotilla.peers.handshake import HandshakeError, PeerHello, decode_hello, decode_welcome, encode_hello
from flotilla.raft.configuration import decode_configuration as decode_entry
from flotilla.raft.configuration import encode_configuration as encode_entry
from flotilla.raft.messages import DATA, Append, Configuration, Entry, Heartbeat
from flotilla.security.scram import ClientExchange, PasswordKeys, ServerExchange
from flotilla.security.tokens import TokenVerifier
from flotilla.types.access import Grant, Verifier
from flotilla.types.errors import FlotillaError
from flotilla.types.lease_tokens import read_lease_token
from flotilla.types.records import Record

UNIT: Final = Path(__file__).parents[1] / "unit"
#: What a decoder may raise.
TYPED: Final = (FlotillaError, HandshakeError)
_CHECKSUM_BYTES: Final = 4
_BATCH_CHECKSUM_AT: Final = 16


class Target(NamedTuple):
    name: str
    run: Callable[[bytes], object]
    examples: Callable[[], list[bytes]]


def _mended(data: bytes) -> bytes:
    """A frame between nodes with the right checksum."""
    rest = data[_CHECKSUM_BYTES:]
    return crc32c(rest).to_bytes(_CHECKSUM_BYTES, "big") + rest


def _reading(data: bytes) -> None:
    frame = _mended(data)
    if is_reading(frame):
        decode_reading(frame)


def _batch(data: bytes) -> None:
    at = _BATCH_CHECKSUM_AT
    checked = data[at + _CHECKSUM_BYTES :]
    mended = data[:at] + crc32c(checked).to_bytes(_CHECKSUM_BYTES, "little") + checked
    validate(mended)
    decode_batch(mended)


def _http(data: bytes) -> None:
    """A whole connection, with an application that reads everything."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def play() -> None:
        connection = Connection(app, {})
        connection.connection_made(_Transport())  # type: ignore[arg-type]
        connection.data_received(data)
        for _ in range(6):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        await asyncio.sleep(0)

    asyncio.run(play())


class _Transport:
    """As much of a transport as a connection needs."""

    def get_extra_info(self, name: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def _nothing(self, *_: object) -> None: ...

    write = close = abort = pause_reading = resume_reading = _nothing


def _scram(data: bytes) -> None:
    verifier = Verifier(b"0123456789abcdef", 4_096, b"s" * 32, b"k" * 32)
    first, _, second = data.partition(b"\n")
    exchange = ServerExchange(b"nonce")
    exchange.read_first(first)
    exchange.challenge(verifier)
    exchange.verdict(second)


def _scram_client(data: bytes) -> None:
    # A challenge that asks for many rounds would take the time, and nothing else.
    ClientExchange("user", PasswordKeys("password"), b"nonce").answer(data.replace(b"i=", b"i=4096,x="))


def _token(data: bytes) -> None:
    """A token whose signature is right: its header is the first line, and its claims are the rest."""
    _key_files()
    header, _, claims = data.partition(b"\n")
    signed = b".".join(map(_base64url, (header, claims)))
    _TOKENS[0].identity((signed + b"." + _base64url(_KEY[0].sign(signed))).decode())


def _keys(data: bytes) -> None:
    _key_files()
    _JWKS[0].write_bytes(data)
    TokenVerifier(str(_JWKS[0]), "flotilla", "", lambda: _NOW_S)


def _base64url(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


#: Made by `_key_files`, once in a process.
_JWKS: Final[list[Path]] = []
_KEY: Final[list[Any]] = []
_TOKENS: Final[list[TokenVerifier]] = []
_NOW_S: Final = 1_700_000_000


def _key_files() -> bytes:
    """The file of public keys with which tokens are verified here."""
    if not _JWKS:
        folder = Path(mkdtemp(prefix="flotilla-fuzz-"))
        register(rmtree, folder, True)
        key = ed25519.Ed25519PrivateKey.generate()
        public = key.public_key().public_bytes_raw()
        row = {"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": _base64url(public).decode()}
        (folder / "keys").write_text(json.dumps({"keys": [row]}))
        _JWKS.append(folder / "fuzzed")
        _KEY.append(key)
        _TOKENS.append(TokenVerifier(str(folder / "keys"), "flotilla", "", lambda: _NOW_S))
    return (_JWKS[0].parent / "keys").read_bytes()


def _authorization(data: bytes) -> None:
    text = data.decode("latin-1")
    scheme, _, value = text.partition(" ")
    if scheme == "Basic":
        read_basic(value.strip())
    scope = {"headers": [(b"cookie", data), (b"authorization", data)]}
    for name in ("flotilla", "__Host-flotilla"):
        read_cookie(scope, name)


def _tables() -> Router:
    """All operations over HTTP, each with a handler that does nothing."""

    async def nothing(call: Call) -> Answer:
        return Answer({})

    return Router([replace(row, handler=nothing) for row in operations(Gateway(list))])


_ROUTERS: Final[list[Router]] = []


def _path_and_query(data: bytes) -> None:
    """A target as the server passes it on: printable, and split at the first question mark."""
    if not _ROUTERS:
        _ROUTERS.append(_tables())
    path, _, query = bytes(byte for byte in data if 0x21 <= byte <= 0x7E).partition(b"?")
    failures: list[Any] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None: ...

    async def play() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        for method in ("GET", "POST", "DELETE"):
            scope = {
                "method": method,
                "raw_path": path,
                "path": path.decode(),
                "query_string": query,
                "headers": [(b"content-type", b"application/json")],
            }
            await _ROUTERS[0](scope, receive, send)

    asyncio.run(play())
    if failures:
        raise failures[0]["exception"]


def _recorded(label: str, skipped: int) -> Callable[[], list[bytes]]:
    lines = (UNIT / "codec/recorded_frames.txt").read_text().splitlines()
    texts = [line.split()[-1] for line in lines if line.startswith(label + " ")]
    return lambda: [bytes.fromhex(text)[skipped:] for text in texts if not text.endswith("Error")]


def _snapshot(path: str) -> Callable[[], list[bytes]]:
    forms = (UNIT / path).read_text().split("\n\n")
    return lambda: [max((bytes.fromhex("".join(form.split())) for form in forms), key=len)]


def _grpc(data: bytes) -> None:
    """The first byte says which call it is."""
    call = calls.REQUESTS[data[0] % len(calls.REQUESTS)] if data else calls.REQUESTS[0]
    call.read(calls.decoder(call.name)(data[1:]))


_APPEND: Final = Append(1, 2, 1, 4, 1, 4, [Entry(5, 1, 1, b"data")])
_RECORDS: Final = [Record(b"payload", key=b"key", timestamp_ms=5), Record(b"x" * 300, timestamp_ms=9)]
_METADATA: Final = (
    metadata_commands.DeleteTopic("orders", 1, 5),
    metadata_commands.AlterGroup("orders", "workers", (("visibility_ms", 5_000),), (), 110),
    PutGrant(Grant("anna", "consume", "orders", "b*"), 7),
    PutJoinToken(bytes(32), 9, 8),
)
_PARTITION: Final = (partition_commands.StampTime(5), partition_commands.DeleteGroup("workers", 5))

TARGETS: Final = [
    Target("client requests", decode_request, _recorded("request", 4)),
    Target("client replies", decode_response, _recorded("reply", 4)),
    Target(
        "frames between nodes",
        lambda data: decode_frame(_mended(data)),
        lambda: [
            b"".join(encode_frame([(7, Heartbeat(1, 2, 3, 4))])),
            b"".join(
                encode_frame([(7, Append(1, 2, 1, 4, 1, 4, [Entry(5, 1, 1, b"data")])), (8, Heartbeat(1, 2, 3, 4))])
            ),
        ],
    ),
    Target("readings between nodes", _reading, lambda: [encode_reading(kind, 1, 2, 3) for kind in (CLOCK, ROOM)]),
    Target(
        "hello of a node",
        decode_hello,
        lambda: [
            encode_hello(PeerHello(bytes(16), 1, 2, 3)),
            encode_hello(PeerHello(bytes(16), 1, 2, 3, nonce=bytes(16))),
        ],
    ),
    Target("welcome of a node", decode_welcome, lambda: [b"FLTP" + bytes(90)]),
    Target(
        "batches",
        _batch,
        lambda: [
            bytes(encode_batch([Record(b"payload", key=b"key", timestamp_ms=5), Record(b"x" * 300, timestamp_ms=9)]))
        ],
    ),
    Target(
        "commands of the metadata",
        metadata_commands.decode_command,
        lambda: [metadata_commands.encode_command(command) for command in _METADATA],
    ),
    Target(
        "commands of a partition",
        partition_commands.decode_command,
        lambda: [partition_commands.encode_command(command) for command in _PARTITION],
    ),
    Target("configurations", decode_configuration, lambda: [encode_configuration(Configuration((1, 2, 3), (), (4,)))]),
    Target("configuration entries", decode_entry, lambda: [encode_entry(Configuration((1, 2, 3), (), (4,)))]),
    Target("snapshots of the metadata", decode_metadata, _snapshot("metadata/recorded_snapshot.hex")),
    Target("snapshots of a partition", decode_partition, _snapshot("partition/recorded_bytes.hex")),
    Target(
        "http",
        _http,
        lambda: [
            b"GET /a/b?c=d HTTP/1.1\r\nHost: a:80\r\nAccept: */*\r\n\r\n",
            b"PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;e=1\r\nabc\r\n0\r\nT: v\r\n\r\n",
        ],
    ),
    Target("json", read_json, lambda: [b'{"records":[{"payload":"eA==","key":null}],"n":1.5e3}']),
    Target("log-in at a broker", _scram, lambda: [b"n,,n=user,r=abc\nc=biws,r=abcbm9uY2U=,p=AAAA"]),
    Target("log-in at a client", _scram_client, lambda: [b"r=bm9uY2U=x,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=4096"]),
    Target(
        "tokens",
        _token,
        lambda: [
            b'{"alg":"EdDSA","kid":"k"}\n{"sub":"anna","aud":"flotilla","exp":1700000100}',
            b'{"alg":"none","kid":"k"}\n{"sub":"anna","aud":["flotilla"],"exp":1e400,"nbf":-1}',
        ],
    ),
    Target("keys of tokens", _keys, lambda: [_key_files()]),
    Target("leases", lambda data: read_lease_token(data.decode("latin-1")), lambda: [b"1.0.7.12", b"1.0.7.999"]),
    Target("authorization and cookies", _authorization, lambda: [b"Basic YTpi", b"a=b; flotilla=c; flotilla"]),
    Target(
        "paths and queries",
        _path_and_query,
        lambda: [
            b"/v1/topics/orders/partitions/0/records?offset=3&max_bytes=100",
            b"/v1/topics/a%20b/groups/g/partitions/0/messages/7/result",
            b"/tasks/1-0-0?x=%ff",
        ],
    ),
    Target(
        "pieces of logs",
        lambda data: list(decode_entries(data)),
        lambda: [encode_entries([Entry(5, 1, DATA, b"data"), Entry(6, 1, DATA, b"")])],
    ),
    Target("grpc", _grpc, lambda: [bytes((number,)) + b"\n\x05topic" for number in range(len(calls.REQUESTS))]),
]


def attempt(target: Target, data: bytes) -> bool:
    """Whether the bytes were accepted. Raises what no decoder may raise."""
    try:
        target.run(data)
    except TYPED:
        return False
    return True
