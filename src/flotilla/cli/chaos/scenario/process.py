"""Faults of processes: killed, paused, stopped in order, started again and again."""

import asyncio

from flotilla.cli.chaos.scenario.rig import Fault, Rig, nothing


async def kill_leader(rig: Rig) -> None:
    await rig.cluster.kill_node(await rig.leader())


async def kill_majority(rig: Rig) -> None:
    for node in rig.some_nodes(2):
        await rig.cluster.kill_node(node)


async def kill_all(rig: Rig) -> None:
    for node in rig.nodes:
        await rig.cluster.kill_node(node)


async def kill_while_starting(rig: Rig) -> None:
    """A restart storm: each start dies a moment later, most of them while they recover."""
    node = await rig.leader()
    for _ in range(3):
        await rig.cluster.kill_node(node)
        rig.cluster.restart_node(node)
        await asyncio.sleep(rig.random.uniform(0.1, 2.5))
        rig.books.counts["kills soon after a start"] += 1
    await rig.cluster.kill_node(node)


async def pause_leader(rig: Rig) -> None:
    rig.cluster.pause_node(await rig.leader())


async def pause_majority(rig: Rig) -> None:
    for node in rig.some_nodes(2):
        rig.cluster.pause_node(node)


async def pause_then_kill(rig: Rig) -> None:
    """One pauses, another dies and comes back, and then the first goes on."""
    paused, killed = rig.some_nodes(2)
    rig.cluster.pause_node(paused)
    await asyncio.sleep(rig.random.uniform(0.5, 2.0))
    await rig.cluster.kill_node(killed)
    await asyncio.sleep(rig.random.uniform(0.2, 1.0))
    rig.cluster.restart_node(killed)


async def resume_all(rig: Rig) -> None:
    for node in rig.nodes:
        rig.cluster.resume_node(node)


async def roll(rig: Rig) -> None:
    """A rolling restart: SIGTERM, start, and the next one when all are there."""
    for node in rig.some_nodes(len(rig.nodes)):
        await rig.cluster.terminate_node(node)
        rig.cluster.restart_node(node)
        if not await rig.wait_whole():
            return


FAULTS = (
    Fault("kill -9 of a leader", kill_leader, nothing),
    Fault("kill -9 of two", kill_majority, nothing),
    Fault("kill -9 of all", kill_all, nothing, (0.0, 1.0)),
    Fault("restart storm", kill_while_starting, nothing, (0.0, 1.0)),
    Fault("SIGSTOP of a leader", pause_leader, resume_all, (0.3, 8.0)),
    Fault("SIGSTOP of two", pause_majority, resume_all, (0.3, 4.0)),
    Fault("pause, kill, resume", pause_then_kill, resume_all),
    Fault("rolling SIGTERM", roll, nothing, (0.0, 0.1)),
)
