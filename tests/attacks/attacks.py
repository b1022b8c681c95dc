"""The attacks, each as a function of a node's ports and a time."""

import json
import os
import re
import resource
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from itertools import count
from multiprocessing.synchronize import Event
from typing import Final, NamedTuple

import grpc

from flotilla import Client, FlotillaError
from flotilla.client._core.connection import ClientConnection
from flotilla.codec.batch.compression import LZ4, ZSTD
from flotilla.codec.batch.records import encode_batch
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.types.limits import GRPC_CONNECTION_CALL_COUNT_MAX, GRPC_MESSAGE_BYTES_MAX, MIB
from flotilla.types.records import Record
from tests.attacks.half_messages import HalfMessages, UnreadCalls
from tests.integration.ports import LOOPBACK

_GARBAGE_COUNT: Final = 64
_BODY_COUNT: Final = 200
_CROWD_COUNT: Final = 4_300
_SLOW_COUNT: Final = 1_100
_BODY_BYTES: Final = 17 * MIB
_CALL_COUNT: Final = 400
_CHANNEL_COUNT: Final = 25
_STREAM_CHANNEL_COUNT: Final = 8
#: Of one answer that is not read.
_UNREAD_BYTES: Final = 8 * MIB
_UNREAD_CALL_COUNT: Final = 60
_UNREAD_CONNECTION_COUNT: Final = 100
_BOMB_THREADS: Final = 8
#: Of a bomb: what it opens to, in records of a MiB, and how many times that is what is sent.
_OPENED_MIB: Final = 15
_RATIO: Final = 150
#: It was stored, or others wait to be opened.
_BOMB_STATUSES: Final = (201, 429, 503)
_BATCH_TYPE: Final = {"Content-Type": "application/vnd.flotilla.batch"}
#: Bombs that readers find: a megabyte of them opens to 150.
_READ_COUNT: Final = 10
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
        options = ["-c", str(_SLOW_COUNT), "-r", "400", "-i", "2", "-l", str(int(seconds)), "-p", "3", "-u", url]
        done = subprocess.run(["slowhttptest", mode, *options], capture_output=True, text=True, errors="replace")
        # Each second it asks for the page itself, by a connection of its own.
        verdicts = re.findall(r"service available:\S*\s+\S*?(YES|NO)", done.stdout)
        if not verdicts or "NO" in verdicts:
            raise AssertionError(f"slowhttptest {mode} finds the service not available: {verdicts or done.stdout}")

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


