"""Requests that wait until this node knows metadata that are new enough.

A node that follows the metadata's leader learns of a change up to a tick after the leader. A request may need more: the
changes that its client has seen elsewhere (`reach`), or all that were acknowledged to any client (`confirm`). The node
then asks the leader for its read index, which a quorum confirms, and applies that much. Requests share questions: one
is in flight at a time, and a request counts on one that was asked after it came.

Every wait is bounded, and a failed question is repeated until then: the metadata may be without a leader for a moment.
A node without a replica of the metadata, as before it is part of a cluster, has nobody to ask and does not wait.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from flotilla.broker.catalog import METADATA_GROUP, CatalogMachine
from flotilla.broker.ports import Cancel, Consensus, Outside, Subscription
from flotilla.metadata.queries import DescribeCluster
from flotilla.types.errors import FlotillaError, InvalidArgumentError, ReplicaBehindError
from flotilla.types.ids import Index
from flotilla.types.operations.cluster import METADATA_CONFIRM_MS_MAX

#: A request of a client that has seen more is refused after this time. The client asks another node, or again.
REACH_MS_MAX: Final = 1_000
#: The pause after a failed question.
RETRY_MS: Final = 50


@dataclass(slots=True, eq=False)
class _Waiter:
    """A request that waits for the index, and for the first question that was asked after it came."""

    index: Index
    question: int
    done: Callable[[FlotillaError | None], None]
    stop_timer: Cancel


class MetadataReads:
    def __init__(self, machine: CatalogMachine, consensus: Consensus, outside: Outside) -> None:
        self._machine = machine
        self._consensus = consensus
        self._outside = outside
        self._waiters: dict[_Waiter, None] = {}
        #: Questions that were asked so far; the last one may be in flight.
        self._questions = 0
        self._is_asking = False

    def reach(self, index: Index, done: Callable[[FlotillaError | None], None]) -> Cancel:
        """Calls `done` with None when entry `index` is applied here, and with an error if that takes too long."""
        return self._wait(index, REACH_MS_MAX, done)

    def confirm(self, done: Callable[[FlotillaError | None], None]) -> Cancel:
        """The same for all entries that were committed when this is called."""
        return self._wait(0, METADATA_CONFIRM_MS_MAX, done)

    def _wait(self, index: Index, wait_ms: int, done: Callable[[FlotillaError | None], None]) -> Cancel:
        def expire() -> None:
            applied = self._machine.applied
            text = f"this node has applied metadata up to index {applied}"
            needed = f", and the client has seen {index}" if index else ", and no quorum confirms that it is the newest"
            self._end(waiter, ReplicaBehindError(text + needed))

        def cancel() -> None:
            self._waiters.pop(waiter, None)
            waiter.stop_timer()

        has_replica = self._consensus.replica(METADATA_GROUP) is not None
        waiter = _Waiter(index, self._questions + 1, done, self._outside.later(wait_ms if has_replica else 0, expire))
        self._waiters[waiter] = None
        if 0 < index <= self._machine.applied:
            self._end(waiter, None)
        elif has_replica:
            self._ask()
        return cancel

    def _end(self, waiter: _Waiter, error: FlotillaError | None) -> None:
        del self._waiters[waiter]
        waiter.stop_timer()
        if error is None:
            # Partitions take over what was applied in this turn of the loop, before the request is handled.
            waiter.stop_timer = self._outside.later(0, lambda: waiter.done(None))
        else:
            waiter.done(error)

    def _ask(self) -> None:
        if not self._is_asking and self._waiters:
            self._is_asking = True
            self._questions += 1
            self._consensus.read(METADATA_GROUP, DescribeCluster(), self._answered)

    def _answered(self, result: object) -> None:
        if isinstance(result, FlotillaError):
            self._outside.later(RETRY_MS, self._ask_again)
            return
        self._is_asking = False
        applied = self._machine.applied
        for waiter in list(self._waiters):
            if waiter not in self._waiters:
                continue
            if waiter.index > applied and waiter.question <= self._questions:
                # The index was not committed when the client sent it.
                text = f"the client has seen metadata index {waiter.index}, and this cluster has only {applied} entries"
                self._end(waiter, InvalidArgumentError(f"{text}: they are of another cluster"))
            elif waiter.index <= applied and (waiter.index or waiter.question <= self._questions):
                self._end(waiter, None)
        self._ask()

    def _ask_again(self) -> None:
        self._is_asking = False
        # A change may have come by itself.
        for waiter in [waiter for waiter in self._waiters if 0 < waiter.index <= self._machine.applied]:
            if waiter in self._waiters:
                self._end(waiter, None)
        self._ask()


class WaitingRequest:
    """Implements broker.ports.Subscription: a request that waits for metadata first, and then as it does by itself."""

    __slots__ = ("_cancel", "_credit", "_is_started")

    def __init__(self) -> None:
        self._cancel: Cancel | None = None
        self._is_started = False
        self._credit = 0

    def waits(self, cancel: Cancel) -> None:
        if not self._is_started:
            self._cancel = cancel

    def started(self, cancel: Cancel | None) -> None:
        self._is_started = True
        self._cancel = cancel
        if cancel is not None and self._credit:
            cast(Subscription, cancel).add_credit(self._credit)

    def __call__(self) -> None:
        if self._cancel is not None:
            self._cancel()

    def end(self, ended: Callable[[], None]) -> None:
        if self._is_started and self._cancel is not None:
            cast(Subscription, self._cancel).end(ended)
        else:
            self()
            ended()

    def add_credit(self, messages: int) -> None:
        if self._is_started and self._cancel is not None:
            cast(Subscription, self._cancel).add_credit(messages)
        else:
            self._credit += messages
