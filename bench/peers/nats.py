"""NATS JetStream: a stream with three replicas, by nats-py."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as numbers
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.peers.pacing import sent_at, stamped
from bench.peers.peer import HOST, NODES, Processes, free_ports, not_found, retried_until

_PENDING_MAX = 4_000
_STALL_S_MAX = 30
_TURN_S = 0.001


class NatsPeer:
    product = "nats"
    settings: tuple[bool, ...] = (False, True)

    def missing(self) -> str:
        return not_found(["nats-server"], ["nats"])

    @contextmanager
    def started(self, folder: Path, *, is_synced: bool) -> Iterator["NatsSubject"]:
        ports = free_ports(2 * len(NODES))
        clients, routes = ports[: len(NODES)], ports[len(NODES) :]
        with Processes(folder) as processes:
            for node, client, route in zip(NODES, clients, routes, strict=True):
                path = folder / f"{node}.conf"
                path.write_text(_configuration(node, folder, client, route, routes, is_synced=is_synced))
                processes.start(f"nats{node}", ["nats-server", "-c", str(path)])
            processes.wait_listening(clients)
            with asyncio.Runner() as runner:
                subject = NatsSubject(runner, [f"nats://{HOST}:{port}" for port in clients], is_synced=is_synced)
                try:
                    yield subject
                finally:
                    subject.close()


def _configuration(node: int, folder: Path, client: int, route: int, routes: list[int], *, is_synced: bool) -> str:
    sync = "sync_interval: always" if is_synced else ""
    others = ", ".join(f'"nats-route://{HOST}:{port}"' for port in routes)
    return f"""\
server_name: n{node}
listen: "{HOST}:{client}"
jetstream {{ store_dir: "{folder / str(node)}" {sync} }}
cluster {{ name: bench, listen: "{HOST}:{route}", routes: [{others}] }}
"""


class NatsSubject:
    def __init__(self, runner: asyncio.Runner, servers: list[str], *, is_synced: bool) -> None:
        self.name = f"nats:{'fsync' if is_synced else 'default'}@3"
        self.is_synced = is_synced
        self._runner = runner
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
        return self._runner.run(self._end_to_end(self._new_stream(), payload_bytes, rate, count))

    def close(self) -> None:
        self._runner.run(self._connection.close())

    def _new_stream(self) -> str:
        name = f"bench{next(self._numbers)}"
        for attempt in retried_until(_STALL_S_MAX, Exception):
            with attempt:
                self._runner.run(self._stream.add_stream(name=name, subjects=[name], num_replicas=3))
        return name

    async def _one_by_one(self, payload: bytes, count: int) -> list[float]:
        durations = []
        for _ in range(count):
            started = perf_counter()
            await self._stream.publish(self._subject, payload)
            durations.append(perf_counter() - started)
        return durations

    async def _pipelined(self, subject: str, payload: bytes, count: int) -> float:
        started = perf_counter()
        sent = [await self._stream.publish_async(subject, payload, wait_stall=_STALL_S_MAX) for _ in range(count)]
        await asyncio.gather(*sent)
        return count / (perf_counter() - started)

    async def _replay(self, subject: str, count: int) -> float:
        started = perf_counter()
        subscription = await self._stream.subscribe(subject, ordered_consumer=True)
        for _ in range(count):
            await subscription.next_msg(timeout=_STALL_S_MAX)
        elapsed_s = perf_counter() - started
        await subscription.unsubscribe()
        return count / elapsed_s

    async def _end_to_end(self, subject: str, payload_bytes: int, rate: int, count: int) -> list[float]:
        subscription = await self._stream.subscribe(subject, ordered_consumer=True)
        sending = asyncio.create_task(self._send(subject, payload_bytes, rate, count))
        durations = []
        for _ in range(count):
            message = await subscription.next_msg(timeout=_STALL_S_MAX)
            durations.append(perf_counter() - sent_at(message.data))
        await sending
        await subscription.unsubscribe()
        return durations

    async def _send(self, subject: str, payload_bytes: int, rate: int, count: int) -> None:
        started = perf_counter()
        sent = []
        for number in range(count):
            due = started + number / rate
            while perf_counter() < due:
                await asyncio.sleep(_TURN_S)
            sent.append(await self._stream.publish_async(subject, stamped(due, payload_bytes), wait_stall=_STALL_S_MAX))
        await asyncio.gather(*sent)


async def _connect(servers: list[str]) -> tuple[Any, Any]:
    import nats

    connection = await nats.connect(servers)
    return connection, connection.jetstream(publish_async_max_pending=_PENDING_MAX)