def crowd(ports: Ports, seconds: float) -> None:
    """More TCP clients than a node takes, each with its Hello, which then stay. One that is refused comes again."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    hello = b"".join(ClientConnection().greet("crowd"))
    until = time.monotonic() + seconds
    opened = []
    for _ in range(_CROWD_COUNT):
        connection = socket.create_connection((LOOPBACK, ports.tcp), timeout=5)
        opened.append(connection)
        try:
            connection.sendall(hello)
        except OSError:
            # It was refused.
            pass
    time.sleep(max(until - time.monotonic(), 0))
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


def unread_calls(ports: Ports, seconds: float) -> None:
    """Calls over gRPC with large answers that may not come."""
    until = time.monotonic() + seconds
    _fill(ports)
    message = pb.FetchRequest(topic="unread", max_bytes=_UNREAD_BYTES).SerializeToString()
    path = b"/flotilla.v1.Flotilla/Fetch"
    opened = [UnreadCalls(ports.grpc, path, _UNREAD_CALL_COUNT, message) for _ in range(_STREAM_CHANNEL_COUNT)]
    reading = [threading.Thread(target=lambda each=each: list(each.read())) for each in opened]
    for thread in reading:
        thread.start()
    time.sleep(max(until - time.monotonic(), 0))
    for each in opened:
        each.close()
    for thread in reading:
        thread.join()


def unread_batches(ports: Ports, seconds: float) -> None:
    """Large answers over HTTP that nobody reads."""
    until = time.monotonic() + seconds
    _fill(ports)
    path = f"/v1/topics/unread/partitions/0/batches?offset=0&max_bytes={_UNREAD_BYTES}"
    opened = []
    for _ in range(_UNREAD_CONNECTION_COUNT):
        connection = socket.create_connection((LOOPBACK, ports.http), timeout=5)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        opened.append(connection)
    time.sleep(max(until - time.monotonic(), 0))
    for connection in opened:
        connection.close()


def _fill(ports: Ports) -> None:
    with Client(f"{LOOPBACK}:{ports.tcp}") as client:
        client.create_topic("unread", retention_bytes=3 * _UNREAD_BYTES, if_not_exists=True)
        client.produce_many("unread", [os.urandom(MIB - 1024)] * (_UNREAD_BYTES // MIB + 1))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def _bomb(compression: int) -> bytes:
    noise = os.urandom(MIB // _RATIO)
    return encode_batch([Record(noise + bytes(MIB - 64 - len(noise)))] * _OPENED_MIB, compression=compression)


def bombs(compression: int) -> Attack:
    """Small batches that are large when they are opened, over several connections."""

    def attack(ports: Ports, seconds: float) -> None:
        until = time.monotonic() + seconds
        with Client(f"{LOOPBACK}:{ports.tcp}") as client:
            client.create_topic("bombs", retention_bytes=10 * MIB, if_not_exists=True)
        batch = _bomb(compression)

        def throw() -> None:
            connection = HTTPConnection(LOOPBACK, ports.http, timeout=60)
            while time.monotonic() < until:
                path = "/v1/topics/bombs/partitions/0/batches"
                connection.request("POST", path, batch, _BATCH_TYPE)
                answer = connection.getresponse()
                answer.read()
                if answer.status not in _BOMB_STATUSES:
                    raise AssertionError(f"a batch that is refused before it is opened is no bomb: {answer.status}")

        with ThreadPoolExecutor(_BOMB_THREADS) as pool:
            for each in [pool.submit(throw) for _ in range(_BOMB_THREADS)]:
                each.result()

    return attack


def readings(ports: Ports, seconds: float) -> None:
    """Readers of batches that are small on disk: as JSON, searched for a text, and over gRPC."""
    until = time.monotonic() + seconds
    with Client(f"{LOOPBACK}:{ports.tcp}") as client:
        client.create_topic("packed", retention_bytes=10 * MIB, if_not_exists=True)
    for _ in range(_READ_COUNT):
        connection = HTTPConnection(LOOPBACK, ports.http, timeout=60)
        connection.request("POST", "/v1/topics/packed/partitions/0/batches", _bomb(ZSTD), _BATCH_TYPE)
        connection.getresponse().read()
        connection.close()
    message = pb.FetchRequest(topic="packed", max_bytes=MIB).SerializeToString()

    def read(query: str) -> None:
        path = f"/v1/topics/packed/partitions/0/records?offset=0&max_bytes={MIB}{query}"
        while time.monotonic() < until:
            connection = HTTPConnection(LOOPBACK, ports.http, timeout=60)
            connection.request("GET", path)
            connection.getresponse().read()
            connection.close()

    def call() -> None:
        with grpc.insecure_channel(f"{LOOPBACK}:{ports.grpc}", [("grpc.max_receive_message_length", -1)]) as channel:
            fetch = channel.unary_unary("/flotilla.v1.Flotilla/Fetch")
            while time.monotonic() < until:
                fetch.future(message, timeout=60).exception()

    with ThreadPoolExecutor(3) as pool:
        for each in [pool.submit(read, ""), pool.submit(read, "&contains=needle"), pool.submit(call)]:
            each.result()


def pollings(ports: Ports, seconds: float) -> None:
    """Consumers of batches that are small on disk: by polls, by polls with a filter, and by subscriptions."""
    until = time.monotonic() + seconds
    with Client(f"{LOOPBACK}:{ports.tcp}") as client:
        client.create_topic("packed", retention_bytes=10 * MIB, if_not_exists=True)
    for _ in range(_READ_COUNT):
        connection = HTTPConnection(LOOPBACK, ports.http, timeout=60)
        connection.request("POST", "/v1/topics/packed/partitions/0/batches", _bomb(ZSTD), _BATCH_TYPE)
        connection.getresponse().read()
        connection.close()
    numbers = count(time.monotonic_ns())
    poll_bytes = 16 * MIB

    def group() -> str:
        """A new one, which has had nothing yet."""
        return f"g{next(numbers)}"

    def poll_http(more: dict[str, object]) -> None:
        while time.monotonic() < until:
            body = {"member": "m", "max_messages": 1_000, "max_bytes": poll_bytes, "wait_ms": 1_000, **more}
            connection = HTTPConnection(LOOPBACK, ports.http, timeout=60)
            path = f"/v1/topics/packed/groups/{group()}/poll"
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            connection.getresponse().read()
            connection.close()

    def poll_grpc() -> None:
        with grpc.insecure_channel(f"{LOOPBACK}:{ports.grpc}", [("grpc.max_receive_message_length", -1)]) as channel:
            poll = channel.unary_unary("/flotilla.v1.Flotilla/Poll")
            while time.monotonic() < until:
                request = pb.PollRequest(
                    topic="packed", group=group(), member="m", max_messages=1_000, max_bytes=poll_bytes, wait_ms=1_000
                )
                poll.future(request.SerializeToString(), timeout=60).exception()

    def subscribe() -> None:
        options = [("grpc.max_receive_message_length", -1)]
        while time.monotonic() < until:
            opening = pb.SubscribeRequest.Open(topic="packed", group=group(), member="m", credit=1_000)
            requests = iter([pb.SubscribeRequest(open=opening).SerializeToString()])
            with grpc.insecure_channel(f"{LOOPBACK}:{ports.grpc}", options) as channel:
                stream = channel.stream_stream("/flotilla.v1.Flotilla/Subscribe")(requests)
                try:
                    next(stream)
                except grpc.RpcError:
                    # It had too much to say, or too many others were served.
                    pass
                stream.cancel()

    filtered = {"headers": [{"name": "n", "value": ""}]}
    attacks: list[Callable[[], None]] = [poll_grpc, subscribe, lambda: poll_http({}), lambda: poll_http(filtered)]
    attacks.append(lambda: poll_http({"ordered_by_key": True}))
    with ThreadPoolExecutor(len(attacks)) as pool:
        for each in [pool.submit(attack) for attack in attacks]:
            each.result()


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
    "TCP clients": crowd,
    "slow headers": slow("-H"),
    "slow bodies": slow("-B"),
    "slow reading": slow("-X"),
    "gRPC bodies": calls,
    "gRPC streams": streams,
    "gRPC half messages": halves,
    "gRPC unread answers": unread_calls,
    "HTTP unread answers": unread_batches,
    "zstd bombs": bombs(ZSTD),
    "lz4 bombs": bombs(LZ4),
    "reading bombs": readings,
    "polling bombs": pollings,
    "wide topics": wide,
}
#: What they leave behind would count as quiet: they have one turn, and come last.
LASTING: Final = ("wide topics",)


def run(name: str, ports: Ports, seconds: float, ready: Event) -> None:
    os.nice(_NICE)
    ready.set()
    ATTACKS[name](ports, seconds)
