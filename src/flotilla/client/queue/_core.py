"""The core of a queue consumer without threads or sockets: polls, leases and settlements.

    Polls         polls in flight, by leader      Leases, LeaseRenewal   unsettled leases, and their renewal
    Settlements   settlements pending, in flight  Presentations          of leases to new leaders
    `ready`       messages that were not taken yet

An iterating consumer polls all the time for as many messages as it has free slots. A slot is free when its message is
settled, so a slow handler occupies one slot only. The count of slots follows the handlers, too, unless the application
has chosen one (PrefetchWindow). A polling consumer polls when the application does and nothing is ready.

A message that is not taken before half of its lease is over is released, for a quicker consumer. Another thread may
take from `ready`; everything else belongs to the session's thread.
"""

from collections import deque
from collections.abc import Callable
from itertools import repeat
from typing import Any, Final, Generic

from flotilla.client._core.session import Session
from flotilla.client._core.timers import Alarm, earliest_ms
from flotilla.client.queue._lease_renewal import LeaseRenewal
from flotilla.client.queue._leases import Lease, Leases
from flotilla.client.queue._polls import Polls
from flotilla.client.queue._prefetch_window import WINDOW_MIN, PrefetchWindow
from flotilla.client.queue._presentations import Presentations
from flotilla.client.queue._settlements import LINGER_MS, Settlements, lease_expired
from flotilla.client.queue.message import Message, masks_of, messages_of
from flotilla.client.queue.options import POLL_MESSAGES_MAX, VISIBILITY_MS_DEFAULT, QueueOptions
from flotilla.client.queue.outcome import RELEASED, Outcome
from flotilla.codec.batch.view import BatchView
from flotilla.types.address import Address
from flotilla.types.errors import CorruptionError, FlotillaError, InvalidArgumentError
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import FAIL, Delivery, LeaseRange, Poll, Polled

_POP: Final[Callable[[deque[Any]], Any]] = deque.popleft


