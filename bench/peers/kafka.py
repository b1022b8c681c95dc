"""Kafka: three brokers in KRaft mode and a topic with three replicas, by confluent-kafka, acks=all."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as numbers
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.peers.pacing import paced
from bench.peers.peer import HOST, NODES, Processes, free_ports, not_found

_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_WAIT_S_MAX = 60.0
_POLL_COUNT = 10_000
_POLL_S = 1.0


class KafkaPeer:
    product = "kafka"
    settings: tuple[bool, ...] = (False, True)

    def missing(self) -> str:
        return not_found(["kafka-server-start.sh", "kafka-storage.sh"], ["confluent_kafka"])

    @contextmanager
    def started(self, folder: Path, *, is_synced: bool) -> Iterator["KafkaSubject"]:
        ports = free_ports(2 * len(NODES))
        clients, controllers = ports[: len(NODES)], ports[len(NODES) :]
        voters = ",".join(f"{node}@{HOST}:{port}" for node, port in zip(NODES, controllers, strict=True))
        with Processes(folder) as processes:
            for node, client, controller in zip(NODES, clients, controllers, strict=True):
                path = folder / f"{node}.properties"
                path.write_text(_properties(node, folder, client, controller, voters, is_synced=is_synced))
                format_command = ["kafka-storage.sh", "format", "-t", _CLUSTER_ID, "-c", str(path)]
                subprocess.run(format_command, check=True, stdout=subprocess.DEVNULL)
                processes.start(f"kafka{node}", ["kafka-server-start.sh", str(path)])
            processes.wait_listening(clients)
            yield KafkaSubject(",".join(f"{HOST}:{port}" for port in clients), is_synced=is_synced)


def _properties(node: int, folder: Path, client: int, controller: int, voters: str, *, is_synced: bool) -> str:
    sync = "log.flush.interval.messages=1" if is_synced else ""
    return f"""\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{HOST}:{client},CONTROLLER://{HOST}:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder / str(node)}
min.insync.replicas=2
offsets.topic.replication.factor=3
{sync}
"""


class KafkaSubject:
    def __init__(self, servers: str, *, is_synced: bool) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.name = f"kafka:{'fsync' if is_synced else 'default'}@3"
        self.is_synced = is_synced
        self._servers = servers
        self._numbers = numbers()
        self._admin: Any = AdminClient({"bootstrap.servers": servers})
        options = {"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True}
        self._producer: Any = Producer({**options, "queue.buffering.max.messages": 1_000_000})
        #: As latency wants it: nothing waits for company.
        self._prompt: Any = Producer({**options, "linger.ms": 0})
        self._topic = self._new_topic()

    def one_by_one(self, payload: bytes, count: int) -> list[float]:
        durations = []
        for _ in range(count):
            started = perf_counter()
            self._prompt.produce(self._topic, payload, on_delivery=_check)
            self._prompt.flush()
            durations.append(perf_counter() - started)
        return durations

    def pipelined(self, payload: bytes, count: int) -> float:
        return self._fill(self._topic, payload, count)

    def replay(self, payload: bytes, count: int) -> float:
        topic = self._new_topic()
        self._fill(topic, payload, count)
        consumer = self._consumer(topic)
        read = 0
        started = perf_counter()
        while read < count:
            read += len(consumer.consume(_POLL_COUNT, timeout=_POLL_S))
        elapsed_s = perf_counter() - started
        consumer.close()
        return read / elapsed_s

    def end_to_end(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        topic = self._new_topic()
        consumer = self._consumer(topic)

        def send(payload: bytes) -> None:
            self._prompt.produce(topic, payload, on_delivery=_check)
            self._prompt.poll(0)

        def receive() -> list[bytes]:
            message = consumer.poll(_POLL_S)
            return [] if message is None or message.error() else [message.value()]

        try:
            return paced(payload_bytes, rate, count, send, receive)
        finally:
            self._prompt.flush()
            consumer.close()

    def _fill(self, topic: str, payload: bytes, count: int) -> float:
        started = perf_counter()
        for _ in range(count):
            while True:
                try:
                    self._producer.produce(topic, payload, on_delivery=_check)
                    break
                except BufferError:
                    self._producer.poll(0.01)
            self._producer.poll(0)
        self._producer.flush()
        return count / (perf_counter() - started)

    def _consumer(self, topic: str) -> Any:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "bench", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer

    def _new_topic(self) -> str:
        from confluent_kafka.admin import NewTopic

        name = f"bench{next(self._numbers)}"
        made = self._admin.create_topics([NewTopic(name, 1, 3)], operation_timeout=_WAIT_S_MAX)
        made[name].result(_WAIT_S_MAX)
        return name


def _check(error: object, message: object) -> None:
    if error is not None:
        raise RuntimeError(f"a record was not stored: {error}")
