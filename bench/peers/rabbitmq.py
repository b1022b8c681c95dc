"""RabbitMQ: a quorum queue with as many members as nodes, by pika. It always syncs before it confirms."""

import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count as numbers
from itertools import cycle
from pathlib import Path
from secrets import token_hex
from shutil import which
from time import perf_counter
from typing import Any

from bench.peers.apart import Arrivals, Pair, Turns
from bench.peers.draining import Tally, drained
from bench.peers.pacing import paced
from bench.peers.peer import HOST, free_ports, not_found, retried_until, title
from bench.peers.processes import Processes
from bench.peers.steady import failed_over
from bench.subject import Failover

_START_S_MAX = 90.0
_PREFETCH = 1_000
_ACKNOWLEDGED_TOGETHER = 100
_UNCONFIRMED_MAX = 2_000
_SILENCE_S = 1.0
#: Some systems put scripts on PATH that change to a user of the service, who may not read a private folder. The real
#: ones are here.
_PROGRAMS = "/usr/lib/rabbitmq/bin"


class RabbitPeer:
    product = "rabbitmq"
    settings: tuple[bool, ...] = (True,)

    def missing(self) -> str:
        return not_found(["rabbitmq-server", "epmd"], ["pika"])

    def version(self) -> str:
        """From the name of its folder: asking a program would start Erlang's registry, which keeps running."""
        found = re.search(r"rabbitmq_server-([\d.]+)", str(Path(_program("rabbitmqctl")).resolve()))
        return found[1] if found else "unknown"

    @contextmanager
    def started(self, folder: Path, *, nodes: int, is_synced: bool) -> Iterator["RabbitSubject"]:
        assert is_synced
        names = [f"bench{node}@localhost" for node in range(1, nodes + 1)]
        ports = free_ports(2 * nodes + 1)
        clients, links, registry = ports[:nodes], ports[nodes:-1], str(ports[-1])
        configuration = folder / "rabbitmq.conf"
        members = "".join(f"cluster_formation.classic_config.nodes.{at} = {name}\n" for at, name in enumerate(names, 1))
        configuration.write_text(f"cluster_formation.peer_discovery_backend = classic_config\n{members}")
        # Nodes that start together would each create their own secret.
        secret = folder / ".erlang.cookie"
        secret.write_text(token_hex(10))
        secret.chmod(0o400)
        # HOME is where the secret is.
        shared = {
            **os.environ,
            "HOME": str(folder),
            "ERL_EPMD_PORT": registry,
            "RABBITMQ_CONFIG_FILE": str(configuration),
        }
        with Processes(folder) as processes:
            # Erlang's registry of names would start by itself, at a fixed port, and stay.
            processes.start("registry", ["epmd", "-address", HOST, "-port", registry], shared)
            for name, client, link in zip(names, clients, links, strict=True):
                environment = {
                    **shared,
                    "RABBITMQ_NODENAME": name,
                    "RABBITMQ_NODE_IP_ADDRESS": HOST,
                    "RABBITMQ_NODE_PORT": str(client),
                    "RABBITMQ_DIST_PORT": str(link),
                    "RABBITMQ_MNESIA_BASE": str(folder / name),
                    "RABBITMQ_LOG_BASE": str(folder / name),
                }
                processes.start(name, [_program("rabbitmq-server")], environment)
            processes.wait_listening(clients)
            yield RabbitSubject(processes, clients, shared)


def _program(name: str) -> str:
    found = which(name, path=f"{_PROGRAMS}{os.pathsep}{os.environ['PATH']}")
    assert found is not None
    return found


