"""The boundary of one partition: what its timers and the answers to its own requests raise ends there.

The driver contains what a replica does in a turn. The rest of a partition's code runs from timers and from answers of
other nodes; here it is wrapped. An error of the disk ends this node's leadership of the partition, which begins afresh
with the next term. Anything else is a bug in the state of that partition: its group is cut off on this node.
"""

from collections.abc import Callable

from flotilla.broker.ports import Cancel, Consensus, Done, Elsewhere, Outside
from flotilla.types.errors import FlotillaError, NotLoadedError
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.operations import Reply, Request


class Containment:
    def __init__(self, consensus: Consensus, group: GroupId) -> None:
        self._consensus = consensus
        self._group = group

    def run(self, action: Callable[[], object]) -> None:
        try:
            action()
        except NotLoadedError:
            # Nothing was changed, and the log is being loaded: the next check tries again.
            pass
        except FlotillaError as error:
            self._consensus.resign(self._group, error)
        except Exception as failure:
            self._consensus.fail(self._group, failure)


class ContainedOutside:
    """The Outside of one partition."""

    def __init__(self, outside: Outside, containment: Containment) -> None:
        self._outside = outside
        self._run = containment.run
        self.now_ms = outside.now_ms
        self.steady_ms = outside.steady_ms
        self.clock = outside.clock
        self.is_time_set = outside.is_time_set
        self.is_time_trusted = outside.is_time_trusted
        self.hold = outside.hold
        self.room = outside.room
        self.is_unknown_to = outside.is_unknown_to
        self.versions_of = outside.versions_of
        self.election_timeouts = outside.election_timeouts

    def later(self, delay_ms: int, action: Callable[[], None]) -> Cancel:
        return self._outside.later(delay_ms, lambda: self._run(action))

    def after_hold(self, action: Callable[[], None]) -> None:
        self._outside.after_hold(lambda: self._run(action))

    def aside(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self._outside.aside(work, lambda: self._run(done))

    def is_up(self, node: NodeId) -> bool:
        return self._outside.is_up(node)

    def connect(self, node: NodeId, peer_address: str, incarnation: int = 0, starts: int = 0, process: int = 0) -> None:
        self._outside.connect(node, peer_address, incarnation, starts, process)

    def disconnect(self, node: NodeId) -> None:
        self._outside.disconnect(node)


class ContainedElsewhere:
    """The Elsewhere of one partition."""

    def __init__(self, elsewhere: Elsewhere, containment: Containment) -> None:
        self._elsewhere = elsewhere
        self._run = containment.run

    def ask(self, request: Request, done: Done) -> None:
        def contained(result: Reply | FlotillaError) -> None:
            self._run(lambda: done(result))

        self._elsewhere.ask(request, contained)
