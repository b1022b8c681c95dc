"""Kafka in KRaft mode: a topic with as many replicas as nodes, by confluent-kafka, acks=all.

By default it acknowledges from the page cache of all replicas in sync; `log.flush.interval.messages=1` makes each of
them sync first.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as numbers
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.peers.apart import Arrivals, Pair, Turns
from bench.peers.draining import Tally, drained
from bench.peers.pacing import paced
from bench.peers.peer import HOST, free_ports, not_found, retried_until, title, version_of
from bench.peers.processes import Processes
from bench.peers.steady import failed_over
from bench.subject import Failover

_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_WAIT_S_MAX = 60.0
_POLL_COUNT = 10_000
_POLL_S = 1.0
_COMMITTED_TOGETHER = 1_000
_WARM_UP = 20_000
#: Killed brokers are not logged, and small messages are not batched.
_SHARED = {"log_level": 0, "socket.nagle.disable": True}
#: For latency: no batching delay, and a quick search for a new leader.
_PROMPT = {"linger.ms": 0, "retry.backoff.ms": 50, "topic.metadata.refresh.fast.interval.ms": 50}


class KafkaPeer:
    product = "kafka"
    settings: tuple[bool, ...] = (False, True)

    def missing(self) -> str:
        return not_found(["kafka-server-start.sh", "kafka-storage.sh"], ["confluent_kafka"])

    def version(self) -> str:
        return version_of("kafka-server-start.sh", "--version")

    @contextmanager
    def started(self, folder: Path, *, nodes: int, is_synced: bool) -> Iterator["KafkaSubject"]:
        ports = free_ports(2 * nodes)
        clients, controllers = ports[:nodes], ports[nodes:]
        voters = ",".join(f"{node}@{HOST}:{port}" for node, port in enumerate(controllers, 1))
        with Processes(folder) as processes:
            for node, (client, controller) in enumerate(zip(clients, controllers, strict=True), 1):
                path = folder / f"{node}.properties"
                path.write_text(_properties(node, folder, client, controller, voters, is_synced=is_synced))
                format_command = ["kafka-storage.sh", "format", "-t", _CLUSTER_ID, "-c", str(path)]
                subprocess.run(format_command, check=True, stdout=subprocess.DEVNULL)
            for node in range(1, nodes + 1):
                processes.start(str(node), ["kafka-server-start.sh", str(folder / f"{node}.properties")])
            processes.wait_listening(clients)
            yield KafkaSubject(processes, [f"{HOST}:{port}" for port in clients], is_synced=is_synced)


def _properties(node: int, folder: Path, client: int, controller: int, voters: str, *, is_synced: bool) -> str:
    sync = "log.flush.interval.messages=1" if is_synced else ""
    nodes = voters.count("@")
    return f"""\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{HOST}:{client},CONTROLLER://{HOST}:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder / f"data{node}"}
