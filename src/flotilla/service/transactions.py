"""Transactions in one partition at its leader, for one term: staging, and following what the metadata decides.

A decision is seen in this node's own copy of the metadata. What was committed is stored again as ordinary batches,
one behind the other with nothing in between (queue/transactions); what was aborted is dropped; either is confirmed
to the metadata until it is known there. Every step may be repeated by this leader or the next one: which batches
are stored again is in the partition's state.

A stage that nobody decides about is not dropped by its age: its abortion is asked for, and the answer followed. So
a wrong clock can end a transaction early, but never show half of one.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from flotilla.codec.batch import patch_base_offset, published
from flotilla.codec.batch_check import validate
from flotilla.metadata.commands import Command as MetadataCommand
from flotilla.metadata.commands import ConfirmTransaction, DecideTransaction
from flotilla.metadata.transactions import COMMITTED, Transaction
from flotilla.queue.admission import PartitionLeader
from flotilla.queue.commands import HEAD_BYTES, DropStage, StageBatch, decode_command, encode_command
from flotilla.queue.partition import PartitionMachine
from flotilla.queue.queries import DescribePartition
from flotilla.queue.transactions import (
    TRANSACTION_ID_BYTES_MAX,
    Ended,
    Part,
    Published,
    StagedTransactions,
    Staging,
    publisher_id,
)
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.service.long_polls import WAIT_MS_MAX
from flotilla.service.ports import Cancel, Consensus, Done, Outside
from flotilla.service.under_way import CommandTicket, Ticket, UnderWay
from flotilla.types.errors import (
    CorruptionError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    TransactionEndedError,
    UnavailableError,
)
from flotilla.types.ids import GroupId
from flotilla.types.limits import ENTRY_BYTES_MAX
from flotilla.types.operations import Reply
from flotilla.types.records import RecordLimits
from flotilla.types.transaction_operations import Stage, Staged, StagedBatch, TransactionOutcome, TransactionShown

#: After this time somebody who staged is taken for lost, and the transaction's abortion is asked for.
TRANSACTION_MS_MAX: Final = 15 * 60_000
#: How often stages are looked through for those.
ABANDONED_CHECK_MS: Final = 5_000
#: After this time the rest of a transaction is sent again when the log did not take it.
RETRY_MS: Final = 20
#: As much of a term as a batch's header holds.
_TERM_MASK: Final = 0xFFFFFFFF
#: The entry of a stage has a head, and must not be larger than any other.
_BATCH_BYTES_MAX: Final = ENTRY_BYTES_MAX - HEAD_BYTES - TRANSACTION_ID_BYTES_MAX


class Decisions(NamedTuple):
    """The metadata, as far as transactions go."""

    #: What was decided, as far as this node has heard.
    of: Callable[[str], Transaction | None]
    #: Proposes at the metadata's leader. Nobody answers.
    forward: Callable[[MetadataCommand], None]


class _Waiter:
    """Who waits for the end of a transaction."""

    __slots__ = ("done", "stop_timer")

    def __init__(self, done: Done) -> None:
        self.done = done
        self.stop_timer: Cancel | None = None


class PartitionTransactions:
    def __init__(
        self,
        replica: Replica,
        machine: PartitionMachine,
        leader: PartitionLeader,
        consensus: Consensus,
        outside: Outside,
        decisions: Decisions,
        under_way: UnderWay,
    ) -> None:
        self._replica = replica
        self._term = replica.raft.term
        self._machine = machine
        self._leader = leader
        self._consensus = consensus
        self._outside = outside
        self._decisions = decisions
        self._under_way = under_way
        #: Stages that were proposed and are not applied, by transaction. None is followed while it has some.
        self._staging: dict[str, int] = {}
        #: Transactions whose end was proposed in this term.
        self._ending: dict[str, None] = {}
        #: The transaction that is being stored again, and what of it the log has not taken yet.
        self._published = ""
        self._unsent: deque[tuple[Part, int]] = deque()
        #: Those that have ended since the last turn.
        self._over: dict[str, None] = {}
        self._waiting: dict[str, dict[_Waiter, None]] = {}
        self._abandoned_check_ms = 0
        self._is_ended = False

    @property
    def group(self) -> GroupId:
        return self._replica.group

    @property
    def _state(self) -> StagedTransactions:
        return self._machine.transactions

    @property
    def is_blocking(self) -> bool:
        """A transaction is stored in part: nothing else may be stored now."""
        return bool(self._unsent)

    def begin(self) -> None:
        """The term begins: what the last leader has stored in part comes before anything else."""
        partial_ = self._state.partial
        if partial_ is not None:
            self._publish(partial_)
        self.look()

    def end(self, reason: FlotillaError) -> None:
        self._is_ended = True
        self._unsent.clear()
        waiting, self._waiting = self._waiting, {}
        for waiters in waiting.values():
            self._answer(waiters, self._under_way.explain(reason))

    # Requests.

    def stage(self, request: Stage, limits: RecordLimits, done: Done) -> None:
        transaction_id = request.transaction_id
        decision = self._decisions.of(transaction_id)
        if decision is not None:
            ended = "committed" if decision.state == COMMITTED else "aborted"
            raise TransactionEndedError(f"transaction {transaction_id} was {ended}")
        validate(request.batch, limits)
        if len(request.batch) > _BATCH_BYTES_MAX:
            raise InvalidArgumentError(f"a staged batch of {len(request.batch)} bytes is above {_BATCH_BYTES_MAX}")
        command = StageBatch(transaction_id, memoryview(request.batch), self._outside.now_ms())
        refused = self._machine.check(command)
        if refused is not None:
            raise refused
        self._staging[transaction_id] = self._staging.get(transaction_id, 0) + 1
        ticket = Ticket(self._under_way, done, partial(self._staged, transaction_id))
        self._consensus.propose(self.group, encode_command(command), ticket)

    def _staged(self, transaction_id: str, result: object) -> Reply | FlotillaError:
        self._staging[transaction_id] -= 1
        if not self._staging[transaction_id]:
            del self._staging[transaction_id]
            # It may have been decided meanwhile: by somebody who gave up, or does not wait for answers.
            self._follow(transaction_id)
        return Staged(result.count) if isinstance(result, Staging) else self._under_way.explain(result)

    def outcome(self, request: TransactionOutcome, done: Done) -> Cancel | None:
        transaction_id = request.transaction_id
        ended = self._state.ended.get(transaction_id)
        if ended is not None:
            done(_shown(ended))
            return None
        if not self._is_here(transaction_id):
            # A leader that was replaced without knowing it must not say so.
            ticket = Ticket(self._under_way, done, partial(self._missing, transaction_id))
            self._consensus.read(self.group, DescribePartition(), ticket)
            return None
        if not request.wait_ms:
            raise _not_ended(transaction_id)
        return self._park(transaction_id, min(request.wait_ms, WAIT_MS_MAX), done)

    def _is_here(self, transaction_id: str) -> bool:
        """Something of it is staged, or is being staged."""
        return transaction_id in self._state.open or transaction_id in self._staging

    def _missing(self, transaction_id: str, result: object) -> Reply | FlotillaError:
        """What is known of a transaction, after a quorum has confirmed that this is all there is."""
        if isinstance(result, FlotillaError):
            return self._under_way.explain(result)
        ended = self._state.ended.get(transaction_id)
        if ended is not None:
            return _shown(ended)
        if self._is_here(transaction_id):
            return _not_ended(transaction_id)
        return NotFoundError(f"nothing is known here of a transaction {transaction_id!r}")

    def _park(self, transaction_id: str, wait_ms: int, done: Done) -> Cancel:
        waiter = _Waiter(done)
        waiters = self._waiting.setdefault(transaction_id, {})
        waiters[waiter] = None

        def leave() -> bool:
            if waiter not in waiters:
                return False
            del waiters[waiter]
            if not waiters and self._waiting.get(transaction_id) is waiters:
                del self._waiting[transaction_id]
            return True

        def expired() -> None:
            if leave():
                done(_not_ended(transaction_id))

        def cancel() -> None:
            if leave() and waiter.stop_timer is not None:
                waiter.stop_timer()

        waiter.stop_timer = self._outside.later(wait_ms, expired)
        return cancel

    def _answer(self, waiters: dict[_Waiter, None], answer: Reply | FlotillaError) -> None:
        answered = list(waiters)
        waiters.clear()
        for waiter in answered:
            if waiter.stop_timer is not None:
                waiter.stop_timer()
            waiter.done(answer)

    # Following decisions.

    def look(self) -> None:
        """The metadata moved: something that is staged here may have been decided."""
        for transaction_id in list(self._state.open):
            self._follow(transaction_id)

    def _follow(self, transaction_id: str) -> None:
        staging = self._state.open.get(transaction_id)
        if staging is None or transaction_id in self._ending or transaction_id in self._staging:
            return
        decision = self._decisions.of(transaction_id)
        if decision is None or not self._is_leading():
            return
        if decision.state != COMMITTED or self.group not in decision.waiting:
            # A partition that a commit does not name, or does not wait for any more, has no part in it.
            self._drop(transaction_id)
        elif not self._unsent:
            self._publish(staging)

    def _is_leading(self) -> bool:
        """What this object knows holds for its own term only, and nobody says at once that it is over."""
        raft = self._replica.raft
        return not self._is_ended and raft.role == LEADER and raft.term == self._term

    def _drop(self, transaction_id: str) -> None:
        def answered(result: object) -> None:
            if isinstance(result, FlotillaError):
                # Tried again at the next look.
                self._ending.pop(transaction_id, None)

        self._ending[transaction_id] = None
        command = DropStage(transaction_id, self._outside.now_ms())
        ticket = CommandTicket(self._under_way, answered)
        self._consensus.propose(self.group, encode_command(command), ticket)

    def _publish(self, staging: Staging) -> None:
        assert not self._unsent
        self._ending[staging.transaction_id] = None
        self._published = staging.transaction_id
        self._unsent.extend(staging.rest())
        self._send()

    def _send(self) -> None:
        """Stores as much again as the log takes; the rest soon, and before anything else."""
        while self._unsent and self._is_leading():
            part, before = self._unsent[0]
            try:
                is_stored = self._store_again(part, before)
            except CorruptionError:
                # Repaired from the other replicas.
                is_stored = False
                if not before:
                    # Nothing of it has an offset yet: nobody else need wait. It is tried again at the next check.
                    self._unsent.clear()
                    del self._ending[self._published]
                    return
            if not is_stored:
                self._outside.later(RETRY_MS, self._send)
                return
            self._unsent.popleft()

    def _store_again(self, part: Part, before: int) -> bool:
        """False: the log takes nothing now. Raises CorruptionError."""
        entry = self._replica.log.entries(part.entry_index, part.entry_index + 1, 0)[0]
        command = decode_command(entry.data)
        assert isinstance(command, StageBatch)
        data = published(command.batch, publisher_id(self._published), before)
        base_offset = self._leader.place(part.record_count)
        patch_base_offset(data, base_offset, self._term & _TERM_MASK)
        if self._consensus.propose(self.group, memoryview(data), _ignore):
            return True
        self._leader.retract(base_offset)
        return False

    # Ends.

    def applied(self, result: object) -> None:
        """Something of a transaction was applied. Runs inside of the driver: it only records."""
        if isinstance(result, Ended) or (isinstance(result, Published) and result.batches):
            if not self._over:
                self._outside.later(0, self._tell)
            self._over[result.transaction_id] = None

    def _tell(self) -> None:
        over, self._over = self._over, {}
        if self._is_ended:
            return
        for transaction_id in over:
            self._ending.pop(transaction_id, None)
            ended = self._state.ended.get(transaction_id)
            if ended is not None:
                self._answer(self._waiting.pop(transaction_id, {}), _shown(ended))
        self.confirm(over)
        self.look()

    def confirm(self, transaction_ids: Iterable[str]) -> None:
        """Tells the metadata of those that are over here, or never were here, as far as it waits for them.

        That one is over stands in the log. That it never was here, only a quorum can confirm: a leader that was
        replaced without knowing it would have its successor drop what was staged there.
        """
        over: list[str] = []
        absent: list[str] = []
        for transaction_id in transaction_ids:
            decision = self._decisions.of(transaction_id)
            if decision is None or self.group not in decision.waiting or self._is_here(transaction_id):
                continue
            (over if transaction_id in self._state.ended else absent).append(transaction_id)
        self._tell_metadata(over)
        if absent and self._is_leading():
            ticket = CommandTicket(self._under_way, partial(self._confirm_absent, absent))
            self._consensus.read(self.group, DescribePartition(), ticket)

    def _confirm_absent(self, transaction_ids: list[str], result: object) -> None:
        if not isinstance(result, FlotillaError):
            self._tell_metadata([name for name in transaction_ids if not self._is_here(name)])

    def _tell_metadata(self, transaction_ids: list[str]) -> None:
        if transaction_ids and self._is_leading():
            confirmed = tuple([(transaction_id, self.group) for transaction_id in transaction_ids])
            self._decisions.forward(ConfirmTransaction(confirmed, self._outside.now_ms()))

    def check(self, now_ms: int) -> None:
        """Asks for the end of what was abandoned."""
        self.look()
        if now_ms < self._abandoned_check_ms:
            return
        self._abandoned_check_ms = now_ms + ABANDONED_CHECK_MS
        for staging in self._state.open.values():
            if now_ms - staging.first_staged_ms <= TRANSACTION_MS_MAX:
                continue
            transaction_id = staging.transaction_id
            if self._decisions.of(transaction_id) is None:
                abortion = DecideTransaction(transaction_id, "", 0, (self.group,), is_commit=False, now_ms=now_ms)
                self._decisions.forward(abortion)


def _shown(ended: Ended) -> TransactionShown:
    return TransactionShown(bool(ended.batches), [StagedBatch(*shown) for shown in ended.batches])


def _not_ended(transaction_id: str) -> UnavailableError:
    return UnavailableError(f"transaction {transaction_id} has not ended here yet")


def _ignore(_: object) -> None:
    """Seen when it is applied; when it is not, the next leader stores it."""
