"""The attacks, each as a function of a node's ports and a time."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from multiprocessing.synchronize import Event
from typing import Final, NamedTuple

import grpc

from flotilla import Client, FlotillaError
from flotilla.codec.batch.compression import LZ4, ZSTD
from flotilla.codec.batch.records import encode_batch
from flotilla.types.limits import GRPC_CONNECTION_CALL_COUNT_MAX, GRPC_MESSAGE_BYTES_MAX, MIB
from flotilla.types.records import Record
from tests.attacks.half_messages import HalfMessages
from tests.integration.ports import LOOPBACK

_GARBAGE_COUNT: Final = 64
_BODY_COUNT: Final = 40
_BODY_BYTES: Final = 17 * MIB
_CALL_COUNT: Final = 400
_CHANNEL_COUNT: Final = 25
_STREAM_CHANNEL_COUNT: Final = 8
_BOMB_THREADS: Final = 8
#: Of a bomb: what it opens to, in records of a MiB, and how many times that is what is sent.
_OPENED_MIB: Final = 15
_RATIO: Final = 150
#: It was stored, or others wait to be opened.
_BOMB_STATUSES: Final = (201, 429, 503)
_WIDE: Final = 1_024
#: Attackers are other machines, which take no processor time of the node.
_NICE: Final = 10


class Ports(NamedTuple):
    tcp: int
    peer: int
    http: int
    grpc: int


Attack = Callable[[Ports, float], None]


def slow(mode: str) -> Attack:
    """With slowhttptest: slow headers, slow bodies, or slow reading."""

    def attack(ports: Ports, seconds: float) -> None:
        url = f"http://{LOOPBACK}:{ports.http}/openapi.json"
        options = ["-c", "1000", "-r", "400", "-i", "2", "-l", str(int(seconds)), "-p", "3", "-u", url]
        subprocess.run(["slowhttptest", mode, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return attack


def garbage(ports: Ports, seconds: float) -> None:
    """Connections of random bytes at three ports."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        opened = []
        for number in range(_GARBAGE_COUNT):
            port = (ports.tcp, ports.peer, ports.http)[number % 3]
            connection = socket.create_connection((LOOPBACK, port), timeout=5)
            connection.sendall(os.urandom(64))
            opened.append(connection)
        for connection in opened:
            connection.close()


def bodies(ports: Ports, seconds: float) -> None:
    """Large bodies over HTTP that never end."""
    head = (
        b"POST /v1/topics/t/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n"
    )
    until = time.monotonic() + seconds
    opened = []
    for _ in range(_BODY_COUNT):
        connection = socket.create_connection((LOOPBACK, ports.http), timeout=5)
        opened.append(connection)
        try:
            connection.sendall(head % (_BODY_BYTES + 1) + bytes(_BODY_BYTES))
        except OSError:
            # It was refused.
            pass
    time.sleep(max(until - time.monotonic(), 0))
    for connection in opened:
        connection.close()


def calls(ports: Ports, seconds: float) -> None:
    """Calls over gRPC with as many bytes as a message may have, of fields that nobody knows."""
    body = b"\xaa\x7d" + _varint(GRPC_MESSAGE_BYTES_MAX - 16) + bytes(GRPC_MESSAGE_BYTES_MAX - 16)
    until = time.monotonic() + seconds
    option = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(f"{LOOPBACK}:{ports.grpc}", options=option) for _ in range(_CHANNEL_COUNT)]
    while time.monotonic() < until:
        methods = [channel.unary_unary("/flotilla.v1.Flotilla/Ack") for channel in channels]
        sent = [methods[number % _CHANNEL_COUNT].future(body, timeout=seconds) for number in range(_CALL_COUNT)]
        for each in sent:
            each.exception()
    for channel in channels:
        channel.close()


