"""Fetches at one replica: the leader, or any replica that keeps up; answered at once or as a long poll.

A follower serves what it has applied, and only while it keeps up (partition/follower_reads). For an offset that it has
not reached it waits, because the reader may have seen more elsewhere; in vain, it answers that this replica is behind,
never that there is nothing. With `is_linearizable` the leader's read index is applied before anything is served, on
leaders and followers alike.
"""

from collections.abc import Callable

from flotilla.broker.batch_opener import BatchOpener
from flotilla.broker.log_loads import LogLoads
from flotilla.broker.log_reads import read_batches
from flotilla.broker.partition.filtered_fetches import FilteredFetches
from flotilla.broker.partition.follower_reads import FollowerReads
from flotilla.broker.partition.long_polls import LongPolls
from flotilla.broker.ports import Cancel, Consensus, Done, Outside
from flotilla.codec.batch.header import parse_header
from flotilla.partition.queries import DescribePartition
from flotilla.partition.state.machine import PartitionMachine
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.types.errors import CorruptionError, FlotillaError, NotLeaderError, ReplicaBehindError
from flotilla.types.filters import NO_FILTER, MessageFilter, checked_filter
from flotilla.types.operations import Fetch, Fetched

#: How long a replica may take to reach the leader's read index.
CONFIRM_MS_MAX = 5_000


def _filter_of(request: Fetch) -> MessageFilter:
    """Raises InvalidArgumentError."""
    if not (request.types or request.headers or request.contains) and request.key is None:
        return NO_FILTER
    return checked_filter(request.types, request.headers, request.key, request.contains)


class _Confirming:
    """A fetch that waits for the read index, and is then served like any other."""

    __slots__ = ("cancel", "done", "request")

    def __init__(self, request: Fetch, done: Done) -> None:
        self.request = request
        self.done = done
        #: Ends its present wait.
        self.cancel: Cancel | None = None


