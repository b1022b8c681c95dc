"""Flotilla as a contestant: the subject of `bench.broker`, and the workloads of the contest alone."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import flotilla
from bench.broker.flotilla import FlotillaSubject
from bench.peers.apart import Arrivals, Pair, Turns
from bench.peers.draining import Tally, drained
from bench.peers.processes import busy_s, resident_bytes
from bench.peers.steady import failed_over
from bench.subject import Failover
from flotilla.cli.local_cluster import LocalCluster
from flotilla.client.client import Client
from flotilla.types.ids import NO_NODE

PRODUCT = "flotilla"
_READ_COUNT = 10_000
_LEASED_TOGETHER = 1_000
_LEASE_WAIT_MS = 50
_LEADER_S_MAX = 30.0
_POLL_S = 0.02


class FlotillaPeer:
    """Flotilla has no setting without a sync."""

    product = PRODUCT
    settings: tuple[bool, ...] = (True,)

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return flotilla.__version__

    @contextmanager
    def started(self, folder: Path, *, nodes: int, is_synced: bool) -> Iterator["FlotillaContestant"]:
        assert is_synced
        with LocalCluster.on_free_ports(folder, node_count=nodes) as cluster:
            cluster.start()
            cluster.wait_ready()
            with Client(cluster.servers) as client:
                yield FlotillaContestant(cluster, client)


class FlotillaContestant(FlotillaSubject):
    def __init__(self, cluster: LocalCluster, client: Client) -> None:
        super().__init__(cluster.servers, client)
        self.nodes = len(cluster.nodes)
        self.name = f"{PRODUCT}@{self.nodes}"
        self.cluster = cluster
        self.client = client

    def apart(self) -> Pair:
        return Pair(_produce_apart, _work_apart, self.cluster.servers, self.new_topic())

    def drain(self, payload: bytes, count: int, consumers: int) -> float | None:
        topic = self.new_topic()
        self.client.produce_many(topic, [payload] * count)
        return drained(_consume, self.cluster.servers, topic, count, consumers)

    def fail_over(self) -> Failover | None:
        if self.nodes == 1:
            return None
        topic = self.new_topic()
        return failed_over(
            lambda payload: self.client.produce(topic, payload),
            lambda: self.leader(topic),
            lambda node: self.cluster.nodes[int(node)].kill(),
            lambda: self.read_back(topic),
        )

    def resident_bytes(self) -> list[int]:
        return [resident_bytes(node.pid) for node in self.cluster.running]

    def busy_s(self) -> float:
        return sum(busy_s(node.pid) for node in self.cluster.running)

    def new_topic(self) -> str:
        return self._new_topic()

    def leader(self, topic: str) -> str:
        deadline = time.monotonic() + _LEADER_S_MAX
        while (leader := self.client.admin.metadata([topic]).topics[0].partitions[0].leader) == NO_NODE:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} has no leader")
            time.sleep(_POLL_S)
        return str(leader)

    def read_back(self, topic: str) -> Iterator[bytes]:
        end = self.client.find_offset(topic, 0, "latest")
        with self.client.reader(topic, offset="earliest") as consumer:
            while consumer.positions()[0] < end:
                yield from (message.payload for message in consumer.poll(_READ_COUNT))


def _produce_apart(servers: list[str], topic: str, turns: Turns) -> None:
    """With default options; one message at a time by the call that waits for its receipt."""
    with Client(servers) as client, client.producer(topic) as producer:
        client.admin.metadata([topic])
        for turn in turns:
            for payload in turn.payloads():
                if turn.is_paced:
                    producer.send(payload)
                else:
                    client.produce(topic, payload)
            producer.flush()


def _work_apart(servers: list[str], topic: str, arrivals: Arrivals) -> None:
    with Client(servers) as client, client.queue(topic, group="workers") as consumer:
        client.admin.metadata([topic])
        arrivals.begin()
        for message in consumer:
            arrivals.note(message.payload)
            message.ack(wait=False)


def _consume(servers: list[str], topic: str, tally: Tally) -> None:
    """One worker of a drain: it acknowledges each batch, and waits until a majority has that on disk."""
    with Client(servers) as client, client.queue(topic, group="workers") as consumer:
        client.admin.metadata([topic])
        tally.begin()
        while not tally.is_done:
            messages = consumer.poll(_LEASED_TOGETHER, wait_ms=_LEASE_WAIT_MS)
            if messages:
                consumer.ack(messages)
                tally.add(len(messages))
