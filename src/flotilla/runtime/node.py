"""The runtime of a node: the driver with a real event loop, clock, threads and links.

Everything here runs on one event loop. Every input only records work and schedules a turn. A turn pumps
the driver once for all inputs of one iteration of the loop, sends in one write per peer, and replies. So a
thousand requests that arrive together cost one pump, and replies never run inside of the driver.

The journal's writes and the background jobs each have a thread, which touches nothing but its block or job, and reads
of logs that are not in memory have a few (load_pool.py); a small block for a fast and idle disk is written on the loop
(inline_writes.py).

An exception that is not a typed error is a bug. One from the code of a group, or from a reply to its requests, cuts
that group off (driver.py). One from a background job counts as a failure of the job, which is tried again. Only one
from what all groups share, the store and the order of the turn, ends the node at once, as in a crash, and
`wait_stopped` raises it: going on with half a step done would be worse than stopping.

Every request is answered once, also when its group is dropped or the node stops first. A node that
was paused keeps its leadership, but does not act on it (`is_confirmed`) before a quorum has confirmed it.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Concatenate, ParamSpec

from flotilla.machine import here, steady_ms
from flotilla.raft import reasons
from flotilla.raft.membership import ConfigurationChange
from flotilla.raft.messages import Message
from flotilla.replica.ports import Block, Job, Load, Remains, Store
from flotilla.replica.replica import Replica
from flotilla.runtime.confirmations import Confirmations
from flotilla.runtime.driver import THRIFTY_PATIENCE_MS, Driver, DriverOptions
from flotilla.runtime.inline_writes import InlineWrites
from flotilla.runtime.io_thread import IoThread
from flotilla.runtime.leadership.heirs import spread_heirs
from flotilla.runtime.load_pool import LoadPool
from flotilla.runtime.observability.failures import report
from flotilla.runtime.observability.logs import get_logger
from flotilla.runtime.pause_detector import PauseDetector
from flotilla.runtime.pending_requests import PendingRequest, PendingRequests, Reply
from flotilla.runtime.ports import Links
from flotilla.runtime.scrubbing import Scrubbing
from flotilla.runtime.ticker import Ticker
from flotilla.types.errors import FlotillaError, StorageFailedError, UnavailableError
from flotilla.types.ids import NO_NODE, GroupId, NodeId
from flotilla.types.timing import Timing

log = get_logger("runtime")

#: How long a stopping node waits for new leaders of the groups it leads.
HAND_OVER_MS = 1_000
_HAND_OVER_POLL_MS = 10

P = ParamSpec("P")


def _run_job(job: Job) -> None:
    """On the background thread. A bug in one job, of one group or file, is a failure like that of its disk."""
    try:
        job.run()
    except FlotillaError:
        raise
    except Exception as failure:
        log.error("a background job failed unexpectedly", job=type(job).__name__, error=failure)
        raise StorageFailedError(f"a background job failed: {failure!r}") from failure


class Discard:
    """Frees the memory of a state that was replaced. Nobody waits for it."""

    __slots__ = ("_remains",)

    def __init__(self, remains: Remains) -> None:
        self._remains = remains

    def run(self) -> None:
        for _ in self._remains:
            pass


def _no_broker(_: GroupId) -> None:
    """Until a broker runs on the node."""


class NodeRuntime:
    def __init__(
        self,
        *,
        node: NodeId,
        store: Store,
        links: Links,
        chance: Random,
        options: DriverOptions,
        timing: Timing,
        scrub_bytes_per_second: int = 0,
    ) -> None:
        self.node = node
        #: For adding replicas before the start and for inspection. Inputs go through this class, which schedules turns.
        self.driver = Driver(node, store, self, chance, options)
        self.journal: IoThread[Block] = IoThread(
            "journal",
            run=store.write_block,
            done=self._block_written,
            broken=self._break,
            tidy=store.mark_block,
        )
        self.background: IoThread[Job] = IoThread("background", run=_run_job, done=self._job_done, broken=self._break)
        self.loads = LoadPool(self._load_done)
        #: By group: readers that wait for the end of a load.
        self._load_waiters: dict[GroupId, list[Callable[[FlotillaError | None], None]]] = {}
        self.scrubbing = Scrubbing(store, self.driver.scrub, scrub_bytes_per_second, steady_ms)
        #: Groups whose reads do not return, as of the last tick.
        self._stalled: dict[GroupId, str] = {}
        self.turns = 0
        #: Called with each group that is cut off, once its requests are answered.
        self.on_group_failed: Callable[[GroupId], None] = _no_broker
        self._links = links
        self._ticker = Ticker(self._tick, timing.tick_ms)
        self._pause_detector = PauseDetector(timing.pause_ms, here().uptime_ns)
        self._confirmations = Confirmations(self.driver, self._pause_detector, self._ask_quorum)
        self._loop: asyncio.AbstractEventLoop | None = None
        #: The scheduled turn, until it begins.
        self._due_turn: asyncio.Handle | None = None
        #: The timer of thrifty replication: at its end the lagging voters get their entries.
        self._thrifty_timer: asyncio.TimerHandle | None = None
        #: The block that is written at the end of the turn.
        self._unwritten: Block | None = None
        self._inline_writes = InlineWrites()
        self._elapsed_ns = here().elapsed_ns
        self._pending = PendingRequests()
        self._replies: list[tuple[PendingRequest, object]] = []
        #: Set while a caller waits for the end of the next turn.
        self._next_turn: asyncio.Future[None] | None = None
        self._stopped: asyncio.Future[None] | None = None
        #: Handles inputs; accepts requests. A stopping node does only the first for a while.
        self._is_running = False
        self._is_accepting = False

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = self._loop.create_future()
        self._is_running = self._is_accepting = True
        self._pause_detector.tick()
        self.journal.start()
        self.background.start()
        self.loads.start()
        self._ticker.start()
        await self._links.start(self)
        self._schedule_turn()

    async def stop(self, hand_over_ms: int = HAND_OVER_MS) -> None:
        """Transfers leadership, finishes pending writes, answers pending requests, and releases everything."""
        if self._is_running:
            await self.hand_over(hand_over_ms)
        await self._shut_down()
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    async def wait_stopped(self) -> None:
        """Returns when the node was stopped; raises the exception that broke it."""
        assert self._stopped is not None, "the node was not started"
        await asyncio.shield(self._stopped)

    async def turned(self) -> None:
        """Waits for the end of the next turn, or the next tick."""
        if self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._next_turn)

    # Requests. The result comes by `reply`, also when it is an error.

    def propose(self, group: GroupId, data: bytes | memoryview, reply: Reply, *, frees_space: bool = False) -> bool:
        """False: refused, and nothing was logged; the reply says why."""
        refused = self._refusal(group)
        if refused is not None:
            reply(refused)
            return False
        request = self._pending.add(group, reply, is_read=False)
        try:
            accepted = self.driver.propose(group, data, request, frees_space=frees_space)
        except Exception as failure:
            self.driver.cut_off(group, failure)
            return False
        self._schedule_turn()
        return accepted

    def forward(self, group: GroupId, data: bytes) -> None:
        """Proposes here or at the leader, without a reply."""
        self._input_of(group, self.driver.forward, data)

    def read(self, group: GroupId, query: object, reply: Reply) -> None:
        refused = self._refusal(group)
        if refused is not None:
            reply(refused)
        else:
            self._input_of(group, self.driver.read, query, self._pending.add(group, reply, is_read=True))

    def change_members(self, group: GroupId, change: ConfigurationChange, reply: Reply) -> None:
        refused = self._refusal(group)
        if refused is not None:
            reply(refused)
        else:
            self._input_of(group, self.driver.change_members, change, self._pending.add(group, reply, is_read=False))

    def campaign(self, group: GroupId) -> None:
        self._input_of(group, self.driver.campaign)

    def transfer(self, group: GroupId, to: NodeId, reason: int = reasons.OPERATOR) -> None:
        """Starts a transfer of leadership. Raises NotLeaderError, InvalidArgumentError, UnavailableError."""
        refused = self._refusal(group)
        if refused is not None:
            raise refused
        self.driver.transfer(group, to, reason)
        self._schedule_turn()

    def _refusal(self, group: GroupId) -> UnavailableError | None:
        """Why this node takes no requests for the group."""
        if not self._is_accepting:
            return UnavailableError("the node is not running")
        if group in self.driver.failed:
            return UnavailableError("this replica failed and is out of operation until its node starts again")
        if group not in self.driver.replicas:
            # Not yet, or no longer. A failure here would cut off a group that is only about to begin.
            return UnavailableError("this node has no replica of the group")
        return None

    def drop(self, group: GroupId, reason: FlotillaError) -> None:
        """Leaves a group and removes its data. Its pending requests are answered with `reason`."""
        self._input(self.driver.remove_replica, group)
        for request in self._pending.of_group(group):
            self.reply(request, reason)
        self._tell_loaded(group, reason)
        self._confirmations.forget(group)

    def note_room(self, *, is_short: bool) -> None:
        """Whether the disk has so little room that nodes with more should lead."""
        self._input(self.driver.note_room, is_short=is_short)

    def snapshot(self, group: GroupId) -> None:
        self._input_of(group, self.driver.snapshot)

    def fail(self, group: GroupId, failure: Exception) -> None:
        """Cuts off a group whose code raised outside of the driver."""
        if self._is_running:
            self.driver.cut_off(group, failure)

    def resign(self, group: GroupId, error: FlotillaError) -> None:
        """Ends this node's leadership of a group for an error, such as that of a file."""
        report(f"group {group} met an error and is led no longer by this node", error, "leadership")
        self._input_of(group, self.driver.resign)

    def when_loaded(self, group: GroupId, loaded: Callable[[FlotillaError | None], None]) -> None:
        """Calls `loaded` after the next load of the group: a reader that got NotLoadedError tries again then."""
        self._load_waiters.setdefault(group, []).append(loaded)
        if group in self._stalled:
            self._tell_loaded(group, UnavailableError("the disk does not return reads of this partition"))
        self._record(self.driver.start_loads)

    # Leadership after a pause or without links.

    def is_confirmed(self, group: GroupId) -> bool:
        """Whether a leading replica may answer for its group.

        False: this node was paused, or its links left no quorum for a while, and a quorum is being asked.

        Called before each answer that does not go through a quorum.
        """
        return self._confirmations.is_confirmed(group)

    def _ask_quorum(self, group: GroupId, reply: Reply) -> None:
        self._input_of(group, self.driver.confirm, self._pending.add(group, reply, is_read=True))

    # Events of the links, the clock and the threads.

    def receive(self, messages: list[tuple[GroupId, Message]]) -> bool:
        before = self.driver.impossible_messages
        # Many replies have no effect, and need no turn.
        if self._record(self.driver.receive, messages) and self.driver.has_work:
            self._schedule_turn()
        return self.driver.impossible_messages == before

    def peer_up(self, peer: NodeId) -> None:
        log.info("peer up", node=self.node, peer=peer)
        self._input(self.driver.peer_up, peer)

    def peer_down(self, peer: NodeId) -> None:
        log.info("peer down", node=self.node, peer=peer)
        self._input(self.driver.peer_down, peer)
        self._confirmations.link_lost()

    def peer_room(self, peer: NodeId, room: int) -> None:
        self._record(self.driver.peer_room, peer, room)

    def peer_refused(self, peer: NodeId, address: str, reason: str) -> None:
        log.warning("refused a peer", node=self.node, peer=peer, address=address, reason=reason)

    def refused_by_peer(self, peer: NodeId, address: str, reason: str) -> None:
        log.warning("refused by a peer", node=self.node, peer=peer, address=address, reason=reason)

    def _tick(self, count: int) -> None:
        self._pause_detector.tick()
        for _ in range(count):
            self._input(self.driver.tick)
        self._stalled = self.driver.stalled
        self._record(self.scrubbing.tick)
        self.journal.tidy_up()

    def _block_written(self, block: Block, error: FlotillaError | None) -> None:
        is_turn_due = self._due_turn is not None
        self._input(self._note_written, block, error)
        if not is_turn_due:
            # No other input of this iteration could share the turn: the replies need not wait for the next one.
            self._turn()

    def _note_written(self, block: Block, error: FlotillaError | None) -> None:
        before = self.driver.storage_error
        self._inline_writes.note(*self.journal.last_us)
        self.driver.block_written(block, error)
        if error is not None and (before is None or before.code != error.code):
            log.error("journal writes fail", node=self.node, code=error.code, error=str(error))
        elif error is None and before is not None:
            log.info("journal writes work again", node=self.node)

    def _job_done(self, job: Job, error: FlotillaError | None) -> None:
        if isinstance(job, Discard):
            return
        self._input(self.driver.job_done, job, error)

    def _load_done(self, load: Load, error: FlotillaError | None) -> None:
        if not load.is_background:
            self._input(self._note_loaded, load, error)
        elif self._record(self._note_scrubbed, load, error) and self.driver.has_work:
            self._schedule_turn()

    def _note_scrubbed(self, load: Load, error: FlotillaError | None) -> None:
        self.driver.load_done(load, error)
        self.scrubbing.piece_done(load.group, load.path)

    def _note_loaded(self, load: Load, error: FlotillaError | None) -> None:
        self._tell_loaded(load.group, self.driver.load_done(load, error))

    def _tell_loaded(self, group: GroupId, error: FlotillaError | None) -> None:
        assert self._loop is not None
        for loaded in self._load_waiters.pop(group, ()):
            self._loop.call_soon(loaded, error)

    def _input(self, record: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        if self._record(record, *args, **kwargs):
            self._schedule_turn()

    def _input_of(
        self, group: GroupId, record: Callable[Concatenate[GroupId, P], None], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """An input for one group. No effect on one that is cut off, or not here."""
        if not self._is_running or group not in self.driver.replicas:
            return
        try:
            record(group, *args, **kwargs)
        except Exception as failure:
            self.driver.cut_off(group, failure)
        self._schedule_turn()

    def _record(self, record: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether the node still runs afterwards."""
        if not self._is_running:
            return False
        try:
            record(*args, **kwargs)
        except Exception as failure:
            self._break(failure)
            return False
        return True

    # The turn.

    def _schedule_turn(self) -> None:
        if self._due_turn is None and self._loop is not None:
            self._due_turn = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._cancel_due_turn()
        if not self._is_running:
            return
        self.turns += 1
        try:
            self._hurry()
            while self._unwritten is not None:
                block, self._unwritten = self._unwritten, None
                self._write(block)
            self.driver.catch_up()
            self._answer()
        except Exception as failure:
            self._break(failure)
        if self.driver.has_lagging and self._thrifty_timer is None:
            self._start_thrifty_timer()
        if self._next_turn is not None:
            self._next_turn.set_result(None)
            self._next_turn = None

    def _start_thrifty_timer(self) -> None:
        assert self._loop is not None
        self._thrifty_timer = self._loop.call_later(THRIFTY_PATIENCE_MS / 1000, self._replicate_to_lagging)

    def _replicate_to_lagging(self) -> None:
        self._thrifty_timer = None
        if self._record(self.driver.replicate_to_lagging):
            if self.driver.has_work:
                self._schedule_turn()
            elif self.driver.has_lagging:
                self._start_thrifty_timer()

    def _hurry(self) -> None:
        self.driver.hurry()
        self._answer()
        if self._due_turn is not None:
            # Replies led to new requests, which need not wait for another turn.
            self._cancel_due_turn()
            self.driver.hurry()

    def _answer(self) -> None:
        replies, self._replies = self._replies, []
        for request, result in replies:
            try:
                self._pending.answer(request, result)
            except Exception as failure:
                self.driver.cut_off(request.group, failure)

    def _write(self, block: Block) -> None:
        """On the loop or on the journal's thread. Called after sending, while the peers write to their disks."""
        if not self.journal.is_tidying and self._inline_writes.allows(block.size_bytes, self._elapsed_ns() // 1000):
            self._note_written(block, self.journal.do(block))
            self._hurry()
        else:
            self.journal.submit(block)

    def _cancel_due_turn(self) -> None:
        if self._due_turn is not None:
            self._due_turn.cancel()
            self._due_turn = None

    # The ports of the driver. No call re-enters the driver.

    def send(self, to: NodeId, messages: list[tuple[GroupId, Message]]) -> None:
        self._links.send(to, messages)

    def write(self, block: Block) -> None:
        assert self._unwritten is None, "one block is in flight at a time"
        self._unwritten = block

    def tell_room(self, room: int) -> None:
        self._links.tell_room(room)

    def run(self, job: Job) -> None:
        self.background.submit(job)

    def load(self, load: Load) -> None:
        self.loads.submit(load)

    def discard(self, remains: Remains) -> None:
        self.background.submit(Discard(remains))

    def reply(self, token: object, result: object) -> None:
        assert isinstance(token, PendingRequest)
        self._replies.append((token, result))

    def crash_point(self, name: str) -> None:
        """Only the simulator cuts the power here."""

    def group_failed(self, group: GroupId, failure: Exception) -> None:
        what = f"group {group} failed and is out of operation on this node until it starts again"
        report(what, failure, "group")
        if self._loop is not None:
            self._tell_loaded(group, UnavailableError("this replica failed"))
        for request in self._pending.of_group(group):
            self.reply(request, self._pending.broken(request, "this replica failed while the request was in flight"))
        self._schedule_turn()
        if self._loop is not None:
            self._loop.call_soon(self.on_group_failed, group)

    # The end.

    async def hand_over(self, within_ms: int = HAND_OVER_MS) -> None:
        """Transfers leadership of each group to a good voter, and waits until all have taken over, or `within_ms`."""
        replicas = self.driver.replicas
        heirs = {replica.group: replica.heirs() for replica in replicas.values()}
        given: list[Replica] = []
        for group, heir in spread_heirs((replica.raft.leader for replica in replicas.values()), heirs).items():
            given.append(replicas[group])
            self.driver.transfer(group, heir, reasons.SHUTDOWN)
            self._schedule_turn()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_ms / 1000
        while any(replica.raft.leader in (NO_NODE, self.node) for replica in given) and loop.time() < until_s:
            await asyncio.sleep(_HAND_OVER_POLL_MS / 1000)

    async def _shut_down(self) -> None:
        self._ticker.stop()
        self._is_accepting = False
        # The last requests are still written.
        self._turn()
        await self.journal.stop()
        self._is_running = False
        self._links.close()
        await self.background.stop()
        self.loads.stop()
        for group in list(self._load_waiters):
            self._tell_loaded(group, UnavailableError("the node was stopped"))
        self._pending.fail_all("the node was stopped")

    def _break(self, failure: Exception) -> None:
        """Stops as in a crash: nothing more is sent, written or answered."""
        self._is_running = self._is_accepting = False
        self._ticker.stop()
        self._links.close()
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_exception(failure)
