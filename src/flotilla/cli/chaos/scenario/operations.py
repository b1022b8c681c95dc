"""Operations on the cluster while it works: leaders and replicas move, topics come and go, nodes are replaced."""

import asyncio
from contextlib import suppress
from typing import Final

from flotilla.cli.chaos.scenario.rig import MEMBERS, PROCESSES, Fault, Rig, nothing
from flotilla.cli.chaos.workload.clients import BOOKS
from flotilla.types.errors import FlotillaError

PARTITIONS_MAX: Final = 6
SCRATCH: Final = "scratch"


async def transfer(rig: Rig) -> None:
    for _ in range(rig.random.randrange(2, 8)):
        part, to = rig.random.randrange(rig.books.partitions), rig.any_node()
        with suppress(FlotillaError):
            await rig.client.admin.transfer_leadership(BOOKS, part, to)
            rig.books.counts["hand-overs"] += 1


async def grow(rig: Rig) -> None:
    if rig.books.partitions < PARTITIONS_MAX:
        with suppress(FlotillaError):
            found = await rig.client.alter_topic(BOOKS, partitions=rig.books.partitions + 1)
            rig.books.partitions = len(found.partitions)


async def recreate(rig: Rig) -> None:
    """A topic is deleted and created again under its name: what it held before is gone, and nothing else comes up."""
    with suppress(FlotillaError):
        await rig.client.delete_topic(SCRATCH)
    try:
        await rig.client.create_topic(SCRATCH, partitions=2, replication_factor=3)
        receipt = await rig.client.produce(SCRATCH, b"first", partition=0)
    except FlotillaError:
        return
    if receipt.offset != 0:
        rig.fail("re-created topics are empty", f"{SCRATCH}/0 begins at {receipt.offset} after it was created anew")


async def set_replicas(rig: Rig) -> None:
    factor = rig.random.choice((1, 2))
    try:
        await rig.client.alter_topic(BOOKS, replication_factor=factor)
        rig.books.history.replication[BOOKS] = factor
        await rig.wait_whole()
    except FlotillaError as error:
        rig.say(f"replication factor {factor}: {error}")


async def restore_replicas(rig: Rig) -> None:
    rig.books.history.replication[BOOKS] = 3

    async def alter() -> str:
        await rig.client.alter_topic(BOOKS, replication_factor=3)
        return ""

    await rig.wait_until(alter, "replication factor back to 3")


async def _join(rig: Rig) -> int:
    node = await rig.cluster.add_node()
    rig.cluster.start_node(node)
    await rig.wait_until(lambda: _missing(rig, node), f"node {node} joins")
    return node


async def _missing(rig: Rig, node: int) -> str:
    metadata = await rig.client.admin.metadata(timeout_ms=2_000)
    is_there = any(broker.node == node and broker.is_alive for broker in metadata.brokers)
    return "" if is_there else f"node {node} is not alive"


async def _held_by(rig: Rig, node: int) -> str:
    metadata = await rig.client.admin.metadata(timeout_ms=2_000)
    held = [
        f"{topic.name}/{part.number}"
        for topic in metadata.topics
        for part in topic.partitions
        if node in part.replicas or node in part.target
    ]
    return f"node {node} holds {held}" if held else ""


async def _is_member(rig: Rig, node: int) -> str:
    metadata = await rig.client.admin.metadata(timeout_ms=2_000)
    return "the node is still a member" if any(broker.node == node for broker in metadata.brokers) else ""


async def replace_node(rig: Rig) -> None:
    """A node dies for good; a new one joins, and the old one is removed."""
    lost = rig.any_node()
    await rig.cluster.kill_node(lost)
    await _join(rig)
    await _remove(rig, lost)
    await rig.cluster.remove_node(lost)


async def drain(rig: Rig) -> None:
    """A fourth node joins, another is drained, and then it is removed."""
    await _join(rig)
    drained = rig.random.choice(rig.nodes[:-1])

    async def ask() -> str:
        await rig.client.admin.drain_node(drained)
        return ""

    if await rig.wait_until(ask, f"node {drained} can be drained"):
        if rig.random.random() < 0.5:
            # The leader of something dies meanwhile.
            await rig.cluster.kill_node(await rig.leader())
            rig.restart_stopped()
        await rig.wait_until(lambda: _held_by(rig, drained), f"node {drained} is drained")
    await _remove(rig, drained)
    await rig.cluster.remove_node(drained)


async def _remove(rig: Rig, node: int) -> None:
    async def remove() -> str:
        await rig.client.admin.remove_node(node)
        return ""

    rig.cluster.may_exit(node)
    if await rig.wait_until(remove, f"node {node} can be removed"):
        await rig.wait_until(lambda: _is_member(rig, node), f"node {node} is removed")


async def rebalance(rig: Rig) -> None:
    with suppress(FlotillaError):
        await rig.client.admin.rebalance()
        await asyncio.sleep(rig.random.uniform(0.0, 1.0))
    await rig.cluster.kill_node(await rig.leader())


FAULTS = (
    Fault("leadership is transferred", transfer, nothing, parts=(MEMBERS,)),
    Fault("the topic grows", grow, nothing, parts=(MEMBERS,)),
    Fault("a topic is deleted and created again", recreate, nothing, parts=(MEMBERS,)),
    Fault("fewer replicas, and three again", set_replicas, restore_replicas, parts=(MEMBERS,)),
    Fault("a node is drained and removed", drain, nothing, (0.0, 0.1), (MEMBERS, PROCESSES)),
    Fault("a node is replaced", replace_node, nothing, (0.0, 0.1), (MEMBERS, PROCESSES)),
    Fault("rebalance and kill -9", rebalance, nothing, parts=(MEMBERS, PROCESSES)),
)
