"""Faults of the machine under a node: its disk, its wall clock and its power."""

import asyncio
from typing import Final

from flotilla.cli.chaos.machine.preload import ALWAYS_PPM, Machine
from flotilla.cli.chaos.scenario.rig import CLOCKS, DISKS, PROCESSES, Fault, Rig, nothing

_HOUR_NS: Final = 3_600 * 10**9
_DAY_NS: Final = 24 * _HOUR_NS
_HANG_MS: Final = 30_000
_JUMPS_NS: Final = (_HOUR_NS, -_HOUR_NS, 8 * _DAY_NS, 30 * _DAY_NS, -_DAY_NS, 365 * _DAY_NS, -365 * _DAY_NS)


def _machine(rig: Rig, node: int) -> Machine:
    return rig.cluster.machine(node)


# Disks.


async def heal_disks(rig: Rig) -> None:
    for machine in rig.cluster.machines.values():
        machine.heal_disk()


async def slow_syncs(rig: Rig) -> None:
    _machine(rig, await rig.leader()).set(sync_delay_us=rig.random.randrange(20_000, 1_500_000))


async def slow_reads(rig: Rig) -> None:
    _machine(rig, rig.any_node()).set(read_delay_us=rig.random.randrange(5_000, 200_000))


async def failing_syncs(rig: Rig) -> None:
    _machine(rig, await rig.leader()).set(sync_fail_ppm=rig.random.choice((50_000, 500_000, ALWAYS_PPM)))


async def failing_reads(rig: Rig) -> None:
    _machine(rig, rig.any_node()).set(read_fail_ppm=rig.random.choice((20_000, 300_000)))


async def hanging_reads(rig: Rig) -> None:
    """Reads of one partition, or of all, do not return before the fault is healed."""
    machine = _machine(rig, await rig.leader())
    groups = sorted(path.name for path in machine.data.glob("groups/*"))
    machine.hang_reads(f"groups/{rig.random.choice((*groups, '*'))}/*", _HANG_MS)


async def full(rig: Rig) -> None:
    for node in rig.some_nodes(rig.random.choice((1, 1, 2, 3))):
        _machine(rig, node).set(is_full=1)


async def full_and_killed(rig: Rig) -> None:
    """A node dies with a full disk and must start on it."""
    node = await rig.leader()
    _machine(rig, node).set(is_full=1)
    await asyncio.sleep(rig.random.uniform(0.2, 1.0))
    await rig.cluster.kill_node(node)
    rig.cluster.restart_node(node)
    await asyncio.sleep(rig.random.uniform(1.0, 4.0))


async def failing_and_killed(rig: Rig) -> None:
    node = await rig.leader()
    _machine(rig, node).set(sync_fail_ppm=ALWAYS_PPM)
    await asyncio.sleep(rig.random.uniform(0.2, 1.0))
    await rig.cluster.kill_node(node)
    _machine(rig, node).heal_disk()


DISK = (
    Fault("slow syncs", slow_syncs, heal_disks, (1.0, 6.0), (DISKS,)),
    Fault("slow reads", slow_reads, heal_disks, (1.0, 6.0), (DISKS,)),
    Fault("hanging reads", hanging_reads, heal_disks, (1.0, 8.0), (DISKS,)),
    Fault("failing syncs", failing_syncs, heal_disks, (0.3, 3.0), (DISKS,)),
    Fault("failing reads", failing_reads, heal_disks, (0.3, 3.0), (DISKS,)),
    Fault("full disks", full, heal_disks, (1.0, 6.0), (DISKS,)),
    Fault("full disk and kill -9", full_and_killed, heal_disks, (0.0, 1.0), (DISKS, PROCESSES)),
    Fault("failing syncs and kill -9", failing_and_killed, heal_disks, (0.0, 1.0), (DISKS, PROCESSES)),
)


# Clocks.


async def heal_clocks(rig: Rig) -> None:
    for machine in rig.cluster.machines.values():
        machine.set(clock_ns=0)


