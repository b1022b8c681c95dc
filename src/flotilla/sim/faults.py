"""The fault injector: which faults strike which nodes, and when.

A fault is drawn now and then from those that the seed has chosen. Many aim at the leader, at the follower that would
take over, or at a node that is joining. Crashes wait for a named point of the driver, at rare points for as long as it
takes. All other faults end by themselves, and everything ends with `heal`.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from flotilla.runtime.driver_ports import CRASH_POINTS
from flotilla.sim.backups import Backup, has_tail, may_put_back, put_back, tail_of
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.cluster import Cluster
from flotilla.sim.coverage import crashed_at
from flotilla.sim.devices.disk import UNLIMITED_BYTES
from flotilla.sim.devices.network import Weather
from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.good_copies import can_heal, is_at_rest, last_block, read_disk
from flotilla.sim.node import DOWN, PAUSED, RUNNING, SimNode
from flotilla.sim.plan import FAULTS, draw_weather
from flotilla.sim.workload import Workload
from flotilla.storage.journal import RESERVE_PATH
from flotilla.types.errors import CorruptionError, StorageFailedError
from flotilla.types.ids import GroupId, Index, NodeId

#: Points that most rounds of the driver do not pass, the more frequent first.
RARE_POINTS = ("maintained", "snapshot", "installing", "installed")
#: Interval of the check for crashes at rare points.
LOOK_US = 100 * MS
#: Before the faults end: time for a tail that never commits, and for the other nodes to go on without its node.
LAST_TAIL_US = 10 * SECOND


class Ambush:
    """Power cuts that wait at a named point, and which of them have happened."""

    __slots__ = ("_armed", "_cluster", "awaited", "is_watched")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: What each node was last armed with.
        self._armed: dict[NodeId, str] = {}
        #: Rare points at which the first node to reach one crashes: each once, and again when it is drawn.
        self.awaited: set[str] = set(RARE_POINTS)
        #: The periodic check is scheduled.
        self.is_watched = False

    def arm(self, node: SimNode, point: str, after: int) -> None:
        self.has_caught(node)
        self._armed[node.id] = point
        node.armed_point, node.armed_after = point, after

    def has_caught(self, node: SimNode) -> bool:
        """Whether the node has crashed at its point; true once."""
        if node.id not in self._armed or node.armed_after >= 0:
            return False
        point = self._armed.pop(node.id)
        self.awaited.discard(point)
        self._cluster.sometimes.seen(crashed_at(point))
        return True

    def arm_everyone(self) -> None:
        """Arms all nodes with the most frequent awaited point, so that it is soon done. A restart disarms."""
        point = next((point for point in RARE_POINTS if point in self.awaited), None)
        for node in self._cluster.nodes.values():
            if node.armed_point in RARE_POINTS and node.armed_point != point:
                node.armed_point = None
            if node.armed_point is None and point is not None and node.status == RUNNING:
                self.arm(node, point, 0)


class FaultInjector:
    """Draws faults until `heal`."""

    __slots__ = (
        "_ambush", "_backups", "_cluster", "_is_over", "_kinds", "_last_random", "_random", "_weights", "_workload",
        "count",
    )  # fmt: skip

    def __init__(self, cluster: Cluster, workload: Workload) -> None:
        self._cluster = cluster
        self._workload = workload
        self._random: Random = cluster.world.stream("faults")
        self._last_random: Random = cluster.world.stream("last fault")
        self._kinds = [name for name in cluster.plan.faults if name in _ACTIONS]
        self._weights = [FAULTS[name] for name in self._kinds]
        self._ambush = Ambush(cluster)
        #: Copies of disks that may be put back.
        self._backups: dict[NodeId, Backup] = {}
        self._is_over = False
        self.count = 0

    def start(self) -> None:
        if self._kinds:
            self._schedule()
        if "rot" in self._kinds and self._last_random.random() < 0.5:
            self._cluster.world.after(max(0, self._cluster.plan.chaos_us - LAST_TAIL_US), self._rot_last_tail)

    def heal(self) -> None:
        """Repairs everything except what a disk has lost."""
        self._is_over = True
        cluster = self._cluster
        cluster.network.heal()
        cluster.network.clear(Weather(silence_us=cluster.plan.weather.silence_us))
        for node in cluster.nodes.values():
            node.slow_us = 0
            node.disk.is_cold = False
            self._ambush.has_caught(node)
            node.armed_point = None
            node.disk.set_capacity(UNLIMITED_BYTES)
            node.disk.fail_next_sync(0)
            node.disk.fail_next_write(0)
            self._read_again(node)
            node.resume()
            cluster.restart(node)

    def _schedule(self) -> None:
        if self._is_over:
            return
        delay_us = int(self._random.expovariate(1.0) * self._cluster.plan.fault_interval_us)
        self._cluster.world.after(delay_us + 1, self._strike)

    def _strike(self) -> None:
        self._schedule()
        if self._random.random() < 0.5:
            # Most of a run is quiet: half of the faults wait until there is something to disturb.
            self._workload.burst_actions.append(self._inflict)
        else:
            self._inflict()

    def _inflict(self) -> None:
        if self._is_over:
            return
        kind = self._random.choices(self._kinds, self._weights)[0]
        self.count += 1
        _ACTIONS[kind](self)

    def _later(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        self._cluster.world.after(delay_us, self._unless_over, action, arguments)

    def _unless_over(self, action: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if not self._is_over:
            action(*arguments)

    def _length_us(self) -> int:
        """Short, medium or long: past a heartbeat, past an election, past a silence."""
        longest_us = self._random.choice((50 * MS, 50 * MS, 3 * SECOND, 3 * SECOND, 15 * SECOND))
        return int(self._random.random() * longest_us) + 1

    def _target(self) -> SimNode:
        """A node whose loss hurts."""
        cluster, random = self._cluster, self._random
        group = cluster.pick_group(random)
        dice = random.random()
        leader = cluster.leader(group)
        if leader is not None and dice < 0.7:
            raft = cluster.raft(leader, group)
            others = [(one.match, peer) for peer, one in raft.progress.items() if peer != leader.id] if raft else []
            if dice < 0.4 or raft is None or not others:
                return leader
            if dice < 0.6:
                return cluster.nodes[max(others)[1]]
            joining = raft.configuration.learners or (min(others)[1],)
            return cluster.nodes[joining[0]]
        return cluster.nodes[1 + random.randrange(len(cluster.nodes))]

    # Processes and machines.

    def _crash(self) -> None:
        node = self._target()
        node.crash(power=True, announced=self._random.random() < 0.7)
        self._restart_later(node)

    def _restart_later(self, node: SimNode) -> None:
        """One time in four the power goes again while it recovers."""
        interrupt_after = int(self._random.random() * 40) if self._random.random() < 0.25 else -1
        self._later(self._length_us(), self._cluster.restart, node, interrupt_after)

    def _kill(self) -> None:
        node = self._target()
        node.crash(power=False)
        self._restart_later(node)

    def _crash_at_point(self) -> None:
        node = self._target()
        if node.status != RUNNING:
            return
        point = self._random.choice(CRASH_POINTS)
        after = int(self._random.random() * self._random.random() * 6)
        length_us = self._length_us()
        if point in RARE_POINTS:
            self._ambush.awaited.add(point)
        else:
            self._ambush.arm(node, point, after)
            self._later(length_us + 200 * MS, self._after_point, node)
        if not self._ambush.is_watched:
            self._watch_rare_points()

    def _after_point(self, node: SimNode) -> None:
        self._ambush.has_caught(node)
        node.armed_point = None
        self._cluster.restart(node)

    def _watch_rare_points(self) -> None:
        ambush = self._ambush
        for node in self._cluster.nodes.values():
            if ambush.has_caught(node):
                self._restart_later(node)
        ambush.arm_everyone()
        ambush.is_watched = bool(ambush.awaited)
        if ambush.is_watched:
            self._later(LOOK_US, self._watch_rare_points)

    def _blackout(self) -> None:
        self._cluster.sometimes.seen("whole cluster lost power")
        self._cluster.trace.note(0, "the power fails everywhere")
        for node in self._cluster.nodes.values():
            node.crash(power=True, announced=False)
            self._restart_later(node)

    def _pause(self) -> None:
        node = self._target()
        node.pause()
        length_us = self._length_us()
        if length_us > 3 * SECOND:
            self._cluster.sometimes.seen("paused past an election")
        self._later(length_us, self._resume, node)

    def _resume(self, node: SimNode) -> None:
        if node.status == PAUSED:
            for group, observer in self._cluster.observers.items():
                raft = self._cluster.raft(node, group)
                if raft is not None and raft.leader == node.id and observer.leader != node.id:
                    self._cluster.sometimes.seen("paused leader deposed")
        node.resume()

    def _clock(self) -> None:
        """Another drift."""
        node = self._target()
        most = self._cluster.plan.drift_ppm_max
        node.clock.drift(self._random.randint(-most, most), self._cluster.world.now_us)

    # The network.

    def _partition(self) -> None:
        ids = list(self._cluster.nodes)
        side = self._random.sample(ids, self._random.randint(1, len(ids) - 1))
        self._cluster.sometimes.seen("partitioned")
        self._cluster.trace.note(0, f"the network splits: {sorted(side)} and the rest")
        self._cluster.network.partition(side)
        self._later(self._length_us(), self._mend)

    def _isolate(self) -> None:
        node = self._target()
        self._cluster.sometimes.seen("leader isolated")
        self._cluster.trace.note(node.id, "is cut off")
        self._cluster.network.isolate(node.id)
        self._later(self._length_us(), self._mend)

    def _cut_one_way(self) -> None:
        node = self._target()
        others = [other for other in self._cluster.nodes if other != node.id]
        outward = self._random.random() < 0.5
        self._cluster.sometimes.seen("cut one way")
        for other in self._random.sample(others, self._random.randint(1, len(others))):
            sender, to = (node.id, other) if outward else (other, node.id)
            self._cluster.trace.note(sender, f"is not heard by node {to} any more")
            self._cluster.network.cut(sender, to)
        self._later(self._length_us(), self._mend)

    def _mend(self) -> None:
        self._cluster.trace.note(0, "the network is whole again")
        self._cluster.network.heal()

    def _change_weather(self) -> None:
        self._cluster.trace.note(0, "the weather changes")
        # How long links are silent before a node notices is no weather: it is a setting of the nodes.
        weather = replace(draw_weather(self._random), silence_us=self._cluster.plan.weather.silence_us)
        self._cluster.network.clear(weather)
        self._later(self._length_us(), self._cluster.network.clear, self._cluster.plan.weather)

    # Disks.

    def _slow_disk(self) -> None:
        node = self._target()
        node.slow_us = self._random.choice((20 * MS, 200 * MS, 2 * SECOND))
        node.disk.is_cold = True
        self._cluster.trace.note(node.id, "has a slow disk")
        self._later(self._length_us(), self._usual_disk, node)

    def _usual_disk(self, node: SimNode) -> None:
        node.slow_us = 0
        node.disk.is_cold = node.is_reserved = False
        node.disk.set_capacity(UNLIMITED_BYTES)

    def _fail_sync(self) -> None:
        node = self._target()
        self._cluster.trace.note(node.id, "fails to sync its disk")
        node.disk.fail_next_sync(self._random.choice((1, 1, 3)))

    def _fail_write(self) -> None:
        node = self._target()
        self._cluster.sometimes.seen("write failed")
        self._cluster.trace.note(node.id, "fails to write to its disk")
        node.disk.fail_next_write(self._random.choice((1, 1, 3)))

    def _fill_disk(self) -> None:
        node = self._target()
        self._cluster.trace.note(node.id, "runs out of room")
        node.is_reserved = node.status == RUNNING and node.disk.has_durable(RESERVE_PATH)
        node.disk.set_capacity(node.disk.used_bytes + self._random.randrange(4096))
        self._later(self._length_us(), self._usual_disk, node)

    def _rot(self) -> None:
        node = self._rot_victim()
        if self._random.random() < 0.5:
            self._cut_off_for_a_tail(self._random)
        if node.is_lost:
            return
        for _ in range(self._random.choice((1, 1, 3))):
            self._rot_once(node)
        if self._random.random() < 0.5 and node.status != DOWN:
            node.crash(power=True)
            self._restart_later(node)

    def _rot_victim(self) -> SimNode:
        plan = self._cluster.plan
        if plan.has_one_victim:
            return self._cluster.nodes[plan.victim]
        # The tail of a deposed leader is the hardest to repair.
        tailed = [node for node in self._cluster.running() if has_tail(self._cluster, node)]
        return tailed[0] if tailed and self._random.random() < 0.5 else self._target()

    def _rot_last_tail(self) -> None:
        """A node is damaged when the faults end: the others and its vote must be enough."""
        self._workload.begin_burst()
        self._cut_off_for_a_tail(self._last_random, LAST_TAIL_US)

    def _cut_off_for_a_tail(self, random: Random, gone_us: int = 0) -> None:
        """Cuts off a leader, so that it collects entries that never commit; then one of them rots."""
        cluster = self._cluster
        leader = cluster.leader(cluster.pick_group(random))
        cut_us, gone_us = random.random() * 2 * SECOND, gone_us or self._length_us()
        if leader is None or leader.status != RUNNING:
            return
        if cluster.plan.has_one_victim and leader.id != cluster.plan.victim:
            return
        cluster.sometimes.seen("leader isolated")
        cluster.trace.note(leader.id, "is cut off")
        cluster.network.isolate(leader.id)
        self._later(int(cut_us) + 100 * MS, self._rot_tail, leader, leader.incarnation, gone_us)

    def _rot_tail(self, node: SimNode, incarnation: int, gone_us: int) -> None:
        if node.incarnation == incarnation and node.status == RUNNING:
            for group in self._cluster.observers:
                tail = tail_of(self._cluster, node, group)
                if tail:
                    self._rot_once(node, self._data_at(node, group, tail[int(self._random.random() * len(tail))]))
            node.crash(power=True)
            # It finds the damage when it starts, before the others can overwrite the tail.
            self._later(gone_us, self._cluster.restart, node)
        self._later(gone_us, self._mend)

    def _rot_once(self, node: SimNode, aim: bytes = b"") -> None:
        """Damages one place, unless the cluster could not heal from it."""
        dice = self._random.random()
        if not aim and dice < 0.5:
            aim = self._entry_of(node)
        disk = node.disk
        before = self._last_block(node)
        damage = (
            disk.rot_in(aim, spares_young=False)
            if aim
            else disk.rot("groups/" if dice < 0.7 else "", spares_young=False)
        )
        if damage is None:
            return
        node.rots = [rot for rot in node.rots if disk.has_file(rot.inode)]
        is_used = True
        try:
            read_disk(self._cluster, node)
            is_used = not damage.path.startswith("groups/") or is_at_rest(self._cluster, node, damage.path)
            lost = "its last block is gone" if last_block(node) < before else ""
        except CorruptionError as error:
            lost = str(error)
        if lost and node.status == RUNNING and not node.rots:
            raise Violation("one bad sector costs no node", f"node {node.id}, {damage}: {lost}")
        if lost or not is_used or not can_heal(self._cluster):
            disk.undo(damage)
            return
        node.rots.append(damage)
        self._cluster.sometimes.seen("disk rotted")
        if any(other.rots for other in self._cluster.nodes.values() if other is not node):
            self._cluster.sometimes.seen("second disk rotted")
        self._cluster.trace.note(node.id, f"has {damage.length} rotten bytes in {damage.path} at {damage.offset}")

    @staticmethod
    def _last_block(node: SimNode) -> int:
        try:
            return last_block(node)
        except CorruptionError:
            return 0

    def _entry_of(self, node: SimNode) -> bytes:
        """The data of an entry in one of the node's logs; empty if there is none worth to be looked for."""
        group = self._cluster.pick_group(self._random)
        chosen = self._random.random()
        if node.store is None or node.driver is None or group not in node.driver.replicas:
            return b""
        log = node.store.groups[group]
        tail = tail_of(self._cluster, node, group)
        length = len(tail) or log.last_index() + 1 - log.first_index()
        return self._data_at(node, group, log.last_index() - int(chosen * length)) if length else b""

    @staticmethod
    def _data_at(node: SimNode, group: GroupId, index: Index) -> bytes:
        assert node.store is not None
        assert node.driver is not None
        if group not in node.driver.replicas:
            return b""
        try:
            data = node.store.groups[group].entries(index, index + 1, 1)[0].data
        except (CorruptionError, StorageFailedError):
            return b""
        return bytes(data) if len(data) >= 8 else b""

    def _fail_reads(self) -> None:
        node = self._target()
        node.disk.is_unreadable = True
        self._cluster.trace.note(node.id, "fails to read its disk")
        self._later(self._length_us(), self._read_again, node)

    def _run_out_of_descriptors(self) -> None:
        node = self._target()
        node.disk.is_out_of_descriptors = True
        self._cluster.sometimes.seen("out of descriptors")
        self._cluster.trace.note(node.id, "runs out of descriptors")
        self._later(self._length_us(), self._read_again, node)

    @staticmethod
    def _read_again(node: SimNode) -> None:
        node.disk.is_unreadable = node.disk.is_out_of_descriptors = False

    def _put_back(self) -> None:
        """Copies a disk now; a later strike puts the copy back, if that is covered by what is promised."""
        cluster = self._cluster
        for node in cluster.nodes.values():
            backup = self._backups.get(node.id)
            if backup is not None and may_put_back(cluster, node, backup):
                del self._backups[node.id]
                cluster.sometimes.seen("disk put back")
                cluster.trace.note(node.id, "has its disk put back to an earlier state")
                put_back(cluster, node, backup)
                self._later(int(self._random.random() * 500 * MS), cluster.restart, node)
                return
        # A copy with a tail that never commits is the most telling one.
        tailed = [node for node in cluster.running() if has_tail(cluster, node)]
        node = tailed[0] if tailed else self._target()
        if node.status == RUNNING and not node.rots and (tailed or node.id not in self._backups):
            cluster.trace.note(node.id, "has its disk copied")
            self._backups[node.id] = Backup(cluster, node)

    def _wipe(self) -> None:
        node = self._cluster.nodes[self._cluster.plan.victim]
        # Two voters may be left after it was removed and came back: then its disk is no minority of them.
        if not node.is_lost and self._cluster.can_spare({node.id}):
            self._backups.pop(node.id, None)
            node.wipe()


_ACTIONS: dict[str, Callable[[FaultInjector], None]] = {
    "crash": FaultInjector._crash,
    "kill": FaultInjector._kill,
    "point": FaultInjector._crash_at_point,
    "blackout": FaultInjector._blackout,
    "pause": FaultInjector._pause,
    "partition": FaultInjector._partition,
    "one-way": FaultInjector._cut_one_way,
    "isolate": FaultInjector._isolate,
    "weather": FaultInjector._change_weather,
    "slow-disk": FaultInjector._slow_disk,
    "sync-fail": FaultInjector._fail_sync,
    "write-fail": FaultInjector._fail_write,
    "disk-full": FaultInjector._fill_disk,
    "rot": FaultInjector._rot,
    "wipe": FaultInjector._wipe,
    "clock": FaultInjector._clock,
    "unreadable": FaultInjector._fail_reads,
    "descriptors": FaultInjector._run_out_of_descriptors,
    "put-back": FaultInjector._put_back,
}
