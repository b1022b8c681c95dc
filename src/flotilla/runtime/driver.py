"""The driver of all groups of a node: it saves, syncs, sends, applies and replies, in that order.

That order is the durability contract (raft/node.py); each step ends at a named crash point, where the
simulator may cut the power. Messages that depend on nothing unsaved leave before anything is saved, so that
the other nodes' disks work as soon as the own one. All groups share one block of the journal, so one sync
serves everything that came in while the last one ran: no timer, and no waiting when idle. Messages of all
groups to a peer leave together. There is no thread, clock or socket in here: the caller owns those, calls
the inputs, then `pump`.

An exception from the code of one group cuts that replica off (`hosted_replicas`). What all groups share, the store, has
no such boundary: its exceptions leave the driver.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from flotilla.raft import reasons
from flotilla.raft.membership import ConfigurationChange
from flotilla.raft.messages import Append, Entry, Message, ReadState, Ready, Snapshot
from flotilla.raft.roles import LEADER
from flotilla.replica.ports import Block, Job, Load, StateMachine, Store, UnstorableError
from flotilla.replica.replica import Replica, ReplicaOptions
from flotilla.replica.saving import admitted, save
from flotilla.replica.stored_state import StateLoad, StoredState
from flotilla.runtime.driver_ports import DriverPorts
from flotilla.runtime.hosted_replicas import HostedReplicas
from flotilla.runtime.leadership.handovers import Handovers
from flotilla.runtime.leadership.rooms import FULL, ROOMY, SHORT, Rooms
from flotilla.runtime.loads_in_flight import LoadsInFlight
from flotilla.types.errors import DiskFullError, FlotillaError, NotLeaderError
from flotilla.types.ids import GroupId, Index, NodeId
from flotilla.types.limits import LOAD_MS_MAX
from flotilla.types.timing import TICK_MS

#: Thrifty replication: an entry without a quorum after this long goes to the lagging voters as well.
THRIFTY_PATIENCE_MS = 3


@dataclass(frozen=True, slots=True)
class DriverOptions:
    replica: ReplicaOptions
    #: After a failed write or sync, try again this many ticks later.
    retry_ticks: int = 10
    #: A group with a load that takes longer has stalled.
    load_ticks_max: int = LOAD_MS_MAX // TICK_MS
    #: A leader that stalled or has no room transfers leadership to the same node again after this many ticks.
    heir_rest_ticks: int = 30_000 // TICK_MS
    #: A peer that has not said for so long that its disk has no room has room.
    room_rest_ticks: int = 3_000 // TICK_MS


class Driver(HostedReplicas):
    def __init__(self, node: NodeId, store: Store, ports: DriverPorts, random: Random, options: DriverOptions) -> None:
        super().__init__(ports.group_failed)
        self.node = node
        #: Why nothing is acknowledged now; None while the disk works.
        self.storage_error: FlotillaError | None = None
        #: Why the last background job failed: acknowledged entries are safe, but the journal cannot be recycled.
        self.background_error: FlotillaError | None = None
        #: How many damaged entries of each group were fetched from other replicas.
        self.repaired: dict[GroupId, int] = {}
        self._store = store
        self._ports = ports
        self._random = random
        self._options = options
        #: Readys that the next block stores, and those that the block in flight stores.
        self._saved: list[tuple[Replica, Ready]] = []
        self._writing: list[tuple[Replica, Ready]] = []
        self._block: Block | None = None
        #: The block could not be written, and nobody writes it now.
        self._is_block_waiting = False
        #: Ticks since the block was started.
        self._block_ticks = 0
        self._outbox: dict[NodeId, list[tuple[GroupId, Message]]] = {}
        #: To be applied in this turn, and after everything else.
        self._committed: list[tuple[Replica, list[Entry]]] = []
        self._deferred: list[tuple[Replica, list[Entry]]] = []
        #: Background work: (the job, the replica whose snapshot it writes, the Ready that it installs).
        self._jobs: list[tuple[Job, Replica | None, Ready | None]] = []
        #: Tokens of leaders that confirm their leadership, by raft's read id.
        self._asking: dict[tuple[GroupId, int], object] = {}
        #: Groups with lagging voters: a quorum should have their entries up to this index soon.
        self._lagging: dict[GroupId, Index] = {}
        self._retry_in_ticks = 0
        #: The disk has too little room for a leader (`note_room`).
        self._is_short = False
        self._rooms = Rooms(node, options.room_rest_ticks)
        self._retry_jobs: list[Job] = []
        #: Attachments of logs for replicas that begin.
        self._attaching: dict[Load, tuple[StateMachine, Callable[[StoredState | FlotillaError], None]]] = {}
        #: Copies of segments with their repaired entries in place.
        self._rewriting: set[Load] = set()
        #: Reads of logs.
        self._loads = LoadsInFlight(options.load_ticks_max)
        self._handovers = Handovers(
            self._rooms,
            hand_over=lambda replica, to, reason: self._contained(self._hand_over, replica, to, reason),
            step_down=lambda replica, reason: self._contained(self._step_down, replica, reason),
            slow_ticks_max=options.replica.raft.election_ticks,
            rest_ticks=options.heir_rest_ticks,
        )

    # Inputs: they only record work.

    def add_replica(
        self,
        group: GroupId,
        machine: StateMachine,
        options: ReplicaOptions | None = None,
        state: StoredState | None = None,
    ) -> Replica:
        """Takes part in a group that the store holds. `state` comes from `preload`."""
        options = options or self._options.replica
        replica = Replica(group, self.node, self._store.groups[group], machine, self._random, options, state)
        replica.raft.is_reluctant = self._rooms.own != ROOMY
        self.replicas[group] = replica
        self._touch(replica)
        return replica

    def preload(
        self, group: GroupId, machine: StateMachine, done: Callable[[StoredState | FlotillaError], None]
    ) -> bool:
        """Reads and decodes the state for `add_replica`, as a load: the disk may hang. False: there is none.

        Before that it opens the files of a log that the disk did not return when the store was opened.
        """
        attachment = self._store.plan_attachment(group)
        if attachment is not None:
            self._attaching[attachment] = machine, done
            self._start_load(attachment)
            return True
        log = self._store.groups.get(group)
        if log is None or log.snapshot() is None:
            return False
        self._start_load(StateLoad(group, log, machine, done))
        return True

    def _attached(self, attachment: Load, error: FlotillaError | None) -> None:
        machine, done = self._attaching.pop(attachment)
        if error is not None:
            done(error)
            return
        self._store.finish_attachment(attachment)
        if not self.preload(attachment.group, machine, done):
            done(StoredState(None))

    def remove_replica(self, group: GroupId) -> None:
        """Leaves a group and removes its data."""
        self._store.remove_group(group)
        self.failed.pop(group, None)
        self._forget(group)

    def _forget(self, group: GroupId) -> None:
        super()._forget(group)
        self.repaired.pop(group, None)
        self._lagging.pop(group, None)
        self._deferred = [(replica, entries) for replica, entries in self._deferred if replica.group != group]
        self._asking = {asked: token for asked, token in self._asking.items() if asked[0] != group}

    def receive(self, messages: list[tuple[GroupId, Message]]) -> None:
        for group, message in messages:
            replica = self.replicas.get(group)
            if replica is not None and message.to == self.node:
                self._contained(self._step, replica, message)
        self.start_loads()

    def _step(self, replica: Replica, message: Message) -> None:
        self.impossible_messages += replica.raft.is_impossible(message)
        if self._rooms.own == FULL and isinstance(message, Append):
            message = admitted(self._store, message)
        replica.raft.step(message)
        self._touch_if_ready(replica)

    def tick(self) -> None:
        self._report_damage()
        for replica in list(self._awake.values()):
            self._contained(self._tick, replica)
        self._watch_disks()
        self.start_loads()
        if self._retry_in_ticks:
            self._retry_in_ticks -= 1
            if self._retry_in_ticks == 0:
                self._retry()

    def _tick(self, replica: Replica) -> None:
        replica.tick()
        if replica.raft.quiescent:
            del self._awake[replica.group]
        if replica.replies or replica.raft.has_ready():
            self._touched[replica.group] = replica

    def _report_damage(self) -> None:
        """Starts the repair of damage that readers of the log have found."""
        for group, low, high in self._store.take_damage():
            replica = self.replicas.get(group)
            # A single replica has no peer to ask. It goes on with the intact entries; the reader got the error.
            if replica is not None and len(replica.raft.configuration.members()) > 1:
                replica.raft.log.found_damage.append((low, high))
                self._touch(replica)

    @property
    def has_lagging(self) -> bool:
        """Whether `replicate_to_lagging` must be called THRIFTY_PATIENCE_MS from now."""
        return bool(self._lagging)

    def replicate_to_lagging(self) -> None:
        """Sends entries to the lagging voters of groups whose quorum has not committed them in time."""
        lagging, self._lagging = self._lagging, {}
        for group, index in lagging.items():
            self._contained(self._replicate_all, self.replicas[group], index)

    def _replicate_all(self, replica: Replica, index: Index) -> None:
        raft = replica.raft
        if raft.log.committed < index:
            raft.replicate_to_all()
            self._touch(replica)
        elif raft.lagging and raft.log.committed < raft.log.last_index:
            self._lagging[replica.group] = raft.log.last_index

    @property
    def refusal(self) -> FlotillaError | None:
        """Why this node refuses proposals, except those that free space; None: it does not."""
        if self.storage_error is None and self._store.is_low:
            return DiskFullError("the disk is full; what frees space is still accepted")
        return self.storage_error

    def propose(self, group: GroupId, data: bytes | memoryview, token: object, *, frees_space: bool = False) -> bool:
        """False: refused, nothing was logged; the reply says why. On a full disk, what frees space is accepted."""
        replica = self.replicas[group]
        error = self.storage_error if frees_space else self.refusal or self._rooms.refusal(replica.raft.configuration)
        accepted = error is None and replica.propose(data, token)
        if error is not None:
            replica.replies.append((token, error))
        self._touch(replica)
        return accepted

    def forward(self, group: GroupId, data: bytes) -> None:
        """Proposes here or at the leader, without a reply."""
        replica = self.replicas[group]
        replica.raft.forward(data)
        self._touch(replica)

    def read(self, group: GroupId, query: object, token: object) -> None:
        replica = self.replicas[group]
        replica.read(query, token)
        self._touch(replica)

    def confirm(self, group: GroupId, token: object) -> None:
        """Confirms with a quorum that this leader still leads. The reply is None or a FlotillaError."""
        replica = self.replicas[group]
        assert replica.raft.role == LEADER
        try:
            self._asking[group, replica.raft.read()] = token
        except FlotillaError as error:
            replica.replies.append((token, error))
        self._touch(replica)

    def change_members(self, group: GroupId, change: ConfigurationChange, token: object) -> None:
        replica = self.replicas[group]
        replica.change_members(change, token)
        self._touch(replica)

    def campaign(self, group: GroupId) -> None:
        """Stands for election now, with a pre-vote: for groups that never had a leader."""
        replica = self.replicas[group]
        replica.raft.campaign()
        self._touch(replica)

    def transfer(self, group: GroupId, to: NodeId, reason: int = reasons.OPERATOR) -> None:
        self._hand_over(self.replicas[group], to, reason)

    def _hand_over(self, replica: Replica, to: NodeId, reason: int) -> None:
        if reason != reasons.SLOW_DISK:
            # The last word has to be written, too.
            replica.prepare_transfer(to)
        replica.raft.transfer(to, reason)
        self._touch(replica)

    def resign(self, group: GroupId) -> None:
        """Ends this node's leadership, without an heir."""
        self._step_down(self.replicas[group], reasons.FAILURE)

    def snapshot(self, group: GroupId) -> None:
        """Takes a snapshot now, whether one is due or not."""
        self.catch_up()
        self._start_snapshot(self.replicas[group])

    def peer_room(self, peer: NodeId, room: int) -> None:
        """A peer says how much room its disk has (runtime/leadership/rooms.py)."""
        self._rooms.heard(peer, room)

    def is_short_of_room(self, peer: NodeId) -> bool:
        """Whether a peer should not lead, because its disk has no room."""
        return peer in self._rooms.short_peers()

    def peer_down(self, peer: NodeId) -> None:
        self._rooms.forget(peer)
        for replica in list(self.replicas.values()):
            self._contained(self._set_peer, replica, peer, is_up=False)

    def peer_up(self, peer: NodeId) -> None:
        for replica in list(self.replicas.values()):
            self._contained(self._set_peer, replica, peer, is_up=True)

    def _set_peer(self, replica: Replica, peer: NodeId, *, is_up: bool) -> None:
        (replica.raft.peer_up if is_up else replica.raft.peer_down)(peer)
        self._touch(replica)

    # The pump.

    @property
    def has_work(self) -> bool:
        """Whether a replica has pending work."""
        return bool(self._touched)

    def pump(self) -> None:
        """Does everything that can be done now."""
        self.hurry()
        self.catch_up()

    def hurry(self) -> None:
        """Does the work that requests and peers wait for: all but applying the entries of followers."""
        if not self._touched:
            # The store may have pending changes of no replica, such as the removal of a group; and messages that
            # waited for a block leave, also when it led to no further work.
            self._sync()
            self._send()
            self._ports.crash_point("sent")
        while self._touched:
            self._turn()

    def catch_up(self) -> None:
        """Does the rest. Called when the output of `hurry` has left, and before any further input."""
        if self._deferred:
            deferred, self._deferred = self._deferred, []
            self._apply(deferred)
            self._reply([replica for replica, _ in deferred])

    def _turn(self) -> None:
        touched, self._touched = self._touched, {}
        taken: list[tuple[Replica, Ready]] = []
        for replica in touched.values():
            self._contained(self._take, replica, taken)
        # No crash point before all is saved: until then raft's log and the store's differ. None is needed either:
        # a crash loses saved but unsynced work as well.
        self._send()
        for replica, ready in taken:
            if ready.reads:
                self._contained(self._take_reads, replica, ready.reads)
            if not self._is_gone(replica):
                self._save(replica, ready)
        self._ports.crash_point("saved")
        for replica, ready in taken:
            if ready.snapshot is not None and not self._is_gone(replica):
                self._install(replica, ready)
        self._sync()
        self._send()
        self._ports.crash_point("sent")
        committed, self._committed = self._committed, []
        self._apply(committed)
        self._reply(touched.values())
        self.start_loads()

    def _take(self, replica: Replica, taken: list[tuple[Replica, Ready]]) -> None:
        raft = replica.raft
        if not raft.has_ready():
            return
        ready = raft.ready()
        if raft.lagging and ready.entries:
            self._lagging.setdefault(replica.group, raft.log.last_index)
        self._post(replica.group, ready.messages)
        taken.append((replica, ready))

    def _take_reads(self, replica: Replica, states: list[ReadState]) -> None:
        self._take_confirmations(replica, states)
        replica.take_reads(states)

    def _save(self, replica: Replica, ready: Ready) -> None:
        """Saves the Ready to the next block; a Ready that depends on nothing unsaved is advanced at once."""
        raft = replica.raft
        if ready.snapshot is not None:
            # The Ready of a snapshot is alone, and the snapshot's file is written first.
            return
        must_save = ready.must_save
        if must_save:
            try:
                save(self._store, replica.group, ready)
            except UnstorableError as failure:
                self.cut_off(replica.group, failure)
                return
        if ready.committed:
            self._take_committed(replica, ready.committed)
        if ready.repaired:
            self.repaired[replica.group] = self.repaired.get(replica.group, 0) + len(ready.repaired)
            self._maintain()
        if must_save or replica.unadvanced:
            self._saved.append((replica, ready))
            replica.unadvanced += 1
            if raft.has_committed():
                # The Ready left committed entries: more than are applied at once.
                self._touch(replica)
        else:
            self._contained(self._advance, replica, ready)

    def _advance(self, replica: Replica, ready: Ready) -> None:
        self._post(replica.group, ready.messages_after_sync)
        replica.raft.advance(ready.number)
        self._touch_if_ready(replica)

    def _take_committed(self, replica: Replica, entries: list[Entry]) -> None:
        """A replica with pending requests applies in this turn; a follower later: its leader waits for its disk."""
        is_next = entries[0].index == replica.applied + 1
        pending = self._committed if is_next and replica.is_waited_for else self._deferred
        pending.append((replica, entries))

    def _take_confirmations(self, replica: Replica, states: list[ReadState]) -> None:
        for state in states if self._asking else ():
            token = self._asking.pop((replica.group, state.read_id), None)
            if token is not None:
                answer = None if state.index >= 0 else NotLeaderError(replica.raft.leader)
                replica.replies.append((token, answer))

    def _sync(self) -> None:
        """Starts the next block. One block is in flight at a time; everything saved meanwhile shares the next one."""
        if self._block is not None:
            return
        saved, self._saved = self._saved, []
        self._block = self._store.take_block()
        if self._block is None:
            # These Readys stored nothing themselves, and the earlier ones are durable by now.
            self._finish(saved)
            return
        self._writing = saved
        self._block_ticks = 0
        self._ports.crash_point("syncing")
        self._ports.write(self._block)

    def block_written(self, block: Block, error: FlotillaError | None = None) -> None:
        """The block is durable: messages that waited for it leave. On an error: stops leading, and retries later."""
        assert block is self._block
        if error is not None:
            self._fail(error)
            return
        self.storage_error = None
        self._look_for_room()
        self._store.finish_block(block)
        self._block = None
        written, self._writing = self._writing, []
        self._ports.crash_point("synced")
        self._finish(written)
        for group in self.repaired:
            if group in self.replicas:
                self._contained(self._repairs_saved, self.replicas[group])
        self._maintain()

    def _repairs_saved(self, replica: Replica) -> None:
        replica.raft.repairs_saved()
        self._touch_if_ready(replica)

    def _finish(self, written: list[tuple[Replica, Ready]]) -> None:
        for replica, ready in written:
            if not self._is_gone(replica):
                self._contained(self._finish_ready, replica, ready)

    def _finish_ready(self, replica: Replica, ready: Ready) -> None:
        replica.unadvanced -= 1
        # A message of an older term may be about entries that were truncated since.
        term = replica.raft.term
        self._post(replica.group, [message for message in ready.messages_after_sync if message.term >= term])
        replica.raft.advance(ready.number)
        if ready.snapshot is not None:
            self._ports.crash_point("installed")
            self._touch(replica)
        else:
            self._touch_if_ready(replica)

    def _post(self, group: GroupId, messages: list[Message]) -> None:
        for message in messages:
            self._outbox.setdefault(message.to, []).append((group, message))

    def _send(self) -> None:
        if self._outbox:
            outbox, self._outbox = self._outbox, {}
            for peer, messages in outbox.items():
                self._ports.send(peer, messages)

    def _apply(self, committed: list[tuple[Replica, list[Entry]]]) -> None:
        for replica, entries in committed:
            if not self._is_gone(replica):
                self._contained(Replica.apply, replica, entries)
        self._ports.crash_point("applied")

    def _reply(self, replicas: Iterable[Replica]) -> None:
        for replica in replicas:
            self._contained(self._reply_for, replica)
        self._ports.crash_point("replied")

    def _reply_for(self, replica: Replica) -> None:
        if not self._is_gone(replica) and replica.wants_snapshot():
            self._start_snapshot(replica)
        replica.fail_orphans()
        if replica.replies:
            replies, replica.replies = replica.replies, []
            for token, result in replies:
                self._ports.reply(token, result)

    # Reads of logs.

    def start_loads(self) -> None:
        """Starts the loads that readers have requested."""
        for load in self._store.take_loads():
            self._start_load(load)

    def _start_load(self, load: Load) -> None:
        self._loads.begin(load)
        self._ports.load(load)

    @property
    def stalled(self) -> dict[GroupId, str]:
        """Groups whose disk has not returned a read in time, with the file."""
        return self._loads.stalled

    def scrub(self) -> bool:
        """Starts to verify the next piece of stored data. False: the pass has ended, or a piece is in flight."""
        if self._loads.is_scrubbing:
            return False
        load = self._store.plan_scrub()
        if load is not None:
            self._start_load(load)
        return load is not None

    def load_done(self, load: Load, error: FlotillaError | None = None) -> FlotillaError | None:
        """The load has ended. Its reader may try again, unless this returns an error."""
        self._loads.end(load)
        if load in self._attaching:
            self._attached(load, error)
            return None
        if isinstance(load, StateLoad):
            load.finish(error)
            return None
        if load in self._rewriting:
            self._rewritten(load, error)
            return None
        replica = self.replicas.get(load.group)
        if load.is_background:
            if self._store.finish_scrub(load) and replica is not None:
                replica.snapshot_damaged()
                self._touch(replica)
            self._report_damage()
            self.start_loads()
            return None
        if not self._store.finish_load(load):
            error = None
        if replica is not None and error is None:
            self._contained(self._loaded, replica)
            self.start_loads()
        return error

    def _rewritten(self, rewrite: Load, error: FlotillaError | None) -> None:
        self._rewriting.remove(rewrite)
        self._store.finish_rewrite(rewrite)
        if error is not None:
            self.background_error = error
            self._retry_in_ticks = self._retry_in_ticks or self._options.retry_ticks
        self._ports.crash_point("maintained")
        self._report_damage()
        self._maintain()

    def _loaded(self, replica: Replica) -> None:
        replica.raft.log_loaded()
        self._touch_if_ready(replica)

    # Snapshots and background work.

    def _start_snapshot(self, replica: Replica) -> None:
        snapshot = replica.take_snapshot()
        if snapshot is not None:
            self._run(self._store.plan_snapshot(replica.group, snapshot), replica, None)

    def _install(self, replica: Replica, ready: Ready) -> None:
        """Writes the snapshot's file first, then its mark in the journal: a crash leaves the old state or the new."""
        assert ready.snapshot is not None
        self._ports.crash_point("installing")
        replica.unadvanced += 1
        pending = replica.receive_snapshot(ready.snapshot)
        self._run(self._store.plan_snapshot(replica.group, pending), replica, ready)

    def _restore(self, replica: Replica, snapshot: Snapshot) -> None:
        remains = replica.restore(snapshot)
        if remains is not None:
            self._ports.discard(remains)

    def _maintain(self, *, is_retry: bool = False) -> None:
        for rewrite in self._store.plan_rewrites(is_retry=is_retry):
            self._rewriting.add(rewrite)
            self._start_load(rewrite)
        job = self._store.plan_maintenance(is_retry=is_retry)
        if job is not None:
            self._run(job, None, None)

    def _run(self, job: Job, replica: Replica | None, ready: Ready | None) -> None:
        self._jobs.append((job, replica, ready))
        self._ports.run(job)

    def job_done(self, job: Job, error: FlotillaError | None = None) -> None:
        position = next(place for place, entry in enumerate(self._jobs) if entry[0] is job)
        _, replica, ready = self._jobs[position]
        if error is not None:
            self._job_failed(job, position, error)
            return
        del self._jobs[position]
        if self._is_gone(replica):
            self._store.discard_snapshot(job)
            self._maintain()
            return
        self.background_error = None
        if replica is None:
            self._store.finish_maintenance(job)
            self._look_for_room()
            self._ports.crash_point("maintained")
            self._maintain()
            return
        meta = self._store.finish_snapshot(job)
        self._ports.crash_point("snapshot")
        if ready is None:
            self._contained(Replica.snapshot_taken, replica, meta)
        else:
            assert ready.snapshot is not None
            try:
                save(self._store, replica.group, ready, meta)
            except UnstorableError as failure:
                self.cut_off(replica.group, failure)
                return
            self._contained(self._restore, replica, ready.snapshot)
            self._saved.append((replica, ready))
        self._touch(replica)

    # Failing and slow disks.

    def note_room(self, *, is_short: bool) -> None:
        """`is_short`: the disk has so little room that nodes with more should lead. It can still be written to."""
        self._is_short = is_short
        self._look_for_room()

    def _look_for_room(self) -> None:
        """A node with room should lead. A full disk uses its reserve meanwhile, and space is looked for regularly."""
        is_low = self._store.is_low
        own = FULL if is_low else SHORT if self._is_short else ROOMY
        if own != self._rooms.own:
            self._rooms.own = own
            self._ports.tell_room(own)
            for replica in self.replicas.values():
                replica.raft.is_reluctant = own != ROOMY
        if is_low:
            self._retry_in_ticks = self._retry_in_ticks or self._options.retry_ticks

    def _watch_disks(self) -> None:
        """Nodes with a better disk should lead."""
        is_late = self._block is not None and self._block_ticks > 0
        self._block_ticks += 1
        self._loads.tick()
        if self._rooms.own != ROOMY:
            self._ports.tell_room(self._rooms.own)
        self._handovers.tick(self.replicas, self.stalled, is_late=is_late)

    def _fail(self, error: FlotillaError) -> None:
        """Nothing is acknowledged while the disk fails: other nodes must lead. The same block is retried later."""
        self.storage_error = error
        self._is_block_waiting = True
        self._retry_in_ticks = self._options.retry_ticks
        for replica in list(self.replicas.values()):
            self._contained(self._step_down, replica, reasons.FAILING_DISK)

    def _step_down(self, replica: Replica, reason: int) -> None:
        replica.raft.step_down(reason)
        self._touch(replica)

    def _job_failed(self, job: Job, position: int, error: FlotillaError) -> None:
        _, replica, ready = self._jobs[position]
        if self._is_gone(replica):
            del self._jobs[position]
            return
        self.background_error = error
        if replica is not None and ready is None:
            del self._jobs[position]
            replica.snapshot_failed()
            return
        self._retry_jobs.append(job)
        self._retry_in_ticks = self._retry_in_ticks or self._options.retry_ticks

    def _retry(self) -> None:
        self._look_for_room()
        self._maintain(is_retry=True)
        jobs, self._retry_jobs = self._retry_jobs, []
        for job in jobs:
            self._ports.run(job)
        if self._is_block_waiting and self._block is not None:
            self._is_block_waiting = False
            self._ports.write(self._block)