async def jump(rig: Rig) -> None:
    _machine(rig, rig.any_node()).set(clock_ns=rig.random.choice(_JUMPS_NS))


async def jump_at_leader(rig: Rig) -> None:
    _machine(rig, await rig.leader()).set(clock_ns=rig.random.choice(_JUMPS_NS))


async def wander(rig: Rig) -> None:
    """All clocks differ by up to a minute, and change."""
    for _ in range(10):
        for node in rig.nodes:
            _machine(rig, node).set(clock_ns=rig.random.randrange(-60 * 10**9, 60 * 10**9))
        await asyncio.sleep(rig.random.uniform(0.05, 0.4))


async def jump_and_kill(rig: Rig) -> None:
    """A node starts with a wrong clock, and leads with it."""
    node = await rig.leader()
    await rig.cluster.kill_node(node)
    _machine(rig, node).set(clock_ns=rig.random.choice(_JUMPS_NS))
    rig.cluster.restart_node(node)
    other = await rig.leader()
    if other != node:
        await rig.cluster.kill_node(other)


CLOCK = (
    Fault("wall clock of a node jumps", jump, heal_clocks, (1.0, 5.0), (CLOCKS,)),
    Fault("wall clock of a leader jumps", jump_at_leader, heal_clocks, (1.0, 8.0), (CLOCKS,)),
    Fault("wall clocks wander", wander, heal_clocks, (0.0, 1.0), (CLOCKS,)),
    Fault("wrong clock at a start, and kill -9", jump_and_kill, heal_clocks, (1.0, 5.0), (CLOCKS, PROCESSES)),
)


# Power.


async def _cut(rig: Rig, nodes: list[int]) -> None:
    report = await rig.cluster.cut_power(nodes, rig.random)
    counts = rig.books.counts
    counts["nodes without power"] += len(nodes)
    counts["unsynced sectors lost"] += report.sectors
    counts["unsynced sectors torn"] += report.torn_sectors
    counts["unsynced names and sizes lost"] += report.names + report.sizes


async def cut_leader(rig: Rig) -> None:
    await _cut(rig, [await rig.leader()])


async def cut_two(rig: Rig) -> None:
    await _cut(rig, rig.some_nodes(2))


async def cut_all(rig: Rig) -> None:
    await _cut(rig, rig.nodes)


async def cut_while_recovering(rig: Rig) -> None:
    """Again and again while all recover."""
    await _cut(rig, rig.nodes)
    for _ in range(rig.random.randrange(1, 4)):
        for node in rig.nodes:
            rig.cluster.restart_node(node)
        await asyncio.sleep(rig.random.uniform(0.3, 3.0))
        await _cut(rig, rig.nodes)
        rig.books.counts["cuts while recovering"] += len(rig.nodes)


async def kill_then_cut(rig: Rig) -> None:
    """Killed, started on what the page cache holds, and then the power goes."""
    node = await rig.leader()
    await rig.cluster.kill_node(node)
    rig.cluster.restart_node(node)
    await asyncio.sleep(rig.random.uniform(0.3, 3.0))
    await _cut(rig, [node])
    rig.books.counts["cuts while recovering"] += 1


async def fail_then_cut(rig: Rig) -> None:
    """Syncs fail, work again, and then the power goes."""
    node = await rig.leader()
    _machine(rig, node).set(sync_fail_ppm=500_000)
    await asyncio.sleep(rig.random.uniform(0.1, 1.0))
    _machine(rig, node).heal_disk()
    await asyncio.sleep(rig.random.uniform(0.1, 1.0))
    await _cut(rig, [node])


POWER = (
    Fault("power of a leader", cut_leader, nothing),
    Fault("power of two", cut_two, nothing),
    Fault("power of all", cut_all, nothing, (0.0, 0.5)),
    Fault("power of all, again while they recover", cut_while_recovering, nothing, (0.0, 0.5)),
    Fault("kill -9, and power while it recovers", kill_then_cut, nothing),
    Fault("failing syncs, and then power", fail_then_cut, nothing, parts=(DISKS, PROCESSES)),
)
