"""Transactions at the leader of a partition, for one term: staged batches and acks follow the decision of the metadata.

A committed transaction is stored again as ordinary batches, with nothing in between (`state/transactions`), and its
acks are settled with the last of them. An aborted one is dropped. The leader reports either to the metadata until that
has recorded it. This leader or the next one may repeat every step: the partition's state says which batches are stored
again, and a new term begins with the rest of them.

A stage without a decision is not dropped by its age: the leader asks for its abortion, and follows the answer. So a
wrong clock can end a transaction early, but never make half of one visible. Knows nothing of how decisions are made,
and of the log only that it takes commands and batches, or refuses them.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, Protocol

from flotilla.partition.commands.partition_commands import ConcludeStage, DropStage, StageBatch, StageSettlement
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.transactions import Concluded, Part, Published, StagedTransactions, Staging
from flotilla.types.errors import CorruptionError, FlotillaError, TransactionEndedError

#: For stages that name no time limit. After it the client is taken for lost, and the leader asks for the transaction's
#: abortion.
TRANSACTION_TIMEOUT_MS: Final = 60_000
#: How often the leader looks for abandoned stages.
ABANDONED_CHECK_MS: Final = 1_000
#: Until the rest of a transaction is proposed again that the log did not take.
RETRY_MS: Final = 20


class Decision(NamedTuple):
    """The decision about a transaction, as one partition sees it."""

    is_committed: bool
    #: This partition has a part in it, and has not confirmed that it is over here.
    is_awaited: bool


class TransactionPorts(Protocol):
    """The node of the leader, as far as following decisions needs it."""

    def now_ms(self) -> int: ...

    def later(self, delay_ms: int, action: Callable[[], None]) -> object: ...

    def is_leading(self) -> bool:
        """Whether the term goes on: `end` may come later."""

    def decision(self, transaction_id: str) -> Decision | None:
        """None: this node knows of none."""

    def propose(
        self, command: StageBatch | StageSettlement | DropStage | ConcludeStage, answered: Callable[[object], None]
    ) -> None: ...

    def store_again(self, transaction_id: str, part: Part, records_before: int) -> bool:
        """Proposes a staged batch with its offset. False: the log takes nothing now. Raises CorruptionError."""

    def confirm_leadership(self, answered: Callable[[object], None]) -> None:
        """Asks a quorum to confirm that the state here is the newest. Answers with a FlotillaError if it does not."""

    def report_over(self, transaction_ids: list[str]) -> None:
        """Reports to the metadata that these are over here."""

    def may_be_forgotten(self, begun_ms: int) -> bool:
        """Whether decisions about transactions that began then are forgotten. Such a one is never committed again."""

    def ask_for_abortion(self, transaction_id: str, begun_ms: int) -> None: ...

    def ended(self, transaction_ids: Iterable[str]) -> None:
        """These have ended here: requests may wait for that."""


class TransactionLeader:
    def __init__(
        self, machine: PartitionMachine, ports: TransactionPorts, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> None:
        self._machine = machine
        self._ports = ports
        self._timeout_ms = timeout_ms
        #: The member whose connection carried the stages of each transaction that ends with it. Known to this leader
        #: alone: after a change of leaders the time limit counts.
        self._bound: dict[str, str] = {}
        #: Stages in flight by transaction. Its decision is followed when there is none.
        self._staging: dict[str, int] = {}
        #: Transactions whose end is in flight.
        self._ending: dict[str, None] = {}
        #: The transaction that is being stored again, and the parts that the log has not taken yet.
        self._published = ""
        self._unsent: deque[tuple[Part, int]] = deque()
        #: Transactions that have ended and are not reported yet.
        self._over: dict[str, None] = {}
        self._abandoned_check_ms = 0
        self._is_ended = False

    @property
    def _state(self) -> StagedTransactions:
        return self._machine.transactions

    @property
    def is_blocking(self) -> bool:
        """A transaction is stored in part: no other batch may be stored now."""
        return bool(self._unsent)

    def begin(self) -> None:
        """The term begins with the rest of the transaction that the last leader has stored in part."""
        half = self._state.partial
        if half is not None:
            self._publish(half)
        self.look()

    def end(self) -> None:
        self._is_ended = True
        self._unsent.clear()

    def _is_leading(self) -> bool:
        return not self._is_ended and self._ports.is_leading()

    # Staging.

    def check_undecided(self, transaction_id: str) -> None:
        """Raises TransactionEndedError."""
        decision = self._ports.decision(transaction_id)
        if decision is not None:
            ended = "committed" if decision.is_committed else "aborted"
            raise TransactionEndedError(f"transaction {transaction_id} was {ended}")

    def stage(self, command: StageBatch | StageSettlement, answered: Callable[[object], None]) -> None:
        """Proposes a command that the machine has checked. `answered` gets its result."""
        transaction_id = command.transaction_id
        self._staging[transaction_id] = self._staging.get(transaction_id, 0) + 1

        def staged(result: object) -> None:
            self._staging[transaction_id] -= 1
            if not self._staging[transaction_id]:
                del self._staging[transaction_id]
            answered(result)
            # It may have been decided meanwhile: the client gave up, or does not wait for answers.
            self._follow(transaction_id)

        self._ports.propose(command, staged)

    def is_here(self, transaction_id: str) -> bool:
        """Whether some of it is staged, or is being staged."""
        return transaction_id in self._state.open or transaction_id in self._staging

    # Following decisions.

    def look(self) -> None:
        """Follows decisions that were made since: call it when there may be some."""
        for transaction_id in list(self._state.open):
            self._follow(transaction_id)

    def _follow(self, transaction_id: str) -> None:
        staging = self._state.open.get(transaction_id)
        if staging is None or transaction_id in self._ending or transaction_id in self._staging:
            return
        decision = self._ports.decision(transaction_id)
        if decision is None and self._ports.may_be_forgotten(staging.first_staged_ms) and not staging.offsets:
            # It was aborted, or can only be: a commit that waits for this partition would be known.
            decision = Decision(is_committed=False, is_awaited=False)
        if decision is None or not self._is_leading():
            return
        if not (decision.is_committed and decision.is_awaited):
            # The commit does not name this partition, or does not wait for it any more: it has no part in it.
            self._conclude(DropStage(transaction_id, self._ports.now_ms()))
        elif not staging.parts:
            self._conclude(ConcludeStage(transaction_id, self._ports.now_ms()))
        elif not self._unsent:
            self._publish(staging)

    def _conclude(self, command: DropStage | ConcludeStage) -> None:
        transaction_id = command.transaction_id

        def answered(result: object) -> None:
            if isinstance(result, FlotillaError):
                # The next look retries.
                self._ending.pop(transaction_id, None)

        self._ending[transaction_id] = None
        self._ports.propose(command, answered)

    def _publish(self, staging: Staging) -> None:
        assert not self._unsent
        self._ending[staging.transaction_id] = None
        self._published = staging.transaction_id
        self._unsent.extend(staging.rest())
        self._send()

    def _send(self) -> None:
        """Stores as many parts again as the log takes. The rest is retried soon, before any other batch."""
        while self._unsent and self._is_leading():
            part, before = self._unsent[0]
            try:
                is_stored = self._ports.store_again(self._published, part, before)
            except CorruptionError:
                # Repaired from the other replicas.
                is_stored = False
                if not before:
                    # No part has an offset yet, so other batches need not wait. The next check retries.
                    self._unsent.clear()
                    del self._ending[self._published]
                    return
            if not is_stored:
                self._ports.later(RETRY_MS, self._send)
                return
            self._unsent.popleft()

    # Ends.

    def applied(self, result: object) -> None:
        """A result of a transaction's entry. Called inside of the driver: it only records."""
        if isinstance(result, Concluded) or (isinstance(result, Published) and result.batches):
            if not self._over:
                self._ports.later(0, self._report)
            self._over[result.transaction_id] = None

    def _report(self) -> None:
        over, self._over = self._over, {}
        if self._is_ended:
            return
        for transaction_id in over:
            self._ending.pop(transaction_id, None)
            self._bound.pop(transaction_id, None)
        self._ports.ended(over)
        self.confirm(over)
        self.look()

    def confirm(self, transaction_ids: Iterable[str]) -> None:
        """Reports the transactions that are over here or never were here, as far as the metadata waits for them.

        The log says that one is over. Only a quorum can confirm that one never was here: a leader that was replaced
        without knowing it would make its successor drop what is staged there.
        """
        over: list[str] = []
        absent: list[str] = []
        for transaction_id in transaction_ids:
            decision = self._ports.decision(transaction_id)
            if decision is None or not decision.is_awaited or self.is_here(transaction_id):
                continue
            (over if transaction_id in self._state.ended else absent).append(transaction_id)
        self._report_over(over)
        if absent and self._is_leading():
            self._ports.confirm_leadership(partial(self._confirm_absent, absent))

    def _confirm_absent(self, transaction_ids: list[str], result: object) -> None:
        if not isinstance(result, FlotillaError):
            self._report_over([name for name in transaction_ids if not self.is_here(name)])

    def _report_over(self, transaction_ids: list[str]) -> None:
        if transaction_ids and self._is_leading():
            self._ports.report_over(transaction_ids)

    def check(self, now_ms: int) -> None:
        """Asks for the abortion of transactions that are over their time limit."""
        self.look()
        if now_ms < self._abandoned_check_ms:
            return
        self._abandoned_check_ms = now_ms + ABANDONED_CHECK_MS
        for staging in self._state.open.values():
            if now_ms - staging.first_staged_ms > (staging.timeout_ms or self._timeout_ms):
                self._give_up(staging)

    def bind(self, transaction_id: str, member: str) -> None:
        """The transaction ends with the member's connection, unless it is decided before."""
        self._bound[transaction_id] = member

    def lose(self, member: str) -> None:
        """The member's process is gone: asks for the abortion of its transactions."""
        for transaction_id in [name for name, bound in self._bound.items() if bound == member]:
            del self._bound[transaction_id]
            staging = self._state.open.get(transaction_id)
            if staging is not None:
                self._give_up(staging)

    def _give_up(self, staging: Staging) -> None:
        if self._ports.decision(staging.transaction_id) is None:
            self._ports.ask_for_abortion(staging.transaction_id, staging.first_staged_ms)
