"""The decisions about transactions: one small record for all partitions of a transaction.

A transaction's batches are staged in the partitions, invisible to readers. Whether they become visible is decided here,
once: the first decision stands, and a repeated request gets it. A partition with a stage that is not decided in time
asks for its abortion, which is remembered, so that a later commit is refused.

An application numbers its commits. A version at or below the newest committed one is done already: stages of it are
dropped, and the answer is the same.

Several transactions may be committed by one decision, which has an id of its own and stages nothing: a job whose tasks
stage under ids of their own commits the attempts that count, all or none. Each is an ordinary transaction afterwards.

A transaction is remembered until every partition has confirmed that its part is visible or dropped, and after that for
a time that is longer than any stage waits, as far as there is room. Owns the table and its rules, not the partitions'
side.
"""

from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeAlias

from flotilla.types.errors import InvalidArgumentError, OverloadedError, TransactionEndedError
from flotilla.types.ids import GroupId

TRANSACTION_ID_LENGTH_MAX: Final = 64
APPLICATION_ID_LENGTH_MAX: Final = 200
#: Bounds the memory of all replicas.
TRANSACTION_COUNT_MAX: Final = 100_000
APPLICATION_COUNT_MAX: Final = 100_000
PARTICIPANT_COUNT_MAX: Final = 10_000
#: Bounds a CommitTogether: its transactions, and the partitions of all of them.
MEMBER_COUNT_MAX: Final = 10_000
MEMBER_PARTICIPANT_COUNT_MAX: Final = 100_000
#: Ended transactions are remembered for this long, as far as there is room: partitions ask about a stage much earlier.
REMEMBERED_MS: Final = 24 * 3_600_000
REMEMBERED_COUNT_MAX: Final = TRANSACTION_COUNT_MAX // 2
#: Bounds the work of one decision.
_FORGOTTEN_AT_ONCE: Final = 64

COMMITTED: Final = 1
ABORTED: Final = 2


@dataclass(frozen=True, slots=True)
class Transaction:
    """A decided transaction."""

    transaction_id: str
    state: int
    #: Empty: the transaction has no version.
    application_id: str
    version: int
    decided_at_ms: int
    #: Groups of the partitions that have not confirmed their part.
    waiting: tuple[GroupId, ...] = ()
    #: Nothing was committed: the application had committed this version, or a newer one, before.
    is_repeated: bool = False


#: Id of each of several transactions, and the groups of its partitions.
Members: TypeAlias = tuple[tuple[str, tuple[GroupId, ...]], ...]