min.insync.replicas={nodes // 2 + 1}
offsets.topic.replication.factor={nodes}
group.initial.rebalance.delay.ms=0
{sync}
"""


class KafkaSubject:
    def __init__(self, processes: Processes, servers: list[str], *, is_synced: bool) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.nodes = len(servers)
        self.name = title("kafka", self.nodes, is_synced=is_synced)
        self.is_synced = is_synced
        self._processes = processes
        self._servers = ",".join(servers)
        self._numbers = numbers()
        self._admin: Any = AdminClient({"bootstrap.servers": self._servers, **_SHARED})
        options = _producer_options(self._servers)
        self._producer: Any = Producer({**options, "queue.buffering.max.messages": 1_000_000})
        self._prompt: Any = Producer({**options, **_PROMPT})
        self._topic = self._new_topic()
        # The JVM is slow until it has compiled the code.
        self._fill(self._topic, bytes(100), _WARM_UP)
        self.one_by_one(bytes(100), _WARM_UP // 100)

    def one_by_one(self, payload: bytes, count: int) -> list[float]:
        durations = []
        for _ in range(count):
            started = perf_counter()
            self._send(self._topic, payload)
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
            # It waits for as many as it is asked for.
            read += len(consumer.consume(min(_POLL_COUNT, count - read), timeout=_POLL_S))
        elapsed_s = perf_counter() - started
        consumer.close()
        return read / elapsed_s

    def end_to_end(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        topic = self._new_topic()
        consumer = self._consumer(topic)
        # With a sync for each batch, batches of one cannot keep up the rate.
        producer = self._producer if self.is_synced else self._prompt

        def send(payloads: list[bytes]) -> None:
            for payload in payloads:
                producer.produce(topic, payload, on_delivery=_check)
            producer.poll(0)

        def receive() -> list[bytes]:
            message = consumer.poll(_POLL_S)
            return [] if message is None or message.error() else [message.value()]

        # The first message of a topic waits until both clients have found the leader.
        send([bytes(payload_bytes)])
        while not receive():
            producer.poll(0)
        try:
            return paced(payload_bytes, rate, count, send, receive)
        finally:
            producer.flush()
            consumer.close()

    def produce_to_push(self, payload_bytes: int, rate: int, count: int) -> None:
        """Its consumers commit positions and cannot acknowledge single messages."""

    def apart(self) -> Pair:
        return Pair(_produce_apart, _work_apart, (self._servers, self.is_synced), self._new_topic())

    def drain(self, payload: bytes, count: int, consumers: int) -> float | None:
        """One partition for each consumer: two of a group never share one."""
        topic = self._new_topic(partitions=consumers)
        self._fill(topic, payload, count, partitions=consumers)
        return drained(_consume, self._servers, topic, count, consumers)

    def fail_over(self) -> Failover | None:
        if self.nodes == 1:
            return None
        topic = self._new_topic()
        return failed_over(
            lambda payload: self._send(topic, payload),
            lambda: self._leader(topic),
            self._processes.kill,
            lambda: self._read_back(topic),
        )

    def resident_bytes(self) -> list[int]:
        return self._processes.resident_bytes()

    def busy_s(self) -> float:
        return self._processes.busy_s()

    def _send(self, topic: str, payload: bytes) -> None:
        outcomes: list[object] = []
        self._prompt.produce(topic, payload, on_delivery=lambda error, _: outcomes.append(error))
        while not outcomes:
            self._prompt.poll(_POLL_S)
        _check(outcomes[0], None)

    def _leader(self, topic: str) -> str:
        return str(self._admin.list_topics(topic, timeout=_WAIT_S_MAX).topics[topic].partitions[0].leader)

    def _read_back(self, topic: str) -> list[bytes]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer(topic)
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_WAIT_S_MAX)
        found: list[bytes] = []
        while consumer.position([TopicPartition(topic, 0)])[0].offset < end:
            found += [message.value() for message in consumer.consume(_POLL_COUNT, _POLL_S) if not message.error()]
        consumer.close()
        return found

    def _fill(self, topic: str, payload: bytes, count: int, partitions: int = 1) -> float:
        started = perf_counter()
        for number in range(count):
            while True:
                try:
                    self._producer.produce(topic, payload, partition=number % partitions, on_delivery=_check)
                    break
                except BufferError:
                    self._producer.poll(0.01)
            self._producer.poll(0)
        self._producer.flush()
        return count / (perf_counter() - started)

    def _consumer(self, topic: str) -> Any:
        from confluent_kafka import TopicPartition

        consumer = _new_consumer(self._servers)
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer

    def _new_topic(self, partitions: int = 1) -> str:
        from confluent_kafka.admin import NewTopic

        for attempt in retried_until(_WAIT_S_MAX, Exception):
            with attempt:
                # Refused until as many brokers as replicas have registered. A new name each time: one whose answer was
                # lost may be there.
                name = f"bench{next(self._numbers)}"
                made = self._admin.create_topics([NewTopic(name, partitions, self.nodes)])
                made[name].result(_WAIT_S_MAX)
        return name


def _new_consumer(servers: str) -> Any:
    from confluent_kafka import Consumer

    options = {"group.id": "bench", "enable.auto.commit": False, "auto.offset.reset": "earliest", **_SHARED}
    return Consumer({"bootstrap.servers": servers, **options})


def _producer_options(servers: str) -> dict[str, Any]:
    return {"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True, **_SHARED}


def _produce_apart(address: tuple[str, bool], topic: str, turns: Turns) -> None:
    from confluent_kafka import Producer

    servers, is_synced = address
    prompt: Any = Producer({**_producer_options(servers), **_PROMPT})
    # As in `end_to_end`.
    batching: Any = Producer(_producer_options(servers)) if is_synced else prompt
    for turn in turns:
        producer = batching if turn.is_paced else prompt
        for payload in turn.payloads():
            producer.produce(topic, payload, on_delivery=_check)
            if turn.is_paced:
                producer.poll(0)
            else:
                producer.flush()
        producer.flush()


def _work_apart(address: tuple[str, bool], topic: str, arrivals: Arrivals) -> None:
    """It cannot acknowledge a message; its position is committed after each, without waiting."""
    from confluent_kafka import TopicPartition

    consumer = _new_consumer(address[0])
    consumer.assign([TopicPartition(topic, 0, 0)])
    arrivals.begin()
    while True:
        message = consumer.poll(_POLL_S)
        if message is not None and message.error() is None:
            arrivals.note(message.value())
            consumer.commit(message, asynchronous=True)


def _consume(servers: str, topic: str, tally: Tally) -> None:
    """One worker of a drain: it has a partition to itself, and its position is committed after each batch."""
    from confluent_kafka import TopicPartition

    consumer = _new_consumer(servers)
    consumer.assign([TopicPartition(topic, tally.take_ordinal(), 0)])
    consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_WAIT_S_MAX)
    tally.begin()
    while not tally.is_done:
        batch = [message for message in consumer.consume(_COMMITTED_TOGETHER, 0.05) if message.error() is None]
        if batch:
            consumer.commit(batch[-1], asynchronous=False)
            tally.add(len(batch))
    consumer.close()


def _check(error: object, message: object) -> None:
    if error is not None:
        raise RuntimeError(f"a record was not stored: {error}")