class QueueCore(Generic[Message]):
    def __init__(
        self,
        session: Session,
        topic: str,
        group: str,
        member: str,
        options: QueueOptions,
        *,
        kind: type[Message],
        owner: object,
        news: Callable[[], None],
    ) -> None:
        """Messages of `kind` are made for `owner`; `news` is called when a waiting coroutine should look again."""
        self._session = session
        self._topic, self._group, self._member = topic, group, member
        self._options = options
        self._kind, self._owner = kind, owner
        self.notify = news
        self.ready: deque[Message] = deque()
        self.errors: deque[FlotillaError] = deque()
        self.leases = Leases()
        self._renewal = LeaseRenewal(
            session,
            topic,
            group=group,
            member=member,
            leases=self.leases,
            visibility_ms=options.visibility_ms or VISIBILITY_MS_DEFAULT,
            lease_ms_max=options.lease_ms_max,
            answered=self._answered,
            changed=self._pump,
        )
        self._settlements = Settlements(
            session,
            topic,
            group,
            options.timeout_ms,
            # The next message of a key waits until the last one is settled.
            linger_ms=0 if options.is_ordered_by_key else LINGER_MS,
            answered=self._settled,
            lingered=self._lingered,
        )
        self._polls = Polls(
            session,
            topic,
            options.partitions,
            request=self._request,
            arrived=self._arrived,
            failed=self._failed,
            answered=self._answered,
            moved=self._moved,
            timeout_ms=options.timeout_ms,
        )
        self._presentations = self._new_presentations()
        # Messages that are acknowledged on delivery are lost with this process: few are prefetched by default.
        chosen = options.prefetch or (WINDOW_MIN if options.is_auto_ack else None)
        self._window = PrefetchWindow(chosen, session.now_ms)
        #: Messages whose objects are gone, unsettled; appended by any thread.
        self._dropped: deque[tuple[Lease, Offset]] = deque()
        #: The same, with the time when their leases are over: they are released if the consumer is closed before.
        self._let_go_of: deque[tuple[int, Lease, int]] = deque()
        #: Messages that transactions took over.
        self._taken_over_count = 0
        #: The messages that the application polls for, and until when.
        self._wanted, self._wanted_until_ms = 0, 0
        self.is_flowing = False
        #: No more messages are polled for because some are ready: the thread that takes the last one must have `pump`
        #: called.
        self.is_sated = False
        self.is_closed = False
        #: Passes outcomes on to `settle` that other threads have left; set by a shell with such threads.
        self.gather: Callable[[], None] = _nothing
        self._alarm = Alarm(session.timers, self._pump)
        self._unawaited = _UnawaitedSettlements(self)
        session.watchers.append(self._link_lost)

    def _new_presentations(self) -> Presentations:
        return Presentations(
            self._session,
            self._topic,
            leases=self.leases,
            renewal=self._renewal,
            settlements=self._settlements,
            topic_id=lambda: self._polls.topic_id,
            changed=self._pump,
        )

    # For the shells.

    @property
    def unconfirmed(self) -> int:
        """Messages whose settlement is pending or in flight."""
        return self._settlements.count

    @property
    def is_lingering(self) -> bool:
        """Unawaited settlements linger: `gather` will be called within a few milliseconds. Any thread may ask."""
        return self._settlements.is_lingering

    @property
    def prefetch(self) -> int:
        """How many messages an iteration holds at the most, now. Any thread may ask."""
        return self._window.size

    @property
    def is_idle(self) -> bool:
        """Nothing of it is in flight."""
        return not self._settlements.count and self._polls.is_idle

    @property
    def is_searching(self) -> bool:
        """Leaders that may have messages are still being polled."""
        return self._polls.is_searching

    def want(self, messages: int, until_ms: int, now_ms: int) -> None:
        """Polls for messages, until `until_ms` or `rest`."""
        self._session.now_ms = now_ms
        self._wanted = min(messages, POLL_MESSAGES_MAX)
        self._wanted_until_ms = until_ms
        if not self.is_flowing:
            self._polls.begin_round()
        self._pump()

    def adapt(self) -> None:
        """Takes over the partitions of the topic, which may have grown."""
        self._polls.adapt()

    def take(self, messages_max: int) -> list[Message]:
        """Messages that have arrived, at most `messages_max`."""
        taken: list[Message] = []
        self.take_into(taken, messages_max)
        return taken

    def take_into(self, taken: list[Message], messages_max: int) -> None:
        """Moves messages that have arrived to the list. May be called by another thread.

        No signal comes within one call of C: each message is in one of the two places at any time.
        """
        try:
            taken.extend(map(_POP, repeat(self.ready, messages_max)))
        except IndexError:
            # No length check before: another thread takes, too.
            pass

    def rest(self) -> None:
        """Ends the poll; messages that are in flight are buffered when they come."""
        self._wanted = 0

    def flow(self) -> None:
        """Starts iterating: from the next `pump` on, the prefetch window is kept full."""
        self.is_flowing = True
        self._polls.end_round()

    def pump(self, now_ms: int) -> None:
        """Sends pending settlements, and polls where there is room."""
        self._session.now_ms = now_ms
        self._pump()

    def hurry(self, now_ms: int) -> None:
        """Sends settlements that linger, too."""
        self._session.now_ms = now_ms
        self._settlements.hurry()

    def settle(
        self,
        masks: dict[Lease, int],
        outcome: Outcome,
        pending: "PendingSettlement | None",
    ) -> None:
        """Settles messages with the next `pump`.

        Without `pending` the settlement is unawaited: it may linger, and a refusal becomes an error of the consumer.
        Messages that were settled before are skipped.
        """
        settler = pending or self._unawaited
        settler.begin(len(masks))
        for lease, mask in masks.items():
            if lease.lost & mask:
                settler.note(lease_expired(lease, lease.lost & mask))
            closed = self.leases.close(lease, mask)
            if closed:
                self._settlements.add(lease, closed, outcome, settler)
            else:
                settler.finish()

    def extend(
        self, lease: Lease, mask: int, visibility_ms: int, ended: Callable[[FlotillaError | None], None]
    ) -> None:
        """Extends leases to `visibility_ms` from now; renewals do not shorten that."""
        now_ms = self._session.now_ms
        lost = mask & ~lease.unsettled & ~lease.failed
        if lost:
            ended(lease_expired(lease, lost))
            return

        def returned(expired: list[LeaseRange], error: FlotillaError | None) -> None:
            refused = sum([lease.mask(run.first, run.end) for run in expired]) & mask
            if error is None and refused:
                error = lease_expired(lease, refused)
            elif error is None:
                for offset in lease.offsets(mask):
                    lease.extended[offset] = now_ms + visibility_ms - self._renewal.visibility_ms
                if lease.failed & mask:
                    # Held and renewed again.
                    self.leases.hold(lease, mask)
                    self._session.timers.at(self._session.now_ms, self._pump)
            ended(error)

        self._renewal.extend(lease.topic_id, lease.partition, list(lease.runs(mask)), visibility_ms, returned)

    def _taken_over(self, lease: Lease, mask: int) -> None:
        """A transaction has taken over the messages: for this consumer they are settled."""
        closed = self.leases.close(lease, mask)
        if closed:
            self._taken_over_count += closed.bit_count()
            # There is room for others, but the caller is not done yet.
            self._session.timers.at(self._session.now_ms, self._pump)
            self.notify()

    @property
    def is_over(self) -> bool:
        """No message comes any more. What is acknowledged on delivery cannot be released, and is still taken."""
        return self.is_closed and (not self._options.is_auto_ack or self._polls.is_idle)

    def stop(self, now_ms: int) -> None:
        """Stops polling, and releases messages that were not taken."""
        self._session.now_ms = now_ms
        self._wanted = 0
        self.is_flowing = False
        self.is_closed = True
        if not self._options.is_auto_ack:
            self._release(self._drain(len(self.ready)))
        self._settlements.hurry()

    def abandon(self, now_ms: int) -> None:
        """Releases every unsettled message, too."""
        self.stop(now_ms)
        self._let_go()
        dropped: dict[Lease, int] = {}
        for _, lease, mask in self._let_go_of:
            dropped[lease] = dropped.get(lease, 0) | mask
        self._let_go_of.clear()
        self.settle(dropped, RELEASED, PendingSettlement(self))
        for lease in self.leases:
            self.settle({lease: lease.unsettled}, RELEASED, PendingSettlement(self))
        self._settlements.hurry()
        self._alarm.set(None)
        if self._link_lost in self._session.watchers:
            self._session.watchers.remove(self._link_lost)

    def leave(self, now_ms: int) -> None:
        """Tells the brokers that this consumer is no member any more: after everything is settled."""
        self._session.now_ms = now_ms
        if self._options.is_auto_ack:
            # What no broker has is not sent. The others are answered by that, with what they have taken.
            self._polls.withdraw()
        self._polls.leave(self._group, self._member, self.notify)

    @property
    def is_leaving(self) -> bool:
        return self._polls.is_leaving

    # Polling.

    def _lingered(self) -> None:
        self.gather()
        self._settlements.flush()

    def _pump(self) -> None:
        self.gather()
        self._settlements.flush()
        self._let_go()
        self._renew()
        if self.is_flowing:
            self._follow_handlers()
        # Before the look at `ready`: another thread that takes the last message meanwhile finds it set.
        self.is_sated = self.is_flowing
        room = 0 if self.is_closed else self._room()
        if room > 0:
            self.is_sated = False
            wait_ms = self._options.long_poll_ms
            if not self.is_flowing:
                wait_ms = min(wait_ms, max(self._wanted_until_ms - self._session.now_ms, 0))
            self._polls.ask(min(room, POLL_MESSAGES_MAX), wait_ms, is_shared=self.is_flowing)
        self._set_timer(room > 0)

    def _follow_handlers(self) -> None:
        """Adapts the prefetch window to the handlers; when it shrinks, the excess is released."""
        handled = self._settlements.handled + self._taken_over_count
        if self._window.follow(handled, self._session.now_ms):
            self._release(self._drain(len(self.ready) - self._window.size))

    def _room(self) -> int:
        """How many messages to poll for now."""
        ready = len(self.ready)
        if not self.is_flowing:
            return 0 if ready else self._wanted
        prefetch = self._window.size
        free = prefetch - (ready if self._options.is_auto_ack else self.leases.unsettled_count)
        if free <= 0:
            return 0
        room = free - self._polls.messages_in_flight
        if ready:
            # Not for each free slot while messages are ready.
            return room if self._options.is_push and room * 2 >= prefetch else 0
        # Polls that are parked at leaders without messages must not keep the other leaders from being polled.
        return max(room, 1)

    def _request(self, partitions: list[int], messages: int, wait_ms: int) -> Poll:
        options = self._options
        if not options.is_auto_ack:
            self._presentations.polled(partitions)
        return Poll(
            self._topic,
            self._group,
            self._member,
            partitions,
            messages,
            options.bytes_max,
            options.visibility_ms,
            wait_ms,
            options.is_auto_ack,
            options.is_ordered_by_key,
            options.start,
            list(options.wanted.types),
            topic_id=self._polls.topic_id,
            headers=list(options.wanted.headers),
            presents=True,
        )

    @property
    def behind(self) -> int | None:
        """Any thread may call it."""
        return self._polls.lag.total

    def _failed(self, error: FlotillaError) -> None:
        if not self.is_closed:
            self.errors.append(error)
        self.notify()

    def _link_lost(self, address: Address) -> None:
        # Later: the session calls its watchers in the middle of an input.
        self._session.timers.at(self._session.now_ms, lambda: self._presentations.link_lost(address))

    def _answered(self, number: int) -> None:
        self._presentations.answered(number)

    def _settled(self, number: int) -> None:
        self._presentations.answered(number)
        # Also without an error: `flush` may wait for the last answer.
        self.notify()

    def _moved(self, number: int) -> None:
        self._presentations.present(number)

    # Deliveries.

    def _arrived(self, polled: Polled) -> None:
        if polled.visibility_ms:
            self._renewal.visibility_ms = polled.visibility_ms
            self._settlements.limit_linger(polled.visibility_ms)
        for delivery in polled.deliveries:
            self._take_in(delivery)
        if self.ready:
            self._wanted = 0
        # First: a thread wakes up while the next poll is made.
        self.notify()
        self._pump()

    def _take_in(self, delivery: Delivery) -> None:
        if not self._presentations.takes(delivery):
            # Its leader is deposed, and this consumer does not hold the message.
            return
        lease = Lease(self._topic, self._group, delivery)
        lease.taken_over = self._taken_over
        lease.dropped = self._dropped.append
        if lease.unsettled:
            self._renewal.add(lease)
        if self.is_closed and lease.unsettled:
            self.settle({lease: lease.unsettled}, RELEASED, PendingSettlement(self))
            return
        try:
            view = BatchView(delivery.batch)
            if view.count != delivery.count:
                raise InvalidArgumentError(f"{delivery.count} messages were announced, {view.count} came")
            lease.priority = view.priority
            lease.deliver_at_ms = view.deliver_at_ms
            self.ready.extend(messages_of(self._kind, self._owner, lease, view))
        except InvalidArgumentError as error:
            place = f"partition {delivery.partition} of {self._topic} at offset {delivery.first}"
            self.errors.append(CorruptionError(f"malformed delivery from {place}: {error}"))
            damaged = Outcome(FAIL, "damaged in transit to a consumer")
            self.settle({lease: lease.unsettled}, damaged, PendingSettlement(self))

    # Leases.

    def _let_go(self) -> None:
        """Holds messages no longer whose objects the application has dropped."""
        now_ms = self._session.now_ms
        while self._dropped:
            lease, offset = self._dropped.popleft()
            mask = lease.unsettled & lease.bit(offset)
            self.leases.close(lease, mask)
            self.leases.fail(lease, mask)
            self._let_go_of.append((now_ms + self._renewal.visibility_ms, lease, mask))
        while self._let_go_of and self._let_go_of[0][0] <= now_ms:
            self._let_go_of.popleft()

    def _renew(self) -> None:
        due = self._renewal.due()
        if not due:
            return
        waiting = self._drain(len(self.ready))
        late = dict.fromkeys(due)
        self._release([message for message in waiting if message._lease in late])
        self.ready.extend([message for message in waiting if message._lease not in late])
        self._renewal.renew([lease for lease in due if lease.unsettled])
        self._settlements.flush()
        self.notify()

    def _drain(self, count: int) -> list[Message]:
        """Takes the last `count` messages from `ready`; another thread may take at the same time."""
        found: list[Message] = []
        try:
            for _ in range(count):
                found.append(self.ready.pop())
        except IndexError:
            # The other thread has taken the rest.
            pass
        found.reverse()
        return found

    def _release(self, messages: list[Message]) -> None:
        self.settle(masks_of(messages), RELEASED, PendingSettlement(self))

    def _set_timer(self, is_asking: bool) -> None:
        due_ms = earliest_ms(self.leases.next_ms, self._polls.next_ms if is_asking else None)
        self._alarm.set(None if self._session.is_closed else due_ms)