class TransactionTable:
    """The decisions that are remembered."""

    __slots__ = ("applications", "transactions")

    def __init__(self) -> None:
        #: In the order of decision, so that the oldest come first.
        self.transactions: dict[str, Transaction] = {}
        #: Application to the newest version it has committed.
        self.applications: dict[str, int] = {}

    def check(
        self, transaction_id: str, application_id: str, version: int, groups: tuple[GroupId, ...], *, is_commit: bool
    ) -> None:
        """Raises the error that `decide` would be refused with."""
        _check_text("a transaction's id", transaction_id, 1, TRANSACTION_ID_LENGTH_MAX)
        _check_text("an application's id", application_id, 0, APPLICATION_ID_LENGTH_MAX)
        if version < 0 or (version and not application_id):
            raise InvalidArgumentError("a version is not negative, and belongs to an application")
        if len(groups) > PARTICIPANT_COUNT_MAX or len(set(groups)) != len(groups):
            raise InvalidArgumentError(f"a transaction has at most {PARTICIPANT_COUNT_MAX} partitions, each named once")
        known = self.transactions.get(transaction_id)
        if known is not None:
            if known.state != (COMMITTED if is_commit else ABORTED) and not known.is_repeated:
                ended = "committed" if known.state == COMMITTED else "aborted"
                raise TransactionEndedError(f"transaction {transaction_id} was {ended}")
        elif len(self.transactions) >= TRANSACTION_COUNT_MAX:
            raise OverloadedError(f"{TRANSACTION_COUNT_MAX} transactions are remembered")
        elif application_id not in self.applications and len(self.applications) >= APPLICATION_COUNT_MAX:
            raise OverloadedError(f"{APPLICATION_COUNT_MAX} applications are remembered")

    def decide(
        self,
        transaction_id: str,
        application_id: str,
        version: int,
        groups: tuple[GroupId, ...],
        *,
        is_commit: bool,
        now_ms: int,
    ) -> Transaction:
        """The decision, made now or before."""
        known = self.transactions.get(transaction_id)
        if known is not None:
            return known
        self._forget(now_ms)
        is_repeated = is_commit and version <= self.applications.get(application_id, -1)
        state = COMMITTED if is_commit and not is_repeated else ABORTED
        decided = Transaction(
            transaction_id, state, application_id, version, now_ms, tuple(sorted(groups)), is_repeated
        )
        if state == COMMITTED and application_id:
            self.applications[application_id] = version
        self.transactions[transaction_id] = decided
        return decided

    def check_together(self, transaction_id: str, application_id: str, version: int, members: Members) -> None:
        """Raises the error that `commit_together` would be refused with."""
        self.check(transaction_id, application_id, version, (), is_commit=True)
        ids = [name for name, _ in members]
        if len(ids) > MEMBER_COUNT_MAX or len({transaction_id, *ids}) != len(ids) + 1:
            raise InvalidArgumentError(f"up to {MEMBER_COUNT_MAX} transactions are committed together, each named once")
        if sum([len(groups) for _, groups in members]) > MEMBER_PARTICIPANT_COUNT_MAX:
            raise InvalidArgumentError(f"they have at most {MEMBER_PARTICIPANT_COUNT_MAX} partitions in all")
        if transaction_id in self.transactions:
            return
        for name, groups in members:
            self.check(name, application_id, version, groups, is_commit=True)
            if name in self.transactions:
                # It was committed alone or with others, and must not count twice.
                raise TransactionEndedError(f"transaction {name} is over, so none of the others is committed")
        if len(self.transactions) + len(members) >= TRANSACTION_COUNT_MAX:
            raise OverloadedError(f"{TRANSACTION_COUNT_MAX} transactions are remembered")

    def commit_together(
        self, transaction_id: str, application_id: str, version: int, members: Members, *, now_ms: int
    ) -> Transaction:
        """The decision about all of them, made now or before."""
        known = self.transactions.get(transaction_id)
        if known is not None:
            return known
        decided = self.decide(transaction_id, application_id, version, (), is_commit=True, now_ms=now_ms)
        for name, groups in members:
            self._forget(now_ms)
            self.transactions[name] = replace(decided, transaction_id=name, waiting=tuple(sorted(groups)))
        return decided

    def confirm(self, transaction_id: str, group: GroupId) -> None:
        """A partition has made its part visible, or dropped it. A transaction that all have confirmed is over."""
        known = self.transactions.get(transaction_id)
        if known is not None and group in known.waiting:
            waiting = tuple(other for other in known.waiting if other != group)
            self.transactions[transaction_id] = replace(known, waiting=waiting)

    def release(self, group: GroupId) -> None:
        """The partition is deleted: it counts as confirmed everywhere."""
        for transaction_id in [name for name, known in self.transactions.items() if group in known.waiting]:
            self.confirm(transaction_id, group)

    def _forget(self, now_ms: int) -> None:
        """Drops transactions that are over, the oldest first."""
        excess = len(self.transactions) - REMEMBERED_COUNT_MAX
        oldest = list(islice(self.transactions.values(), _FORGOTTEN_AT_ONCE))
        for place, known in enumerate(oldest):
            if now_ms - known.decided_at_ms < REMEMBERED_MS and place >= excess:
                return
            if not known.waiting:
                del self.transactions[known.transaction_id]


def _check_text(noun: str, text: str, length_min: int, length_max: int) -> None:
    if not length_min <= len(text) <= length_max:
        raise InvalidArgumentError(f"{noun} has {length_min} to {length_max} characters")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise InvalidArgumentError(f"{noun} has printable ASCII characters and no spaces")
