"""The core of a queue consumer without threads or sockets: what to ask for, what has arrived, what is to be settled.

    Polls         whom to ask          Leases, LeaseRenewal   what is held, and that it stays so
    Settlements   what is over         `ready`          messages that nobody has taken yet

Iterating asks all the time for as many messages as there are free slots: a slot is free when its message is settled,
so a slow handler holds one slot and nobody else's. How many slots there are follows the handlers, too, unless somebody
has chosen (PrefetchWindow). Polling asks when somebody polls and nothing is there.

A message that nobody takes until half of its lease is over goes back to the group, uncounted, for somebody quicker.
`ready` may be taken from by another thread; everything else belongs to the session's.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic

from flotilla.client._core.session import Session
from flotilla.client._core.timers import Timer
from flotilla.client.queue._lease_renewal import LeaseRenewal
from flotilla.client.queue._leases import Lease, Leases
from flotilla.client.queue._polls import Polls
from flotilla.client.queue._prefetch_window import WINDOW_MIN, PrefetchWindow
from flotilla.client.queue._settlements import LINGER_MS, Settlements, lease_expired
from flotilla.client.queue.message import Message, masks_of, messages_of
from flotilla.client.queue.options import POLL_MESSAGES_MAX, VISIBILITY_MS_DEFAULT, QueueOptions
from flotilla.client.queue.outcome import RELEASED, Outcome
from flotilla.codec.batch.view import BatchView
from flotilla.types.address import Address
from flotilla.types.errors import CorruptionError, FlotillaError, InvalidArgumentError
from flotilla.types.operations.queue import FAIL, Delivery, LeaseRange, Poll, Polled


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
        """Messages of `kind` are made for `owner`; `news` is called whenever something has changed for who waits."""
        self._session = session
        self._topic = topic
        self._group = group
        self._member = member
        self._options = options
        self._kind = kind
        self._owner = owner
        #: Tells whoever waits.
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
            changed=self._pump,
        )
        self._settlements = Settlements(
            session,
            topic,
            group,
            options.timeout_ms,
            # The next message of a key waits for the end of the last one.
            linger_ms=0 if options.is_ordered_by_key else LINGER_MS,
            answered=self._renewal.answered,
        )
        self._polls = Polls(
            session,
            topic,
            options.partitions,
            request=self._request,
            arrived=self._arrived,
            failed=self._failed,
            answered=self._renewal.answered,
            moved=self._renewal.present,
            timeout_ms=options.timeout_ms,
        )
        # What is acknowledged as it leaves is lost with this process: few of that are here unless somebody wants more.
        chosen = options.prefetch or (WINDOW_MIN if options.is_auto_ack else None)
        self._window = PrefetchWindow(chosen, session.now_ms)
        #: Messages that were left to transactions.
        self._taken_over_count = 0
        #: What a poll asks for, and until when.
        self._wanted = 0
        self._wanted_until_ms = 0
        self.is_flowing = False
        self.is_closed = False
        self._timer: Timer | None = None
        #: One for all that nobody waits for: so it is gathered.
        self._unawaited = self._ended_unawaited
        session.watchers.append(self._link_lost)

    # What the shells ask for.

    @property
    def unconfirmed(self) -> int:
        """Messages whose end was asked for and is not known."""
        return self._settlements.count

    @property
    def is_idle(self) -> bool:
        """Nothing of it is under way any more."""
        return not self._settlements.count and self._polls.is_idle

    @property
    def is_searching(self) -> bool:
        """Leaders that may have something are still being asked."""
        return self._polls.is_searching

    def want(self, messages: int, until_ms: int, now_ms: int) -> None:
        """Somebody polls: up to so many messages, until that time, or until `rest`."""
        self._session.now_ms = now_ms
        self._wanted = min(messages, POLL_MESSAGES_MAX)
        self._wanted_until_ms = until_ms
        self._polls.begin_round()
        self._pump()

    def adapt(self) -> None:
        """The topic has become known, or has changed."""
        self._polls.adapt()

    def take(self, messages_max: int) -> list[Message]:
        """Up to so many messages that have arrived. May be called by another thread."""
        taken: list[Message] = []
        take, put = self.ready.popleft, taken.append
        try:
            for _ in range(messages_max):
                put(take())
        except IndexError:
            # What there was is taken; not asked before, because the other thread takes, too.
            pass
        return taken

    def rest(self) -> None:
        """Nobody polls any more; what is under way is buffered when it comes."""
        self._wanted = 0

    def flow(self) -> None:
        """Somebody iterates: from the next turn on, as many messages are kept here as there is room for."""
        self.is_flowing = True

    def pump(self, now_ms: int) -> None:
        """Sends what has gathered, and asks for more where there is room."""
        self._session.now_ms = now_ms
        self._pump()

    def hurry(self, now_ms: int) -> None:
        """Sends also what nobody waited for so far."""
        self._session.now_ms = now_ms
        self._settlements.hurry()

    def settle(
        self,
        masks: dict[Lease, int],
        outcome: Outcome,
        ended: Callable[[FlotillaError | None], None] | None,
    ) -> None:
        """Ends leases with the next turn.

        `ended` is called once, when all of it is done or refused. Without it, nobody waits: it leaves a little later,
        and a refusal is an error of the consumer. What was settled here before is left out.
        """
        if ended is None:
            self._settle_unawaited(masks, outcome)
            return
        if not masks:
            ended(None)
            self.notify()
            return
        pending = _PendingSettlement(self, ended, len(masks))
        for lease, mask in masks.items():
            if lease.lost & mask:
                pending.note(lease_expired(lease, lease.lost & mask))
            closed = self.leases.close(lease, mask)
            if closed:
                self._settlements.add(lease, closed, outcome, pending.ended)
            else:
                pending.finish()

    def _settle_unawaited(self, masks: dict[Lease, int], outcome: Outcome) -> None:
        for lease, mask in masks.items():
            if lease.lost & mask:
                self._note(lease_expired(lease, lease.lost & mask))
            closed = self.leases.close(lease, mask)
            if closed:
                self._settlements.add(lease, closed, outcome, self._unawaited, is_awaited=False)

    def _ended_unawaited(self, lease: Lease, mask: int, expired: int, error: FlotillaError | None) -> None:
        if error is None and expired:
            error = lease_expired(lease, expired)
        if error is not None:
            self.errors.append(error)
        # Also without an error: somebody may wait until everything has its answer.
        self.notify()

    def _note(self, error: FlotillaError) -> None:
        """Whoever calls next is told."""
        self.errors.append(error)
        self.notify()

    def extend(
        self, lease: Lease, mask: int, visibility_ms: int, ended: Callable[[FlotillaError | None], None]
    ) -> None:
        """Has leases last so long from now on, whatever renewals would make of them."""
        now_ms = self._session.now_ms
        lost = mask & ~lease.unsettled
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
            ended(error)

        self._renewal.extend(lease.partition, list(lease.runs(mask)), visibility_ms, returned)

    def _taken_over(self, lease: Lease, mask: int) -> None:
        """The cluster keeps them for a transaction: they are settled as far as this consumer goes."""
        closed = self.leases.close(lease, mask)
        if closed:
            self._taken_over_count += closed.bit_count()
            # Later: there is room for others, but whoever tells is in the middle of something.
            self._session.timers.at(self._session.now_ms, self._pump)
            self.notify()

    def stop(self, now_ms: int) -> None:
        """Asks for nothing any more, and gives back what nobody has taken."""
        self._session.now_ms = now_ms
        self._wanted = 0
        self.is_flowing = False
        self.is_closed = True
        self._give_back(self._drain(len(self.ready)))
        self._settlements.hurry()

    def abandon(self, now_ms: int) -> None:
        """Gives back everything that was taken and not settled, too."""
        self.stop(now_ms)
        for lease in self.leases:
            self.settle({lease: lease.unsettled}, RELEASED, _ignore)
        self._settlements.hurry()
        if self._timer is not None:
            self._timer.cancel()
        if self._link_lost in self._session.watchers:
            self._session.watchers.remove(self._link_lost)

    # Asking.

    def _pump(self) -> None:
        self._settlements.flush()
        self._renew()
        if self.is_flowing:
            self._follow_handlers()
        room = 0 if self.is_closed else self._room()
        if room > 0:
            wait_ms = self._options.long_poll_ms
            if not self.is_flowing:
                wait_ms = min(wait_ms, max(self._wanted_until_ms - self._session.now_ms, 0))
            self._polls.ask(min(room, POLL_MESSAGES_MAX), wait_ms, is_shared=self.is_flowing)
        self._set_timer(room > 0)

    def _follow_handlers(self) -> None:
        """Keeps no more here than they will get to soon; when that is less than before, the rest goes back."""
        handled = self._settlements.handled + self._taken_over_count
        if self._window.follow(handled, self._session.now_ms):
            self._give_back(self._drain(len(self.ready) - self._window.size))

    def _room(self) -> int:
        """How many messages should be asked for now."""
        ready = len(self.ready)
        if not self.is_flowing:
            return 0 if ready else self._wanted
        prefetch = self._window.size
        free = prefetch - (ready if self._options.is_auto_ack else self.leases.unsettled_count)
        if free <= 0:
            return 0
        room = free - self._polls.messages_in_flight
        if ready:
            # Not for each slot that becomes free, as long as nobody waits for it.
            return room if self._options.is_push and room * 2 >= prefetch else 0
        # Polls that are parked at leaders which have nothing must not keep the others from being asked.
        return max(room, 1)

    def _request(self, partitions: list[int], messages: int, wait_ms: int) -> Poll:
        options = self._options
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
        )

    def _failed(self, error: FlotillaError) -> None:
        if not self.is_closed:
            self.errors.append(error)
        self.notify()

    def _link_lost(self, address: Address) -> None:
        # Later: the session is in the middle of something.
        self._session.timers.at(self._session.now_ms, lambda: self._renewal.link_lost(address))

    # What arrives.

    def _arrived(self, polled: Polled) -> None:
        if polled.visibility_ms:
            self._renewal.visibility_ms = polled.visibility_ms
        for delivery in polled.deliveries:
            self._take_in(delivery)
        if self.ready:
            self._wanted = 0
        self._pump()
        self.notify()

    def _take_in(self, delivery: Delivery) -> None:
        lease = Lease(self._topic, self._group, delivery)
        lease.taken_over = self._taken_over
        if lease.unsettled:
            self._renewal.add(lease)
        if self.is_closed:
            self.settle({lease: lease.unsettled}, RELEASED, _ignore)
            return
        try:
            view = BatchView(delivery.batch)
            if view.count != delivery.count:
                raise InvalidArgumentError(f"{delivery.count} messages were announced, {view.count} came")
            lease.priority = view.priority
            lease.deliver_at_ms = view.deliver_at_ms
            self.ready.extend(messages_of(self._kind, self._owner, lease, view))
        except InvalidArgumentError as error:
            text = f"what came of partition {delivery.partition} of {self._topic} at offset {delivery.first}: {error}"
            self.errors.append(CorruptionError(text))
            self.settle({lease: lease.unsettled}, Outcome(FAIL, "damaged on its way to a consumer"), _ignore)

    # Keeping.

    def _renew(self) -> None:
        due = self._renewal.due()
        if not due:
            return
        waiting = self._drain(len(self.ready))
        late = dict.fromkeys(due)
        self._give_back([message for message in waiting if message.lease in late])
        self.ready.extend([message for message in waiting if message.lease not in late])
        self._renewal.renew([lease for lease in due if lease.unsettled])
        self._settlements.flush()
        self.notify()

    def _drain(self, count: int) -> list[Message]:
        """The last so many that nobody has taken; another thread may take at the same time."""
        found: list[Message] = []
        try:
            for _ in range(count):
                found.append(self.ready.pop())
        except IndexError:
            # The other thread was quicker.
            pass
        found.reverse()
        return found

    def _give_back(self, messages: list[Message]) -> None:
        self.settle(masks_of(messages), RELEASED, _ignore)

    def _set_timer(self, is_asking: bool) -> None:
        due_ms = self.leases.next_ms
        asking_ms = self._polls.next_ms if is_asking else None
        if asking_ms is not None and (due_ms is None or asking_ms < due_ms):
            due_ms = asking_ms
        if self._timer is not None and self._timer.action is not None and self._timer.when_ms == due_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None and not self._session.is_closed:
            self._timer = self._session.timers.at(due_ms, self._pump)


class _PendingSettlement:
    """What became of one wish to settle, which may have gone to several partitions."""

    __slots__ = ("_callback", "_error", "_left", "_reader")

    def __init__(self, reader: QueueCore[Message], callback: Callable[[FlotillaError | None], None], left: int) -> None:
        self._reader = reader
        self._callback = callback
        #: The first one.
        self._error: FlotillaError | None = None
        #: Answers that are still to come.
        self._left = left

    def note(self, error: FlotillaError) -> None:
        if self._error is None:
            self._error = error

    def ended(self, lease: Lease, mask: int, expired: int, error: FlotillaError | None) -> None:
        if error is not None:
            self.note(error)
            if not self._reader.is_closed:
                # Who is told may try again.
                self._reader.leases.restore(lease, mask)
        elif expired:
            self.note(lease_expired(lease, expired))
        self.finish()

    def finish(self) -> None:
        self._left -= 1
        if self._left:
            return
        self._callback(self._error)
        self._reader.notify()


def _ignore(error: FlotillaError | None) -> None:
    """Nobody minds: the lease would have run out by itself."""
