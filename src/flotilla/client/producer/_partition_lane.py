"""The lane of one producer to one partition: sends batches in order, each stored exactly once.

Records are numbered without gaps, so a broker stores a batch only after its predecessor and recognises a batch that it
has. Several batches may be in flight. When an attempt fails, nothing is sent until all others have returned, and then
everything is sent again from the oldest on: no batch overtakes another.

A batch that fails for good leaves a gap that nothing of its epoch can follow. The lane then begins a new epoch with
sequence 0, which also makes brokers refuse stragglers of the old one. But a batch that may have been stored keeps its
old number until that is certain: under a new number it would be stored twice. So it is sent again unchanged; the
answer is its offset, or SEQUENCE_GAP, which says that it is not stored.

A broker refuses a batch whose producer does not know that its topic has grown, or was deleted and created again. The
topic is described anew, and the batch is sent again: keys stay where they are when a topic grows. In another topic of
the name it fails, if keys are spread over another number of partitions there.

Records whose idempotency keys a broker knows are taken out of their batch, and the rest is sent again.

The first attempt of a batch may be direct: made by the caller's thread (FastPath) while nothing else is in flight.
Nothing is sent until that attempt ends or is taken back; then it is a batch like any other that was sent.

Thousands of batches may wait here, because each time of delivery takes a batch of its own. So unsent batches are kept
apart from the few that were sent, and no step walks through them.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from flotilla.client._core.calls import CallResult, ClientCall, deadline_passed, is_passing, outcome_unknown
from flotilla.client._core.deadlines import Deadlines
from flotilla.client._core.session import Session
from flotilla.client._core.timers import Alarm, Timer, earliest_ms
from flotilla.client.producer._batch import UNNUMBERED, Batch
from flotilla.client.producer._record_buffer import RecordBuffer
from flotilla.types.address import Address
from flotilla.types.errors import (
    DeadlineError,
    FlotillaError,
    InvalidArgumentError,
    NotLeaderError,
    OutcomeUnknownError,
    OutOfWindowError,
    SequenceGapError,
    TopicGrownError,
    TopicReplacedError,
    UnknownError,
)
from flotilla.types.limits import KIB
from flotilla.types.operations import REPEATABLE, Produce, Produced, Route

_SEQUENCE_MASK = 2**32 - 1
_EPOCH_MAX = 2**16 - 1
#: Batches that may be in flight before they are full. Measured: with two, `send` stores 1.7 times as much as with
#: eight, and single messages, at a thousand a second, take a third less until they are read.
_EARLY_MAX = 2
#: Small batches may exceed `in_flight_max`, unless that is 1: each time of delivery takes a batch of its own, and
#: batches that travel together share the cost of storing them.
_SMALL_MAX = 256
_SMALL_BYTES_MAX = 64 * KIB


class PartitionLane:
    def __init__(
        self,
        session: Session,
        route: Route,
        *,
        producer_id: int,
        in_flight_max: int,
        compression: int,
        buffer: RecordBuffer,
        resolved: Callable[[Batch], None],
        refresh: Callable[[], None],
    ) -> None:
        """`resolved` is called after each batch that ends, when there may be room for another.

        `buffer` knows the topic; `refresh` has it described anew.
        """
        assert producer_id > 0
        self._session = session
        self._route = route
        self._in_flight_max = in_flight_max
        self._compression = compression
        self._buffer = buffer
        self._resolved = resolved
        self._refresh = refresh
        self._producer_id = producer_id
        self._epoch = 0
        self._next_sequence = 0
        #: Unresolved batches in order: first those that were sent at least once, at most as many as may be in
        #: flight, then those that never were. Only sent batches have numbers.
        self._sent: dict[Batch, None] = {}
        self._unsent: OrderedDict[Batch, None] = OrderedDict()
        #: Of the unsent batches.
        self._deadlines: Deadlines[Batch] = Deadlines()
        #: The batch of a direct attempt, which is in neither collection.
        self.direct_batch: Batch | None = None
        self._in_flight_count = 0
        self._in_flight_bytes = 0
        #: An attempt failed: nothing is sent before all others have returned and the pause, if any, is over.
        self._is_backing_off = False
        self._pause: Timer | None = None
        #: Consecutive failed attempts.
        self._attempts = 0
        #: A sequence number will never be stored: nothing new may be sent in this epoch.
        self._is_broken = False
        self._expiry = Alarm(session.timers, self.resume)

    @property
    def has_room(self) -> bool:
        """Whether a batch that is not full should leave now.

        After two others it had better wait for more records: a batch costs its brokers the same whatever its size, and
        the waiting one leaves with the next answer.
        """
        return len(self._sent) + len(self._unsent) < min(self._in_flight_max, _EARLY_MAX)

    @property
    def is_empty(self) -> bool:
        return not self._sent and not self._unsent

    @property
    def is_idle(self) -> bool:
        """Nothing is in flight, and nothing waits."""
        return self.is_empty and self.direct_batch is None

    @property
    def leader(self) -> Address | None:
        """The known leader of the partition, which may be out of date."""
        return self._session.routes.find(self._route)

    # Direct attempts: begun under the producer's lock, and only while nothing else is in flight. Until the attempt is
    # ended or taken back, nothing else changes the numbers.

    def begin_direct(self, batch: Batch) -> Produce | None:
        """The request to the leader; None: no direct attempt is possible now. Raises InvalidArgumentError."""
        if self.direct_batch is not None or self._is_broken or self._pause is not None:
            return None
        assert self.is_empty
        batch.number(self._producer_id, self._epoch, self._next_sequence, self._compression)
        self.direct_batch = batch
        return self._request(batch)

    def end_direct(self, batch: Batch) -> bool:
        """The batch is stored. True: others have come in the meantime, and `resume` must be called."""
        assert self.direct_batch is batch
        self._next_sequence = (self._next_sequence + batch.left_count) & _SEQUENCE_MASK
        # Last, because this lets others be numbered.
        self.direct_batch = None
        return bool(self._unsent)

    def take_back(self, batch: Batch, refusal: FlotillaError | None, *, is_unsure: bool) -> None:
        """Goes on with the batch of a direct attempt that failed; unsure, the attempt may have stored it.

        Without a refusal there was no answer: the lane sends the same request at once. Nothing is done for a batch that
        was taken back before, or whose attempt never began.
        """
        if self._end_attempt(batch, is_unsure=is_unsure) and refusal is not None:
            batch.attempts += 1
            batch.last_error = refusal
            if isinstance(refusal, NotLeaderError):
                self._session.routes.redirect(self._route, refusal.address)
            self._handle_error(batch, refusal)
        self._pump()

    def _end_attempt(self, batch: Batch, *, is_unsure: bool) -> bool:
        """True: the batch is the lane's now. False: it is resolved, was taken back before, or never began."""
        if self.direct_batch is batch:
            self.end_direct(batch)
            if not batch.is_done:
                self._sent[batch] = None
                batch.is_unsure = is_unsure
                return True
        if batch.is_done:
            # Once more: its caller may have been interrupted after it resolved the batch.
            self._resolved(batch)
        return False

    def resume(self) -> None:
        """Sends on, beginning with the batch that an interrupted caller left here."""
        self._take_orphan()
        self._pump()

    def _take_orphan(self) -> None:
        batch = self.direct_batch
        if batch is not None and batch.is_orphaned:
            self._end_attempt(batch, is_unsure=True)

    def add(self, batch: Batch) -> None:
        self._unsent[batch] = None
        self._deadlines.put(batch, batch.deadline_ms)
        self.resume()

    def abandon(self, error: FlotillaError) -> None:
        """Fails every batch now."""
        self._take_orphan()
        for batch in (*self._sent, *self._unsent):
            # As in `_expire`: the end of one batch may have ended others.
            if not batch.is_done:
                batch.is_unsure = batch.is_unsure or (batch.call is not None and batch.call.is_perhaps_done)
                self._fail(batch, error)

    def _pump(self) -> None:
        while self._unsent or len(self._sent) > self._in_flight_count:
            self._expire()
            batch = self._next_to_send()
            if batch is None:
                self._watch()
                return
            self._send(batch)

    def _next_to_send(self) -> Batch | None:
        """The oldest batch that may be sent now."""
        if self._pause is not None or self.direct_batch is not None or (self._is_backing_off and self._in_flight_count):
            return None
        self._is_backing_off = False
        if self._in_flight_count >= self._in_flight_max and not self._are_small:
            return None
        waiting = self._to_retry()
        if self._is_broken:
            unsure = [batch for batch in waiting if batch.is_unsure]
            if unsure or self._in_flight_count:
                return unsure[0] if unsure else None
            self._begin_epoch()
        return waiting[0] if waiting else next(iter(self._unsent), None)

    @property
    def _are_small(self) -> bool:
        """Whether the batches in flight are small enough for more of them."""
        return (
            self._in_flight_max > 1 and self._in_flight_count < _SMALL_MAX and self._in_flight_bytes < _SMALL_BYTES_MAX
        )

    def _to_retry(self) -> list[Batch]:
        """Batches that were sent and returned unresolved. Mostly there are none, which costs no walk."""
        if len(self._sent) <= self._in_flight_count:
            return []
        return [batch for batch in self._sent if not batch.is_in_flight]

    def _begin_epoch(self) -> None:
        self._is_broken = False
        self._next_sequence = 0
        self._epoch += 1
        if self._epoch > _EPOCH_MAX:
            self._epoch = 0
            self._producer_id = new_producer_id(self._session)
        for batch in self._sent:
            batch.sequence = UNNUMBERED

    def _send(self, batch: Batch) -> None:
        if batch in self._unsent:
            self._remove(batch)
            self._sent[batch] = None
        if not self._is_meant_here(batch):
            error = f"topic {batch.topic!r} was deleted and created again, with other partitions for keys"
            self._fail(batch, TopicReplacedError(f"{error}; nothing was stored"))
            return
        if batch.sequence == UNNUMBERED:
            try:
                batch.number(self._producer_id, self._epoch, self._next_sequence, self._compression)
            except InvalidArgumentError as error:
                self._fail(batch, error)
                return
            self._next_sequence = (self._next_sequence + batch.left_count) & _SEQUENCE_MASK
        request = self._request(batch)
        done = partial(self._returned, batch)
        batch.call = ClientCall(request, batch.deadline_ms, done, route=self._route, effect=REPEATABLE, is_single=True)
        self._in_flight_count += 1
        self._in_flight_bytes += len(batch.data)
        self._session.submit(batch.call, self._session.now_ms)

    def _is_meant_here(self, batch: Batch) -> bool:
        """Whether the partition of the batch is right in the topic that has the name now. False: it is not."""
        buffer = self._buffer
        if batch.topic_id == buffer.topic_id or batch.is_unsure:
            # An unsure batch is not sent to another topic: it would be stored there, and was perhaps in the old one.
            return True
        if batch.key_partitions != buffer.key_partitions or batch.partition >= buffer.partitions:
            return False
        batch.topic_id = buffer.topic_id
        return True

    def _request(self, batch: Batch) -> Produce:
        topic, partition, _ = self._route
        return Produce(topic, partition, batch.data, batch.topic_id, self._buffer.partitions)

    def _returned(self, batch: Batch, result: CallResult) -> None:
        assert batch.call is not None
        batch.is_unsure = batch.is_unsure or batch.call.is_unsure
        batch.call = None
        self._in_flight_count -= 1
        self._in_flight_bytes -= len(batch.data)
        if not batch.is_done:
            if isinstance(result, Produced):
                self._attempts = 0
                if result.known:
                    self._leave_out(batch, result)
                else:
                    self._end(batch, result.base_offset, None)
            else:
                assert isinstance(result, FlotillaError)
                batch.attempts += 1
                if not isinstance(result, DeadlineError):
                    # A DeadlineError only says that this attempt had no answer.
                    batch.last_error = result
                self._handle_error(batch, result)
        self._pump()

    def _leave_out(self, batch: Batch, result: Produced) -> None:
        """Takes out the records that are stored already; the rest is sent again, under the same number if possible."""
        batch.is_unsure = False
        sequence = batch.sequence
        try:
            batch.leave_out(result.known)
        except InvalidArgumentError as error:
            self._fail(batch, UnknownError(str(error)))
            return
        others = list(self._sent)
        if any(behind.sequence != UNNUMBERED for behind in others[others.index(batch) + 1 :]):
            # Later batches are numbered already: the removed records leave a gap.
            self._is_broken = True
        else:
            self._next_sequence = sequence
        if not batch.left_count:
            self._end(batch, -1, None)

    def _handle_error(self, batch: Batch, error: FlotillaError) -> None:
        """Decides after a failed attempt whether the batch is retried or fails. `_expire` fails an overdue batch."""
        is_gap = isinstance(error, SequenceGapError)
        if is_gap:
            batch.is_unsure = False
        # The broker has forgotten this producer; only sequence 0 can follow.
        is_forgotten = isinstance(error, OutOfWindowError) and not batch.is_unsure
        # Nothing of it is stored in the topic that has the name now, where this producer is new.
        is_replaced = isinstance(error, TopicReplacedError) and not batch.is_unsure
        if isinstance(error, TopicReplacedError | TopicGrownError):
            self._refresh()
        if self._session.is_closed or not (is_gap or is_forgotten or is_replaced or is_passing(error, batch.attempts)):
            self._fail(batch, error)
        else:
            # A gap before the oldest batch cannot be closed by one in flight.
            is_first_gap = is_gap and batch is next(iter(self._sent))
            self._is_broken = self._is_broken or is_forgotten or is_replaced or is_first_gap
            self._back_off(error)

    def _back_off(self, error: FlotillaError) -> None:
        self._is_backing_off = True
        if self._pause is None:
            session = self._session
            self._attempts += 1
            delay_ms = session.options.backoff.delay_ms(self._attempts, error, session.chance)
            if delay_ms:
                self._pause = session.timers.at(session.now_ms + delay_ms, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._pump()

    # Ends.

    def _expire(self) -> None:
        now_ms = self._session.now_ms
        for batch in self._to_retry():
            # The end of one may send the next, which may end others: none must end twice.
            if batch in self._sent and not batch.is_in_flight and batch.deadline_ms <= now_ms:
                self._fail(batch, deadline_passed(batch.last_error))
        while (overdue := self._deadlines.pop_overdue(now_ms)) is not None:
            self._fail(overdue, deadline_passed(None))

    def _watch(self) -> None:
        """Sets the timer that expires waiting batches; the session expires those in flight.

        An earlier timer stays and sets the next one, so that there is one timer for many batches.
        """
        due_ms = earliest_ms(self._deadlines.next_ms, *[batch.deadline_ms for batch in self._to_retry()])
        if due_ms is not None:
            self._expiry.set_by(due_ms)

    def _fail(self, batch: Batch, error: FlotillaError) -> None:
        if batch.sequence != UNNUMBERED:
            self._is_broken = True
        if batch.is_unsure and not isinstance(error, OutcomeUnknownError):
            last = batch.last_error or error
            error = last if isinstance(last, OutcomeUnknownError) else outcome_unknown(last)
        self._end(batch, -1, error)

    def _end(self, batch: Batch, base_offset: int, error: FlotillaError | None) -> None:
        self._remove(batch)
        batch.resolve(base_offset, error)
        self._resolved(batch)

    def _remove(self, batch: Batch) -> None:
        if batch in self._sent:
            del self._sent[batch]
        else:
            del self._unsent[batch]
            self._deadlines.discard(batch)


def new_producer_id(session: Session) -> int:
    """A random id, unique without asking a broker. Never 0, which means none."""
    return session.chance.getrandbits(63) + 1
