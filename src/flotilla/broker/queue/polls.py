"""Polls and subscriptions of queue groups at this node: over one partition, or all of a topic that it leads.

Finds the partitions, opens the group where it is new, and starts the waiter. A waiter for all partitions also gets
those that this node begins to lead meanwhile. A member that does not reconnect within `lost_ms` of its group loses its
leases.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Protocol

from flotilla.broker.catalog import Catalog
from flotilla.broker.ports import Cancel, Done, Elsewhere, Outside
from flotilla.broker.queue.first_settings import FirstSettings, check_order, missing_settings
from flotilla.broker.queue.groups import PartitionQueue
from flotilla.broker.queue.takers import Taker
from flotilla.broker.queue.waiters import CREDIT_MAX, QueueSubscription, QueueWaiter, WaitingPoll
from flotilla.metadata.values import Topic
from flotilla.types.errors import (
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    NotLeaderError,
    UnavailableError,
)
from flotilla.types.filters import checked_filter
from flotilla.types.group_settings import GROUP_SETTINGS
from flotilla.types.ids import GroupId
from flotilla.types.limits import MEMBER_LENGTH_MAX
from flotilla.types.operations import Done as DoneReply
from flotilla.types.operations.queue import LeaveQueue, Poll, Subscribe
from flotilla.types.topics import check_group_name

#: After the loss of its connection a client has this long to reconnect before its undecided transactions are aborted.
LOST_MS = 1_000
#: One poll in this many over several partitions ignores priorities, as one delivery in as many within each partition
#: is of the oldest message.
_UNRANKED_SHARE = 4

_VISIBILITY = GROUP_SETTINGS["visibility_ms"]


class QueueHost(Protocol):
    """A partition at this node."""

    def queue(self) -> PartitionQueue:
        """Its queue groups. Raises NotLeaderError or UnavailableError."""

    def lost_ms_of(self, member: str) -> list[int]: ...

    def release_member(self, member: str, away_ms: int) -> None: ...

    def abort_transactions(self, member: str) -> None: ...

    def leave_queue(self, group: str, member: str) -> None: ...


class QueuePolls:
    """The polls and subscriptions that wait at this node."""

    def __init__(self, catalog: Catalog, outside: Outside, random: Random, elsewhere: Elsewhere) -> None:
        self.outside = outside
        self._first_settings = FirstSettings(elsewhere)
        #: The partitions here, set by the registration.
        self.hosts: Mapping[GroupId, QueueHost] = {}
        self._catalog = catalog
        self._random = random
        #: By the topic's id.
        self._waiters: dict[int, dict[QueueWaiter, None]] = {}
        #: Members whose connection is lost, with what stops the wait for them.
        self._lost: dict[str, Cancel] = {}

    # Requests.

    def poll(self, request: Poll, done: Done) -> Cancel | None:
        if request.max_messages < 1 or request.max_bytes < 1:
            raise InvalidArgumentError("max_messages and max_bytes are at least 1")
        topic, queues = self._find(request)
        waiter = WaitingPoll(self, request, topic.topic_id, self._taker(request, queues), done)
        return self._start(waiter, queues)

    def subscribe(self, request: Subscribe, done: Done) -> Cancel | None:
        if not 0 <= request.credit <= CREDIT_MAX:
            raise InvalidArgumentError(f"credit = {request.credit}: expected 0 to {CREDIT_MAX}")
        topic, queues = self._find(request)
        waiter = QueueSubscription(self, request, topic.topic_id, self._taker(request, queues), done)
        return self._start(waiter, queues)

    def _find(self, request: Poll | Subscribe) -> tuple[Topic, list[PartitionQueue]]:
        check_group_name(request.group)
        check_member(request.member)
        if request.visibility_ms:
            _VISIBILITY.check(request.visibility_ms)
        self.heard(request.member)
        topic = self._catalog.topic(request.topic)
        if request.partitions:
            return topic, [self._queue(topic, number) for number in dict.fromkeys(request.partitions)]
        found: list[PartitionQueue] = []
        refusal: FlotillaError | None = None
        for partition in topic.partitions:
            try:
                found.append(self._queue(topic, partition.number))
            except (NotLeaderError, UnavailableError) as error:
                refusal = refusal or error.with_traceback(None)
        if not found:
            raise refusal or NotFoundError(f"topic {topic.name!r} has no partitions")
        return topic, found

    def _queue(self, topic: Topic, number: int) -> PartitionQueue:
        if not 0 <= number < len(topic.partitions):
            raise NotFoundError(f"topic {topic.name!r} has no partition {number}, only {len(topic.partitions)} of them")
        partition = topic.partitions[number]
        host = self.hosts.get(partition.group)
        if host is None:
            raise NotLeaderError(self._catalog.likely_leader(partition.replicas))
        return host.queue()

    def _taker(self, request: Poll | Subscribe, queues: list[PartitionQueue]) -> Taker:
        visibility_ms = request.visibility_ms or queues[0].rules(request.group).visibility_ms
        wanted = checked_filter(request.types, request.headers)
        if request.is_ordered_by_key and not wanted.takes_all:
            raise InvalidArgumentError("a poll has a filter or orders by key, not both")
        is_ordered = request.is_ordered_by_key
        if is_ordered:
            check_order(queues[0].topic, request.group)
        return Taker(
            request.group,
            request.member,
            visibility_ms,
            is_ordered,
            request.is_auto_ack,
            wanted,
            request.start,
            presents=request.presents,
        )

    # From a request to a waiter.

    def _start(self, waiter: QueueWaiter, queues: list[PartitionQueue]) -> Cancel | None:
        topic, taker = queues[0].topic, waiter.taker
        if missing := missing_settings(topic, taker.group, is_ordered=taker.is_ordered):
            self._first_settings.set(topic, taker.group, missing, partial(self._set, waiter, queues))
        else:
            self._begin(waiter, queues)
        if waiter.is_over:
            return None
        self._waiters.setdefault(waiter.topic_id, {})[waiter] = None
        return waiter

    def _set(self, waiter: QueueWaiter, queues: list[PartitionQueue], error: FlotillaError | None) -> None:
        """The group of a waiter has its first settings."""
        led = [queue for queue in queues if not queue.is_ended]
        if waiter.is_over:
            return
        try:
            if error is not None or not led:
                raise error or UnavailableError("leadership was lost while the settings of the group were stored")
            self._begin(waiter, led)
        except FlotillaError as failure:
            waiter.fail(failure)

    def _begin(self, waiter: QueueWaiter, queues: list[PartitionQueue]) -> None:
        unprepared = []
        for queue in queues:
            if queue.is_prepared(waiter.taker):
                waiter.queues[queue] = None
            else:
                unprepared.append(queue)
        if unprepared:
            self._prepare(waiter, unprepared)
        else:
            waiter.begin()

    def _prepare(self, waiter: QueueWaiter, queues: list[PartitionQueue]) -> None:
        """Begins the waiter when its group knows it everywhere; a partition where that failed is left out."""
        left = len(queues)

        def prepared(queue: PartitionQueue, error: FlotillaError | None) -> None:
            nonlocal left
            left -= 1
            if error is None:
                waiter.join(queue)
            if left or waiter.is_over:
                return
            if not waiter.queues:
                waiter.fail(error or UnavailableError("leadership was lost while the group was opened"))
                return
            try:
                waiter.begin()
            except FlotillaError as failure:
                waiter.fail(failure)

        try:
            for queue in queues:
                queue.prepare(waiter.taker, partial(prepared, queue))
        except FlotillaError:
            # The error is the answer: the waiter must not answer again when the others are open.
            waiter()
            raise

    def began(self, queue: PartitionQueue) -> None:
        """This node leads one more partition: waiters for all of its topic join it."""
        if queue.topic.topic_id in self._waiters:
            self.outside.later(0, lambda: self._join_all(queue))

    def _join_all(self, queue: PartitionQueue) -> None:
        for waiter in list(self._waiters.get(queue.topic.topic_id, ())):
            if not waiter.wants_all or waiter.is_over or queue.is_ended:
                continue
            if queue.is_prepared(waiter.taker):
                waiter.join(queue)
            else:
                self._prepare_late(waiter, queue)

    def ended(self, queue: PartitionQueue, reason: FlotillaError) -> None:
        """This node no longer leads a partition."""
        for waiter in list(self._waiters.get(queue.topic.topic_id, ())):
            if queue in waiter.queues:
                waiter.lost(queue, reason)

    def close(self, reason: FlotillaError) -> None:
        """The node stops: every waiter is answered with `reason`."""
        for waiters in list(self._waiters.values()):
            for waiter in list(waiters):
                waiter.fail(reason)

    def _prepare_late(self, waiter: QueueWaiter, queue: PartitionQueue) -> None:
        def prepared(error: FlotillaError | None) -> None:
            if error is None:
                waiter.join(queue)

        try:
            queue.prepare(waiter.taker, prepared)
        except FlotillaError:
            # It goes on with its other partitions; the next poll gets the error.
            return

    # What waiters need.

    def ranked(self, queues: dict[PartitionQueue, None], group: str) -> list[PartitionQueue]:
        """The partitions with the highest ready priority first; equal ones in random order, so that none starves.

        One time in `_UNRANKED_SHARE` priorities are ignored, so that a partition with only low ones is served, too.
        """
        found = list(queues)
        if len(found) > 1:
            first = self._random.randrange(len(found))
            found = found[first:] + found[:first]
            # Most topics use one priority only: nothing to compare.
            if any(queue.knows_priorities for queue in found) and self._random.randrange(_UNRANKED_SHARE):
                found.sort(key=lambda queue: queue.best_priority(group), reverse=True)
        return found

    def explain(self, error: FlotillaError) -> FlotillaError:
        return self._catalog.explain(error)

    def forget(self, waiter: QueueWaiter) -> None:
        waiters = self._waiters.get(waiter.topic_id)
        if waiters is not None and waiter in waiters:
            del waiters[waiter]
            if not waiters:
                del self._waiters[waiter.topic_id]

    # Members.

    def heard(self, member: str) -> None:
        if self._lost:
            stop = self._lost.pop(member, None)
            if stop is not None:
                stop()

    def lost(self, members: Sequence[str]) -> None:
        for member in members:
            if member not in self._lost:
                self._await(member, 0)

    def leave_queue(self, request: LeaveQueue, done: Done) -> None:
        """Only what this node leads is concerned; of other partitions their leaders are told."""
        topic = self._catalog.topic(request.topic)
        for waiter in list(self._waiters.get(topic.topic_id, ())):
            if waiter.taker.group == request.group and waiter.taker.member == request.member:
                waiter.dismiss()
        for partition in topic.partitions:
            host = self.hosts.get(partition.group)
            if host is not None:
                host.leave_queue(request.group, request.member)
        done(DoneReply())

    def _await(self, member: str, away_ms: int) -> None:
        """Waits until the member has been away for the next one of the times that matter."""
        times_ms = [LOST_MS, *(each for host in self.hosts.values() for each in host.lost_ms_of(member))]
        later_ms = [each for each in times_ms if each > away_ms]
        if later_ms:
            next_ms = min(later_ms)
            self._lost[member] = self.outside.later(next_ms - away_ms, partial(self._missed, member, next_ms))

    def _missed(self, member: str, away_ms: int) -> None:
        del self._lost[member]
        for host in list(self.hosts.values()):
            if away_ms >= LOST_MS:
                host.abort_transactions(member)
            host.release_member(member, away_ms)
        self._await(member, away_ms)


def check_member(member: str) -> None:
    if not 1 <= len(member) <= MEMBER_LENGTH_MAX:
        raise InvalidArgumentError(f"the name of a member has 1 to {MEMBER_LENGTH_MAX} characters")