class Fetches:
    def __init__(
        self,
        replica: Replica,
        machine: PartitionMachine,
        consensus: Consensus,
        outside: Outside,
        check_leading: Callable[[], None],
        explain: Callable[[object], FlotillaError],
        opener: BatchOpener,
    ) -> None:
        """`check_leading` raises NotLeaderError where only a leader may answer."""
        self._replica = replica
        self._machine = machine
        self._consensus = consensus
        self._outside = outside
        self._check_leading = check_leading
        self._explain = explain
        self._follower = FollowerReads(replica, consensus, outside)
        self._loads = LogLoads(consensus, outside)
        self._polls = LongPolls(outside, self._answer)
        self._filtered = FilteredFetches(outside, self._polls, self._loads, self._read_if_there, explain, opener)
        self._confirming: dict[_Confirming, None] = {}
        self._is_wake_due = False

    def __len__(self) -> int:
        return len(self._polls.parked) + len(self._filtered) + len(self._confirming)

    def fetch(self, request: Fetch, done: Done) -> Cancel | None:
        _filter_of(request)
        self._admit(request)
        if request.is_linearizable:
            return self._confirm(request, done)
        return self._serve(request, done)

    def applied(self) -> None:
        """Wakes the parked fetches once for all entries applied in this turn."""
        if self._polls.parked and not self._is_wake_due:
            self._is_wake_due = True
            self._outside.later(0, self._wake)

    def check(self) -> None:
        """Answers parked fetches that this replica can no longer serve."""
        self._follower.check()
        if self._polls.parked and self._replica.raft.role != LEADER:
            self._polls.dismiss(self._judge)
            # A snapshot of the leader adds records without `applied` being called.
            self._polls.wake(self._machine.next_offset)

    def fail_all(self, reason: FlotillaError) -> None:
        self._polls.fail_all(reason)
        self._filtered.fail_all(reason)
        for confirming in list(self._confirming):
            self._end_confirming(confirming)
            confirming.done(reason)

    def _wake(self) -> None:
        self._is_wake_due = False
        self._polls.wake(self._machine.next_offset)

    # Admission.

    def _admit(self, request: Fetch) -> None:
        """Raises NotLeaderError, ReplicaBehindError, or the error of a leader that may not serve now."""
        try:
            self._check_leading()
        except NotLeaderError:
            if not request.is_any_replica:
                raise
            self._follower.admit()

    def _judge(self, request: Fetch) -> FlotillaError | None:
        try:
            self._admit(request)
        except FlotillaError as error:
            return self._explain(error)
        return None

    # Answers.

    def _serve(self, request: Fetch, done: Done) -> Cancel | None:
        if not (wanted := _filter_of(request)).takes_all:
            return self._filtered.fetch(request, wanted, done)
        if self._has_to_wait(request):
            return self._polls.park(request, done)
        done(self._read(request))
        return None

    def _has_to_wait(self, request: Fetch) -> bool:
        return request.wait_ms > 0 and (request.offset == self._machine.next_offset or self._is_ahead(request))

    def _read_if_there(self, request: Fetch) -> Fetched | None:
        self._admit(request)
        return None if self._has_to_wait(request) else self._read(request)

    def _answer(self, request: Fetch, done: Done) -> Cancel | None:
        """A parked fetch is due: leadership, the log's start and the disk may have changed meanwhile."""

        def attempt() -> None:
            self._admit(request)
            done(self._read(request))

        return self._loads.run(attempt, lambda error: done(self._explain(error)))

    def _is_ahead(self, request: Fetch) -> bool:
        """The reader may have seen records at another replica that this one does not have yet."""
        is_sure = self._replica.raft.role == LEADER or request.is_linearizable
        return request.offset > self._machine.next_offset and not is_sure

    def _read(self, request: Fetch) -> Fetched:
        if self._is_ahead(request):
            raise ReplicaBehindError(f"offset {request.offset} has not reached this replica")
        if self._replica.raft.role == LEADER or not request.is_any_replica:
            return read_batches(self._replica, self._machine, request)
        try:
            fetched = read_batches(self._replica, self._machine, request)
        except CorruptionError as error:
            raise ReplicaBehindError(f"this replica must repair its log: {error}") from error
        # After a snapshot of the leader the state is ahead of the log, whose entries still arrive.
        is_missing = request.offset < fetched.next_offset and not fetched.batches
        if is_missing or (fetched.batches and parse_header(fetched.batches[0]).base_offset > request.offset):
            raise ReplicaBehindError(f"this replica's log does not hold offset {request.offset} yet")
        return fetched

    # Read indexes.

    def _confirm(self, request: Fetch, done: Done) -> Cancel:
        confirming = _Confirming(request, done)
        self._confirming[confirming] = None
        limit_ms = max(request.wait_ms, CONFIRM_MS_MAX)
        late = ReplicaBehindError("this replica has not caught up with the leader in time")
        confirming.cancel = self._outside.later(limit_ms, lambda: self._confirmed(confirming, late))
        group = self._replica.group
        self._consensus.read(group, DescribePartition(), lambda result: self._confirmed(confirming, result))

        def cancel() -> None:
            self._confirming.pop(confirming, None)
            if confirming.cancel is not None:
                confirming.cancel()

        return cancel

    def _confirmed(self, confirming: _Confirming, result: object) -> None:
        if not self._end_confirming(confirming):
            return
        try:
            if isinstance(result, NotLeaderError) and confirming.request.is_any_replica:
                raise ReplicaBehindError("this replica does not hear a leader")
            if isinstance(result, FlotillaError):
                raise result
        except FlotillaError as error:
            confirming.done(self._explain(error))
            return

        def attempt() -> Cancel | None:
            self._admit(confirming.request)
            return self._serve(confirming.request, confirming.done)

        confirming.cancel = self._loads.run(attempt, lambda error: confirming.done(self._explain(error)))

    def _end_confirming(self, confirming: _Confirming) -> bool:
        """False: it was not waiting for the read index any more."""
        if confirming not in self._confirming:
            return False
        del self._confirming[confirming]
        if confirming.cancel is not None:
            confirming.cancel()
            confirming.cancel = None
        return True
