"""Waiters for messages of a queue group: a poll, which takes once, and a subscription, which goes on.

Both know the partitions that they take from and are parked there while they wait; a partition with ready messages
offers them (queue/groups). A poll is answered once. A subscription is answered when it is open, with every push, when
its lag has changed for a while or it has lost a partition, and once more if it ends by itself. After its client has
ended it, only messages at most once are pushed whose acks were in flight.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from flotilla.broker.log_loads import too_slow
from flotilla.broker.ports import Cancel, Done, Outside
from flotilla.broker.queue.groups import PartitionQueue
from flotilla.broker.queue.takers import Room, Taker
from flotilla.types.errors import FlotillaError, NotLoadedError, UnavailableError
from flotilla.types.limits import LOAD_MS_MAX, MIB
from flotilla.types.operations.queue import Delivery, Poll, Polled, Pushed, Start, Subscribe

#: Whatever a client asks for.
POLL_MESSAGES_MAX = 1_024
POLL_BYTES_MAX = 8 * MIB
POLL_WAIT_MS_MAX = 300_000
#: Unsettled messages of one subscription.
CREDIT_MAX = 1_000_000
#: One push, and all pushes between two calls of add_credit: it is not known whether they have left the socket.
PUSH_MESSAGES_MAX = 1_024
PUSH_BYTES_MAX = 1 * MIB
PUSHES_BYTES_MAX = 16 * MIB
#: How often a subscription is told a lag that has changed.
LAG_MS = 5_000


class WaiterOwner(Protocol):
    """What waiters need of QueuePolls."""

    @property
    def outside(self) -> Outside: ...

    def ranked(self, queues: dict[PartitionQueue, None], group: str) -> list[PartitionQueue]:
        """In the order in which to take from them."""

    def explain(self, error: FlotillaError) -> FlotillaError:
        """The error as a client sees it."""

    def forget(self, waiter: "QueueWaiter") -> None: ...


class QueueWaiter(ABC):
    """The base of both. Calling one ends it: it is the Cancel of its request."""

    __slots__ = ("_done", "_is_parked", "_owner", "is_over", "queues", "start", "taker", "topic_id", "wants_all")

    def __init__(self, owner: WaiterOwner, request: Poll | Subscribe, topic_id: int, taker: Taker, done: Done) -> None:
        self._owner = owner
        self._done = done
        self._is_parked = False
        self.taker = taker
        self.topic_id = topic_id
        self.start: Start = request.start
        self.wants_all = not request.partitions
        #: The partitions that it takes from.
        self.queues: dict[PartitionQueue, None] = {}
        self.is_over = False

    def __call__(self) -> None:
        self._leave()

    @abstractmethod
    def begin(self) -> None:
        """Its group is open in all its partitions. Raises CorruptionError, unless it waits for the disk."""

    @abstractmethod
    def offer(self, queue: PartitionQueue) -> bool:
        """Takes what is ready there. False: nothing."""

    def _take_ready(self, room: Room) -> tuple[list[Delivery], bool]:
        """Leases from one partition after the other until there is no room, and says whether some are being loaded."""
        deliveries: list[Delivery] = []
        is_reading = False
        for queue in self._owner.ranked(self.queues, self.taker.group):
            try:
                deliveries += queue.take(self.taker, room)
            except NotLoadedError:
                # The other partitions may have messages in memory.
                is_reading = True
                continue
            except FlotillaError:
                # What is leased already must reach its member; the next one to take meets the error again.
                if not deliveries:
                    raise
                break
            if room.is_full:
                break
        return deliveries, is_reading

    def _lag(self) -> int:
        return sum([queue.lag(self.taker.group) for queue in self.queues])

    def join(self, queue: PartitionQueue) -> None:
        """Adds a partition in which its group is open."""
        if self.is_over or queue.is_ended:
            return
        self.queues[queue] = None
        if self._is_parked:
            queue.park(self)
            queue.wake_soon()

    def lost(self, queue: PartitionQueue, reason: FlotillaError) -> None:
        """This node no longer leads one of its partitions. It fails with the last of them."""
        self.queues.pop(queue, None)
        if not self.queues:
            self.fail(reason)

    def fail(self, reason: FlotillaError) -> None:
        if self._leave():
            self._done(self._owner.explain(reason))

    def dismiss(self) -> None:
        """Its consumer is closed."""
        self.fail(UnavailableError("the consumer has left its group"))

    def _leave(self) -> bool:
        """False: it was over already."""
        if self.is_over:
            return False
        self.is_over = True
        self._unpark()
        self._owner.forget(self)
        return True

    def _park(self) -> None:
        self._is_parked = True
        for queue in self.queues:
            queue.park(self)

    def _unpark(self) -> None:
        if self._is_parked:
            self._is_parked = False
            for queue in self.queues:
                queue.unpark(self)


class WaitingPoll(QueueWaiter):
    __slots__ = ("_is_committing", "_is_reading", "_max_bytes", "_max_messages", "_stop_timer", "_wait_ms")

    def __init__(self, owner: WaiterOwner, request: Poll, topic_id: int, taker: Taker, done: Done) -> None:
        super().__init__(owner, request, topic_id, taker, done)
        self._max_messages = min(request.max_messages, POLL_MESSAGES_MAX)
        self._max_bytes = min(request.max_bytes, POLL_BYTES_MAX)
        self._wait_ms = min(request.wait_ms, POLL_WAIT_MS_MAX)
        self._stop_timer: Cancel | None = None
        #: It has taken messages at most once, and their ack has no answer yet: nobody else gets them.
        self._is_committing = False
        #: Messages are ready, and are being loaded from disk: it waits for them, however short it would wait for new
        #: ones.
        self._is_reading = False

    def begin(self) -> None:
        if self.taker.is_auto_ack:
            if any(self._take_auto(queue) for queue in self._owner.ranked(self.queues, self.taker.group)):
                return
        elif self._take_all():
            return
        wait_ms = max(self._wait_ms, LOAD_MS_MAX) if self._is_reading else self._wait_ms
        if wait_ms <= 0:
            self._give_up()
        else:
            self._park()
            self._stop_timer = self._owner.outside.later(wait_ms, self._give_up)

    def _take_all(self) -> bool:
        room = Room(self._max_messages, self._max_bytes)
        deliveries, is_reading = self._take_ready(room)
        self._is_reading |= is_reading
        if deliveries:
            self._answer(Polled(deliveries, self.taker.visibility_ms))
        return bool(deliveries)

    def offer(self, queue: PartitionQueue) -> bool:
        try:
            if self.taker.is_auto_ack:
                return self._take_auto(queue)
            deliveries = queue.take(self.taker, Room(self._max_messages, self._max_bytes))
        except NotLoadedError:
            self._is_reading = True
            return False
        except FlotillaError as error:
            self.fail(error)
            return True
        if deliveries:
            self._answer(Polled(deliveries, self.taker.visibility_ms))
        return bool(deliveries)

    def _take_auto(self, queue: PartitionQueue) -> bool:
        """Takes from one partition only: with several, the slowest commit would delay all."""
        try:
            if not queue.take_auto(self.taker, self._max_messages, self._max_bytes, self._committed):
                return False
        except NotLoadedError:
            self._is_reading = True
            return False
        self._is_committing = True
        self._unpark()
        self._disarm()
        return True

    def _committed(self, outcome: list[Delivery] | FlotillaError) -> None:
        if isinstance(outcome, FlotillaError):
            self.fail(outcome)
        else:
            self._answer(Polled(outcome))

    def _give_up(self) -> None:
        """The wait is over."""
        if self._is_reading and self._wait_ms < LOAD_MS_MAX:
            self.fail(too_slow())
            return
        waits = [queue.retry_after_ms(self.taker.group) for queue in self.queues]
        self._answer(Polled([], retry_after_ms=min(waits, default=0)))

    def dismiss(self) -> None:
        if not self._is_committing:
            self._answer(Polled([]))

    def _answer(self, answer: Polled) -> None:
        if self._leave():
            answer.lag = self._lag()
            self._done(answer)

    def _disarm(self) -> None:
        if self._stop_timer is not None:
            self._stop_timer()
            self._stop_timer = None

    def _leave(self) -> bool:
        self._disarm()
        return super()._leave()


class QueueSubscription(QueueWaiter):
    """Implements broker.ports.Subscription."""

    __slots__ = (
        "_bytes_max",
        "_committing",
        "_credit",
        "_credit_bytes",
        "_ended",
        "_is_begun",
        "_stop_timer",
        "_told_lag",
    )

    def __init__(self, owner: WaiterOwner, request: Subscribe, topic_id: int, taker: Taker, done: Done) -> None:
        super().__init__(owner, request, topic_id, taker, done)
        self._credit = request.credit
        self._bytes_max = min(request.max_bytes or PUSHES_BYTES_MAX, PUSHES_BYTES_MAX)
        self._credit_bytes = self._bytes_max
        self._is_begun = False
        #: Takes at most once whose ack has no answer yet.
        self._committing = 0
        #: Called when the client has ended the subscription and the last of them is pushed.
        self._ended: list[Callable[[], None]] = []
        self._told_lag = -1
        self._stop_timer: Cancel | None = None

    def add_credit(self, messages: int) -> None:
        self._credit = min(self._credit + max(messages, 0), CREDIT_MAX)
        self._credit_bytes = self._bytes_max
        if self._is_begun:
            self._resume()

    def __call__(self) -> None:
        self._ended.clear()
        super().__call__()

    def end(self, ended: Callable[[], None]) -> None:
        self._leave()
        self._ended.append(ended)
        self._end_if_pushed()

    def _end_if_pushed(self) -> None:
        if not self._committing:
            waiting, self._ended = self._ended, []
            for ended in waiting:
                ended()

    def begin(self) -> None:
        self._is_begun = True
        deliveries: list[Delivery] = []
        if self._may_push and not self.taker.is_auto_ack:
            deliveries, _ = self._take_ready(self._room())
        self._push(deliveries)
        self._resume()
        self._stop_timer = self._owner.outside.later(LAG_MS, self._tell_lag)

    @property
    def _may_push(self) -> bool:
        return self._credit > 0 and self._credit_bytes > 0

    def _room(self) -> Room:
        return Room(min(self._credit, PUSH_MESSAGES_MAX), min(self._credit_bytes, PUSH_BYTES_MAX))

    def _resume(self) -> None:
        if not self._may_push or self._is_parked or self.is_over:
            return
        self._park()
        for queue in self._owner.ranked(self.queues, self.taker.group):
            queue.wake_soon()

    def offer(self, queue: PartitionQueue) -> bool:
        room = self._room()
        try:
            if self.taker.is_auto_ack:
                # They count from now on, and are pushed when their ack has committed.
                count = queue.take_auto(self.taker, room.messages, room.bytes, self._committed)
                self._committing += count > 0
                self._spend(count, 0)
                return count > 0
            deliveries = queue.take(self.taker, room)
        except NotLoadedError:
            return False
        except FlotillaError as error:
            self.fail(error)
            return True
        if deliveries:
            self._push(deliveries)
        return bool(deliveries)

    def _committed(self, outcome: list[Delivery] | FlotillaError) -> None:
        self._committing -= 1
        if self.is_over:
            if self._ended and not isinstance(outcome, FlotillaError):
                self._done(Pushed(outcome))
            self._end_if_pushed()
        elif isinstance(outcome, FlotillaError):
            self.fail(outcome)
        else:
            self._spend(0, sum([len(delivery.batch) for delivery in outcome]))
            self._tell(Pushed(outcome))

    def _push(self, deliveries: list[Delivery]) -> None:
        self._spend(
            sum([delivery.count for delivery in deliveries]), sum([len(delivery.batch) for delivery in deliveries])
        )
        self._tell(Pushed(deliveries, self.taker.visibility_ms))

    def _spend(self, count: int, size_bytes: int) -> None:
        self._credit -= count
        self._credit_bytes -= size_bytes
        if not self._may_push:
            self._unpark()

    def _tell(self, pushed: Pushed) -> None:
        self._told_lag = pushed.lag = self._lag()
        self._done(pushed)

    def _tell_lag(self) -> None:
        """Tells a lag that has changed since the last push, as polls that wait and come again would."""
        self._stop_timer = self._owner.outside.later(LAG_MS, self._tell_lag)
        if self._told_lag != self._lag():
            self._tell(Pushed([]))

    def lost(self, queue: PartitionQueue, reason: FlotillaError) -> None:
        super().lost(queue, reason)
        if not self.is_over and self._is_begun:
            self._tell(Pushed([], left_partitions=[queue.number]))

    def _leave(self) -> bool:
        if self._stop_timer is not None:
            self._stop_timer()
            self._stop_timer = None
        return super()._leave()
