"""Producers, consumers and an operator of a queue: every message comes to one end in each group, and to no second one.

Consumers die with what they hold and come back as new processes. `queue_judge` says what all of them may expect.
"""

from typing import Final

from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.workloads.lives import Lives
from flotilla.sim.whole.workloads.queue_audit import Auditor
from flotilla.sim.whole.workloads.queue_consumer import QueueConsumer
from flotilla.sim.whole.workloads.queue_judge import judge_queue
from flotilla.sim.whole.workloads.queue_operator import QueueOperator
from flotilla.sim.whole.workloads.queue_producer import QueueProducer
from flotilla.sim.whole.workloads.queue_scene import (
    GROUPS,
    LIMITED,
    MAX_DELIVERIES,
    ONCE,
    ORDERED,
    PARTITIONS,
    RATE_BURST,
    RATE_PER_MINUTE,
    REPLAYED,
    TOPIC,
    VISIBILITY_MS,
    QueueScene,
)

_PRODUCERS: Final = 2
#: Longer than any run: nothing is removed, unless by a clock that jumped.
_RETENTION_MS: Final = 600_000
#: How long a consumer lives, on average.
_LIFE_S: Final = 12


class QueueWorkload:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._scene = QueueScene(simulation)
        self._consumers: list[Lives] = []
        self._auditor: Auditor | None = None

    async def prepare(self, client: AsyncClient) -> None:
        await client.create_topic(
            TOPIC,
            partitions=PARTITIONS,
            if_not_exists=True,
            max_deliveries=MAX_DELIVERIES,
            visibility_ms=VISIBILITY_MS,
            nack_backoff_ms=200,
            nack_backoff_max_ms=1_000,
            retention_ms=_RETENTION_MS,
        )
        await client.alter_group(TOPIC, LIMITED, rate_limit_per_minute=RATE_PER_MINUTE, rate_limit_burst=RATE_BURST)

    def start(self) -> None:
        scene, simulation = self._scene, self._simulation
        for number in range(1, _PRODUCERS + 1):
            scene.busy += 1
            producer = QueueProducer(scene, f"queue-producer-{number}")
            simulation.client(f"queue-producer-{number}", producer.run)
        scene.busy += 1
        simulation.client("queue-operator", QueueOperator(scene, "queue-operator").run)
        for group in GROUPS:
            for iterates in (False, True):
                consumer = QueueConsumer(scene, group, iterates=iterates)
                self._start_consumer(f"{group}-{'iterator' if iterates else 'poller'}", consumer)
        for name, consumer in (
            (f"{REPLAYED}-poller", QueueConsumer(scene, REPLAYED, iterates=False, is_dutiful=True)),
            (f"{ORDERED}-poller", QueueConsumer(scene, ORDERED, iterates=False, ordered="key")),
            (f"{ORDERED}-iterator", QueueConsumer(scene, ORDERED, iterates=True, ordered="key")),
            (f"{LIMITED}-poller", QueueConsumer(scene, LIMITED, iterates=False, is_dutiful=True)),
            (f"{ONCE}-poller", QueueConsumer(scene, ONCE, iterates=False, ack_mode="auto")),
        ):
            self._start_consumer(name, consumer)

    def _start_consumer(self, name: str, consumer: QueueConsumer) -> None:
        lives = Lives(self._simulation, name, consumer.run, life_s=_LIFE_S, died=consumer.ended)
        self._consumers.append(lives)
        lives.start()

    def calm(self) -> None:
        self._scene.is_calm = True
        for consumer in self._consumers:
            consumer.calm()

    def is_done(self) -> bool:
        if self._scene.is_calm and not self._scene.busy and self._auditor is None:
            self._auditor = Auditor(self._scene)
            self._simulation.client("auditor", self._auditor.run)
        is_audited = self._auditor is not None and self._auditor.is_done
        return is_audited and all(consumer.is_over for consumer in self._consumers)

    def describe(self) -> str:
        doing = "not begun" if self._auditor is None else self._auditor.doing
        living = sum(not each.is_over for each in self._consumers)
        return f"{self._scene.busy} producers and operators, {living} consumers, audit: {doing}"

    def judge(self) -> None:
        assert self._auditor is not None
        faults = self._simulation.plan.faults
        judge_queue(self._simulation.history, self._auditor.audit, is_quiet=not faults)
