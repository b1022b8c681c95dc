"""A node at work: the driver with a real loop, clock, threads and links around it.

Everything here runs on one event loop, and every input only records and asks for a turn; a turn
pumps the driver once for all inputs of the loop's round, which sends what came of it in one write per
peer, and answers. So a thousand requests that arrive together cost one pump, and replies never run
inside of the driver.

The journal's writes and the background jobs each have a thread, which touches nothing but its
block or job; a block that travels alone to a quick disk is written on the loop (inline_writes.py).
An exception that is not a typed error means that the program is wrong: the node stops where it
stands, as in a crash, and `wait_stopped` raises it. Going on with half a step done would be worse
than stopping.

Every request is answered once, also when its group is dropped or the node stops first. A node that
finds that it has overslept keeps what it leads, but says so to nobody (`is_confirmed`) before a quorum
has confirmed it.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from time import perf_counter_ns
from typing import ParamSpec

from flotilla.raft.membership import ConfigurationChange
from flotilla.raft.messages import Message
from flotilla.raft.roles import LEADER
from flotilla.replica.ports import Block, Job, Store
from flotilla.replica.replica import Replica
from flotilla.runtime.driver import THRIFTY_PATIENCE_MS, Driver, DriverOptions
from flotilla.runtime.inline_writes import InlineWrites
from flotilla.runtime.io_thread import IoThread
from flotilla.runtime.observability.logs import get_logger
from flotilla.runtime.pause_detector import PauseDetector
from flotilla.runtime.pending_requests import PendingRequest, PendingRequests, Reply
from flotilla.runtime.ports import Links
from flotilla.runtime.ticker import TICK_MS, Ticker
from flotilla.types.errors import FlotillaError, UnavailableError
from flotilla.types.ids import NO_NODE, GroupId, NodeId

log = get_logger("runtime")

#: How long a node that stops waits to hear from those who take over what it leads.
HAND_OVER_MS = 1_000
_HAND_OVER_POLL_MS = 10

P = ParamSpec("P")


class NodeRuntime:
    def __init__(
        self,
        *,
        node: NodeId,
        store: Store,
        links: Links,
        chance: Random,
        options: DriverOptions,
        tick_ms: int = TICK_MS,
    ) -> None:
        self.node = node
        #: For adding replicas before the start and for looking. Inputs go through this class, which asks for a turn.
        self.driver = Driver(node, store, self, chance, options)
        self.journal: IoThread[Block] = IoThread(
            "journal",
            run=store.write_block,
            done=self._block_written,
            broken=self._break,
            tidy=store.mark_block,
        )
        self.background: IoThread[Job] = IoThread(
            "background", run=lambda job: job.run(), done=self._job_done, broken=self._break
        )
        self.turns = 0
        self._links = links
        self._ticker = Ticker(self._tick, tick_ms)
        raft = options.replica.raft
        # Half an election timeout, and less if heartbeats are so rare that they do not fit into the other half.
        unseen_ticks_max = min(raft.election_ticks // 2, raft.election_ticks - raft.heartbeat_ticks - 1)
        self._pause_detector = PauseDetector(max(unseen_ticks_max, 2) * tick_ms)
        #: Of groups that were asked for since a nap: how many pauses there had been when a quorum was asked, and
        #: when it last confirmed this node. Without a nap nothing needs to be confirmed.
        self._asked_pauses: dict[GroupId, int] = {}
        self._confirmed_pauses: dict[GroupId, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        #: The turn that was asked for, until it begins.
        self._due_turn: asyncio.Handle | None = None
        #: Set while a quorum is expected of entries that went to some only.
        self._patience: asyncio.TimerHandle | None = None
        #: A block that the journal gets at the end of the turn.
        self._unwritten: Block | None = None
        self._inline_writes = InlineWrites()
        self._pending = PendingRequests()
        self._replies: list[tuple[PendingRequest, object]] = []
        #: Somebody waits for the end of the next turn.
        self._next_turn: asyncio.Future[None] | None = None
        self._stopped: asyncio.Future[None] | None = None
        #: Works on what comes in; takes requests on. A node that stops does only the first for a while.
        self._is_running = False
        self._is_accepting = False

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = self._loop.create_future()
        self._is_running = self._is_accepting = True
        self._pause_detector.tick()
        self.journal.start()
        self.background.start()
        self._ticker.start()
        await self._links.start(self)
        self._ask_for_turn()

    async def stop(self, hand_over_ms: int = HAND_OVER_MS) -> None:
        """Hands leadership over, finishes what is being written, answers whoever waits, and lets go of everything."""
        if self._is_running:
            await self.hand_over(hand_over_ms)
        await self._shut_down()
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    async def wait_stopped(self) -> None:
        """Returns when the node was stopped; raises what broke it."""
        assert self._stopped is not None, "the node was not started"
        await asyncio.shield(self._stopped)

    async def turned(self) -> None:
        """Until the node has done something more, or the next tick has come."""
        if self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._next_turn)

    # Requests. The answer comes by `reply`, also when it is an error.

    def propose(self, group: GroupId, data: bytes | memoryview, reply: Reply) -> bool:
        """False: refused, and nothing was logged; the reply says why."""
        if not self._is_accepting:
            reply(UnavailableError("the node is not running"))
            return False
        accepted = self.driver.propose(group, data, self._pending.add(group, reply, is_read=False))
        self._ask_for_turn()
        return accepted

    def forward(self, group: GroupId, data: bytes) -> None:
        """Proposes here or at the leader; nobody answers."""
        self._input(self.driver.forward, group, data)

    def read(self, group: GroupId, query: object, reply: Reply) -> None:
        if self._is_accepting:
            self._input(self.driver.read, group, query, self._pending.add(group, reply, is_read=True))
        else:
            reply(UnavailableError("the node is not running"))

    def change_members(self, group: GroupId, change: ConfigurationChange, reply: Reply) -> None:
        if self._is_accepting:
            self._input(self.driver.change_members, group, change, self._pending.add(group, reply, is_read=False))
        else:
            reply(UnavailableError("the node is not running"))

    def campaign(self, group: GroupId) -> None:
        self._input(self.driver.campaign, group)

    def transfer(self, group: GroupId, to: NodeId) -> None:
        """Asks to hand leadership over. Raises NotLeaderError, InvalidArgumentError."""
        self.driver.transfer(group, to)
        self._ask_for_turn()

    def drop(self, group: GroupId, reason: FlotillaError) -> None:
        """Leaves a group and removes its data. Its pending requests are answered with `reason`."""
        self._input(self.driver.remove_replica, group)
        for request in self._pending.of_group(group):
            self.reply(request, reason)
        self._asked_pauses.pop(group, None)
        self._confirmed_pauses.pop(group, None)

    def snapshot(self, group: GroupId) -> None:
        self._input(self.driver.snapshot, group)

    # Leadership after a pause.

    def is_confirmed(self, group: GroupId) -> bool:
        """Whether a replica that leads may answer for its group. False: this node slept, and a quorum is being asked.

        To be asked before each answer that no quorum confirms by itself.
        """
        pauses = self._pause_detector.pauses()
        if self._confirmed_pauses.get(group, 0) == pauses:
            return True
        if self._asked_pauses.get(group, 0) != pauses and self.driver.replicas[group].raft.role == LEADER:
            self._asked_pauses[group] = pauses
            request = self._pending.add(group, partial(self._confirm, group, pauses), is_read=True)
            self._input(self.driver.confirm, group, request)
        return False

    def _confirm(self, group: GroupId, pauses: int, result: object) -> None:
        if isinstance(result, FlotillaError):
            # Not leading any more, or too many ask: the next caller asks again.
            self._asked_pauses.pop(group, None)
        else:
            self._confirmed_pauses[group] = pauses

    # What the links, the clock and the threads report.

    def receive(self, messages: list[tuple[GroupId, Message]]) -> None:
        # Many answers bring nothing, and need no turn.
        if self._record(self.driver.receive, messages) and self.driver.has_work:
            self._ask_for_turn()

    def peer_up(self, peer: NodeId) -> None:
        log.info("peer up", node=self.node, peer=peer)
        self._input(self.driver.peer_up, peer)

    def peer_down(self, peer: NodeId) -> None:
        log.info("peer down", node=self.node, peer=peer)
        self._input(self.driver.peer_down, peer)

    def peer_refused(self, peer: NodeId, address: str, reason: str) -> None:
        log.warning("refused a peer", node=self.node, peer=peer, address=address, reason=reason)

    def refused_by_peer(self, peer: NodeId, address: str, reason: str) -> None:
        log.warning("refused by a peer", node=self.node, peer=peer, address=address, reason=reason)

    def _tick(self, count: int) -> None:
        self._pause_detector.tick()
        for _ in range(count):
            self._input(self.driver.tick)
        self.journal.tidy_up()

    def _block_written(self, block: Block, error: FlotillaError | None) -> None:
        is_turn_due = self._due_turn is not None
        self._input(self._note_written, block, error)
        if not is_turn_due:
            # Nothing else came in this round that could share the turn: the answers need not wait for another one.
            self._turn()

    def _note_written(self, block: Block, error: FlotillaError | None) -> None:
        before = self.driver.storage_error
        self._inline_writes.note(*self.journal.last_us)
        self.driver.block_written(block, error)
        if error is not None and (before is None or before.code != error.code):
            log.error("the disk takes nothing", node=self.node, code=error.code, error=str(error))
        elif error is None and before is not None:
            log.info("the disk works again", node=self.node)

    def _job_done(self, job: Job, error: FlotillaError | None) -> None:
        self._input(self.driver.job_done, job, error)

    def _input(self, record: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        if self._record(record, *args, **kwargs):
            self._ask_for_turn()

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

    def _ask_for_turn(self) -> None:
        if self._due_turn is None and self._loop is not None:
            self._due_turn = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._forget_due_turn()
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
        if self.driver.has_lagging and self._patience is None:
            self._be_patient()
        if self._next_turn is not None:
            self._next_turn.set_result(None)
            self._next_turn = None

    def _be_patient(self) -> None:
        assert self._loop is not None
        self._patience = self._loop.call_later(THRIFTY_PATIENCE_MS / 1000, self._replicate_to_lagging)

    def _replicate_to_lagging(self) -> None:
        self._patience = None
        if self._record(self.driver.replicate_to_lagging):
            if self.driver.has_work:
                self._ask_for_turn()
            elif self.driver.has_lagging:
                self._be_patient()

    def _hurry(self) -> None:
        self.driver.hurry()
        self._answer()
        if self._due_turn is not None:
            # Answers brought new requests, which need not wait for another turn.
            self._forget_due_turn()
            self.driver.hurry()

    def _answer(self) -> None:
        replies, self._replies = self._replies, []
        for request, result in replies:
            self._pending.answer(request, result)

    def _write(self, block: Block) -> None:
        """Neither way is free: others write to their disks while we begin."""
        if not self.journal.is_tidying and self._inline_writes.allows(block.size_bytes, perf_counter_ns() // 1000):
            self._note_written(block, self.journal.do(block))
            self._hurry()
        else:
            self.journal.submit(block)

    def _forget_due_turn(self) -> None:
        if self._due_turn is not None:
            self._due_turn.cancel()
            self._due_turn = None

    # What the driver wants done. None of it calls back into the driver.

    def send(self, to: NodeId, messages: list[tuple[GroupId, Message]]) -> None:
        self._links.send(to, messages)

    def write(self, block: Block) -> None:
        assert self._unwritten is None, "one block is under way at a time"
        self._unwritten = block

    def run(self, job: Job) -> None:
        self.background.submit(job)

    def reply(self, token: object, result: object) -> None:
        assert isinstance(token, PendingRequest)
        self._replies.append((token, result))

    def crash_point(self, name: str) -> None:
        """Only the simulator cuts the power here."""

    # The end.

    async def hand_over(self, within_ms: int = HAND_OVER_MS) -> None:
        """Asks the best placed voter of each group to lead, and waits until all say that they do, but not long."""
        given: list[Replica] = []
        for replica in self.driver.replicas.values():
            heir = replica.heir()
            if heir != NO_NODE:
                self.driver.transfer(replica.group, heir)
                self._ask_for_turn()
                given.append(replica)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_ms / 1000
        while any(replica.raft.leader in (NO_NODE, self.node) for replica in given) and loop.time() < until_s:
            await asyncio.sleep(_HAND_OVER_POLL_MS / 1000)

    async def _shut_down(self) -> None:
        self._ticker.stop()
        self._is_accepting = False
        # What was asked for last is still written.
        self._turn()
        await self.journal.stop()
        self._is_running = False
        self._links.close()
        await self.background.stop()
        self._pending.fail_all("the node was stopped")

    def _break(self, failure: Exception) -> None:
        """Stops as in a crash: nothing more is said, written or answered."""
        self._is_running = self._is_accepting = False
        self._ticker.stop()
        self._links.close()
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_exception(failure)
