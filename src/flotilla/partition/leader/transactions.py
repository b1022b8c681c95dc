"""Transactions at the leader of a partition, for one term: what is staged follows what was decided elsewhere.

What was committed is stored again as ordinary batches, one behind the other with nothing in between (`transactions`),
and what it acknowledges is settled with the last of them; what was aborted is dropped; either is told to whoever has
decided, until it is known there. Every step may be repeated by this leader or the next one: which batches are stored
again is in the partition's state, and that comes before anything else in a new term.

A stage that nobody decides about is not dropped by its age: its abortion is asked for, and the answer followed. So a
wrong clock can end a transaction early, but never show half of one. Knows nothing of how decisions are made, and
nothing of the log but that it takes commands and batches, or refuses them.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, Protocol

from flotilla.partition.commands.partition_commands import ConcludeStage, DropStage, StageBatch, StageSettlement
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.transactions import Concluded, Part, Published, StagedTransactions, Staging
from flotilla.types.errors import CorruptionError, FlotillaError, TransactionEndedError

#: After this time somebody who staged is taken for lost, and the transaction's abortion is asked for.
TRANSACTION_MS_MAX: Final = 15 * 60_000
#: How often stages are looked through for those.
ABANDONED_CHECK_MS: Final = 5_000
#: After this time the rest of a transaction is sent again when the log did not take it.
RETRY_MS: Final = 20


class Decision(NamedTuple):
    """What was decided about a transaction, as one partition sees it."""

    is_committed: bool
    #: This partition has a part in it, and has not told that it is over here.
    is_awaited: bool


class TransactionPorts(Protocol):
    """What a leader needs of its node to follow decisions."""

    def now_ms(self) -> int: ...

    def later(self, delay_ms: int, action: Callable[[], None]) -> object: ...

    def is_leading(self) -> bool:
        """Whether the term goes on: what is known here holds for it only, and nobody says at once that it is over."""

    def decision(self, transaction_id: str) -> Decision | None:
        """As far as this node has heard."""

    def propose(
        self, command: StageBatch | StageSettlement | DropStage | ConcludeStage, answered: Callable[[object], None]
    ) -> None: ...

    def store_again(self, transaction_id: str, part: Part, records_before: int) -> bool:
        """Gives a staged batch its offset. False: the log takes nothing now. Raises CorruptionError."""

    def confirm_leadership(self, answered: Callable[[object], None]) -> None:
        """Has a quorum confirm that the state here is the newest; answered with a FlotillaError when it does not."""

    def tell_over(self, transaction_ids: list[str]) -> None:
        """Tells whoever has decided that these are over here."""

    def ask_for_abortion(self, transaction_id: str) -> None: ...

    def ended(self, transaction_ids: Iterable[str]) -> None:
        """These have ended here: somebody may wait for it."""


class TransactionLeader:
    def __init__(
        self, machine: PartitionMachine, ports: TransactionPorts, transaction_ms_max: int = TRANSACTION_MS_MAX
    ) -> None:
        self._machine = machine
        self._ports = ports
        self._transaction_ms_max = transaction_ms_max
        #: Stages that were proposed and are not applied, by transaction. None is followed while it has some.
        self._staging: dict[str, int] = {}
        #: Transactions whose end was proposed in this term.
        self._ending: dict[str, None] = {}
        #: The transaction that is being stored again, and what of it the log has not taken yet.
        self._published = ""
        self._unsent: deque[tuple[Part, int]] = deque()
        #: Those that have ended since the last turn.
        self._over: dict[str, None] = {}
        self._abandoned_check_ms = 0
        self._is_ended = False

    @property
    def _state(self) -> StagedTransactions:
        return self._machine.transactions

    @property
    def is_blocking(self) -> bool:
        """A transaction is stored in part: nothing else may be stored now."""
        return bool(self._unsent)

    def begin(self) -> None:
        """The term begins: what the last leader has stored in part comes before anything else."""
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
        """Proposes what the machine has checked. `answered` hears what became of it."""
        transaction_id = command.transaction_id
        self._staging[transaction_id] = self._staging.get(transaction_id, 0) + 1

        def staged(result: object) -> None:
            self._staging[transaction_id] -= 1
            if not self._staging[transaction_id]:
                del self._staging[transaction_id]
            answered(result)
            # It may have been decided meanwhile: by somebody who gave up, or does not wait for answers.
            self._follow(transaction_id)

        self._ports.propose(command, staged)

    def is_here(self, transaction_id: str) -> bool:
        """Something of it is staged, or is being staged."""
        return transaction_id in self._state.open or transaction_id in self._staging

    # Following decisions.

    def look(self) -> None:
        """Something that is staged here may have been decided."""
        for transaction_id in list(self._state.open):
            self._follow(transaction_id)

    def _follow(self, transaction_id: str) -> None:
        staging = self._state.open.get(transaction_id)
        if staging is None or transaction_id in self._ending or transaction_id in self._staging:
            return
        decision = self._ports.decision(transaction_id)
        if decision is None or not self._is_leading():
            return
        if not (decision.is_committed and decision.is_awaited):
            # A partition that a commit does not name, or does not wait for any more, has no part in it.
            self._conclude(DropStage(transaction_id, self._ports.now_ms()))
        elif not staging.parts:
            self._conclude(ConcludeStage(transaction_id, self._ports.now_ms()))
        elif not self._unsent:
            self._publish(staging)

    def _conclude(self, command: DropStage | ConcludeStage) -> None:
        transaction_id = command.transaction_id

        def answered(result: object) -> None:
            if isinstance(result, FlotillaError):
                # Tried again at the next look.
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
        """Stores as much again as the log takes; the rest soon, and before anything else."""
        while self._unsent and self._is_leading():
            part, before = self._unsent[0]
            try:
                is_stored = self._ports.store_again(self._published, part, before)
            except CorruptionError:
                # Repaired from the other replicas.
                is_stored = False
                if not before:
                    # Nothing of it has an offset yet: nobody else need wait. It is tried again at the next check.
                    self._unsent.clear()
                    del self._ending[self._published]
                    return
            if not is_stored:
                self._ports.later(RETRY_MS, self._send)
                return
            self._unsent.popleft()

    # Ends.

    def applied(self, result: object) -> None:
        """Something of a transaction was applied. Runs inside of the driver: it only records."""
        if isinstance(result, Concluded) or (isinstance(result, Published) and result.batches):
            if not self._over:
                self._ports.later(0, self._tell)
            self._over[result.transaction_id] = None

    def _tell(self) -> None:
        over, self._over = self._over, {}
        if self._is_ended:
            return
        for transaction_id in over:
            self._ending.pop(transaction_id, None)
        self._ports.ended(over)
        self.confirm(over)
        self.look()

    def confirm(self, transaction_ids: Iterable[str]) -> None:
        """Tells of those that are over here, or never were here, as far as whoever has decided waits for them.

        That one is over stands in the log. That it never was here, only a quorum can confirm: a leader that was
        replaced without knowing it would have its successor drop what was staged there.
        """
        over: list[str] = []
        absent: list[str] = []
        for transaction_id in transaction_ids:
            decision = self._ports.decision(transaction_id)
            if decision is None or not decision.is_awaited or self.is_here(transaction_id):
                continue
            (over if transaction_id in self._state.ended else absent).append(transaction_id)
        self._tell_over(over)
        if absent and self._is_leading():
            self._ports.confirm_leadership(partial(self._confirm_absent, absent))

    def _confirm_absent(self, transaction_ids: list[str], result: object) -> None:
        if not isinstance(result, FlotillaError):
            self._tell_over([name for name in transaction_ids if not self.is_here(name)])

    def _tell_over(self, transaction_ids: list[str]) -> None:
        if transaction_ids and self._is_leading():
            self._ports.tell_over(transaction_ids)

    def check(self, now_ms: int) -> None:
        """Asks for the end of what was abandoned."""
        self.look()
        if now_ms < self._abandoned_check_ms:
            return
        self._abandoned_check_ms = now_ms + ABANDONED_CHECK_MS
        for staging in self._state.open.values():
            is_old = now_ms - staging.first_staged_ms > self._transaction_ms_max
            if is_old and self._ports.decision(staging.transaction_id) is None:
                self._ports.ask_for_abortion(staging.transaction_id)
