"""Redis Streams on one node, by redis-py: `default` syncs once a second, `fsync` before each answer.

Always one node: Redis does not wait for replicas, so no majority confirms anything.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as numbers
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.peers.apart import Arrivals, Pair, Turns
from bench.peers.draining import Tally, drained
from bench.peers.pacing import paced
from bench.peers.peer import HOST, free_ports, not_found, title, version_of
from bench.peers.processes import Processes
from bench.subject import Failover

_PIPELINE = 1_000
_READ_COUNT = 1_000
_BLOCK_MS = 1_000
_GROUP = "workers"


class RedisPeer:
    product = "redis"
    settings: tuple[bool, ...] = (False, True)

    def missing(self) -> str:
        return not_found(["redis-server"], ["redis"])

    def version(self) -> str:
        return version_of("redis-server", "--version")

    @contextmanager
    def started(self, folder: Path, *, nodes: int, is_synced: bool) -> Iterator["RedisSubject"]:
        (port,) = free_ports(1)
        policy = "always" if is_synced else "everysec"
        options = {"--bind": HOST, "--port": str(port), "--dir": str(folder), "--save": ""}
        options |= {"--appendonly": "yes", "--appendfsync": policy}
        with Processes(folder) as processes:
            processes.start("redis", ["redis-server", *(word for pair in options.items() for word in pair)])
            processes.wait_listening([port])
            yield RedisSubject(processes, port, is_synced=is_synced)


class RedisSubject:
    nodes = 1

    def __init__(self, processes: Processes, port: int, *, is_synced: bool) -> None:
        import redis

        self.name = title("redis", 1, is_synced=is_synced)
        self.is_synced = is_synced
        self._processes = processes
        self._port = port
        self._client: Any = redis.Redis(HOST, port)
        self._reading: Any = redis.Redis(HOST, port)
        self._numbers = numbers()
        self._stream = self._new_stream()

    def one_by_one(self, payload: bytes, count: int) -> list[float]:
        durations = []
        for _ in range(count):
            started = perf_counter()
            self._client.xadd(self._stream, {"d": payload})
            durations.append(perf_counter() - started)
        return durations

    def pipelined(self, payload: bytes, count: int) -> float:
        return self._fill(self._stream, payload, count)

    def replay(self, payload: bytes, count: int) -> float:
        stream = self._new_stream()
        self._fill(stream, payload, count)
        read, last = 0, b"0"
        started = perf_counter()
        while read < count:
            ((_, messages),) = _streams(self._client.xread({stream: last}, count=_READ_COUNT))
            last = messages[-1][0]
            read += len(messages)
        return read / (perf_counter() - started)

    def end_to_end(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        stream, last = self._new_stream(), b"0"

        def receive() -> list[bytes]:
            nonlocal last
            found = _streams(self._reading.xread({stream: last}, count=_READ_COUNT, block=_BLOCK_MS))
            if not found:
                return []
            ((_, messages),) = found
            last = messages[-1][0]
            return [fields[b"d"] for _, fields in messages]

        return paced(payload_bytes, rate, count, lambda payloads: self._add(stream, payloads), receive)

    def produce_to_push(self, payload_bytes: int, rate: int, count: int) -> None:
        """Reading with a group is not measured: a single node is not in the ratio."""

    def apart(self) -> Pair:
        stream = self._new_stream()
        self._client.xgroup_create(stream, _GROUP, id="0", mkstream=True)
        return Pair(_produce_apart, _work_apart, self._port, stream)

    def drain(self, payload: bytes, count: int, consumers: int) -> float | None:
        stream = self._new_stream()
        self._fill(stream, payload, count)
        self._client.xgroup_create(stream, _GROUP, id="0")
        return drained(_consume, self._port, stream, count, consumers)

    def fail_over(self) -> Failover | None:
        return None

    def resident_bytes(self) -> list[int]:
        return self._processes.resident_bytes()

    def busy_s(self) -> float:
        return self._processes.busy_s()

    def _fill(self, stream: str, payload: bytes, count: int) -> float:
        started = perf_counter()
        for first in range(0, count, _PIPELINE):
            self._add(stream, [payload] * min(_PIPELINE, count - first))
        return count / (perf_counter() - started)

    def _add(self, stream: str, payloads: list[bytes]) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for payload in payloads:
                pipeline.xadd(stream, {"d": payload})
            pipeline.execute()

    def _new_stream(self) -> str:
        return f"bench{next(self._numbers)}"


def _streams(answer: Any) -> list[tuple[bytes, Any]]:
    """Streams with their messages. The protocol's third version answers with a table, the second with pairs."""
    return [(name, messages[0]) for name, messages in answer.items()] if isinstance(answer, dict) else list(answer)


def _produce_apart(port: int, stream: str, turns: Turns) -> None:
    import redis

    client: Any = redis.Redis(HOST, port)
    for turn in turns:
        for payload in turn.payloads():
            client.xadd(stream, {"d": payload})


def _work_apart(port: int, stream: str, arrivals: Arrivals) -> None:
    import redis

    client: Any = redis.Redis(HOST, port)
    client.ping()
    arrivals.begin()
    while True:
        found = client.xreadgroup(_GROUP, "worker", {stream: ">"}, count=_READ_COUNT, block=_BLOCK_MS)
        for _, messages in _streams(found):
            for number, fields in messages:
                arrivals.note(fields[b"d"])
                client.xack(stream, _GROUP, number)


def _consume(port: int, stream: str, tally: Tally) -> None:
    """One worker of a drain: it acknowledges each batch."""
    import redis

    client: Any = redis.Redis(HOST, port)
    client.ping()
    tally.begin()
    while not tally.is_done:
        found = _streams(client.xreadgroup(_GROUP, str(os.getpid()), {stream: ">"}, count=_READ_COUNT, block=50))
        for _, messages in found:
            client.xack(stream, _GROUP, *(number for number, _ in messages))
            tally.add(len(messages))
    client.close()
