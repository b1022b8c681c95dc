"""NATS JetStream: a stream with as many replicas as nodes, by nats-py on uvloop.

By default it acknowledges from memory and syncs every two minutes; `sync_interval: always` syncs before each answer.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as numbers
from pathlib import Path
from time import perf_counter
from typing import Any

import uvloop

from bench.peers.apart import Arrivals, Pair, Turns
from bench.peers.draining import Tally, drained
from bench.peers.pacing import sent_at, stamped
from bench.peers.peer import HOST, free_ports, not_found, retried_until, title, version_of
from bench.peers.processes import Processes
from bench.peers.steady import failed_over
from bench.subject import Failover

_PENDING_MAX = 4_000
_STALL_S_MAX = 30
_ASK_S = 1
_TURN_S = 0.001
_FETCH = 500
#: A consumer never waits for acknowledgements of another.
_UNACKNOWLEDGED_MAX = 20_000
#: A client that notices a new leader quickly: the default is five seconds.
_PROMPT_S = 0.5


class NatsPeer:
    product = "nats"
    settings: tuple[bool, ...] = (False, True)

    def missing(self) -> str:
        return not_found(["nats-server"], ["nats"])

    def version(self) -> str:
        return version_of("nats-server", "--version")

    @contextmanager
    def started(self, folder: Path, *, nodes: int, is_synced: bool) -> Iterator["NatsSubject"]:
        ports = free_ports(2 * nodes)
        clients, routes = ports[:nodes], ports[nodes:]
        with Processes(folder) as processes:
            for node, (client, route) in enumerate(zip(clients, routes, strict=True), 1):
                path = folder / f"n{node}.conf"
                path.write_text(_configuration(node, folder, client, route, routes, is_synced=is_synced))
                processes.start(f"n{node}", ["nats-server", "-c", str(path)])
            processes.wait_listening(clients)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                servers = [f"nats://{HOST}:{port}" for port in clients]
                subject = NatsSubject(runner, processes, servers, is_synced=is_synced)
                try:
                    yield subject
                finally:
                    subject.close()


def _configuration(node: int, folder: Path, client: int, route: int, routes: list[int], *, is_synced: bool) -> str:
    sync = ", sync_interval: always" if is_synced else ""
    others = ", ".join(f'"nats-route://{HOST}:{port}"' for port in routes)
    cluster = f'cluster {{ name: bench, listen: "{HOST}:{route}", routes: [{others}] }}' if len(routes) > 1 else ""
    return f"""\
