"""Clients that append and read in bursts, and record the answers.

A client has one call in flight. It follows hints to the leader, gives up after a while, and retries as a *new*
operation with a new id: whether the old one happened stays unknown. Calls take no time on the network, so that the
intervals in the history are as tight, and the check as strict, as possible.
"""

from collections.abc import Callable
from random import Random

from flotilla.replica.replica import Replica
from flotilla.runtime.driver import Driver
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.cluster import Cluster
from flotilla.sim.devices.world import SECOND
from flotilla.sim.ledger.history import APPEND, DONE, NOT_DONE, READ, UNKNOWN, History, Operation, check_history
from flotilla.sim.ledger.machine import command
from flotilla.sim.node import SimNode
from flotilla.types.errors import (
    CorruptionError,
    FlotillaError,
    NotLeaderError,
    OutcomeUnknownError,
    OverloadedError,
)
from flotilla.types.ids import GroupId, NodeId

#: A burst that meets no leader ends all the same.
BURST_US_MAX = 5 * SECOND

#: After these the operation may have happened. All other errors promise that it did not.
UNKNOWN_ERRORS = (OutcomeUnknownError, CorruptionError)


class Client:
    """One caller. Its operations are in the history of its group."""

    __slots__ = ("_work", "group", "operation", "target")

    def __init__(self, work: "Workload", group: GroupId) -> None:
        self._work = work
        self.group = group
        self.operation: Operation | None = None
        #: The node it believes to lead.
        self.target: NodeId = 1

    def answered(self, operation: Operation, node: SimNode, result: object) -> None:
        """The answer to a call; the answer to an abandoned call is ignored."""
        if operation is self.operation:
            self._work.finish(self, node, result)


class Call:
    """The token of one operation."""

    __slots__ = ("_client", "operation")

    def __init__(self, client: Client, operation: Operation) -> None:
        self._client = client
        self.operation = operation

    def answered(self, node: SimNode, result: object) -> None:
        self._client.answered(self.operation, node, result)


