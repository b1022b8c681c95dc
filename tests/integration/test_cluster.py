"""Real processes, real disks, real sockets: what was acknowledged is there, whichever process dies."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cluster import Cluster, NodeProcess, run
from tests.integration.journal_damage import tear_journal

pytestmark = pytest.mark.slow


async def begin_many(cluster: Cluster, node: NodeProcess, count: int, padding: int) -> "asyncio.Future[int]":
    """Proposals that the node has got: it reads in order, and has answered what was asked behind them."""
    before = len(cluster.unknown)
    in_flight = asyncio.ensure_future(cluster.propose_many(node, count, padding))
    while len(cluster.unknown) < before + count:
        await asyncio.sleep(0)
    await node.ask("status")
    return in_flight


def test_the_leader_is_killed_under_load_and_comes_back(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.wait_leader()
        assert await cluster.propose_many(first, 200) == 200
        in_flight = await begin_many(cluster, first, 300, padding=2000)
        await first.kill()
        await in_flight

        second = await cluster.wait_leader(excluded=first.node)
        assert await cluster.propose_many(second, 200) == 200
        await first.start()
        await cluster.check()
        assert len(cluster.promised) >= 400

    run(tmp_path, scenario)


def test_all_are_killed_at_once(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        for _ in range(2):
            leader = await cluster.wait_leader()
            assert await cluster.propose_many(leader, 100, padding=4000) == 100
            in_flight = await begin_many(cluster, leader, 100, padding=4000)
            await cluster.kill()
            await in_flight
            await cluster.start()
        await cluster.check()
        assert len(cluster.promised) >= 200

    run(tmp_path, scenario)


def test_a_torn_block_at_the_end_of_a_journal(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        assert await cluster.propose_many(leader, 50) == 50
        victim = next(node for node in cluster.nodes.values() if node is not leader)
        await victim.kill()
        tear_journal(victim.data)
        assert await cluster.propose_many(leader, 50) == 50
        await victim.start()
        await cluster.check()

        # The node with the mended journal must be able to carry the cluster.
        await leader.kill()
        heir = await cluster.wait_leader(excluded=leader.node)
        assert await cluster.propose_many(heir, 50) == 50
        await cluster.check()

    run(tmp_path, scenario)


def test_a_stopped_leader_wakes_up_and_follows(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.wait_leader()
        assert await cluster.propose_many(first, 50) == 50
        first.pause()
        while (second := await next_leader(cluster, first.node)) is None:
            await asyncio.sleep(0.01)
        assert await cluster.propose_many(cluster.nodes[second], 50) == 50
        first.resume()
        # Whatever it believes when it wakes up, it acknowledges nothing that is not kept.
        await cluster.propose_many(first, 20)
        await cluster.check()

    async def next_leader(cluster: Cluster, stopped: int) -> int | None:
        for node in cluster.nodes.values():
            if node.node != stopped and (await node.ask("status"))["leads"]:
                return node.node
        return None

    run(tmp_path, scenario)


def test_a_node_that_is_stopped_in_order_hands_over_first(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.wait_leader()
        assert await cluster.propose_many(first, 50) == 50
        await first.stop()
        # By the time it is gone another node leads already, without an election timeout.
        statuses = [await node.ask("status") for node in cluster.nodes.values() if node.is_running]
        assert [status["leads"] for status in statuses].count(True) == 1
        second = await cluster.wait_leader()
        assert await cluster.propose_many(second, 50) == 50
        await first.start()
        await cluster.check()

    run(tmp_path, scenario)


def test_idle_nodes_do_not_sync(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        assert await cluster.propose_many(leader, 10) == 10
        await cluster.check()
        before, after = await idle(cluster)
        # An election is no idleness: on a machine that is busy elsewhere there may be one.
        while terms(before) != terms(after):
            before, after = await idle(cluster)
        assert [status["syncs"] for status in after] == [status["syncs"] for status in before]

    async def idle(cluster: Cluster) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The state of all nodes before and after half a second without requests."""
        before = [await node.ask("status") for node in cluster.nodes.values()]
        await asyncio.sleep(0.5)
        return before, [await node.ask("status") for node in cluster.nodes.values()]

    def terms(statuses: list[dict[str, Any]]) -> list[int]:
        return [status["term"] for status in statuses]

    run(tmp_path, scenario)
