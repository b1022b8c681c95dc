"""A simulated process on a simulated machine: the real driver, replicas, codec and store.

The disk survives a crash, memory does not. The node implements the driver's ports: it puts frames on the network as
bytes, lets disk work take time, and crashes at the armed point. Disk work in flight at a power cut is done in part: the
disk is interrupted in the middle of any of its operations.

Every input ends with `pump` and with a look by the observers, so the checkers run after every event.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from flotilla.codec.peer.frames import decode_frame, encode_frame
from flotilla.codec.peer.reading_frames import ROOM, decode_reading, encode_reading, is_reading
from flotilla.raft.messages import Configuration, Message
from flotilla.raft.node import RaftNode
from flotilla.raft.roles import LEADER
from flotilla.replica.ports import Block, Job, Load, Remains
from flotilla.replica.stored_state import StoredState
from flotilla.runtime.driver import THRIFTY_PATIENCE_MS, Driver, DriverOptions
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.coverage import Sometimes
from flotilla.sim.devices.clock import NodeClock
from flotilla.sim.devices.crash import SimulatedCrash
from flotilla.sim.devices.disk import Rot, SimDisk
from flotilla.sim.devices.network import Network
from flotilla.sim.devices.world import MS, SECOND, World
from flotilla.sim.ledger.watched import WatchedLedger, describe
from flotilla.sim.observer import GroupObserver
from flotilla.sim.trace import Trace
from flotilla.sim.watch import WatchedStore
from flotilla.storage.attachment import Attachment, attach_all
from flotilla.storage.options import StoreOptions
from flotilla.storage.store import NodeStore
from flotilla.types.errors import DiskFullError, FlotillaError, StorageFailedError
from flotilla.types.ids import GroupId, NodeId

DOWN = 0
RUNNING = 1
PAUSED = 2

#: After a failure of the disk the driver counts ticks until it tries again, also when all groups sleep.
RETRY_US = 10 * SECOND

#: The real ticker makes up for at most this many ticks after a pause.
CATCH_UP_TICKS_MAX = 3


class Token(Protocol):
    """Waits for an answer."""

    def answered(self, node: "SimNode", result: object) -> None: ...


class Surroundings:
    """What all nodes of a run share."""

    __slots__ = (
        "driver_options",
        "kept_entries",
        "network",
        "observers",
        "sometimes",
        "store_options",
        "trace",
        "world",
    )

    def __init__(
        self,
        world: World,
        network: Network,
        observers: dict[GroupId, GroupObserver],
        sometimes: Sometimes,
        trace: Trace,
        driver_options: DriverOptions,
        store_options: StoreOptions,
        kept_entries: int,
    ) -> None:
        """`kept_entries`: so many stay in every log, whatever snapshots cover; 0: snapshots shorten it."""
        self.kept_entries = kept_entries
        self.world = world
        self.network = network
        self.observers = observers
        self.sometimes = sometimes
        self.trace = trace
        self.driver_options = driver_options
        self.store_options = store_options


class SimNode:
    """See the module. Implements `DriverPorts`."""

    __slots__ = (
        "_around",
        "_block",
        "_busy_until_us",
        "_deferred",
        "_driver_random",
        "_is_patient",
        "_is_ticking",
        "_jobs",
        "_last_tick_us",
        "_late_random",
        "_paused_at_us",
        "_rafts",
        "_random",
        "_tick_number",
        "armed_after",
        "armed_point",
        "clock",
        "disk",
        "driver",
        "id",
        "incarnation",
        "is_lost",
        "is_reserved",
        "memberships",
        "rots",
        "slow_us",
        "status",
        "store",
    )

    def __init__(self, node_id: NodeId, around: Surroundings, clock: NodeClock) -> None:
        self._around = around
        self.id = node_id
        self.clock = clock
        self.disk = SimDisk(around.world.stream(f"disk {node_id}"))
        #: Randomness of this machine: how long its disk takes, how far it gets before a power cut.
        self._random = around.world.stream(f"machine {node_id}")
        #: The random stream that the product draws from.
        self._driver_random = around.world.stream(f"driver {node_id}")
        #: Which files do not come in time when the store is opened.
        self._late_random = around.world.stream(f"late {node_id}")
        self.status = DOWN
        #: Rises with every start and crash: events scheduled for an earlier process are void.
        self.incarnation = 0
        self.driver: Driver | None = None
        self.store: WatchedStore | None = None
        self._rafts: list[tuple[GroupObserver, RaftNode]] = []
        #: Groups this node should host, and the configuration each begins with.
        self.memberships: dict[GroupId, Configuration] = {}
        #: Its disk was lost: it must not return before the others have removed it.
        self.is_lost = False
        #: Damage on its disk that may not be repaired yet.
        self.rots: list[Rot] = []
        #: Its disk became full when it had its reserve: it can start without another byte.
        self.is_reserved = False
        #: Extra time of every write, for a slow disk.
        self.slow_us = 0
        self.armed_point: str | None = None
        self.armed_after = 0
        self._block: Block | None = None
        self._jobs: deque[Job] = deque()
        self._deferred: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self._paused_at_us = 0
        self._last_tick_us = 0
        self._is_ticking = False
        #: Counts the series of ticks: each begins anew after a sleep or a pause, and ends the one before.
        self._tick_number = 0
        #: The driver will be asked to insist.
        self._is_patient = False
        self._busy_until_us = 0

    # Start and crash.

    def start(self, interrupt_after: int = -1) -> bool:
        """Opens the store and begins to take part. False: not possible now.

        With `interrupt_after` the power fails during that operation of the disk, if recovery gets that far.
        """
        assert self.status == DOWN
        around = self._around
        if interrupt_after >= 0:
            self.disk.interrupt_after(interrupt_after)
        try:
            self._open()
        except SimulatedCrash as crash:
            around.sometimes.seen("crashed while recovering")
            self._die(crash.point, power=True)
            return False
        except (DiskFullError, StorageFailedError) as failure:
            if self.is_reserved and isinstance(failure, DiskFullError):
                raise Violation("a node starts on a full disk", f"node {self.id}: {failure}") from failure
            self._give_up_start()
            return False
        # A start uses some of the reserve.
        self.is_reserved = False
        self.disk.interrupt_after(-1)
        around.network.forget(self.id)
        around.network.set_heard(self.id, True)
        return True

    def _give_up_start(self) -> None:
        """The disk fails: the process ends before it took part in anything."""
        self.disk.stop()
        self.status = DOWN
        self.incarnation += 1
        self.driver = None
        self.store = None
        self._rafts = []

    def _open(self) -> None:
        around = self._around
        self.incarnation += 1
        real = NodeStore.open(self.disk, around.store_options, describe, self._attach_some)
        self.store = WatchedStore(self.id, real, around.observers, around.sometimes)
        for group, configuration in self.memberships.items():
            if group not in real.groups:
                self.store.create_group(group, configuration)
        self.driver = Driver(self.id, self.store, self, self._driver_random, around.driver_options)
        self.status = RUNNING
        self._is_patient = False
        self._rafts = []
        for group in sorted(real.groups):
            self._begin(group)
        self._last_tick_us = around.world.now_us
        self._tick_again()
        self.driver.pump()
        self._observe()

    def _attach_some(self, attachments: Sequence[Attachment]) -> None:
        """Files of other groups do not come in time: their replicas begin later."""
        late = 0.5 if self.disk.is_cold else 0.05
        attach_all([attachment for attachment in attachments if self._late_random.random() >= late])

    def _begin(self, group: GroupId) -> None:
        """The replica of a group begins, as soon as its files are open."""
        assert self.driver is not None
        assert self.store is not None
        machine = WatchedLedger(self.id, self._around.observers[group])
        if self.store.plan_attachment(group) is None:
            try:
                self._add_replica(group, machine)
            except StorageFailedError as failure:
                self._came(group, machine, failure)
        else:
            self._around.sometimes.seen("started without a group")
            self.driver.preload(group, machine, partial(self._came, group, machine))

    def _came(self, group: GroupId, machine: WatchedLedger, result: StoredState | FlotillaError) -> None:
        if isinstance(result, FlotillaError):
            self.later(SECOND, partial(self._begin, group))
        else:
            self._add_replica(group, machine, result)

    def _add_replica(self, group: GroupId, machine: WatchedLedger, state: StoredState | None = None) -> None:
        assert self.driver is not None
        assert self.store is not None
        observer = self._around.observers[group]
        replica = self.driver.add_replica(group, machine, state=state)
        machine.raft = replica.raft
        self.store.machines[group] = machine
        observer.started(self.id, replica.raft, self.store.groups[group])
        if replica.raft.damaged:
            self._around.sometimes.seen("damage found")
        self._rafts.append((observer, replica.raft))

    def host(self, group: GroupId) -> None:
        """Begins to host a group as a non-member, so that its leader can add it."""
        if group in self.memberships:
            return
        self.memberships[group] = Configuration()
        if self.status != DOWN:
            assert self.store is not None
            self.store.create_group(group, Configuration())
            self._add_replica(group, WatchedLedger(self.id, self._around.observers[group]))
            self._enter(self._nothing)

    def crash(self, *, power: bool, announced: bool = True) -> None:
        """The process ends. With `power` the machine ends too, and takes what was not synced."""
        if self.status != DOWN:
            self._die("", power=power, announced=announced)

    def _die(self, point: str, *, power: bool, announced: bool = True) -> None:
        around = self._around
        if point:
            around.sometimes.seen("crashed at a named point")
        if not power:
            around.sometimes.seen("process killed, machine up")
        self._count_crash()
        around.trace.note(self.id, f"dies at '{point}'" if point else ("loses power" if power else "is killed"))
        self._interrupt_disk_work()
        if power:
            self._lose_power()
        else:
            self.disk.stop()
        self.status = DOWN
        self.incarnation += 1
        self.driver = None
        self.store = None
        self._rafts = []
        self._block = None
        self._jobs.clear()
        self._deferred.clear()
        self.armed_point = None
        around.network.set_heard(self.id, False, announced=announced)

    def _lose_power(self) -> None:
        disk, seen = self.disk, self._around.sometimes.seen
        before = disk.bytes_at_stake_count, disk.names_at_stake_count
        disk.crash()
        if disk.bytes_at_stake_count > before[0]:
            seen("unsynced bytes at a power loss")
        if disk.names_at_stake_count > before[1]:
            seen("unsynced names at a power loss")

    def _count_crash(self) -> None:
        seen = self._around.sometimes.seen
        for observer, raft in self._rafts:
            if observer.leader == self.id:
                seen("leader crashed")
            if raft.configuration.is_joint:
                seen("crashed while joint")
            if raft.incoming is not None or raft.installing is not None:
                seen("crashed during a snapshot")

    def _interrupt_disk_work(self) -> None:
        """The disk work in flight is done in part."""
        if self._block is not None and self._random.random() < 0.8:
            self._around.sometimes.seen("crashed while writing")
            self._do_in_part(self._write_block)
        if self._jobs and self._random.random() < 0.8:
            self._around.sometimes.seen("crashed in background work")
            self._do_in_part(self._jobs[0].run)

    def _do_in_part(self, work: Callable[[], None]) -> None:
        self.disk.interrupt_after(int(self._random.random() * self._random.random() * 12))
        try:
            work()
        except (SimulatedCrash, FlotillaError):
            pass

    def _write_block(self) -> None:
        assert self.store is not None
        assert self._block is not None
        self.store.write_block(self._block)

    def wipe(self) -> None:
        """The disk is replaced by an empty one: this node lost its votes and must not come back as itself."""
        if self.status != DOWN:
            self._die("", power=True)
        self._around.sometimes.seen("disk wiped")
        self._around.trace.note(self.id, "has its disk replaced")
        self.disk.wipe()
        self.is_lost = True
        self.rots.clear()
        self._around.network.renew(self.id)

    def readmit(self) -> None:
        """The others have removed the old self of a wiped node: it may come back as a new node."""
        self.is_lost = False
        for group in self.memberships:
            self.memberships[group] = Configuration()
            self._around.observers[group].wiped(self.id)

    def pause(self) -> None:
        if self.status == RUNNING:
            self.status = PAUSED
            self._paused_at_us = self._around.world.now_us
            self._around.trace.note(self.id, "is paused")
            self._around.network.set_heard(self.id, False)

    def resume(self) -> None:
        """The time of the pause appears as a few ticks at once; then everything that waited in the sockets arrives."""
        if self.status != PAUSED:
            return
        self.status = RUNNING
        self._around.trace.note(self.id, "goes on")
        self._around.network.set_heard(self.id, True)
        missed = self.clock.missed_ticks(self._around.world.now_us - self._paused_at_us)
        self._tick_again()
        incarnation = self.incarnation
        for _ in range(min(missed, CATCH_UP_TICKS_MAX)):
            if self.incarnation == incarnation:
                self._enter(self._tick_driver)
        deferred, self._deferred = self._deferred, []
        if self._random.random() < 0.5:
            # Sockets are read in any order after a pause: those of clients may come before those of peers.
            deferred.sort(key=lambda one: one[0] != self._call)
        for action, arguments in deferred:
            if self.incarnation == incarnation:
                self._enter(action, *arguments)

    # Inputs. Each is one event: it enters the process, pumps, and is observed.

    def _enter(self, action: Callable[..., None], *arguments: object) -> None:
        if self.status == PAUSED:
            self._deferred.append((action, arguments))
            return
        driver = self.driver
        if driver is None:
            return
        if not self._is_ticking:
            self._tick_again()
        try:
            action(*arguments)
            driver.pump()
            if driver.has_lagging and not self._is_patient:
                self._is_patient = True
                self.later(THRIFTY_PATIENCE_MS * MS, self._replicate_to_lagging)
            self._observe()
            if self.disk.failed_reads:
                self._count_failed_reads()
        except SimulatedCrash as crash:
            self._observe()
            self._die(crash.point, power=True)

    def _replicate_to_lagging(self) -> None:
        assert self.driver is not None
        self._is_patient = False
        self.driver.replicate_to_lagging()

    def _observe(self) -> None:
        for observer, raft in self._rafts:
            observer.observe(self.id, raft)
        if self._around.kept_entries:
            self._release()

    def _release(self) -> None:
        """The log is the data: no snapshot shortens it, but retention does, here by count."""
        assert self.driver is not None
        keep = self._around.kept_entries
        for replica in self.driver.replicas.values():
            if replica.applied > replica.log.first_index() + 2 * keep:
                replica.release_below(replica.applied - keep)

    def _count_failed_reads(self) -> None:
        self.disk.failed_reads = 0
        self._around.sometimes.seen("read failed")
        if any(raft.role == LEADER for _, raft in self._rafts):
            self._around.sometimes.seen("read failed at a leader")

    def _after(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        self._around.world.after(delay_us, self._fire, self.incarnation, action, arguments)

    def later(self, delay_us: int, action: Callable[[], None]) -> None:
        """A timer of this process: it enters like any other input, and is void after a crash."""
        self._after(delay_us, self._enter, action)

    def _fire(self, incarnation: int, action: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if incarnation == self.incarnation:
            action(*arguments)

    def _tick(self, number: int) -> None:
        if self.status != RUNNING or number != self._tick_number:
            return
        self._enter(self._tick_driver)
        self._last_tick_us = self._around.world.now_us
        if self.driver is not None and (self.driver.storage_error or self._busy_until_us > self._last_tick_us):
            self._is_ticking = True
        else:
            self._is_ticking = not all(raft.quiescent for _, raft in self._rafts)
        if self._is_ticking:
            self._after(self.clock.tick_interval_us, self._tick, number)

    def _tick_again(self) -> None:
        """A sleeping node needs no ticks, so it got none; the next one comes when it would have come anyway."""
        self._is_ticking = True
        self._tick_number += 1
        interval_us = self.clock.tick_interval_us
        passed_us = self._around.world.now_us - self._last_tick_us
        self._after(interval_us - passed_us % interval_us, self._tick, self._tick_number)

    def _tick_driver(self) -> None:
        assert self.driver is not None
        assert self.store is not None
        self.driver.tick()
        if self._block is None:
            self.store.mark_block()

    def frame_arrived(self, frame: bytes) -> None:
        if self.status != DOWN:
            self._enter(self._receive, frame)

    def _receive(self, frame: bytes) -> None:
        assert self.driver is not None
        if is_reading(frame):
            _, peer, _, room = decode_reading(frame)
            self.driver.peer_room(peer, room)
        else:
            self.driver.receive(decode_frame(frame))

    def peer_changed(self, peer: NodeId, is_up: bool) -> None:
        self._around.sometimes.seen("peer reported down") if not is_up else None
        self._enter(self._report_peer, peer, is_up)

    def _report_peer(self, peer: NodeId, is_up: bool) -> None:
        assert self.driver is not None
        if is_up:
            self.driver.peer_up(peer)
        else:
            self.driver.peer_down(peer)

    def call(self, group: GroupId, action: Callable[[Driver], None]) -> bool:
        """A client's or an operator's request. False: the process is down, so it was certainly not received."""
        if self.status == DOWN:
            return False
        self._enter(self._call, group, action)
        return True

    def _call(self, group: GroupId, action: Callable[[Driver], None]) -> None:
        assert self.driver is not None
        if group in self.driver.replicas:
            action(self.driver)

    @staticmethod
    def _nothing() -> None:
        return

    # Ports of the driver.

    def send(self, to: NodeId, messages: list[tuple[GroupId, Message]]) -> None:
        observers = self._around.observers
        for group, message in messages:
            observers[group].sent(message)
        self._around.network.send(self.id, to, b"".join(encode_frame(messages)))

    def tell_room(self, room: int) -> None:
        for peer in self._around.network.others(self.id):
            self._around.network.send(self.id, peer, encode_reading(ROOM, self.id, peer, room))

    def write(self, block: Block) -> None:
        self._block = block
        self._after(self._latency_us(100, 400), self._enter, self._block_done)

    def _block_done(self) -> None:
        assert self.driver is not None
        block = self._block
        assert block is not None
        error: FlotillaError | None = None
        try:
            self._write_block()
        except FlotillaError as failure:
            error = failure
            self._count_failure(failure)
        self._block = None
        if error is None and isinstance(self.driver.storage_error, DiskFullError):
            self._around.sometimes.seen("disk full and recovered")
        self.driver.block_written(block, error)

    def run(self, job: Job) -> None:
        """One after the other, as on the real thread for work that takes long."""
        self._jobs.append(job)
        if len(self._jobs) == 1:
            self._start_job()

    def _start_job(self) -> None:
        self._after(self._latency_us(500, 20 * MS), self._enter, self._job_done)

    def _job_done(self) -> None:
        assert self.driver is not None
        job = self._jobs[0]
        error: FlotillaError | None = None
        try:
            job.run()
        except FlotillaError as failure:
            error = failure
            self._count_failure(failure)
        self._jobs.popleft()
        if self._jobs:
            self._start_job()
        self.driver.job_done(job, error)

    def discard(self, remains: Remains) -> None:
        for _ in remains:
            pass

    def load(self, load: Load) -> None:
        """Beside everything else."""
        self._after(self._latency_us(50, 5 * MS), self._enter, self._load_done, load)

    def _load_done(self, load: Load) -> None:
        assert self.driver is not None
        error: FlotillaError | None = None
        try:
            load.run()
        except FlotillaError as failure:
            error = failure
        self.driver.load_done(load, error)

    def _count_failure(self, failure: FlotillaError) -> None:
        self._busy_until_us = self._around.world.now_us + RETRY_US
        self._around.sometimes.seen("disk full" if isinstance(failure, DiskFullError) else "sync failed")

    def _latency_us(self, least_us: int, spread_us: int) -> int:
        return least_us + int(self._random.random() * spread_us) + self.slow_us

    def reply(self, token: object, result: object) -> None:
        token.answered(self, result)  # type: ignore[attr-defined]

    def group_failed(self, group: GroupId, failure: Exception) -> None:
        """A run has no failures but those that it plans: any other is a violation."""
        raise failure

    def crash_point(self, name: str) -> None:
        if self.armed_point == name:
            self.armed_after -= 1
            if self.armed_after < 0:
                self.armed_point = None
                raise SimulatedCrash(name)
