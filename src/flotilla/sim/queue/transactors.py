"""Clients of transactions: they consume, stage what they made of it in two partitions, and decide, or do not.

Every step is repeated until it is answered, and now and then after that. Some give up, some forget that they have
begun, some repeat everything under another id and the same version, like a job that runs twice. What a client was
answered is in the registry; the shadow finds out everything else.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from flotilla.codec.batch.records import encode_batch
from flotilla.sim.devices.clock import EPOCH_MS
from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.plans.queue import DEAD_LETTERS, TOPIC, WORK
from flotilla.sim.plans.queue_message import BY_TRANSACTION, message_value
from flotilla.sim.queue.host import QueueApplication
from flotilla.sim.queue.producers import Identities
from flotilla.sim.trace import EVERYONE
from flotilla.sim.wire import Caller, Outcome
from flotilla.types.errors import (
    FlotillaError,
    InvalidArgumentError,
    LeaseExpiredError,
    NotFoundError,
    TransactionEndedError,
)
from flotilla.types.ids import GroupId
from flotilla.types.operations import Request
from flotilla.types.operations.queue import LeaseRange, Poll, Polled
from flotilla.types.operations.transactions import (
    AbortTransaction,
    CommitTransaction,
    Stage,
    Staged,
    StageSettlement,
    TransactionDecided,
    TransactionOutcome,
    TransactionShown,
)
from flotilla.types.records import Record

_RETRY_US: Final = 150 * MS
_RETRIES_MAX: Final = 12
#: A staging producer's id: no other producer of the run has one so large.
_STAGER: Final = 1_000_000
#: Errors after which a retry is useless.
_FINAL: Final = (TransactionEndedError, LeaseExpiredError, InvalidArgumentError)


class Part(NamedTuple):
    """Records for one partition."""

    group: GroupId
    sequence: int
    records: tuple[Record, ...]


@dataclass(slots=True)
class Undertaking:
    """One transaction, or one attempt at it."""

    number: int
    attempt: int
    transaction_id: str
    parts: list[Part]
    held: list[LeaseRange]
    #: Empty: it stands for itself.
    application_id: str
    #: Requests that stage it and are not answered.
    left: list[Request] = field(default_factory=list)
    retries: int = 0

    @property
    def producer_id(self) -> int:
        return _STAGER + self.number * 100 + self.attempt

    @property
    def groups(self) -> tuple[GroupId, ...]:
        acked = (TOPIC,) if self.held else ()
        return tuple(dict.fromkeys((*acked, *(part.group for part in self.parts))))


class Transactor:
    """A client with one transaction in flight."""

    def __init__(self, number: int, app: QueueApplication, identities: Identities, timeout_us: int) -> None:
        self._name = f"txn-{number}"
        self._place = number
        self._app = app
        self._identities = identities
        self._random: Random = app.world.stream(f"transactor {number}")
        self._callers = {group: Caller(app.wire, group, self._random, timeout_us) for group in (TOPIC, DEAD_LETTERS)}
        self._timeout_us = timeout_us
        self._count = 0
        self._left = app.plan.transactions_max
        self._is_calm = False
        self._current: Undertaking | None = None
        self.acknowledged = 0

    @property
    def is_idle(self) -> bool:
        return self._left == 0 and self._current is None

    def start(self) -> None:
        if self._left:
            self._app.world.after(int(self._random.random() * 2 * SECOND), self._begin)

    def calm(self) -> None:
        """A last one or two, and every one to its end."""
        self._is_calm = True
        self._left = min(self._left, 2)

    # Beginning.

    def _begin(self) -> None:
        if self._current is not None or not self._left:
            return
        self._left -= 1
        self._count += 1
        number = self._place * 1_000 + self._count
        self._current = Undertaking(number, 0, f"{self._name}/{number}/0", self._draw_parts(), [], "")
        if self._random.random() < 0.5:
            self._current.application_id = self._name
        if self._random.random() < 0.7:
            request = Poll("topic", WORK, self._name, max_messages=self._random.randint(1, 3))
            self._callers[TOPIC].ask(request, self._polled)
        else:
            self._stage()

    def _draw_parts(self) -> list[Part]:
        random = self._random
        counts = {TOPIC: 0, DEAD_LETTERS: 0}
        parts: list[Part] = []
        for _ in range(random.randint(0 if random.random() < 0.3 else 1, 4)):
            group = random.choice((TOPIC, DEAD_LETTERS))
            now_ms = EPOCH_MS + self._app.world.now_us // MS
            records = tuple(
                [
                    Record(message_value(self._identities.new(), BY_TRANSACTION), timestamp_ms=now_ms)
                    for _ in range(random.randint(1, 3))
                ]
            )
            parts.append(Part(group, counts[group], records))
            counts[group] += len(records)
        return parts

    def _polled(self, outcome: Outcome) -> None:
        current = self._current
        assert current is not None
        if isinstance(outcome, Polled):
            current.held = [LeaseRange(one.lease_id, one.first, one.first + one.count) for one in outcome.deliveries]
        # It works for a while, perhaps too long.
        self._app.world.after(int(self._random.expovariate(1.0) * 300) * MS + 1, self._stage)

    # Staging.

    def _stage(self) -> None:
        current = self._current
        assert current is not None
        if not current.groups:
            self._end()
            return
        name = current.transaction_id
        if current.held:
            current.left.append(StageSettlement("topic", 0, WORK, name, current.held))
        for part in current.parts:
            batch = encode_batch(list(part.records), producer_id=current.producer_id, sequence=part.sequence)
            current.left.append(Stage(_TOPICS[part.group], 0, name, batch))
        self._stage_next()

    def _stage_next(self) -> None:
        current = self._current
        assert current is not None
        if not current.left:
            self._decide()
            return
        if not self._is_calm and self._random.random() < 0.02:
            self._forget()
            return
        request = current.left[0]
        self._caller(request).ask(request, lambda outcome: self._staged(current, request, outcome))

    def _caller(self, request: Request) -> Caller:
        assert isinstance(request, Stage | StageSettlement | TransactionOutcome)
        return self._callers[TOPIC if request.topic == _TOPICS[TOPIC] else DEAD_LETTERS]

    def _staged(self, asked: Undertaking, request: Request, outcome: Outcome) -> None:
        current = self._current
        if current is not asked:
            return
        if isinstance(outcome, Staged):
            self._note(current, request)
            current.retries = 0
            if self._random.random() < 0.9:
                # The others say it once more.
                current.left.pop(0)
            self._stage_next()
        elif isinstance(outcome, _FINAL) or current.retries >= _RETRIES_MAX:
            self._abort()
        else:
            current.retries += 1
            self._app.world.after(_RETRY_US, self._stage_again, current)

    def _stage_again(self, asked: Undertaking) -> None:
        if self._current is asked:
            self._stage_next()

    def _note(self, current: Undertaking, request: Request) -> None:
        """It was answered before any decision, as far as it knows."""
        registry = self._app.registry
        if isinstance(request, StageSettlement):
            offsets = [offset for held in request.leases for offset in range(held.first, held.end)]
            registry.answered_acks_staged(current.transaction_id, TOPIC, request.group, offsets)
        elif isinstance(request, Stage):
            place = len(current.parts) - len([left for left in current.left if isinstance(left, Stage)])
            part = current.parts[place]
            registry.answered_staged(current.transaction_id, part.group, current.producer_id, part.sequence)

    # Deciding.

    def _forget(self) -> None:
        self._app.trace.note(EVERYONE, f"{self._name} forgets its transaction")
        self._end()

    def _decide(self) -> None:
        dice = self._random.random()
        if not self._is_calm and dice < 0.08:
            self._forget()
        elif dice < 0.2:
            self._abort()
        else:
            self._commit()

    def _commit(self) -> None:
        current = self._current
        assert current is not None
        version = current.number if current.application_id else 0
        request = CommitTransaction(current.transaction_id, [], current.application_id, version)
        self._ask_board(request)

    def _abort(self) -> None:
        current = self._current
        assert current is not None
        self._ask_board(AbortTransaction(current.transaction_id, []))

    def _ask_board(self, request: CommitTransaction | AbortTransaction) -> None:
        current = self._current
        assert current is not None
        self._app.board.ask(
            request, current.groups, lambda outcome: self._decided(current, request, outcome), self._timeout_us
        )

    def _decided(self, asked: Undertaking, request: CommitTransaction | AbortTransaction, outcome: Outcome) -> None:
        if self._current is not asked:
            return
        is_commit = isinstance(request, CommitTransaction)
        if isinstance(outcome, TransactionDecided):
            self.acknowledged += 1
            if outcome.is_repeated:
                self._app.sometimes.seen("version committed again")
            else:
                self._app.sometimes.seen("transaction committed" if is_commit else "transaction aborted")
            self._see(asked, list(asked.groups))
        elif isinstance(outcome, TransactionEndedError):
            # It was taken for abandoned; or it was committed and the answer was lost.
            self._app.sometimes.seen("commit refused after an abort")
            self._end()
        else:
            self._app.world.after(_RETRY_US, self._decide_again, asked, request)

    def _decide_again(self, asked: Undertaking, request: CommitTransaction | AbortTransaction) -> None:
        if self._current is asked:
            self._ask_board(request)

    # Visibility.

    def _see(self, asked: Undertaking, groups: list[GroupId]) -> None:
        """Waits until every partition says what became of it."""
        if self._current is not asked:
            return
        if not groups:
            self._do_again(asked)
            return
        request = TransactionOutcome(_TOPICS[groups[0]], 0, asked.transaction_id)
        self._caller(request).ask(request, lambda outcome: self._saw(asked, groups, outcome))

    def _saw(self, asked: Undertaking, groups: list[GroupId], outcome: Outcome) -> None:
        if isinstance(outcome, TransactionShown | NotFoundError):
            if isinstance(outcome, TransactionShown) and outcome.is_shown:
                self._app.sometimes.seen("transaction shown")
            self._see(asked, groups[1:])
        else:
            assert isinstance(outcome, FlotillaError)
            self._app.world.after(_RETRY_US, self._see, asked, groups)

    def _do_again(self, asked: Undertaking) -> None:
        """The same records again, as a job does that does not know that it was done."""
        if not asked.application_id or asked.attempt >= 2 or self._random.random() < 0.6:
            self._end()
            return
        attempt = asked.attempt + 1
        self._current = Undertaking(
            asked.number, attempt, f"{self._name}/{asked.number}/{attempt}", asked.parts, [], self._name
        )
        self._stage()

    def _end(self) -> None:
        self._current = None
        wait_us = int(self._random.expovariate(1.0) * SECOND)
        self._app.world.after(wait_us + 1, self._begin)


_TOPICS: Final = {TOPIC: "topic", DEAD_LETTERS: "dead letters"}
