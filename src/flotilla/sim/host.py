"""Hosts: the groups of one simulated process, with a term for each group that its node leads.

A host lives as long as the process: after a crash only the logs remain. Terms begin and end with leadership, as the
replica sees it. A term decides what is served, the application what is replicated.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.coverage import Sometimes
from flotilla.sim.devices.world import MS, World
from flotilla.sim.node import Callback, SimNode
from flotilla.sim.trace import Trace
from flotilla.sim.wire import Answered
from flotilla.types.errors import FlotillaError, NotLeaderError, UnavailableError
from flotilla.types.ids import GroupId, NodeId, Term
from flotilla.types.operations import Request


class Serving(Protocol):
    """One term of leading a group."""

    @property
    def term(self) -> Term: ...

    def serve(self, request: Request, answer: Answered) -> None: ...

    def end(self) -> None: ...


ServingT = TypeVar("ServingT", bound=Serving)


class GroupHost(ABC, Generic[ServingT]):
    """One group in one process."""

    def __init__(self, node: SimNode, group: GroupId, sometimes: Sometimes, trace: Trace) -> None:
        self.node = node
        self.group = group
        self.term: ServingT | None = None
        self._sometimes = sometimes
        self._trace = trace
        self._replica: Replica | None = None

    @property
    def replica(self) -> Replica:
        if self._replica is None:
            assert self.node.driver is not None
            self._replica = self.node.driver.replicas[self.group]
        return self._replica

    def may_begin(self) -> bool:
        """Whether this node may serve what it leads."""
        return True

    @abstractmethod
    def begin(self, term: Term) -> ServingT:
        """Starts a term: the node leads from now on."""

    def look(self) -> None:
        """Called after every event of the node."""
        raft = self.replica.raft
        if self.term is not None and (raft.role != LEADER or raft.term != self.term.term):
            self.term.end()
            self.term = None
        if self.term is None and raft.role == LEADER and self.replica.is_serving() and self.may_begin():
            self.term = self.begin(raft.term)

    def serve(self, request: Request, answer: Answered) -> None:
        self.look()
        if self.term is None:
            raft = self.replica.raft
            raise UnavailableError("its log is not applied yet") if raft.role == LEADER else NotLeaderError(raft.leader)
        assert self.node.confirmations is not None
        if not self.node.confirmations.is_confirmed(self.group):
            raise UnavailableError("it asks a quorum whether it still leads")
        if self.node.is_cut_off(self.group):
            raise Violation("cut off is silent", f"node {self.node.id} serves group {self.group} without a quorum")
        self.term.serve(request, answer)

    # What every term needs.

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.node.later(delay_ms * MS, action)

    def propose(self, data: bytes | memoryview, answered: Callable[[object], None]) -> bool:
        assert self.node.driver is not None
        return self.node.driver.propose(self.group, data, Callback(answered))

    def note(self, text: str) -> None:
        self._trace.note(self.node.id, text)

    def seen(self, name: str) -> None:
        self._sometimes.seen(name)


HostT = TypeVar("HostT", bound="GroupHost[Any]")


class HostedApplication(ABC, Generic[HostT]):
    """The hosts of all processes, and the dispatch of requests to them."""

    def __init__(self, world: World, sometimes: Sometimes, trace: Trace) -> None:
        self.world = world
        self.sometimes = sometimes
        self.trace = trace
        #: The newest host of each group at each node: a restarted process replaces the one before.
        self.hosts: dict[tuple[NodeId, GroupId], HostT] = {}

    @abstractmethod
    def groups(self) -> Iterable[GroupId]:
        """All of them, always in the same order."""

    def observed(self, node: SimNode) -> None:
        for group in self.groups():
            host = self.hosts.get((node.id, group))
            if host is not None and node.driver is not None and group in node.driver.replicas:
                host.look()

    def serve(self, node: SimNode, group: GroupId, request: Request, answer: Answered) -> None:
        host = self.hosts.get((node.id, group))
        try:
            if host is None or group not in node.memberships:
                raise NotLeaderError()
            host.serve(request, answer)
        except FlotillaError as error:
            answer(error.with_traceback(None))