class PendingSettlement:
    """One settlement, which may go to several partitions. The caller of this class itself ignores the end of it."""

    __slots__ = ("_error", "_left", "_reader")

    is_awaited = True

    def __init__(self, reader: QueueCore[Any]) -> None:
        self._reader = reader
        #: The first error.
        self._error: FlotillaError | None = None
        #: Outstanding answers.
        self._left = 0

    def done(self, error: FlotillaError | None) -> None:
        """Called once, when all messages are settled or refused."""

    def begin(self, leases: int) -> None:
        self._left = leases
        if not leases:
            self.done(None)

    def note(self, error: FlotillaError) -> None:
        if self._error is None:
            self._error = error

    def ended(self, lease: Lease, mask: int, expired: int, error: FlotillaError | None) -> None:
        if error is not None:
            self.note(error)
            if not self._reader.is_closed:
                # The application sees the error and may try again, or let the lease end.
                self._reader.leases.fail(lease, mask)
        elif expired:
            self.note(lease_expired(lease, expired))
        self.finish()

    def finish(self) -> None:
        self._left -= 1
        if not self._left:
            self.done(self._error)


class _UnawaitedSettlements(PendingSettlement):
    """All unawaited settlements of a consumer: their errors are raised by its next call."""

    __slots__ = ()

    is_awaited = False

    def begin(self, leases: int) -> None:
        """Nobody waits for the end."""

    def note(self, error: FlotillaError) -> None:
        self._reader.errors.append(error)
        self._reader.notify()

    def ended(self, lease: Lease, mask: int, expired: int, error: FlotillaError | None) -> None:
        if error is None and expired:
            error = lease_expired(lease, expired)
        if error is not None:
            self._reader.errors.append(error)

    def finish(self) -> None:
        """The messages were settled before: there is nothing to wait for."""


def _nothing() -> None:
    """No other thread settles messages."""