class RabbitSubject:
    is_synced = True

    def __init__(self, processes: Processes, ports: list[int], environment: Mapping[str, str]) -> None:
        self.nodes = len(ports)
        self.name = title("rabbitmq", self.nodes, is_synced=True)
        self._processes = processes
        self.servers = [f"amqp://{HOST}:{port}" for port in ports]
        self._ports = ports
        self._environment = environment
        self._numbers = numbers()
        self._connection, self._channel = _connect(ports[0])
        self._channel.confirm_delivery()
        self._queue = self._new_queue()
        members = self._ask_queues("members")[self._queue]
        if members.count("@") != self.nodes:
            # A node that starts slowly may have been left out, and the comparison would not be fair.
            raise RuntimeError(f"the queue has the members {members} instead of {self.nodes}")

    def one_by_one(self, payload: bytes, count: int) -> list[float]:
        durations = []
        for _ in range(count):
            started = perf_counter()
            self._channel.basic_publish("", self._queue, payload)
            durations.append(perf_counter() - started)
        return durations

    def pipelined(self, payload: bytes, count: int) -> float:
        return _Pipeline(self._ports[0], self._queue, payload, count).run()

    def replay(self, payload: bytes, count: int) -> float:
        """A queue cannot be read twice: what is read is acknowledged."""
        rate = self.drain(payload, count, 1)
        assert rate is not None
        return rate

    def end_to_end(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        queue = self._new_queue()
        connection, channel = _connect(self._ports[0])
        channel.basic_qos(prefetch_count=_PREFETCH)
        incoming = channel.consume(queue, inactivity_timeout=_SILENCE_S)
        # Without confirms on this channel: a publisher that waited for each could not keep up the rate.
        sending, outgoing = _connect(self._ports[0])

        def send(payloads: list[bytes]) -> None:
            for payload in payloads:
                outgoing.basic_publish("", queue, payload)

        def receive() -> list[bytes]:
            method, _, body = next(incoming)
            if method is None:
                return []
            channel.basic_ack(method.delivery_tag)
            return [body]

        try:
            return paced(payload_bytes, rate, count, send, receive)
        finally:
            sending.close()
            connection.close()

    def produce_to_push(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        """There is no other way to read a queue."""
        return self.end_to_end(payload_bytes, rate, count)

    def apart(self) -> Pair:
        return Pair(_produce_apart, _work_apart, self._ports[0], self._new_queue())

    def drain(self, payload: bytes, count: int, consumers: int) -> float | None:
        queue = self._new_queue()
        _Pipeline(self._ports[0], queue, payload, count).run()
        return drained(_consume, self._ports[0], queue, count, consumers)

    def fail_over(self) -> Failover | None:
        if self.nodes == 1:
            return None
        queue = self._new_queue()
        producer = _ReconnectingProducer(self._ports, queue)
        return failed_over(
            producer.send, lambda: self._leader(queue), self._processes.kill, lambda: self._read_back(queue)
        )

    def resident_bytes(self) -> list[int]:
        """Without the registry of names, which was started first."""
        return self._processes.resident_bytes()[1:]

    def busy_s(self) -> float:
        return self._processes.busy_s()

    def _leader(self, queue: str) -> str:
        return self._ask_queues("leader")[queue]

    def _ask_queues(self, column: str) -> dict[str, str]:
        """One column of the list of queues, by the queue's name."""
        command = [_program("rabbitmqctl"), "-n", "bench1@localhost", "--quiet", "list_queues", "name", column]
        answer = subprocess.run(command, env=self._environment, check=True, capture_output=True, text=True).stdout
        return dict(line.split("\t") for line in answer.splitlines())

    def _read_back(self, queue: str) -> list[bytes]:
        port = next(port for port in self._ports if _is_up(port))
        connection, channel = _connect(port)
        channel.basic_qos(prefetch_count=_PREFETCH)
        found = []
        for method, _, body in channel.consume(queue, inactivity_timeout=_SILENCE_S):
            if method is None:
                break
            channel.basic_ack(method.delivery_tag)
            found.append(body)
        connection.close()
        return found

    def _new_queue(self) -> str:
        name = f"bench{next(self._numbers)}"
        arguments = {"x-queue-type": "quorum", "x-quorum-initial-group-size": self.nodes}
        for attempt in retried_until(_START_S_MAX, Exception):
            with attempt:
                # A refusal closes the channel, so each attempt has its own.
                connection, channel = _connect(self._ports[0])
                channel.queue_declare(name, durable=True, arguments=arguments)
                connection.close()
        return name


def _connect(port: int) -> tuple[Any, Any]:
    import pika

    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, port))
    return connection, connection.channel()


def _is_up(port: int) -> bool:
    try:
        _connect(port)[0].close()
    except Exception:
        return False
    return True


def _produce_apart(port: int, queue: str, turns: Turns) -> None:
    """At a rate without confirms, as in `end_to_end`; one at a time with them."""
    connection, unconfirmed = _connect(port)
    confirmed = connection.channel()
    confirmed.confirm_delivery()
    for turn in turns:
        channel = unconfirmed if turn.is_paced else confirmed
        for payload in turn.payloads():
            channel.basic_publish("", queue, payload)


def _work_apart(port: int, queue: str, arrivals: Arrivals) -> None:
    _, channel = _connect(port)
    channel.basic_qos(prefetch_count=_PREFETCH)
    arrivals.begin()
    for method, _, body in channel.consume(queue):
        arrivals.note(body)
        channel.basic_ack(method.delivery_tag)


def _consume(port: int, queue: str, tally: Tally) -> None:
    """One worker of a drain: acknowledgements go out a hundred at a time."""
    connection, channel = _connect(port)
    channel.basic_qos(prefetch_count=_PREFETCH)
    tally.begin()
    unacknowledged, last = 0, None
    for method, _, _ in channel.consume(queue, inactivity_timeout=0.05):
        if method is not None:
            unacknowledged, last = unacknowledged + 1, method.delivery_tag
        if unacknowledged and (method is None or unacknowledged == _ACKNOWLEDGED_TOGETHER):
            channel.basic_ack(last, multiple=True)
            tally.add(unacknowledged)
            unacknowledged = 0
        if tally.is_done:
            break
    connection.close()


class _ReconnectingProducer:
    """Goes on to the next node when its connection is gone."""

    def __init__(self, ports: list[int], queue: str) -> None:
        self._ports = cycle(ports)
        self._queue = queue
        self._channel: Any = None

    def send(self, payload: bytes) -> None:
        try:
            if self._channel is None:
                _, self._channel = _connect(next(self._ports))
                self._channel.confirm_delivery()
            self._channel.basic_publish("", self._queue, payload)
        except Exception:
            self._channel = None
            raise


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
