"""Clients of the task API over HTTP, at any broker: every task ends once, and its status says so at once."""

import asyncio
from random import Random
from typing import Any, Final

from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.cluster import HTTP_PORT
from flotilla.sim.whole.history import Call
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.workloads.lives import Lives
from flotilla.sim.whole.workloads.task_api.http import HttpClient
from flotilla.sim.whole.workloads.task_api.judge import (
    ENQUEUE,
    LEASE,
    QUEUE,
    SETTLE,
    STATUS,
    VISIBILITY_MS,
    TaskAudit,
    judge_tasks,
)
from flotilla.types.errors import FlotillaError
from flotilla.types.tasks import topic_of

_WORKERS: Final = 2
_LIFE_S: Final = 15
_TIMEOUT_MS: Final = 12_000
_WAIT_MS: Final = 1_000
#: Between two tasks, on average.
_THINK_S: Final = 0.5
_PAUSE_S: Final = 0.3
_PAGE: Final = 100


class TasksWorkload:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._history = simulation.history
        self._is_calm = False
        self._is_producing = True
        #: Every task has ended.
        self._is_drained = False
        self._audit: TaskAudit | None = None
        self._doing = "works"
        self._workers = [
            Lives(simulation, f"task-worker-{number}", self._work, life_s=_LIFE_S) for number in range(1, _WORKERS + 1)
        ]

    async def prepare(self, client: AsyncClient) -> None:
        # Otherwise the first task creates it, with other settings.
        await client.create_topic(topic_of(QUEUE), partitions=2, if_not_exists=True, visibility_ms=VISIBILITY_MS)

    def start(self) -> None:
        self._simulation.client("task-producer", self._produce)
        for worker in self._workers:
            worker.start()

    def calm(self) -> None:
        self._is_calm = True
        for worker in self._workers:
            worker.calm()

    def is_done(self) -> bool:
        return self._audit is not None and all(worker.is_over for worker in self._workers)

    def describe(self) -> str:
        living = sum(not worker.is_over for worker in self._workers)
        return f"{living} workers, producer: {self._doing}"

    def judge(self) -> None:
        assert self._audit is not None
        judge_tasks(self._history, self._audit, is_quiet=not self._simulation.plan.faults)

    def _client(self, chance: Random) -> HttpClient:
        brokers = list(self._simulation.cluster.brokers.values())
        chance.shuffle(brokers)
        return HttpClient([(broker.host.name, HTTP_PORT) for broker in brokers], _TIMEOUT_MS)

    async def _call(self, call: Call, http: HttpClient, method: str, path: str, body: object = None) -> Any:
        """The answer, or None."""
        try:
            answer = await http.ask(method, path, body)
        except FlotillaError as error:
            self._history.failed(call, error)
            return None
        self._history.done(call, **answer)
        return answer

    # The producer, which looks at everything in the end.

    async def _produce(self) -> None:
        chance = self._simulation.stream("task-producer")
        http = self._client(chance)
        number = 0
        while not self._is_calm:
            await asyncio.sleep(chance.random() * 2 * _THINK_S)
            number += 1
            await self._enqueue(http, chance, number)
        while not self._is_drained:
            await asyncio.sleep(_PAUSE_S)
            self._is_drained = await self._has_ended(http)
        while self._audit is None:
            try:
                self._audit = await self._look(http)
            except FlotillaError:
                await asyncio.sleep(_PAUSE_S)
        http.close()

    async def _enqueue(self, http: HttpClient, chance: Random, number: int) -> None:
        body: dict[str, Any] = {"type": "work", "queue": QUEUE, "payload": number}
        kind = chance.random()
        if kind < 0.2:
            body["delay_ms"] = chance.randint(200, 3_000)
        elif kind < 0.4:
            body["priority"] = chance.randint(1, 7)
        elif kind < 0.7:
            body["idempotency_key"] = f"task-{number}"
        answer = None
        for _ in range(3):
            call = self._history.begin("task-producer", ENQUEUE, _TIMEOUT_MS, **body)
            answer = await self._call(call, http, "POST", "/tasks", body)
            if answer is not None or "idempotency_key" not in body:
                break
        if answer is not None:
            await self._look_at("task-producer", http, answer["id"])

    async def _look_at(self, client: str, http: HttpClient, task: str) -> None:
        call = self._history.begin(client, STATUS, _TIMEOUT_MS, task=task)
        await self._call(call, http, "GET", f"/tasks/{task}")

    async def _has_ended(self, http: HttpClient) -> bool:
        try:
            stats = await http.ask("GET", "/stats")
        except FlotillaError:
            return False
        mine = [queue for queue in stats["queues"] if queue["queue"] == QUEUE]
        left = sum(queue[name] for queue in mine for name in ("ready", "leased", "delayed"))
        self._doing = f"{left} tasks are left"
        return bool(mine) and not left

    async def _look(self, http: HttpClient) -> TaskAudit:
        self._doing = "looks at all tasks"
        audit = TaskAudit()
        after = ""
        while True:
            page = await http.ask("GET", f"/tasks?queue={QUEUE}&limit={_PAGE}&all=true{after}")
            for task in page["tasks"]:
                audit.tasks[task["id"]] = (task["payload"], task["status"])
            if "next" not in page:
                break
            after = f"&after={page['next']}"
        stats = await http.ask("GET", "/stats")
        audit.counted = next(queue for queue in stats["queues"] if queue["queue"] == QUEUE)
        return audit

    # Workers.

    async def _work(self, life: str) -> None:
        chance = self._simulation.stream(life)
        http = self._client(chance)
        body = {"worker_id": life, "queue": QUEUE, "wait_ms": _WAIT_MS}
        while not self._is_drained:
            call = self._history.begin(life, LEASE, _TIMEOUT_MS)
            answer = await self._call(call, http, "POST", "/tasks/lease", {**body, "max": chance.randint(1, 3)})
            for task in answer["tasks"] if answer is not None else ():
                await self._handle(life, http, chance, task)
            await asyncio.sleep(chance.random() * _PAUSE_S)
        http.close()

    async def _handle(self, life: str, http: HttpClient, chance: Random, task: dict[str, Any]) -> None:
        await asyncio.sleep(chance.random() * _PAUSE_S)
        kind = chance.random()
        if self._is_calm or kind < 0.6:
            await self._settle(life, http, chance, task, "ack")
            if chance.random() < 0.5:
                await self._look_at(life, http, task["id"])
        elif kind < 0.7:
            await self._settle(life, http, chance, task, "extend", visibility_ms=2 * VISIBILITY_MS)
            await asyncio.sleep(VISIBILITY_MS / 1_000)
            await self._settle(life, http, chance, task, "ack")
        elif kind < 0.85:
            await self._settle(life, http, chance, task, "nack", delay_ms=200)
        elif kind < 0.9:
            await self._settle(life, http, chance, task, "nack", retry=False)
        # The rest is forgotten.

    async def _settle(
        self, life: str, http: HttpClient, chance: Random, task: dict[str, Any], how: str, **fields: Any
    ) -> None:
        body = {"lease": task["lease"]} if chance.random() < 0.5 else {"worker_id": life}
        name = "reject" if fields.get("retry") is False else how
        call = self._history.begin(life, SETTLE, _TIMEOUT_MS, task=task["id"], lease=task["lease"], how=name)
        await self._call(call, http, "POST", f"/tasks/{task['id']}/{how}", {**body, **fields})