def streams(ports: Ports, seconds: float) -> None:
    """As many streams of requests over gRPC as a node takes, with the largest messages, whose answers nobody reads."""
    body = b"\xaa\x7d" + _varint(GRPC_MESSAGE_BYTES_MAX - 16) + bytes(GRPC_MESSAGE_BYTES_MAX - 16)
    is_over = threading.Event()

    def endless() -> Iterator[bytes]:
        while not is_over.is_set():
            yield body

    option = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(f"{LOOPBACK}:{ports.grpc}", options=option) for _ in range(_STREAM_CHANNEL_COUNT)]
    opened = [
        channel.stream_stream("/flotilla.v1.Flotilla/ProduceStream")(endless())
        for channel in channels
        for _ in range(GRPC_CONNECTION_CALL_COUNT_MAX)
    ]
    time.sleep(seconds)
    is_over.set()
    for each in opened:
        each.cancel()
    for channel in channels:
        channel.close()


def halves(ports: Ports, seconds: float) -> None:
    """Streams of requests over gRPC that stop in the middle of the largest message."""
    until = time.monotonic() + seconds
    path = b"/flotilla.v1.Flotilla/ProduceStream"
    opened = [
        HalfMessages(ports.grpc, path, GRPC_CONNECTION_CALL_COUNT_MAX, GRPC_MESSAGE_BYTES_MAX)
        for _ in range(_STREAM_CHANNEL_COUNT)
    ]
    running = [threading.Thread(target=each.run) for each in opened]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    time.sleep(max(until - time.monotonic(), 0))
    for each in opened:
        each.close()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def bombs(compression: int) -> Attack:
    """Small batches that are large when they are opened, over several connections."""

    def attack(ports: Ports, seconds: float) -> None:
        until = time.monotonic() + seconds
        with Client(f"{LOOPBACK}:{ports.tcp}") as client:
            client.create_topic("bombs", retention_bytes=10 * MIB, if_not_exists=True)
        noise = os.urandom(MIB // _RATIO)
        batch = encode_batch([Record(noise + bytes(MIB - 64 - len(noise)))] * _OPENED_MIB, compression=compression)

        def throw() -> None:
            connection = HTTPConnection(LOOPBACK, ports.http, timeout=60)
            while time.monotonic() < until:
                path = "/v1/topics/bombs/partitions/0/batches"
                connection.request("POST", path, batch, {"Content-Type": "application/vnd.flotilla.batch"})
                answer = connection.getresponse()
                answer.read()
                if answer.status not in _BOMB_STATUSES:
                    raise AssertionError(f"a batch that is refused before it is opened is no bomb: {answer.status}")

        with ThreadPoolExecutor(_BOMB_THREADS) as pool:
            for each in [pool.submit(throw) for _ in range(_BOMB_THREADS)]:
                each.result()

    return attack


def wide(ports: Ports, seconds: float) -> None:
    """Topics with as many partitions as one may have, one after the other."""
    until = time.monotonic() + seconds
    with Client(f"{LOOPBACK}:{ports.tcp}", timeout_ms=20_000) as client:
        number = 0
        while time.monotonic() < until:
            try:
                client.create_topic(f"wide-{os.getpid()}-{number}", partitions=_WIDE)
            except FlotillaError:
                # No more fit.
                time.sleep(0.1)
            number += 1


ATTACKS: Final[dict[str, Attack]] = {
    "garbage connections": garbage,
    "endless bodies": bodies,
    "slow headers": slow("-H"),
    "slow bodies": slow("-B"),
    "slow reading": slow("-X"),
    "gRPC bodies": calls,
    "gRPC streams": streams,
    "gRPC half messages": halves,
    "zstd bombs": bombs(ZSTD),
    "lz4 bombs": bombs(LZ4),
    "wide topics": wide,
}
#: What they leave behind would count as quiet: they have one turn, and come last.
LASTING: Final = ("wide topics",)


def run(name: str, ports: Ports, seconds: float, ready: Event) -> None:
    os.nice(_NICE)
    ready.set()
    ATTACKS[name](ports, seconds)
