"""A cluster heals from rot while a majority can fetch what it lost; the bound is found by reading the disks."""

from dataclasses import replace

from flotilla.sim.backups import Backup, may_put_back, put_back
from flotilla.sim.devices.network import Weather
from flotilla.sim.devices.world import SECOND
from flotilla.sim.good_copies import can_heal, read_disk
from flotilla.sim.node import SimNode
from flotilla.sim.plans.run import LEDGER, draw_plan
from flotilla.sim.run import Run
from flotilla.storage.framing import SECTOR_BYTES
from flotilla.types.limits import MIB


def working_run() -> Run:
    """Three nodes, some entries committed, nothing in flight."""
    plan = draw_plan(4, workload=LEDGER, nodes=3, faults=())
    run = Run(replace(plan, groups=1, weather=Weather(), padding_bytes_max=200, snapshot_entries=200))
    run.cluster.start()
    run.workload.start()
    run.world.run_until(40 * SECOND)
    run.workload.stop()
    run.world.run_until(60 * SECOND)
    return run


def damage_entries(node: SimNode) -> None:
    """One bit of every entry in the node's files goes bad."""
    assert node.store is not None
    log = node.store.groups[1]
    entries = log.entries(log.first_index(), log.last_index() + 1, MIB)
    bodies = [bytes(entry.data) for entry in entries if len(entry.data) > 8]
    assert bodies
    for _, inode in node.disk.files():
        for at in {inode.image.find(body) for body in bodies} - {-1}:
            inode.image[at] ^= 1


def test_an_intact_cluster_has_all_copies() -> None:
    run = working_run()
    copies = [read_disk(run.cluster, node)[1] for node in run.cluster.nodes.values()]
    assert not any(copy.damaged or copy.is_state_lost for copy in copies)
    assert copies[0].intact == copies[1].intact == copies[2].intact
    assert can_heal(run.cluster)


def test_one_damaged_disk_heals_and_two_that_lost_the_same_do_not_without_the_third() -> None:
    run = working_run()
    first, second, third = run.cluster.nodes.values()
    damage_entries(first)
    assert read_disk(run.cluster, first)[1].damaged
    assert can_heal(run.cluster)
    assert can_heal(run.cluster, frozenset({third.id}))
    damage_entries(second)
    assert can_heal(run.cluster), "the third node has all of it"
    assert not can_heal(run.cluster, frozenset({third.id}))


def test_a_disk_is_put_back_only_where_a_majority_without_it_knows_all() -> None:
    run = working_run()
    cluster = run.cluster
    leader = cluster.leader(1)
    assert leader is not None
    other, follower = [node for node in cluster.nodes.values() if node is not leader]
    backup = Backup(cluster, follower)
    assert may_put_back(cluster, follower, backup)
    assert not may_put_back(cluster, leader, Backup(cluster, leader)), "it stood in this term"
    other.crash(power=True)
    assert not may_put_back(cluster, follower, backup), "nobody knows what the third node does"
    cluster.restart(other)
    put_back(cluster, follower, backup)
    cluster.restart(follower)
    run.world.run_until(70 * SECOND)
    raft = cluster.raft(follower, 1)
    assert raft is not None
    assert raft.log.last_index == cluster.observers[1].log.commit


def test_no_single_sector_keeps_a_store_from_opening() -> None:
    run = working_run()
    node = run.cluster.nodes[2]
    opened = 0
    for path, inode in node.disk.files():
        for start in range(0, len(inode.image.rstrip(b"\0")), SECTOR_BYTES):
            if path == "format":
                continue
            before = bytes(inode.image[start : start + SECTOR_BYTES])
            inode.image[start : start + SECTOR_BYTES] = bytes(len(before))
            copy = read_disk(run.cluster, node)[1]
            assert {index for index, _ in copy.intact | copy.damaged} == set(range(1, 16)), path
            inode.image[start : start + SECTOR_BYTES] = before
            opened += 1
    assert opened > 3
