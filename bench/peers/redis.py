"""Redis Streams on one node, by redis-py: `default` syncs once a second, `fsync` before each answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as numbers
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.peers.pacing import paced
from bench.peers.peer import HOST, Processes, free_ports, not_found

_PIPELINE = 1_000
_READ_COUNT = 1_000
_BLOCK_MS = 1_000


class RedisPeer:
    product = "redis"
    settings: tuple[bool, ...] = (False, True)

    def missing(self) -> str:
        return not_found(["redis-server"], ["redis"])

    @contextmanager
    def started(self, folder: Path, *, is_synced: bool) -> Iterator["RedisSubject"]:
        (port,) = free_ports(1)
        policy = "always" if is_synced else "everysec"
        options = {"--bind": HOST, "--port": str(port), "--dir": str(folder), "--save": ""}
        options |= {"--appendonly": "yes", "--appendfsync": policy}
        with Processes(folder) as processes:
            processes.start("redis", ["redis-server", *(word for pair in options.items() for word in pair)])
            processes.wait_listening([port])
            yield RedisSubject(port, is_synced=is_synced)


class RedisSubject:
    #: One node is no majority, so it stands in the table but not in the contest.
    is_synced = False

    def __init__(self, port: int, *, is_synced: bool) -> None:
        import redis

        self.name = f"redis:{'fsync' if is_synced else 'default'}@1"
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
            ((_, messages),) = self._client.xread({stream: last}, count=_READ_COUNT)
            last = messages[-1][0]
            read += len(messages)
        return read / (perf_counter() - started)

    def end_to_end(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        stream, last = self._new_stream(), b"0"

        def receive() -> list[bytes]:
            nonlocal last
            found = self._reading.xread({stream: last}, count=_READ_COUNT, block=_BLOCK_MS)
            if not found:
                return []
            ((_, messages),) = found
            last = messages[-1][0]
            return [fields[b"d"] for _, fields in messages]

        return paced(payload_bytes, rate, count, lambda payload: self._client.xadd(stream, {"d": payload}), receive)

    def _fill(self, stream: str, payload: bytes, count: int) -> float:
        started = perf_counter()
        for first in range(0, count, _PIPELINE):
            with self._client.pipeline(transaction=False) as pipeline:
                for _ in range(min(_PIPELINE, count - first)):
                    pipeline.xadd(stream, {"d": payload})
                pipeline.execute()
        return count / (perf_counter() - started)

    def _new_stream(self) -> str:
        return f"bench{next(self._numbers)}"
