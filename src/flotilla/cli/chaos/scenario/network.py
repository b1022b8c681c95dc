"""Faults of the network, made by the relays before every port."""

import asyncio

from flotilla.cli.chaos.machine.relay import CLIENTS, Network
from flotilla.cli.chaos.scenario.rig import NETWORK, Fault, Rig


def _network(rig: Rig) -> Network:
    assert rig.cluster.network is not None
    return rig.cluster.network


def _others(rig: Rig, node: int) -> list[int]:
    return [other for other in rig.nodes if other != node]


async def isolate_leader(rig: Rig) -> None:
    """Cut off from the other nodes; clients still reach it."""
    node = await rig.leader()
    for other in _others(rig, node):
        _network(rig).cut(node, other)
        _network(rig).cut(other, node)


async def isolate_with_clients(rig: Rig) -> None:
    await isolate_leader(rig)
    for node in rig.some_nodes(1):
        _network(rig).cut(node, CLIENTS)
        _network(rig).cut(CLIENTS, node)


async def deafen(rig: Rig) -> None:
    """It sends, and hears nothing."""
    node = await rig.leader()
    for other in _others(rig, node):
        _network(rig).cut(other, node)


async def silence(rig: Rig) -> None:
    """It hears, and nothing that it sends arrives."""
    node = await rig.leader()
    for other in _others(rig, node):
        _network(rig).cut(node, other)


async def cut_clients(rig: Rig) -> None:
    node = await rig.leader()
    _network(rig).cut(CLIENTS, node)
    _network(rig).cut(node, CLIENTS)


async def bridge(rig: Rig) -> None:
    """Two nodes do not reach each other; the others reach both."""
    one, other = rig.some_nodes(2)
    _network(rig).cut(one, other)
    _network(rig).cut(other, one)


async def part_all(rig: Rig) -> None:
    for node in rig.nodes:
        for other in _others(rig, node):
            _network(rig).cut(node, other)


async def one_way(rig: Rig) -> None:
    one, other = rig.some_nodes(2)
    _network(rig).cut(one, other)


async def flap(rig: Rig) -> None:
    for _ in range(rig.random.randrange(3, 9)):
        await isolate_leader(rig)
        await asyncio.sleep(rig.random.uniform(0.1, 0.8))
        _network(rig).heal()
        await asyncio.sleep(rig.random.uniform(0.1, 0.5))


async def delay(rig: Rig) -> None:
    for node in rig.nodes:
        for other in _others(rig, node):
            _network(rig).slow(node, other, delay_s=rig.random.uniform(0.15, 0.45))


async def narrow(rig: Rig) -> None:
    node = await rig.leader()
    for other in [*_others(rig, node), CLIENTS]:
        _network(rig).slow(node, other, bytes_per_s=40_000)


async def reset(rig: Rig) -> None:
    """All connections of a node break at once, several times."""
    for _ in range(4):
        _network(rig).reset(rig.any_node())
        await asyncio.sleep(rig.random.uniform(0.05, 0.6))


async def heal(rig: Rig) -> None:
    _network(rig).heal()


FAULTS = (
    Fault("leader cut off", isolate_leader, heal, (1.0, 8.0), (NETWORK,)),
    Fault("leader cut off, and a node from clients", isolate_with_clients, heal, (1.0, 6.0), (NETWORK,)),
    Fault("leader hears nothing", deafen, heal, (1.0, 6.0), (NETWORK,)),
    Fault("leader is not heard", silence, heal, (1.0, 6.0), (NETWORK,)),
    Fault("clients cut off from a node", cut_clients, heal, (1.0, 6.0), (NETWORK,)),
    Fault("two nodes cut off from each other", bridge, heal, (1.0, 6.0), (NETWORK,)),
    Fault("one way between two nodes", one_way, heal, (1.0, 6.0), (NETWORK,)),
    Fault("every node alone", part_all, heal, (1.0, 5.0), (NETWORK,)),
    Fault("flapping link", flap, heal, (0.0, 0.1), (NETWORK,)),
    Fault("150 to 450 ms delay", delay, heal, (1.0, 5.0), (NETWORK,)),
    Fault("40 kB/s", narrow, heal, (1.0, 5.0), (NETWORK,)),
    Fault("connections reset", reset, heal, (0.0, 0.5), (NETWORK,)),
)
