"""A node at work: the driver with a real loop, clock, threads and links around it.

Everything here runs on one event loop, and every input only records and asks for a turn; a turn
pumps the driver once for all inputs of the loop's round, answers, and lets the links send what
came of it in one write per peer. So a thousand requests that arrive together cost one pump, and
replies never run inside of the driver.

The journal's writes and the background jobs each have a thread, which touches nothing but its
block or job. An exception that is not a typed error means that the program is wrong: the node
stops where it stands, as in a crash, and `wait_stopped` raises it. Going on with half a step
done would be worse than stopping.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import ParamSpec, TypeAlias

from flotilla.raft.membership import ConfigurationChange
from flotilla.raft.messages import Message
from flotilla.raft.roles import LEADER
from flotilla.replica.ports import Block, Job, Store
from flotilla.replica.replica import Replica
from flotilla.runtime.driver import Driver, DriverOptions
from flotilla.runtime.ports import Links
from flotilla.runtime.ticker import TICK_MS, Ticker
from flotilla.runtime.worker import Worker
from flotilla.types.errors import FlotillaError, UnavailableError
from flotilla.types.ids import NO_NODE, GroupId, NodeId

#: Called once with the result or a FlotillaError, on the loop, after the turn in which it came to be.
Reply: TypeAlias = Callable[[object], None]

#: How long a node that stops waits for others to take over what it leads.
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
        self.journal: Worker[Block] = Worker(
            "journal", run=store.write_block, done=self._block_written, broken=self._break
        )
        self.background: Worker[Job] = Worker(
            "background", run=lambda job: job.run(), done=self._job_done, broken=self._break
        )
        self.turns = 0
        self._links = links
        self._ticker = Ticker(self._tick, tick_ms)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_turn_due = False
        self._replies: list[tuple[Reply, object]] = []
        self._stopped: asyncio.Future[None] | None = None
        self._is_running = False

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = self._loop.create_future()
        self._is_running = True
        self.journal.start()
        self.background.start()
        self._ticker.start()
        await self._links.start(self)
        self._ask_for_turn()

    async def stop(self) -> None:
        """Hands leadership over, finishes what is being written, and lets go of everything."""
        if self._is_running:
            await self.hand_over()
        await self._shut_down()
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    async def wait_stopped(self) -> None:
        """Returns when the node was stopped; raises what broke it."""
        assert self._stopped is not None, "the node was not started"
        await asyncio.shield(self._stopped)

    # Requests. The answer comes by `reply`, also when it is an error.

    def propose(self, group: GroupId, data: bytes | memoryview, reply: Reply) -> bool:
        """False: refused, and nothing was logged; the reply says why."""
        if not self._is_running:
            reply(UnavailableError("the node is not running"))
            return False
        accepted = self.driver.propose(group, data, reply)
        self._ask_for_turn()
        return accepted

    def forward(self, group: GroupId, data: bytes) -> None:
        """Proposes here or at the leader; nobody answers."""
        self._input(self.driver.forward, group, data)

    def read(self, group: GroupId, query: object, reply: Reply) -> None:
        self._request(reply, self.driver.read, group, query, reply)

    def change_members(self, group: GroupId, change: ConfigurationChange, reply: Reply) -> None:
        self._request(reply, self.driver.change_members, group, change, reply)

    def campaign(self, group: GroupId) -> None:
        self._input(self.driver.campaign, group)

    def transfer(self, group: GroupId, to: NodeId) -> None:
        """Asks to hand leadership over. Raises NotLeaderError, InvalidArgumentError."""
        self.driver.transfer(group, to)
        self._ask_for_turn()

    def drop(self, group: GroupId) -> None:
        """Leaves a group and removes its data."""
        self._input(self.driver.remove_replica, group)

    def snapshot(self, group: GroupId) -> None:
        self._input(self.driver.snapshot, group)

    def _request(self, reply: Reply, record: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        if self._is_running:
            self._input(record, *args, **kwargs)
        else:
            reply(UnavailableError("the node is not running"))

    # What the links, the clock and the threads report.

    def receive(self, messages: list[tuple[GroupId, Message]]) -> None:
        self._input(self.driver.receive, messages)

    def peer_up(self, peer: NodeId) -> None:
        self._input(self.driver.peer_up, peer)

    def peer_down(self, peer: NodeId) -> None:
        self._input(self.driver.peer_down, peer)

    def _tick(self, count: int) -> None:
        for _ in range(count):
            self._input(self.driver.tick)

    def _block_written(self, block: Block, error: FlotillaError | None) -> None:
        self._input(self.driver.block_written, block, error)

    def _job_done(self, job: Job, error: FlotillaError | None) -> None:
        self._input(self.driver.job_done, job, error)

    def _input(self, record: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        if not self._is_running:
            return
        try:
            record(*args, **kwargs)
        except Exception as failure:
            self._break(failure)
        else:
            self._ask_for_turn()

    # The turn.

    def _ask_for_turn(self) -> None:
        if not self._is_turn_due and self._loop is not None:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        if not self._is_running:
            return
        self.turns += 1
        try:
            self.driver.pump()
            replies, self._replies = self._replies, []
            for reply, result in replies:
                reply(result)
            if self._is_turn_due:
                # Answers brought new requests: those travel in the same write as what came before them.
                self.driver.pump()
            self._links.flush()
        except Exception as failure:
            self._break(failure)

    # What the driver wants done. None of it calls back into the driver.

    def send(self, to: NodeId, messages: list[tuple[GroupId, Message]]) -> None:
        self._links.send(to, messages)

    def write(self, block: Block) -> None:
        self.journal.submit(block)

    def run(self, job: Job) -> None:
        self.background.submit(job)

    def reply(self, token: object, result: object) -> None:
        assert callable(token)
        self._replies.append((token, result))

    def crash_point(self, name: str) -> None:
        """Only the simulator cuts the power here."""

    # The end.

    async def hand_over(self) -> None:
        """Asks the best placed voter of each group to lead, and waits until it does, but not long."""
        for replica in self.driver.replicas.values():
            heir = _heir(replica)
            if heir != NO_NODE:
                self.driver.transfer(replica.group, heir)
                self._ask_for_turn()
        for _ in range(HAND_OVER_MS // _HAND_OVER_POLL_MS):
            if not any(replica.raft.transferee for replica in self.driver.replicas.values()):
                return
            await asyncio.sleep(_HAND_OVER_POLL_MS / 1000)

    async def _shut_down(self) -> None:
        self._ticker.stop()
        await self.journal.stop()
        self._is_running = False
        self._links.close()
        await self.background.stop()

    def _break(self, failure: Exception) -> None:
        """Stops as in a crash: nothing more is said, written or answered."""
        self._is_running = False
        self._ticker.stop()
        self._links.close()
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_exception(failure)


def _heir(replica: Replica) -> NodeId:
    """The reachable voter that needs the least to lead in our place; nobody if this replica does not lead."""
    raft = replica.raft
    if raft.role != LEADER:
        return NO_NODE
    heirs = [voter for voter in raft.configuration.voters if voter != raft.id and voter not in raft.down_peers]
    return max(heirs, key=lambda voter: raft.progress[voter].match, default=NO_NODE)
