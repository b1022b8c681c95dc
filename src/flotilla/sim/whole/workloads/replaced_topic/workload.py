"""A topic that its keeper deletes, creates again and grows, under producers, queue and stream groups and a redriver.

`judge` says what they may expect.
"""

from typing import Final, Literal

from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.workloads.lives import Lives
from flotilla.sim.whole.workloads.replaced_topic.auditor import Auditor
from flotilla.sim.whole.workloads.replaced_topic.judge import judge_replaced
from flotilla.sim.whole.workloads.replaced_topic.keeper import Keeper
from flotilla.sim.whole.workloads.replaced_topic.listener import Listener
from flotilla.sim.whole.workloads.replaced_topic.producer import Producer
from flotilla.sim.whole.workloads.replaced_topic.redriver import Redriver
from flotilla.sim.whole.workloads.replaced_topic.scene import (
    ALERTS,
    LEDGER,
    MAILING,
    PACKING,
    SETTINGS,
    TOPIC,
    TopicScene,
)
from flotilla.sim.whole.workloads.replaced_topic.worker import Worker

_PRODUCERS: Final = 2
_LIFE_S: Final = 20
_STARTS: Final[dict[str, Literal["earliest", "latest"]]] = {
    PACKING: "earliest",
    MAILING: "latest",
    LEDGER: "earliest",
    ALERTS: "latest",
}


class ReplacedTopicWorkload:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._scene = TopicScene(simulation)
        self._members: list[Lives] = []
        self._auditor: Auditor | None = None

    async def prepare(self, client: AsyncClient) -> None:
        await client.create_topic(TOPIC, if_not_exists=True, **SETTINGS)

    def start(self) -> None:
        scene, simulation = self._scene, self._simulation
        clients: dict[str, Keeper | Producer | Redriver] = {
            "orders-keeper": Keeper(scene, "orders-keeper"),
            "orders-redriver": Redriver(scene, "orders-redriver"),
        }
        for number in range(1, _PRODUCERS + 1):
            clients[f"orders-producer-{number}"] = Producer(scene, f"orders-producer-{number}")
        for name, client in clients.items():
            scene.busy += 1
            simulation.client(name, client.run)
        for group, start in _STARTS.items():
            for number in (1, 2):
                member: Worker | Listener
                member = Worker(scene, group, start) if group in (PACKING, MAILING) else Listener(scene, group, start)
                lives = Lives(simulation, f"{group}-{number}", member.run, life_s=_LIFE_S)
                self._members.append(lives)
                lives.start()

    def calm(self) -> None:
        self._scene.is_calm = True
        for member in self._members:
            member.calm()

    def is_done(self) -> bool:
        if self._scene.is_calm and not self._scene.busy and self._auditor is None:
            self._auditor = Auditor(self._scene, "orders-auditor")
            self._simulation.client("orders-auditor", self._auditor.run)
        return self._scene.is_drained and all(member.is_over for member in self._members)

    def describe(self) -> str:
        doing = "not begun" if self._auditor is None else self._auditor.doing
        living = sum(not each.is_over for each in self._members)
        return f"{self._scene.busy} producers and operators, {living} members, audit: {doing}"

    def judge(self) -> None:
        judge_replaced(self._simulation.history, self._scene.final_id)
