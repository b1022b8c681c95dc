"""What is fuzzed: each decoder of bytes that a stranger may send, with whole examples to begin with.

A target returns, or raises an error of this project. Anything else is a finding. Checksums are mended, so that damage
behind them is reached.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from flotilla.codec.batch.check import validate
from flotilla.codec.batch.records import decode_batch, encode_batch
from flotilla.codec.client.frames import decode_request, decode_response
from flotilla.codec.grpc import calls
from flotilla.codec.log import decode_configuration, encode_configuration
from flotilla.codec.peer.frames import decode_frame, encode_frame
from flotilla.codec.peer.reading_frames import CLOCK, ROOM, decode_reading, encode_reading, is_reading
from flotilla.frontends.http.framework.schema import read_json
from flotilla.frontends.http.http1.connection import Connection
from flotilla.metadata import commands as metadata_commands
from flotilla.metadata.security.commands import PutGrant
from flotilla.metadata.security.join_tokens import PutJoinToken
from flotilla.metadata.snapshot import decode_snapshot as decode_metadata
from flotilla.partition.commands import partition_commands
from flotilla.partition.state.snapshot import decode_snapshot as decode_partition
from flotilla.peers.handshake import HandshakeError, PeerHello, decode_hello, decode_welcome, encode_hello
from flotilla.raft.configuration import decode_configuration as decode_entry
from flotilla.raft.configuration import encode_configuration as encode_entry
from flotilla.raft.messages import Append, Configuration, Entry, Heartbeat
from flotilla.security.scram import ClientExchange, PasswordKeys, ServerExchange
from flotilla.types.access import Grant, Verifier
from flotilla.types.errors import FlotillaError
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
    Target("grpc", _grpc, lambda: [bytes((number,)) + b"\n\x05topic" for number in range(len(calls.REQUESTS))]),
]


def attempt(target: Target, data: bytes) -> bool:
    """Whether the bytes were accepted. Raises what no decoder may raise."""
    try:
        target.run(data)
    except TYPED:
        return False
    return True
