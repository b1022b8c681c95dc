"""A cluster heals from rot while a majority can fetch what it lost; the bound is found by reading the disks."""

from dataclasses import replace

from flotilla.sim.backups import Backup, may_put_back, put_back, tail_of
from flotilla.sim.devices.network import Weather
from flotilla.sim.devices.world import SECOND
from flotilla.sim.good_copies import LogCopy, can_group_heal, can_heal, last_block, read_disk
from flotilla.sim.node import SimNode
from flotilla.sim.plan import draw_plan
from flotilla.sim.run import Run
from flotilla.storage.block import HEADER_BYTES
from flotilla.storage.framing import SECTOR_BYTES
from flotilla.storage.journal_scan import JournalScan, list_journal
from flotilla.storage.store_format import read_salt
from flotilla.types.limits import MIB


def working_run(journal_bytes: int = 0) -> Run:
    """Three nodes, some entries committed, nothing in flight."""
    plan = draw_plan(4, nodes=3, ticks=600, faults=())
    if journal_bytes:
        plan = replace(plan, store=replace(plan.store, journal_bytes=journal_bytes))
    run = Run(replace(plan, groups=1, weather=Weather(), padding_bytes_max=200, snapshot_entries=200, kept_entries=0))
    run.cluster.start()
    run.workload.start()
    run.world.run_until(40 * SECOND)
    run.workload.stop()
    run.world.run_until(60 * SECOND)
    return run


class Unheard:
    """Nobody waits for the answer."""

    def answered(self, node: SimNode, result: object) -> None: ...


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
    for node in (first, second, third):
        node.crash(power=True)
    assert can_heal(run.cluster), "they are down, and their disks are the same"
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


def test_the_tail_of_a_leader_that_was_cut_off() -> None:
    run = working_run()
    cluster = run.cluster
    leader = cluster.leader(1)
    assert leader is not None
    commit = cluster.observers[1].log.commit
    assert not tail_of(cluster, leader, 1)
    cluster.network.isolate(leader.id)
    for _ in range(3):
        leader.call(1, lambda driver: driver.propose(1, b"never committed", Unheard()))
    run.world.run_until(run.world.now_us + SECOND // 2)
    assert tail_of(cluster, leader, 1) == range(commit + 1, commit + 4)
    run.world.run_until(run.world.now_us + 10 * SECOND)
    assert cluster.observers[1].log.commit > commit, "another leader has begun its term"
    assert tail_of(cluster, leader, 1) == range(commit + 1, commit + 4)


def test_a_short_pause_adds_no_ticks() -> None:
    run = working_run()
    node = run.cluster.nodes[1]
    ticks: list[int] = []
    assert node.driver is not None
    node.driver.tick = lambda: ticks.append(run.world.now_us)  # type: ignore[method-assign]
    run.cluster.network.isolate(node.id)
    for _ in range(5):
        node.driver.replicas[1].raft.wake()
        node.call(1, lambda _: None)
        node.pause()
        run.world.run_until(run.world.now_us + SECOND // 100)
        node.resume()
    began_us = run.world.now_us
    run.world.run_until(began_us + 2 * SECOND)
    assert 18 <= len([tick for tick in ticks if tick > began_us]) <= 22


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


def test_rot_spares_the_second_directory_of_a_last_block_that_only_unsynced_bytes_prove() -> None:
    """Without the proof the block looks torn; with it, if a power cut leaves it, the node rightly refuses to start."""
    run = working_run(journal_bytes=MIB)
    node = run.cluster.nodes[2]
    before = last_block(node)
    scan = JournalScan.of(node.disk, list_journal(node.disk), read_salt(node.disk))
    image = scan.images[before]
    assert not image.is_checkpoint
    assert scan.proven == before, "the mark is in the cache of the system"
    for position in (image.position, image.twin_position):
        run.faults._rot_once(node, aim=bytes(image.data[position : position + HEADER_BYTES]))
    assert len(node.rots) == 1
    assert last_block(node) == before
    node.crash(power=False)
    assert node.start()


def copy_of(intact: list[tuple[int, int]], damaged: tuple[tuple[int, int], ...] = (), *, lost: bool = False) -> LogCopy:
    """Entries as index and term."""
    copy = LogCopy.__new__(LogCopy)
    copy.intact, copy.damaged, copy.is_state_lost = set(intact), set(damaged), lost
    index, term = max([*intact, *damaged])
    copy.last = term, index
    return copy


def test_a_leader_mends_the_others_if_their_votes_elect_it() -> None:
    cluster = Run(replace(draw_plan(4, nodes=3, faults=()), groups=1)).cluster
    whole = copy_of([(1, 1), (2, 2), (3, 2)])
    tail = copy_of([(1, 1)], ((2, 1),))
    assert can_group_heal(cluster, 1, {1: whole, 2: tail}), "node 2 votes for node 1, which lacks the damaged entry"
    assert can_group_heal(cluster, 1, {1: whole, 2: copy_of([(1, 1)], lost=True)})
    assert not can_group_heal(cluster, 1, {1: whole}), "no majority"
    assert not can_group_heal(cluster, 1, {1: whole, 2: copy_of([(1, 1)], ((4, 2),))}), "the only copy is gone"
    assert not can_group_heal(cluster, 1, {1: tail, 2: tail}), "nobody can lead"
