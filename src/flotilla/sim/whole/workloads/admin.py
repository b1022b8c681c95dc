"""Topics and groups that are made, altered, deleted, and made anew under the same name.

Each name has one keeper, which does one thing after the other, so that it knows what must be there. After each change
the keeper looks, by the client that made the change or by another one. Visitors look at the names of all keepers. Every
record says in which life of its name it was stored. `admin_judge` says what must hold.

A call whose outcome is not known may still take effect later. Unless a look shows that it has happened, its keeper
leaves the name and takes another one.
"""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, TypeVar

from flotilla.client.async_client import AsyncClient
from flotilla.client.reader.options import ReadFrom
from flotilla.sim.whole.history import DONE, UNKNOWN, Call
from flotilla.sim.whole.pace import think
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.workloads.admin_judge import SETTING, judge_admin
from flotilla.sim.whole.workloads.contents import read_partition
from flotilla.sim.whole.workloads.producers import TIMEOUT_MS
from flotilla.types.errors import FlotillaError, NotFoundError
from flotilla.types.operations import TopicInfo

_KEEPERS: Final = 2
_VISITORS: Final = 2
_GROUP: Final = "keepers"
_PARTITIONS_MAX: Final = 4
_READ_FROM: Final[tuple[ReadFrom, ...]] = ("leader", "nearest", "spread")

T = TypeVar("T")


class AdminWorkload:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._is_calm = False
        self._running = 0
        #: The present name of each keeper.
        self._names: dict[str, str] = {}

    async def prepare(self, client: AsyncClient) -> None:
        """Nothing: keepers begin with nothing."""

    def start(self) -> None:
        for number in range(1, _KEEPERS + 1):
            self._run(f"admin-keeper-{number}", self._keep)
        for number in range(1, _VISITORS + 1):
            self._run(f"admin-visitor-{number}", self._visit)

    def _run(self, name: str, main: Callable[[str], Any]) -> None:
        self._running += 1
        self._simulation.client(name, lambda: main(name))

    def calm(self) -> None:
        self._is_calm = True

    def is_done(self) -> bool:
        return self._is_calm and not self._running

    def describe(self) -> str:
        return f"{self._running} keepers and visitors"

    def judge(self) -> None:
        judge_admin(self._simulation.history.calls)

    def _must_end(self) -> bool:
        return self._is_calm

    def _client(self, name: str) -> AsyncClient:
        return AsyncClient(self._simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name=name)

    async def _keep(self, name: str) -> None:
        chance = self._simulation.stream(name)
        # Another one that learns nothing from the first.
        async with self._client(name) as client, self._client(f"{name}-witness") as witness:
            number = 0
            while not self._is_calm:
                number += 1
                topic = self._names[name] = f"{name}-{number}"
                keeper = _Keeper(self._simulation, topic, name, client, witness, chance)
                while not keeper.is_unsure:
                    await think(chance, 0.1)
                    await keeper.turn()
                    if self._must_end():
                        break
                if not keeper.is_unsure:
                    await keeper.look_at_everything()
        self._running -= 1

    async def _visit(self, name: str) -> None:
        chance = self._simulation.stream(name)
        async with self._client(name) as client:
            while not self._is_calm:
                await think(chance, 0.2)
                topic = chance.choice(list(self._names.values()) or [""])
                visitor = _Looker(self._simulation, topic, name, client)
                found = await visitor.describe() if topic else None
                if found is not None:
                    partition = chance.randrange(len(found.partitions))
                    await visitor.read(found, partition, chance.choice(_READ_FROM))
        self._running -= 1


class _Looker:
    """Looks at one topic through one client. Every look is a call of the history."""

    def __init__(self, simulation: Simulation, topic: str, name: str, client: AsyncClient) -> None:
        self._simulation = simulation
        self._history = simulation.history
        self._topic = topic
        self._name = name
        self._client = client

    async def call(
        self, operation: str, doing: Awaitable[T], timeout_ms: int = 0, **arguments: Any
    ) -> tuple[Call, T | None]:
        """Makes a call. Its result is for the caller to note."""
        call = self._history.begin(self._name, operation, timeout_ms, name=self._topic, **arguments)
        try:
            found = await doing
        except FlotillaError as error:
            self._history.failed(call, error)
            return call, None
        self._history.done(call)
        return call, found

    async def describe(self) -> TopicInfo | None:
        """None: there is none, or nobody knows."""
        call, found = await self.call("describe", self._client.describe_topic(self._topic), TIMEOUT_MS)
        if found is not None:
            call.result = topic_facts(found)
        return found

    async def read(self, found: TopicInfo, partition: int, read_from: ReadFrom) -> None:
        """Everything that a partition holds, by a client that has just been told which topic this is."""
        reading = read_partition(self._client, self._topic, partition, read_from=read_from)
        call, records = await self.call("read", reading, partition=partition, topic_id=found.topic_id)
        if records is not None:
            call.result = {"records": records}

    async def list(self) -> None:
        call, found = await self.call("list", self._client.topics(), TIMEOUT_MS)
        if found is not None:
            call.result = {"has": self._topic in [each.name for each in found]}

    async def committed(self, partition: int) -> None:
        doing = self._client.committed_offset(self._topic, _GROUP, partition)
        call, offset = await self.call("committed offset", doing, TIMEOUT_MS, partition=partition)
        if call.outcome == DONE:
            call.result = {"offset": offset}

    async def groups(self) -> None:
        call, found = await self.call("groups", self._client.groups(self._topic), TIMEOUT_MS)
        if found is not None:
            call.result = {"groups": sorted(found)}


