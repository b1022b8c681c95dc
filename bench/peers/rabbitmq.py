"""RabbitMQ: a quorum queue on three nodes, by pika. It always syncs before it confirms."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as numbers
from pathlib import Path
from secrets import token_hex
from time import perf_counter
from typing import Any

from bench.peers.pacing import paced
from bench.peers.peer import HOST, NODES, Processes, free_ports, not_found, retried_until

_START_S_MAX = 90.0
_PREFETCH = 1_000
_UNCONFIRMED_MAX = 2_000
_SILENCE_S = 1.0


class RabbitPeer:
    product = "rabbitmq"
    settings: tuple[bool, ...] = (True,)

    def missing(self) -> str:
        return not_found(["rabbitmq-server"], ["pika"])

    @contextmanager
    def started(self, folder: Path, *, is_synced: bool) -> Iterator["RabbitSubject"]:
        assert is_synced
        ports = free_ports(2 * len(NODES))
        clients, links = ports[: len(NODES)], ports[len(NODES) :]
        configuration = folder / "rabbitmq.conf"
        members = "".join(f"cluster_formation.classic_config.nodes.{node} = bench{node}@localhost\n" for node in NODES)
        configuration.write_text(f"cluster_formation.peer_discovery_backend = classic_config\n{members}")
        # Nodes that start together would each draw a secret of their own.
        secret = folder / ".erlang.cookie"
        secret.write_text(token_hex(10))
        secret.chmod(0o400)
        with Processes(folder) as processes:
            for node, client, link in zip(NODES, clients, links, strict=True):
                environment = {
                    **os.environ,
                    "RABBITMQ_NODENAME": f"bench{node}@localhost",
                    "RABBITMQ_NODE_IP_ADDRESS": HOST,
                    "RABBITMQ_NODE_PORT": str(client),
                    "RABBITMQ_DIST_PORT": str(link),
                    "RABBITMQ_MNESIA_BASE": str(folder / str(node)),
                    "RABBITMQ_LOG_BASE": str(folder / str(node)),
                    "RABBITMQ_CONFIG_FILE": str(configuration),
                    # Where the secret is.
                    "HOME": str(folder),
                }
                processes.start(f"rabbitmq{node}", ["rabbitmq-server"], environment)
            processes.wait_listening(clients)
            yield RabbitSubject(clients[0])


class RabbitSubject:
    name = "rabbitmq:fsync@3"
    is_synced = True

    def __init__(self, port: int) -> None:
        self._port = port
        self._numbers = numbers()
        self._connection, self._channel = self._connect()
        self._channel.confirm_delivery()
        self._queue = self._new_queue()

    def one_by_one(self, payload: bytes, count: int) -> list[float]:
        durations = []
        for _ in range(count):
            started = perf_counter()
            self._channel.basic_publish("", self._queue, payload)
            durations.append(perf_counter() - started)
        return durations

    def pipelined(self, payload: bytes, count: int) -> float:
        return _Pipeline(self._port, self._queue, payload, count).run()

    def replay(self, payload: bytes, count: int) -> float:
        queue = self._new_queue()
        _Pipeline(self._port, queue, payload, count).run()
        connection, channel = self._connect()
        channel.basic_qos(prefetch_count=_PREFETCH)
        read = 0
        started = perf_counter()
        for method, _, _ in channel.consume(queue):
            read += 1
            if read % (_PREFETCH // 2) == 0 or read == count:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if read == count:
                break
        elapsed_s = perf_counter() - started
        connection.close()
        return read / elapsed_s

    def end_to_end(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        queue = self._new_queue()
        connection, channel = self._connect()
        channel.basic_qos(prefetch_count=_PREFETCH)
        incoming = channel.consume(queue, inactivity_timeout=_SILENCE_S)
        # Without confirms on this channel: a publisher that waited for each could not keep up the rate.
        sending, outgoing = self._connect()

        def send(payload: bytes) -> None:
            outgoing.basic_publish("", queue, payload)

        def receive() -> list[bytes]:
            method, _, body = next(incoming)
            if method is None:
                return []
            channel.basic_ack(method.delivery_tag)
            return [body]

        try:
            return paced(
                payload_bytes, rate, count, lambda payload: outgoing.basic_publish("", queue, payload), receive
            )
        finally:
            sending.close()
            connection.close()

    def _connect(self) -> tuple[Any, Any]:
        import pika

        connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, self._port))
        return connection, connection.channel()

    def _new_queue(self) -> str:
        name = f"bench{next(self._numbers)}"
        arguments = {"x-queue-type": "quorum", "x-quorum-initial-group-size": len(NODES)}
        for attempt in retried_until(_START_S_MAX, Exception):
            with attempt:
                # A refusal closes the channel, so each attempt has its own.
                connection, channel = self._connect()
                channel.queue_declare(name, durable=True, arguments=arguments)
                connection.close()
        return name


class _Pipeline:
    """Publishes with many confirms outstanding, which pika's blocking channel cannot do."""

    def __init__(self, port: int, queue: str, payload: bytes, count: int) -> None:
        self._port = port
        self._queue = queue
        self._payload = payload
        self._count = count
        self._sent = 0
        self._confirmed = 0
        self._channel: Any = None
        self._connection: Any = None
        self._started = 0.0
        self._elapsed_s = 0.0
        self._refused = threading.Event()

    def run(self) -> float:
        import pika

        parameters = pika.ConnectionParameters(HOST, self._port)
        self._connection = pika.SelectConnection(parameters, on_open_callback=self._opened)
        self._connection.ioloop.start()
        if self._refused.is_set() or self._confirmed < self._count:
            raise RuntimeError(f"{self._confirmed} of {self._count} messages were confirmed")
        return self._count / self._elapsed_s

    def _opened(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._ready)

    def _ready(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._answered, callback=lambda _: self._begin())

    def _begin(self) -> None:
        self._started = perf_counter()
        self._publish()

    def _publish(self) -> None:
        while self._sent < self._count and self._sent - self._confirmed < _UNCONFIRMED_MAX:
            self._channel.basic_publish("", self._queue, self._payload)
            self._sent += 1

    def _answered(self, frame: Any) -> None:
        if type(frame.method).__name__ == "Nack":
            self._refused.set()
        # A confirm with `multiple` covers every tag up to its own.
        self._confirmed = frame.method.delivery_tag if frame.method.multiple else self._confirmed + 1
        if self._confirmed < self._count and not self._refused.is_set():
            self._publish()
            return
        self._elapsed_s = perf_counter() - self._started
        self._connection.close()
        self._connection.ioloop.stop()
