"""Transactions in one partition at its leader, for one term: requests of clients, and ports of the TransactionLeader.

The rules are in `partition/leader/transactions`; this module connects them to the log, to a timer and to decisions,
which it reads from this node's copy of the metadata. It answers clients that wait for the outcome of a transaction.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from flotilla.broker.partition.long_polls import WAIT_MS_MAX
from flotilla.broker.ports import Cancel, Consensus, Done, Outside
from flotilla.broker.queue.polls import check_member
from flotilla.broker.queue.requests import QueueRequests
from flotilla.codec.batch.header import patch_base_offset, published
from flotilla.metadata.commands import Command as MetadataCommand
from flotilla.metadata.commands import ConfirmTransaction, DecideTransaction
from flotilla.metadata.transactions import COMMITTED, TransactionTable
from flotilla.partition.commands.partition_commands import (
    HEAD_BYTES,
    Command,
    StageBatch,
    decode_command,
    encode_command,
)
from flotilla.partition.leader.produce_admission import ProduceAdmission
from flotilla.partition.leader.transactions import Decision, TransactionLeader
from flotilla.partition.queries import DescribePartition
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.transactions import (
    Ended,
    Part,
    StagedTransactions,
    Staging,
    publisher_id,
)
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.types.errors import (
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    NotLoadedError,
    StorageFailedError,
    UnavailableError,
)
from flotilla.types.ids import GroupId
from flotilla.types.limits import ENTRY_BYTES_MAX
from flotilla.types.operations import Reply
from flotilla.types.operations.owners import OWNED_ID_LENGTH_MAX
from flotilla.types.operations.transactions import (
    OpenTransaction,
    OpenTransactionList,
    Stage,
    Staged,
    StagedBatch,
    StageSettlement,
    TransactionOutcome,
    TransactionShown,
)
from flotilla.types.topics import SETTINGS

#: The bits of a term that a batch's header holds.
_TERM_MASK: Final = 0xFFFFFFFF
_TIMEOUT: Final = SETTINGS["transaction_timeout_ms"]
#: The entry of a staged batch has a head, and must not exceed the limit of entries.
_BATCH_BYTES_MAX: Final = ENTRY_BYTES_MAX - HEAD_BYTES - OWNED_ID_LENGTH_MAX


class Decisions(NamedTuple):
    """The metadata of transactions."""

    #: The decisions, as far as this node knows them.
    table: Callable[[], TransactionTable]
    #: Proposes at the metadata's leader, without an answer.
    forward: Callable[[MetadataCommand], None]
    #: Records of transactions that became visible, by topic, since the process started.
    shown: dict[str, int]


class _Waiter:
    """A client that waits for the outcome of a transaction."""

    __slots__ = ("done", "stop_timer")

    def __init__(self, done: Done) -> None:
        self.done = done
        self.stop_timer: Cancel | None = None


class PartitionTransactions:
    """Implements partition.leader.transactions.TransactionPorts."""

    def __init__(
        self,
        replica: Replica,
        machine: PartitionMachine,
        leader: ProduceAdmission,
        consensus: Consensus,
        outside: Outside,
        decisions: Decisions,
        explain: Callable[[object], FlotillaError],
        timeout_ms: Callable[[], int],
        topic_id: int,
    ) -> None:
        """`timeout_ms` is the setting of the topic."""
        self._replica = replica
        self._term = replica.raft.term
        self._machine = machine
        self._admission = leader
        self._consensus = consensus
        self._outside = outside
        self._decisions = decisions
        self._explain = explain
        self._timeout_ms = timeout_ms
        self._topic_id = topic_id
        self._leader = TransactionLeader(machine, self)
        self._waiting: dict[str, dict[_Waiter, None]] = {}

    @property
    def group(self) -> GroupId:
        return self._replica.group

    @property
    def _state(self) -> StagedTransactions:
        return self._machine.transactions

    @property
    def is_blocking(self) -> bool:
        """A transaction is stored in part: no other batch may be stored now."""
        return self._leader.is_blocking

    def begin(self) -> None:
        self._leader.begin()

    def end(self, reason: FlotillaError) -> None:
        self._leader.end()
        waiting, self._waiting = self._waiting, {}
        for waiters in waiting.values():
            self._answer(waiters, self._explain(reason))

    def look(self) -> None:
        """The metadata changed: a transaction that is staged here may have been decided."""
        self._leader.look()

    def check(self, now_ms: int) -> None:
        self._leader.check(now_ms)

    def applied(self, result: object) -> None:
        """A command of a transaction was applied. Runs inside the driver."""
        self._leader.applied(result)

    def confirm(self, transaction_ids: Iterable[str]) -> None:
        """The metadata want confirmation that these have ended here."""
        self._leader.confirm(transaction_ids)

    # Requests.

    def stage(self, request: Stage, done: Done) -> None:
        """Its batch was checked."""
        self._leader.check_undecided(request.transaction_id)
        if len(request.batch) > _BATCH_BYTES_MAX:
            raise InvalidArgumentError(f"a staged batch of {len(request.batch)} bytes is above {_BATCH_BYTES_MAX}")
        timeout_ms = self._timeout_of(request)
        command = StageBatch(request.transaction_id, memoryview(request.batch), self._outside.now_ms(), timeout_ms)
        refused = self._machine.check(command)
        if refused is not None:
            raise refused
        self._leader.stage(command, lambda result: done(self._staged(request, result)))

    def stage_settlement(self, request: StageSettlement, queues: QueueRequests, done: Done) -> None:
        """Takes the messages out of their leases, if they are leased to this consumer."""
        self._leader.check_undecided(request.transaction_id)
        command = queues.settlement_to_stage(request, self._timeout_of(request))
        if command is None:
            # A repeated request: it is in the log already.
            done(self._answer_of(self._state.open[request.transaction_id]))
            return
        refused = self._machine.check(command)
        if refused is not None:
            queues.staged(command, refused)
            raise refused

        def answered(result: object) -> None:
            queues.staged(command, result)
            done(self._staged(request, result))

        self._leader.stage(command, answered)

    def _timeout_of(self, request: Stage | StageSettlement) -> int:
        """Raises InvalidArgumentError."""
        if request.member:
            check_member(request.member)
        if request.timeout_ms:
            _TIMEOUT.check(request.timeout_ms)
        return request.timeout_ms or self._timeout_ms()

    def lose(self, member: str) -> None:
        """A member is gone: its undecided transactions are aborted."""
        self._leader.lose(member)

    def _staged(self, request: Stage | StageSettlement, result: object) -> Reply | FlotillaError:
        if not isinstance(result, Staging):
            return self._explain(result)
        if request.member:
            self._leader.bind(request.transaction_id, request.member)
        return self._answer_of(result)

    def _answer_of(self, staging: Staging) -> Staged:
        return Staged(staging.count, staging.first_staged_ms, self._topic_id)

    def outcome(self, request: TransactionOutcome, done: Done) -> Cancel | None:
        transaction_id = request.transaction_id
        ended = self._state.ended.get(transaction_id)
        if ended is not None:
            done(_shown(ended))
            return None
        if not self._leader.is_here(transaction_id):
            # A leader that was replaced unnoticed must not answer "not found".
            self._consensus.read(
                self.group, DescribePartition(), lambda result: done(self._missing(transaction_id, result))
            )
            return None
        if not request.wait_ms:
            staging = self._state.open.get(transaction_id)
            if staging is None:
                # It is being staged.
                raise _not_ended(transaction_id)
            done(TransactionShown(False, begun_ms=staging.first_staged_ms, topic_id=self._topic_id))
            return None
        return self._park(transaction_id, min(request.wait_ms, WAIT_MS_MAX), done)

    def list_open(self) -> OpenTransactionList:
        return OpenTransactionList([_described(staging) for staging in self._state.open.values()])

    def _missing(self, transaction_id: str, result: object) -> Reply | FlotillaError:
        """The outcome of a transaction, after a quorum has confirmed that this node leads."""
        if isinstance(result, FlotillaError):
            return self._explain(result)
        ended = self._state.ended.get(transaction_id)
        if ended is not None:
            return _shown(ended)
        if self._leader.is_here(transaction_id):
            return _not_ended(transaction_id)
        return NotFoundError(f"this partition has no transaction {transaction_id!r}")

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

    # Ports.

    def now_ms(self) -> int:
        return self._outside.now_ms()

    def later(self, delay_ms: int, action: Callable[[], None]) -> object:
        return self._outside.later(delay_ms, action)

    def is_leading(self) -> bool:
        raft = self._replica.raft
        return raft.role == LEADER and raft.term == self._term

    def decision(self, transaction_id: str) -> Decision | None:
        decided = self._decisions.table().get(transaction_id)
        return None if decided is None else Decision(decided.state == COMMITTED, self.group in decided.waiting)

    def may_be_forgotten(self, begun_ms: int) -> bool:
        return self._decisions.table().may_be_forgotten(begun_ms)

    def propose(self, command: Command, answered: Callable[[object], None]) -> None:
        self._consensus.propose(self.group, encode_command(command), answered)

    def store_again(self, transaction_id: str, part: Part, records_before: int) -> bool:
        try:
            entry = self._replica.log.entries(part.entry_index, part.entry_index + 1, 0)[0]
        except (NotLoadedError, StorageFailedError):
            # Tried again with the next check.
            return False
        command = decode_command(entry.data)
        assert isinstance(command, StageBatch)
        data = published(command.batch, publisher_id(transaction_id), records_before)
        base_offset = self._admission.place(part.record_count)
        patch_base_offset(data, base_offset, self._term & _TERM_MASK)
        if self._consensus.propose(self.group, memoryview(data), _ignore):
            return True
        self._admission.retract(base_offset)
        return False

    def confirm_leadership(self, answered: Callable[[object], None]) -> None:
        self._consensus.read(self.group, DescribePartition(), answered)

    def report_over(self, transaction_ids: list[str]) -> None:
        confirmed = tuple([(transaction_id, self.group) for transaction_id in transaction_ids])
        self._decisions.forward(ConfirmTransaction(confirmed, self._outside.now_ms()))

    def ask_for_abortion(self, transaction_id: str, begun_ms: int) -> None:
        now_ms = self._outside.now_ms()
        abortion = DecideTransaction(transaction_id, "", 0, (), False, begun_ms, owner="", now_ms=now_ms)
        self._decisions.forward(abortion)

    def ended(self, transaction_ids: Iterable[str]) -> None:
        for transaction_id in transaction_ids:
            over = self._state.ended.get(transaction_id)
            if over is not None:
                self._answer(self._waiting.pop(transaction_id, {}), _shown(over))


def _described(staging: Staging) -> OpenTransaction:
    acks = sum([end - first for each in staging.acks for first, end in each.runs])
    return OpenTransaction(staging.transaction_id, staging.first_staged_ms, staging.timeout_ms, staging.count, acks)


def _shown(ended: Ended) -> TransactionShown:
    return TransactionShown(ended.is_committed, [StagedBatch(*shown) for shown in ended.batches])


def _not_ended(transaction_id: str) -> UnavailableError:
    return UnavailableError(f"transaction {transaction_id} has not ended here yet")


def _ignore(_: object) -> None:
    """The effect is seen when it is applied; if it never is, the next leader stores it."""
