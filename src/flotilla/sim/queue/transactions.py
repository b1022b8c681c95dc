"""Transactions at one leader of a partition on a simulated node, for one term: the steps of a real node's service.

The real `partition/leader/transactions` follows decisions; this gives it the log of the node and the node's copy of
the decisions, and serves requests for it.
"""

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Final, Protocol

from flotilla.codec.batch.check import validate
from flotilla.codec.batch.header import patch_base_offset, published
from flotilla.metadata.transactions import COMMITTED
from flotilla.partition.commands.partition_commands import Command, StageBatch, decode_command, encode_command
from flotilla.partition.leader.produce_admission import ProduceAdmission
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.leader.transactions import Decision, TransactionLeader
from flotilla.partition.queries import DescribePartition
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.transactions import Concluded, Part, Published, Staging, publisher_id
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.sim.checkers.queue_transactions import StageShadow
from flotilla.sim.queue.decisions import DecisionBoard
from flotilla.sim.wire import Answered, Outcome
from flotilla.types.errors import (
    FlotillaError,
    LeaseExpiredError,
    NotFoundError,
    NotLoadedError,
    OutcomeUnknownError,
    OverloadedError,
    StorageFailedError,
    TransactionEndedError,
    UnavailableError,
)
from flotilla.types.ids import NodeId, Term
from flotilla.types.operations.queue import LeaseRange
from flotilla.types.operations.transactions import (
    Stage,
    Staged,
    StagedBatch,
    StageSettlement,
    TransactionOutcome,
    TransactionShown,
)

#: Times are short here.
TRANSACTION_MS_MAX: Final = 12_000
CHECK_MS: Final = 1_500
#: How often the log refuses a further batch of a transaction that is stored in part.
_FULL_CHANCE: Final = 0.93


class TransactionSource(Protocol):
    """What it needs of the node."""

    @property
    def replica(self) -> Replica: ...

    @property
    def machine(self) -> PartitionMachine: ...

    @property
    def board(self) -> DecisionBoard: ...

    @property
    def stages(self) -> StageShadow:
        """Shadow of this partition's transactions."""

    def now_ms(self) -> int: ...

    def later(self, delay_ms: int, action: Callable[[], None]) -> None: ...

    def propose(self, data: bytes | memoryview, answered: Callable[[object], None]) -> bool: ...

    def read(self, query: object, answered: Callable[[object], None]) -> None: ...

    def note(self, text: str) -> None: ...

    def seen(self, name: str) -> None: ...


