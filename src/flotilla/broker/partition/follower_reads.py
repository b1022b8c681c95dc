"""Admission of reads at a follower: it serves what it has applied only while it knows that it keeps up.

Everything that a replica has applied is committed, so nothing it serves is ever taken back. It cannot know by itself
how much it lacks. So it must hear a leader, and whenever it may have missed something (its start, a repair, a silent
leader, a paused process) it asks the leader once how far the log is committed and serves nothing before it has applied
that much. Until then it answers REPLICA_BEHIND: other replicas can serve.
"""

from flotilla.broker.ports import Consensus, Outside
from flotilla.partition.queries import DescribePartition
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.types.errors import FlotillaError, ReplicaBehindError
from flotilla.types.ids import NO_NODE

#: A node that did not check its partitions for this long was paused and has missed messages.
UNSEEN_MS_MAX = 2_000


class FollowerReads:
    def __init__(self, replica: Replica, consensus: Consensus, outside: Outside) -> None:
        self._replica = replica
        self._consensus = consensus
        self._outside = outside
        #: Everything committed when the leader was last asked is applied, and the leader was heard ever since.
        self._is_caught_up = False
        self._is_asking = False
        self._seen_ms = outside.steady_ms()

    def check(self) -> None:
        """Called several times per UNSEEN_MS_MAX: notes that the node runs and whether its leader is silent."""
        self._note_sleep()
        if self._why_not() is not None:
            self._is_caught_up = False

    def admit(self) -> None:
        """Raises ReplicaBehindError."""
        self._note_sleep()
        reason = self._why_not()
        if reason is not None:
            self._is_caught_up = False
            raise ReplicaBehindError(reason)
        if not self._is_caught_up:
            self._ask()
            raise ReplicaBehindError("this replica is asking its leader how much it has missed")

    def _note_sleep(self) -> None:
        now_ms = self._outside.steady_ms()
        if now_ms - self._seen_ms > UNSEEN_MS_MAX:
            self._is_caught_up = False
        self._seen_ms = now_ms

    def _why_not(self) -> str | None:
        raft = self._replica.raft
        if raft.damaged or raft.installing is not None:
            return "this replica is repairing its log"
        if raft.role == LEADER or raft.hears_leader(NO_NODE):
            return None
        return "this replica does not hear a leader"

    def _ask(self) -> None:
        if not self._is_asking:
            self._is_asking = True
            self._consensus.read(self._replica.group, DescribePartition(), self._answered)

    def _answered(self, result: object) -> None:
        """The read index was applied here, or the leader could not be asked."""
        self._is_asking = False
        self._is_caught_up = not isinstance(result, FlotillaError)