class _Keeper(_Looker):
    """Does one thing after the other with one name."""

    def __init__(
        self,
        simulation: Simulation,
        topic: str,
        name: str,
        client: AsyncClient,
        witness: AsyncClient,
        chance: Random,
    ) -> None:
        super().__init__(simulation, topic, name, client)
        self._own = self
        self._witness = _Looker(simulation, topic, f"{name}-witness", witness)
        self._chance = chance
        self._life = 0
        self._partitions = 0
        self._produced = 0
        #: What was called may still happen.
        self.is_unsure = False

    async def turn(self) -> None:
        draw = self._chance.random()
        if not self._partitions:
            await self._create()
        elif draw < 0.12:
            await self._delete()
        elif draw < 0.25:
            await self._alter()
        elif draw < 0.4:
            await self._commit()
        elif draw < 0.48:
            await self._delete_group()
        else:
            await self._produce()
        if not self.is_unsure:
            await self._look()

    # Changes.

    async def _change(self, operation: str, doing: Awaitable[TopicInfo], **arguments: Any) -> None:
        """A change of the topic. One of unknown outcome counts if it can be seen."""
        call, found = await self.call(operation, doing, TIMEOUT_MS, life=self._life, **arguments)
        if call.outcome == UNKNOWN:
            await self._resolve(call)
        elif found is not None:
            call.result = topic_facts(found)
        if call.outcome == DONE:
            self._partitions = 0 if operation == "delete" else call.result["partitions"]

    async def _resolve(self, call: Call) -> None:
        """Whether a change of unknown outcome has happened."""
        self._simulation.note("change of unknown outcome")
        for _ in range(10):
            look = self._history.begin(self._name, "resolve", TIMEOUT_MS, name=self._topic)
            facts: dict[str, Any] | None = None
            try:
                facts = topic_facts(await self._client.describe_topic(self._topic))
            except NotFoundError:
                pass
            except FlotillaError as error:
                self._history.failed(look, error)
                continue
            self._history.done(look, **(facts or {}))
            wanted = {name: call.arguments[name] for name in ("partitions", SETTING) if name in call.arguments}
            if call.operation == "delete":
                is_seen = facts is None
            else:
                is_seen = facts is not None and all(facts[name] == value for name, value in wanted.items())
            if is_seen:
                call.outcome, call.result = DONE, facts or {}
                return
            break
        self.is_unsure = True

    async def _create(self) -> None:
        self._life += 1
        partitions, deliveries = self._chance.randint(1, 3), self._chance.randint(1, 100)
        doing = self._client.create_topic(self._topic, partitions=partitions, max_deliveries=deliveries)
        await self._change("create", doing, partitions=partitions, **{SETTING: deliveries})

    async def _delete(self) -> None:
        await self._change("delete", self._client.delete_topic(self._topic))

    async def _alter(self) -> None:
        if self._partitions < _PARTITIONS_MAX and self._chance.random() < 0.4:
            partitions = self._partitions + 1
            await self._change(
                "alter", self._client.alter_topic(self._topic, partitions=partitions), partitions=partitions
            )
        else:
            deliveries = self._chance.randint(1, 100)
            doing = self._client.alter_topic(self._topic, max_deliveries=deliveries)
            await self._change("alter", doing, **{SETTING: deliveries})

    async def _produce(self) -> None:
        for _ in range(self._chance.randint(1, 3)):
            self._produced += 1
            payload = f"{self._topic}/{self._life}/{self._produced}"
            partition = self._chance.randrange(self._partitions)
            doing = self._client.produce(self._topic, payload.encode(), partition=partition)
            call, receipt = await self.call(
                "store", doing, TIMEOUT_MS, life=self._life, partition=partition, payload=payload
            )
            if receipt is not None:
                call.result = {"offset": receipt.offset}

    async def _commit(self) -> None:
        partition, offset = self._chance.randrange(self._partitions), self._produced
        doing = self._client.commit_offset(self._topic, _GROUP, partition, offset, reset=True)
        call, found = await self.call(
            "commit offset", doing, TIMEOUT_MS, life=self._life, partition=partition, offset=offset
        )
        self.is_unsure = call.outcome == UNKNOWN
        if found is not None:
            call.result = {"offset": found}

    async def _delete_group(self) -> None:
        doing = self._client.delete_group(self._topic, _GROUP)
        call, _ = await self.call("delete group", doing, TIMEOUT_MS, life=self._life)
        # Deleting has several steps: a failure may have done some of them.
        self.is_unsure = call.outcome != DONE and not call.error.startswith(NotFoundError.__name__)

    # Looks.

    async def _look(self) -> None:
        looker = self._own if self._chance.random() < 0.5 else self._witness
        found = await looker.describe()
        draw = self._chance.random()
        if draw < 0.2:
            await looker.list()
        if found is None:
            return
        partition = self._chance.randrange(len(found.partitions))
        if draw < 0.5:
            await looker.read(found, partition, self._chance.choice(_READ_FROM))
        elif draw < 0.7:
            await looker.committed(partition)
        elif draw < 0.8:
            await looker.groups()

    async def look_at_everything(self) -> None:
        for looker in (self._own, self._witness):
            found = await looker.describe()
            if found is not None:
                for partition in range(len(found.partitions)):
                    await looker.read(found, partition, "leader")
                    await looker.committed(partition)


def topic_facts(topic: TopicInfo) -> dict[str, Any]:
    return {
        "topic_id": topic.topic_id,
        "partitions": len(topic.partitions),
        SETTING: int(topic.settings.get(SETTING, "0")),
    }
