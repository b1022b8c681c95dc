"""Flotilla as a subject: three real brokers and one client process."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as numbers
from pathlib import Path

from flotilla.cli.bench import workloads
from flotilla.cli.local_cluster import LocalCluster
from flotilla.client.client import Client

#: Records of one call that fills a backlog.
_BACKLOG_STEP = 100_000
_WARM_UP = 2_000


class FlotillaSubject:
    name = "flotilla@3"
    is_synced = True

    def __init__(self, servers: list[str], client: Client) -> None:
        self._servers = servers
        self._client = client
        self._numbers = numbers()
        self._backlogs: dict[tuple[int, int], str] = {}
        self._topic = self._new_topic()
        client.produce_many(self._topic, [bytes(100)] * _WARM_UP)

    def one_by_one(self, payload: bytes, count: int) -> list[float]:
        return workloads.produce_one_by_one(self._client, self._topic, payload, count)

    def pipelined(self, payload: bytes, count: int) -> float:
        return workloads.produce_pipelined(self._client, self._topic, payload, count)

    def in_bulk(self, payload: bytes, count: int) -> float:
        """As `pipelined`, with the call that takes all records at once."""
        return workloads.produce_in_bulk(self._client, self._topic, payload, count)

    def replay(self, payload: bytes, count: int) -> float:
        return workloads.replay(self._client, self._backlog(payload, count), count)

    def end_to_end(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        return workloads.end_to_end(self._servers, self._new_topic(), payload_bytes, rate, count)

    def produce_to_push(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        return workloads.produce_to_push(self._servers, self._new_topic(), payload_bytes, rate, count)

    def _backlog(self, payload: bytes, count: int) -> str:
        """A topic with that many records; the same one for the same count."""
        key = (len(payload), count)
        if key not in self._backlogs:
            topic = self._backlogs[key] = self._new_topic()
            for first in range(0, count, _BACKLOG_STEP):
                self._client.produce_many(topic, [payload] * min(_BACKLOG_STEP, count - first))
        return self._backlogs[key]

    def _new_topic(self) -> str:
        """One partition, like one queue or stream of a peer."""
        name = f"bench-{next(self._numbers)}"
        self._client.create_topic(name, partitions=1)
        return name


@contextmanager
def started_cluster(folder: Path) -> Iterator[LocalCluster]:
    with LocalCluster.on_free_ports(folder) as cluster:
        cluster.start()
        cluster.wait_ready()
        yield cluster


@contextmanager
def started(folder: Path) -> Iterator[FlotillaSubject]:
    with started_cluster(folder) as cluster, Client(cluster.servers) as client:
        yield FlotillaSubject(cluster.servers, client)