class SimTransactions:
    """Implements partition.leader.transactions.TransactionPorts."""

    def __init__(
        self,
        node: NodeId,
        term: Term,
        source: TransactionSource,
        admission: ProduceAdmission,
        queue: QueueLeader,
        random: Random,
        parted: Callable[[str, list[LeaseRange]], None],
    ) -> None:
        """`parted` hears which leases ended for a transaction."""
        self._random = random
        self._node = node
        self._term = term
        self._source = source
        self._admission = admission
        self._queue = queue
        self._parted = parted
        self._machine = source.machine
        self._leader = TransactionLeader(source.machine, self, TRANSACTION_MS_MAX)
        self._is_begun = False
        self._is_over = False
        source.later(0, self._begin)

    def _begin(self) -> None:
        """In an event of its own: the node may be in the middle of one."""
        if self._is_over:
            return
        self._is_begun = True
        if self._machine.transactions.partial is not None:
            self._source.seen("half a transaction finished by another leader")
        self._leader.begin()
        self._check()

    def _check(self) -> None:
        """What a real node does from time to time."""
        if not self._is_over:
            self._leader.check(self.now_ms())
            self._leader.confirm(self._source.board.waiting_for(self._node, self._source.replica.group))
            self._source.later(CHECK_MS, self._check)

    def end(self) -> None:
        self._is_over = True
        self._leader.end()

    def look(self) -> None:
        """The node has learned of decisions."""
        if self._is_begun and not self._is_over:
            self._leader.look()

    def check_free(self) -> None:
        """Nothing may come between the batches of a transaction, whichever leader stores the rest of them."""
        if not self._is_begun or self._leader.is_blocking:
            raise OverloadedError("the batches of a transaction are being stored")

    def applied(self, result: Published | Concluded) -> None:
        """Runs inside of the driver: it only records."""
        is_committed = isinstance(result, Published) or result.ended.is_committed
        for acks in result.acks:
            self._queue.unstage(acks, is_committed=is_committed)
        self._leader.applied(result)

    # Requests.

    def stage(self, request: Stage, answer: Answered) -> None:
        self._check_undecided(request.transaction_id)
        view = validate(request.batch)
        header = view.header
        command = StageBatch(request.transaction_id, bytes(request.batch), self.now_ms())
        refused = self._machine.check(command)
        if refused is not None:
            raise refused

        def answered(result: object) -> None:
            if isinstance(result, Staging):
                self._source.note(f"stages {header.count} record(s) for {request.transaction_id}")
            answer(_staged(result))

        self._leader.stage(command, answered)

    def stage_settlement(self, request: StageSettlement, answer: Answered) -> None:
        self._check_undecided(request.transaction_id)
        if not self._queue.has_group(request.group):
            raise NotFoundError(f"there is no queue group {request.group!r}")
        command, expired = self._queue.stage(request.transaction_id, request.group, request.leases, self.now_ms())
        if expired:
            self._source.seen("acks not staged")
            raise LeaseExpiredError(f"{expired} are leased to another member")
        if command is None:
            self._source.seen("acks staged again")
            answer(Staged(self._machine.transactions.open[request.transaction_id].count, 0))
            return
        refused = self._machine.check(command)
        if refused is not None:
            self._queue.staged(command, is_refused=True)
            raise refused
        self._parted(request.group, request.leases)
        self._source.seen("acks staged")

        def answered(result: object) -> None:
            if not self._is_over and not isinstance(result, OutcomeUnknownError):
                self._queue.staged(command, is_refused=isinstance(result, FlotillaError))
            if isinstance(result, Staging):
                self._source.note(f"stages acks {command.settlement.acked} for {request.transaction_id}")
            answer(_staged(result))

        self._leader.stage(command, answered)

    def _check_undecided(self, transaction_id: str) -> None:
        try:
            self._leader.check_undecided(transaction_id)
        except TransactionEndedError:
            self._source.seen("stage refused after the decision")
            raise

    def outcome(self, request: TransactionOutcome, answer: Answered) -> None:
        def known() -> Outcome:
            ended = self._machine.transactions.ended.get(request.transaction_id)
            if ended is None:
                is_here = self._leader.is_here(request.transaction_id)
                return UnavailableError("it has not ended") if is_here else NotFoundError("nothing is known of it")
            reply = TransactionShown(ended.is_committed, [StagedBatch(*shown) for shown in ended.batches])
            self._source.stages.answered_outcome(request.transaction_id, reply)
            return reply

        def confirmed(result: object) -> None:
            answer(result if isinstance(result, FlotillaError) else known())

        self._source.read(DescribePartition(), confirmed)

    # What following decisions needs.

    def now_ms(self) -> int:
        return self._source.now_ms()

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._source.later(delay_ms, partial(self._unless_over, action))

    def _unless_over(self, action: Callable[[], None]) -> None:
        if not self._is_over:
            action()

    def is_leading(self) -> bool:
        raft = self._source.replica.raft
        return raft.role == LEADER and raft.term == self._term

    def decision(self, transaction_id: str) -> Decision | None:
        decided = self._source.board.of(self._node, transaction_id)
        if decided is None:
            return None
        return Decision(decided.state == COMMITTED, self._source.replica.group in decided.waiting)

    def propose(self, command: Command, answered: Callable[[object], None]) -> None:
        self._source.propose(encode_command(command), answered)

    def store_again(self, transaction_id: str, part: Part, records_before: int) -> bool:
        if records_before and self._random.random() < _FULL_CHANCE:
            # As if the log were full: another leader may have to store the rest.
            return False
        try:
            entry = self._source.replica.log.entries(part.entry_index, part.entry_index + 1, 0)[0]
        except (NotLoadedError, StorageFailedError):
            # Tried again with the next check.
            return False
        command = decode_command(entry.data)
        assert isinstance(command, StageBatch)
        data = published(command.batch, publisher_id(transaction_id), records_before)
        base_offset = self._admission.place(part.record_count)
        patch_base_offset(data, base_offset, self._term & 0xFFFFFFFF)
        self._source.note(f"shows a batch of {transaction_id} at {base_offset}")
        if self._source.propose(memoryview(data), _ignore):
            return True
        self._admission.retract(base_offset)
        return False

    def confirm_leadership(self, answered: Callable[[object], None]) -> None:
        self._source.read(DescribePartition(), answered)

    def report_over(self, transaction_ids: list[str]) -> None:
        self._source.board.confirm(transaction_ids, self._source.replica.group)

    def may_be_forgotten(self, begun_ms: int) -> bool:
        return False

    def ask_for_abortion(self, transaction_id: str, begun_ms: int) -> None:
        self._source.seen("transaction abandoned")
        self._source.board.ask_for_abortion(transaction_id, self._source.replica.group)

    def ended(self, transaction_ids: Iterable[str]) -> None:
        for transaction_id in transaction_ids:
            self._source.note(f"has ended {transaction_id}")


def _staged(result: object) -> Outcome:
    if isinstance(result, Staging):
        return Staged(result.count, 0)
    assert isinstance(result, FlotillaError)
    return result


def _ignore(_: object) -> None:
    """Takes effect when applied; if it is not, the next leader stores it."""