class Workload:
    """All clients of a run."""

    __slots__ = (
        "_burst",
        "_clients",
        "_cluster",
        "_is_busy",
        "_is_chaos",
        "_left",
        "_random",
        "_reads",
        "burst_actions",
        "done_count",
        "histories",
    )

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random: Random = cluster.world.stream("workload")
        self.histories: dict[GroupId, History] = {group: History() for group in cluster.observers}
        self._clients = [Client(self, group) for group in cluster.observers for _ in range(cluster.plan.clients)]
        self._is_busy = False
        self._is_chaos = True
        self._reads = True
        #: The number of this burst, and how many of its operations have not begun.
        self._burst = 0
        self._left = 0
        #: Actions that wait for the middle of the next burst.
        self.burst_actions: list[Callable[[], None]] = []
        #: Acknowledged operations by group.
        self.done_count: dict[GroupId, int] = dict.fromkeys(cluster.observers, 0)

    def start(self) -> None:
        self._begin_burst(self._burst)
        for observer in self._cluster.observers.values():
            observer.leader_changed = self._leader_changed

    def _leader_changed(self) -> None:
        """Asks now, because two nodes may believe that they lead."""
        if self._is_chaos and not self._is_busy and self._random.random() < 0.5:
            self._cluster.world.after(self._think_us(), self._begin_burst, self._burst)

    def calm(self) -> None:
        """From now on: no bursts and pauses, but a steady trickle of appends only.

        A read wakes the node that it reaches; progress must not depend on that.
        """
        self._is_chaos = False
        self._reads = False
        self._wake()

    def read_again(self) -> None:
        self._reads = True

    def stop(self) -> None:
        self._is_chaos = False
        self._is_busy = False

    def progress(self, group: GroupId) -> int:
        """The operations that the group has acknowledged so far."""
        return len(self._cluster.observers[group].application.commands)

    @property
    def acknowledged(self) -> int:
        return sum(self.done_count.values())

    def has_converged(self, group: GroupId, replica: Replica) -> bool:
        application = self._cluster.observers[group].application
        return replica.machine.read(None) == (len(application.commands), application.digests[-1])

    @property
    def unfinished(self) -> str:
        """The promise that is broken when the clients' work is unfinished; this workload always finishes."""
        return ""

    def judge(self) -> None:
        """Raises Violation when no list of commands explains what the clients saw."""
        for group, observer in self._cluster.observers.items():
            problems = check_history(self.histories[group].operations, observer.application.commands)
            if problems:
                raise Violation("linearizable history", f"group {group}: " + "; ".join(problems[:5]))

    def describe(self) -> str:
        """Clients that still wait, for a failure report."""
        return f"{sum(1 for client in self._clients if client.operation is not None)} calls in flight"

    def begin_burst(self) -> None:
        """Begins a burst now, unless one goes on."""
        self._begin_burst(self._burst)

    def _begin_burst(self, last: int) -> None:
        """The burst after number `last`, unless another one came in between."""
        if not self._is_chaos or self._is_busy or last != self._burst:
            return
        self._burst += 1
        self._left = self._draw(self._cluster.plan.burst_operations)
        self._wake()
        self._cluster.world.after(BURST_US_MAX, self._end_burst, self._burst)
        actions, self.burst_actions = self.burst_actions, []
        for action in actions:
            self._cluster.world.after(self._draw(self._cluster.plan.think_us), action)

    def _wake(self) -> None:
        was_busy, self._is_busy = self._is_busy, True
        for client in self._clients:
            if client.operation is None and not was_busy:
                self._cluster.world.after(self._think_us(), self._begin, client)

    def _end_burst(self, burst: int) -> None:
        """All of it has begun, or it takes too long."""
        if self._is_chaos and self._is_busy and burst == self._burst:
            self._is_busy = False
            self._cluster.world.after(self._draw(self._cluster.plan.idle_us), self._begin_burst, self._burst)

    def _draw(self, mean: int) -> int:
        return int(self._random.expovariate(1.0) * mean) + 1

    def _think_us(self) -> int:
        think_us = self._cluster.plan.think_us if self._is_chaos else 200_000
        return 1 + int(self._random.random() * think_us * 2)

    def _begin(self, client: Client) -> None:
        if not self._is_busy or client.operation is not None:
            return
        self._left -= 1
        if self._left <= 0:
            self._end_burst(self._burst)
        cluster, random = self._cluster, self._random
        kind = READ if self._reads and random.random() < cluster.plan.read_share else APPEND
        operation = self.histories[client.group].begin(kind, cluster.world.now_us)
        client.operation = operation
        call = Call(client, operation)
        group = client.group
        node = cluster.nodes[client.target]
        if kind == READ:
            node = self._reader(node, group)
            heard = group in node.memberships and node.call(group, lambda driver: driver.read(group, None, call))
        else:
            data = command(operation.identity, int(random.random() * cluster.plan.padding_bytes_max))
            heard = group in node.memberships and node.call(group, lambda driver: _propose(driver, group, data, call))
        if not heard:
            self.finish(client, node, NotLeaderError())
        elif client.operation is operation:
            cluster.world.after(cluster.plan.timeout_us, self._give_up, client, operation)

    def _reader(self, node: SimNode, group: GroupId) -> SimNode:
        """The node to ask: the leader, a recent leader, or any node."""
        nodes = self._cluster.nodes
        dice = self._random.random()
        if dice < 0.3:
            return nodes[1 + self._random.randrange(len(nodes))]
        former = self._cluster.observers[group].former_leader
        return nodes[former] if dice < 0.6 and former else node

    def _give_up(self, client: Client, operation: Operation) -> None:
        if client.operation is operation:
            self._cluster.sometimes.seen("append of unknown outcome")
            client.target = 1 + self._random.randrange(len(self._cluster.nodes))
            self._next(client)

    def finish(self, client: Client, node: SimNode, result: object) -> None:
        operation = client.operation
        assert operation is not None
        operation.end_us = self._cluster.world.now_us
        if isinstance(result, FlotillaError):
            operation.outcome = UNKNOWN if isinstance(result, UNKNOWN_ERRORS) else NOT_DONE
            self._failed(client, result)
        else:
            operation.outcome = DONE
            self._succeeded(client, operation, node, result)
        self._next(client)

    def _succeeded(self, client: Client, operation: Operation, node: SimNode, result: object) -> None:
        self.done_count[client.group] += 1
        seen = self._cluster.sometimes.seen
        if operation.kind == READ:
            assert isinstance(result, tuple)
            operation.position, operation.digest = result
            seen("read acknowledged")
            if node.id != self._cluster.observers[client.group].leader:
                seen("read at a follower")
        else:
            assert isinstance(result, int)
            operation.position = result
            client.target = node.id
            seen("append acknowledged")

    def _failed(self, client: Client, error: FlotillaError) -> None:
        seen = self._cluster.sometimes.seen
        seen("append of unknown outcome" if isinstance(error, UNKNOWN_ERRORS) else "append refused")
        if isinstance(error, OverloadedError):
            seen("append overloaded")
        elif isinstance(error, NotLeaderError) and error.leader:
            client.target = error.leader
        else:
            client.target = 1 + self._random.randrange(len(self._cluster.nodes))

    def _next(self, client: Client) -> None:
        client.operation = None
        self._cluster.world.after(self._think_us() + 5_000, self._begin, client)


def _propose(driver: Driver, group: GroupId, data: bytes, call: Call) -> None:
    driver.propose(group, data, call)