server_name: n{node}
listen: "{HOST}:{client}"
jetstream {{ store_dir: "{folder / str(node)}"{sync} }}
{cluster}
"""


class NatsSubject:
    def __init__(self, runner: asyncio.Runner, processes: Processes, servers: list[str], *, is_synced: bool) -> None:
        self.nodes = len(servers)
        self.name = title("nats", self.nodes, is_synced=is_synced)
        self.is_synced = is_synced
        self._runner = runner
        self._processes = processes
        self.servers = servers
        self._numbers = numbers()
        self._connection, self._stream = runner.run(_connect(servers))
        self._subject = self._new_stream()

    def one_by_one(self, payload: bytes, count: int) -> list[float]:
        return self._runner.run(self._one_by_one(payload, count))

    def pipelined(self, payload: bytes, count: int) -> float:
        return self._runner.run(self._pipelined(self._subject, payload, count))

    def replay(self, payload: bytes, count: int) -> float:
        subject = self._new_stream()
        self._runner.run(self._pipelined(subject, payload, count))
        return self._runner.run(self._replay(subject, count))

    def end_to_end(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        subject = self._new_stream()
        return self._runner.run(self._end_to_end(subject, payload_bytes, rate, count, ordered_consumer=True))

    def produce_to_push(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        subject, config = self._new_stream(), _work_queue()
        work = self._end_to_end(subject, payload_bytes, rate, count, durable="workers", manual_ack=True, config=config)
        return self._runner.run(work)

    def apart(self) -> Pair:
        return Pair(_produce_apart, _work_apart, self.servers, self._new_stream())

    def drain(self, payload: bytes, count: int, consumers: int) -> float:
        subject = self._new_stream()
        self._runner.run(self._pipelined(subject, payload, count))
        # One durable consumer, which the workers share.
        self._runner.run(_pull(self._stream, subject))
        return drained(_consume, self.servers, subject, count, consumers)

    def fail_over(self) -> Failover | None:
        if self.nodes == 1:
            return None
        subject = self._new_stream()
        producer = _BlockingProducer(self.servers, subject)
        found = failed_over(
            producer.send,
            lambda: self._runner.run(self._leader(subject)),
            self._processes.kill,
            lambda: self._runner.run(self._read_back(subject)),
        )
        producer.close()
        return found

    def resident_bytes(self) -> list[int]:
        return self._processes.resident_bytes()

    def busy_s(self) -> float:
        return self._processes.busy_s()

    def close(self) -> None:
        self._runner.run(self._connection.close())

    def _new_stream(self) -> str:
        name = f"bench{next(self._numbers)}"
        # A request before the servers have a leader gets no answer: retry soon.
        asking = self._connection.jetstream(timeout=_ASK_S)
        for attempt in retried_until(_STALL_S_MAX, Exception):
            with attempt:
                self._runner.run(asking.add_stream(name=name, subjects=[name], num_replicas=self.nodes))
        # A stream without a known leader does not answer.
        for attempt in retried_until(_STALL_S_MAX, Exception):
            with attempt:
                if self.nodes > 1 and not self._runner.run(self._leader(name)):
                    raise TimeoutError(f"{name} has no leader")
        return name

    async def _one_by_one(self, payload: bytes, count: int) -> list[float]:
        durations = []
        for _ in range(count):
            started = perf_counter()
            await self._stream.publish(self._subject, payload)
            durations.append(perf_counter() - started)
        return durations

    async def _pipelined(self, subject: str, payload: bytes, count: int) -> float:
        async with _Window(self._connection, subject) as window:
            started = perf_counter()
            for _ in range(count):
                await window.publish(payload)
            await window.wait_acknowledged()
            return count / (perf_counter() - started)

    async def _replay(self, subject: str, count: int) -> float:
        started = perf_counter()
        await self._read(subject, count)
        return count / (perf_counter() - started)

    async def _read(self, subject: str, count: int) -> list[bytes]:
        """The first messages of a stream, by the ordered consumer."""
        found: list[bytes] = []
        is_complete = asyncio.get_running_loop().create_future()

        async def receive(message: Any) -> None:
            found.append(message.data)
            if len(found) == count:
                is_complete.set_result(None)

        subscription = await self._stream.subscribe(subject, cb=receive, ordered_consumer=True)
        if count:
            await is_complete
        await subscription.unsubscribe()
        return found

    async def _end_to_end(
        self, subject: str, payload_bytes: int, rate: int, count: int, **consumer: Any
    ) -> list[float]:
        durations: list[float] = []
        is_complete = asyncio.get_running_loop().create_future()

        async def receive(message: Any) -> None:
            durations.append(perf_counter() - sent_at(message.data))
            if "manual_ack" in consumer:
                await message.ack()
            if len(durations) == count:
                is_complete.set_result(None)

        subscription = await self._stream.subscribe(subject, cb=receive, **consumer)
        async with _Window(self._connection, subject) as window:
            started = perf_counter()
            for number in range(count):
                due = started + number / rate
                while perf_counter() < due:
                    await asyncio.sleep(_TURN_S)
                await window.publish(stamped(due, payload_bytes))
            await window.wait_acknowledged()
        await is_complete
        await subscription.unsubscribe()
        return durations

    async def _leader(self, subject: str) -> str:
        leader: str = (await self._stream.stream_info(subject)).cluster.leader
        return leader

    async def _read_back(self, subject: str) -> list[bytes]:
        for attempt in retried_until(_STALL_S_MAX, Exception):
            with attempt:
                count = (await self._stream.stream_info(subject)).state.messages
        return await self._read(subject, count)


class _Window:
    """Publishes with a bounded number of acknowledgements outstanding.

    The client's own `publish_async` makes a task for each message and is several times slower.
    """

    def __init__(self, connection: Any, subject: str) -> None:
        self._connection = connection
        self._subject = subject
        self._inbox: str = connection.new_inbox()
        self._subscription: Any = None
        self._sent = 0
        self._acknowledged = 0
        self._refusal = b""
        self._progress = asyncio.Event()

    async def __aenter__(self) -> "_Window":
        self._subscription = await self._connection.subscribe(self._inbox, cb=self._answered)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._subscription.unsubscribe()

    async def publish(self, payload: bytes) -> None:
        if self._sent - self._acknowledged >= _PENDING_MAX:
            await self._wait(_PENDING_MAX // 2)
        self._sent += 1
        await self._connection.publish(self._subject, payload, self._inbox)

    async def wait_acknowledged(self) -> None:
        await self._wait(0)

    async def _wait(self, pending_max: int) -> None:
        while self._sent - self._acknowledged > pending_max:
            self._progress.clear()
            await asyncio.wait_for(self._progress.wait(), _STALL_S_MAX)
            if self._refusal:
                raise RuntimeError(f"a message was not stored: {self._refusal!r}")

    async def _answered(self, message: Any) -> None:
        if not message.data or b'"error"' in message.data:
            self._refusal = message.data or b"nobody answers"
        self._acknowledged += 1
        self._progress.set()


class _BlockingProducer:
    """For a thread: a connection and a loop of its own, opened by the first message."""

    def __init__(self, servers: list[str], subject: str) -> None:
        self._servers = servers
        self._subject = subject
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._connection: Any = None
        self._stream: Any = None

    def send(self, payload: bytes) -> None:
        if self._connection is None:
            self._connection, self._stream = self._runner.run(_connect(self._servers))
        self._runner.run(self._stream.publish(self._subject, payload, timeout=_PROMPT_S))

    def close(self) -> None:
        if self._connection is not None:
            self._runner.run(self._connection.close())
        self._runner.close()


def _produce_apart(servers: list[str], subject: str, turns: Turns) -> None:
    async def run() -> None:
        connection, stream = await _connect(servers)
        async with _Window(connection, subject) as window:
            for turn in turns:
                async for payload in turn.payloads_on_loop():
                    if turn.is_paced:
                        await window.publish(payload)
                    else:
                        await stream.publish(subject, payload)
                await window.wait_acknowledged()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def _work_apart(servers: list[str], subject: str, arrivals: Arrivals) -> None:
    """A push consumer, as in `produce_to_push`: its acknowledgements are not confirmed."""

    async def receive(message: Any) -> None:
        arrivals.note(message.data)
        await message.ack()

    async def run() -> None:
        _, stream = await _connect(servers)
        await stream.subscribe(subject, cb=receive, durable="workers", manual_ack=True, config=_work_queue())
        arrivals.begin()
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def _consume(servers: list[str], subject: str, tally: Tally) -> None:
    """One worker of a drain: every message is acknowledged by itself."""

    async def run() -> None:
        connection, stream = await _connect(servers)
        subscription = await _pull(stream, subject)
        tally.begin()
        while not tally.is_done:
            try:
                messages = await subscription.fetch(_FETCH, timeout=1)
            except TimeoutError:
                continue
            for message in messages:
                await message.ack()
            await connection.flush()
            tally.add(len(messages))
        await connection.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def _pull(stream: Any, subject: str) -> Any:
    return await stream.pull_subscribe(subject, durable="workers", config=_work_queue())


def _work_queue() -> Any:
    from nats.js.api import ConsumerConfig

    return ConsumerConfig(max_ack_pending=_UNACKNOWLEDGED_MAX)


async def _connect(servers: list[str]) -> tuple[Any, Any]:
    import nats

    async def ignore(error: Exception) -> None:
        """A lost connection is expected when a node is killed, and calls raise what concerns them."""

    connection = await nats.connect(servers, reconnect_time_wait=0.05, max_reconnect_attempts=-1, error_cb=ignore)
    return connection, connection.jetstream(timeout=_STALL_S_MAX)
