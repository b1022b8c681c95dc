"""What faults act on: the cluster, its clients' books, a source of chance, and the findings so far."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Final

from flotilla.cli.chaos.judge.rules import Finding
from flotilla.cli.chaos.machine.brokers import ChaosCluster
from flotilla.cli.chaos.workload.clients import BOOKS, Books
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NO_NODE
from flotilla.types.operations import Metadata
from flotilla.types.operations.cluster import LEADER, VOTER

if TYPE_CHECKING:
    from flotilla.client.async_client import AsyncClient

#: Within this time after a heal every partition has all its voters.
WHOLE_S_MAX: Final = 60.0
_POLL_S: Final = 0.2
#: How much longer everything may take when brokers get a tenth of a processor.
_STARVED_FACTOR: Final = 4


@dataclass(slots=True)
class Rig:
    cluster: ChaosCluster
    #: For questions about the cluster and for operations; its calls are short.
    client: "AsyncClient"
    books: Books
    random: Random
    say: Callable[[str], None]
    is_starved: bool = False
    #: False: another fault decides when nodes that do not run are started.
    may_start: bool = True
    findings: list[Finding] = field(default_factory=list)

    @property
    def patience_s(self) -> float:
        return WHOLE_S_MAX * (_STARVED_FACTOR if self.is_starved else 1)

    @property
    def nodes(self) -> list[int]:
        return list(self.cluster.nodes)

    def any_node(self) -> int:
        return self.random.choice(self.nodes)

    def some_nodes(self, count: int) -> list[int]:
        return self.random.sample(self.nodes, count)

    async def leader(self) -> int:
        """The leader of a random partition, as far as it is known."""
        part = self.random.randrange(self.books.partitions)
        metadata = await self.metadata()
        found = [
            each.leader
            for topic in (metadata.topics if metadata else ())
            if topic.name == BOOKS
            for each in topic.partitions
            if each.number == part
        ]
        return found[0] if found and found[0] in self.cluster.nodes else self.any_node()

    async def metadata(self) -> Metadata | None:
        try:
            return await self.client.admin.metadata(timeout_ms=2_000)
        except FlotillaError:
            return None

    async def wait_until(
        self, look: Callable[[], Awaitable[str]], what: str, *, left: Callable[[], int] | None = None
    ) -> bool:
        """Waits until `look` returns no complaint. False, and a finding: it did not come.

        With `left`, patience begins anew whenever there is less left than ever: much may take its time.
        """
        deadline = time.monotonic() + self.patience_s
        least: int | None = None
        complaint = ""
        slow = time.monotonic() + self.patience_s / 6
        while time.monotonic() < deadline:
            if complaint and time.monotonic() > slow:
                self.say(f"{what}: still waiting: {complaint}")
                slow += self.patience_s / 3
            try:
                complaint = await look()
            except FlotillaError as error:
                complaint = f"{error.code}: {error}"
            if not complaint:
                return True
            if left is not None and (least is None or left() < least):
                least = left()
                deadline = time.monotonic() + self.patience_s
            await asyncio.sleep(_POLL_S)
        self.fail(what, f"not within {self.patience_s:.0f} s: {complaint}")
        return False

    def fail(self, rule: str, text: str) -> None:
        self.findings.append(Finding(rule, text))

    def branch(self, fault: "Fault") -> "Rig":
        """For one of several faults at a time: with chances of its own, so that none depends on the others."""
        return replace(self, random=Random(self.random.getrandbits(64)), may_start=PROCESSES in fault.parts)

    def restart_stopped(self) -> None:
        self.note_exits()
        for node in self.cluster.nodes.values() if self.may_start else ():
            if not node.is_running:
                self.cluster.restart_node(node.node)

    def note_exits(self) -> None:
        """Every exit that no fault caused is a finding."""
        self.cluster.check_exits()
        for text in self.cluster.exits:
            self.fail("no broker ends by itself", text)
            self.say(f"EXIT {text}")
        self.cluster.exits.clear()

    async def wait_whole(self) -> bool:
        """Waits until all nodes run and every partition has as many voters as its topic asks for."""
        began = time.monotonic()
        is_whole = await self.wait_until(self._complaint, "replicas as promised")
        self.books.counts["heals"] += 1
        seconds = time.monotonic() - began
        self.say(f"whole after {seconds:.1f} s" if is_whole else f"NOT WHOLE: {self.findings[-1].text}")
        return is_whole

    async def _complaint(self) -> str:
        self.restart_stopped()
        metadata = await self.client.admin.metadata(timeout_ms=2_000)
        alive = {broker.node for broker in metadata.brokers if broker.is_alive}
        if missing := set(self.cluster.nodes) - alive:
            return f"nodes {sorted(missing)} are not alive"
        for topic in metadata.topics:
            asked = self.books.history.replication.get(topic.name)
            if asked is None:
                continue
            for part in topic.partitions:
                if part.leader == NO_NODE:
                    return f"{topic.name}/{part.number} has no leader"
                described = await self.client.admin.describe_replicas(topic.name, part.number, timeout_ms=2_000)
                voters = [each.node for each in described.replicas if each.role in (LEADER, VOTER) and each.is_alive]
                if len(voters) != asked:
                    return f"{topic.name}/{part.number} has voters {voters}, not {asked}"
        return ""


Act = Callable[[Rig], Awaitable[None]]

#: Parts of a cluster that faults act on.
PROCESSES: Final = "processes"
NETWORK: Final = "network"
DISKS: Final = "disks"
CLOCKS: Final = "clocks"
MEMBERS: Final = "members"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong, and its end. Nodes that do not run at the end are started again by the run."""

    name: str
    inject: Act
    heal: Act
    #: How long it lasts, drawn between these.
    hold_s: tuple[float, float] = (0.5, 4.0)
    #: What it acts on. Faults at the same time share no part: one that starts nodes or heals a disk would end another.
    parts: tuple[str, ...] = (PROCESSES,)


async def nothing(rig: Rig) -> None:
    """For faults that end by themselves."""
