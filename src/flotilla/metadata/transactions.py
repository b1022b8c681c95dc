"""The decisions about transactions: one small record for all partitions of a transaction.

A transaction's batches are staged in the partitions, invisible to readers. Whether they become visible is decided here,
once: the first decision stands, and a repeated request gets it. A partition with a stage that is not decided in time
asks for its abortion, which is remembered, so that a later commit is refused.

An application numbers its commits. A version at or below the newest committed one is done already: stages of it are
dropped, and the answer is the same.

Several transactions may be committed by one decision, which has an id of its own and stages nothing: a job whose tasks
stage under ids of their own commits the attempts that count, all or none. Each is an ordinary transaction afterwards.

A committed transaction is known until every partition has confirmed that its part is visible, and an aborted one need
not be confirmed; after that it is remembered for a stated time (`ended_transactions`). A request says when its
transaction began. If decisions about transactions as old as that are forgotten, it is refused: so nothing is decided
twice, however late a request comes. A partition drops such a stage without asking. Owns the table and its rules, not
the partitions' side.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from flotilla.metadata.applications import ApplicationTable
from flotilla.metadata.ended_transactions import DecisionMemory
from flotilla.types.errors import (
    ForgottenError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    TransactionEndedError,
)
from flotilla.types.ids import GroupId
from flotilla.types.operations.owners import check_transaction_id

APPLICATION_ID_LENGTH_MAX: Final = 200
#: Bounds the committed transactions that wait for partitions: of each partition, and of all. A partition that is away
#: holds up nobody else.
AWAITED_PER_PARTITION_MAX: Final = 5_000
AWAITED_COUNT_MAX: Final = 1_000_000
PARTICIPANT_COUNT_MAX: Final = 10_000
#: Bounds a CommitTogether: its transactions, and the partitions of all of them.
MEMBER_COUNT_MAX: Final = 10_000
MEMBER_PARTICIPANT_COUNT_MAX: Final = 100_000
COMMITTED: Final = 1
ABORTED: Final = 2
#: In the memory of ended transactions: aborted because its version was committed before.
_REPEATED: Final = 3


@dataclass(frozen=True, slots=True)
class Transaction:
    """A decided transaction."""

    transaction_id: str
    state: int
    #: Empty: the transaction has no version.
    application_id: str
    version: int
    decided_at_ms: int
    #: Groups of the partitions that have not confirmed that they show their part. An aborted one waits for none.
    waiting: tuple[GroupId, ...] = ()
    #: Nothing was committed: the application had committed this version, or a newer one, before.
    is_repeated: bool = False

    @property
    def kind(self) -> int:
        """For the memory of ended transactions."""
        return _REPEATED if self.is_repeated else self.state


#: Id of each of several transactions, and the groups of its partitions.
Members: TypeAlias = tuple[tuple[str, tuple[GroupId, ...]], ...]


class TransactionTable:
    """The decisions that are remembered."""

    __slots__ = ("_by_group", "applications", "awaited", "ended")

    def __init__(self) -> None:
        #: Committed transactions that wait for partitions, in the order of decision.
        self.awaited: dict[str, Transaction] = {}
        #: The same by partition, without the groups that nothing waits for.
        self._by_group: dict[GroupId, dict[str, None]] = {}
        self.ended = DecisionMemory()
        self.applications = ApplicationTable()

    def get(self, transaction_id: str) -> Transaction | None:
        """The decision. Of a transaction that is over only the outcome is known. None: undecided, or forgotten."""
        awaited = self.awaited.get(transaction_id)
        if awaited is not None:
            return awaited
        kind = self.ended.get(transaction_id)
        if kind is None:
            return None
        return Transaction(transaction_id, min(kind, ABORTED), "", 0, 0, (), kind == _REPEATED)

    def may_be_forgotten(self, begun_ms: int) -> bool:
        """Whether a transaction that began then may have been decided, and the decision forgotten."""
        return begun_ms <= self.ended.forgotten_ms

    def waiting_for(self, group: GroupId) -> Iterable[str]:
        """The committed transactions that a partition has not confirmed."""
        return self._by_group.get(group, ())

    def check(
        self,
        transaction_id: str,
        application_id: str,
        version: int,
        groups: tuple[GroupId, ...],
        *,
        is_commit: bool,
        begun_ms: int,
        owner: str = "",
    ) -> None:
        """Raises the error that `decide` would be refused with. begun_ms 0: nothing is staged, or it is not known."""
        check_transaction_id(transaction_id)
        _check_application_id(application_id)
        if version < 0 or (version and not application_id):
            raise InvalidArgumentError("a version is not negative, and belongs to an application")
        if len(groups) > PARTICIPANT_COUNT_MAX or len(set(groups)) != len(groups):
            raise InvalidArgumentError(f"a transaction has at most {PARTICIPANT_COUNT_MAX} partitions, each named once")
        if is_commit and groups and not begun_ms:
            raise InvalidArgumentError(
                "a commit says when its transaction began: the smallest `begun_ms` of its stages"
            )
        self.applications.check_owner(application_id, owner)
        known = self.get(transaction_id)
        if known is not None:
            if known.state != (COMMITTED if is_commit else ABORTED) and not known.is_repeated:
                ended = "committed" if known.state == COMMITTED else "aborted"
                raise TransactionEndedError(f"transaction {transaction_id} was {ended}")
            return
        if is_commit and self._is_done(application_id, version):
            return
        if begun_ms and self.may_be_forgotten(begun_ms):
            raise ForgottenError(
                f"transaction {transaction_id} is not decided now: it began so long ago that a decision about it may "
                f"be forgotten, or nothing is staged for it"
            )
        if is_commit:
            self._check_room(groups)
            if application_id:
                self.applications.check(application_id)

    def _is_done(self, application_id: str, version: int) -> bool:
        used = self.applications.get(application_id)
        return used is not None and version <= used.version

    def _check_room(self, groups: tuple[GroupId, ...]) -> None:
        for group in groups:
            if len(self._by_group.get(group, ())) >= AWAITED_PER_PARTITION_MAX:
                raise OverloadedError(
                    f"{AWAITED_PER_PARTITION_MAX} committed transactions wait for the partition of group {group}"
                )
        if groups and len(self.awaited) >= AWAITED_COUNT_MAX:
            raise OverloadedError(f"{AWAITED_COUNT_MAX} committed transactions wait for partitions")

    def decide(
        self,
        transaction_id: str,
        application_id: str,
        version: int,
        groups: tuple[GroupId, ...],
        *,
        is_commit: bool,
        now_ms: int,
        owner: str = "",
    ) -> Transaction:
        """The decision, made now or before."""
        known = self.get(transaction_id)
        if known is not None:
            return known
        is_repeated = is_commit and self._is_done(application_id, version)
        state = COMMITTED if is_commit and not is_repeated else ABORTED
        waiting = tuple(sorted(groups)) if state == COMMITTED else ()
        decided = Transaction(transaction_id, state, application_id, version, now_ms, waiting, is_repeated)
        if state == COMMITTED and application_id:
            self.applications.commit(application_id, version, now_ms, owner)
        self.put(decided, now_ms)
        return decided

    def put(self, decided: Transaction, now_ms: int) -> None:
        """Remembers a decision."""
        if not decided.waiting:
            self.ended.add(decided.transaction_id, decided.kind, now_ms)
            return
        self.ended.trim(now_ms)
        self.awaited[decided.transaction_id] = decided
        for group in decided.waiting:
            self._by_group.setdefault(group, {})[decided.transaction_id] = None

    def check_together(
        self,
        transaction_id: str,
        application_id: str,
        version: int,
        members: Members,
        *,
        begun_ms: int,
        owner: str = "",
    ) -> None:
        """Raises the error that `commit_together` would be refused with."""
        self.check(transaction_id, application_id, version, (), is_commit=True, begun_ms=begun_ms, owner=owner)
        ids = [name for name, _ in members]
        if len(ids) > MEMBER_COUNT_MAX or len({transaction_id, *ids}) != len(ids) + 1:
            raise InvalidArgumentError(f"up to {MEMBER_COUNT_MAX} transactions are committed together, each named once")
        if sum([len(groups) for _, groups in members]) > MEMBER_PARTICIPANT_COUNT_MAX:
            raise InvalidArgumentError(f"they have at most {MEMBER_PARTICIPANT_COUNT_MAX} partitions in all")
        if self.get(transaction_id) is not None:
            return
        for name, groups in members:
            self.check(name, application_id, version, groups, is_commit=True, begun_ms=begun_ms)
            if self.get(name) is not None:
                # It was committed alone or with others, and must not count twice.
                raise TransactionEndedError(f"transaction {name} is over, so none of the others is committed")

    def commit_together(
        self,
        transaction_id: str,
        application_id: str,
        version: int,
        members: Members,
        *,
        now_ms: int,
        owner: str = "",
    ) -> Transaction:
        """The decision about all of them, made now or before."""
        known = self.get(transaction_id)
        if known is not None:
            return known
        decided = self.decide(transaction_id, application_id, version, (), is_commit=True, now_ms=now_ms, owner=owner)
        for name, groups in members:
            waiting = tuple(sorted(groups)) if decided.state == COMMITTED else ()
            self.put(replace(decided, transaction_id=name, waiting=waiting), now_ms)
        return decided

    def confirm(self, transaction_id: str, group: GroupId, now_ms: int) -> None:
        """A partition shows its part, or has none. A transaction that all have confirmed is over."""
        known = self.awaited.get(transaction_id)
        if known is None or group not in known.waiting:
            return
        waiting = tuple([other for other in known.waiting if other != group])
        waited = self._by_group[group]
        del waited[transaction_id]
        if not waited:
            del self._by_group[group]
        if waiting:
            self.awaited[transaction_id] = replace(known, waiting=waiting)
        else:
            del self.awaited[transaction_id]
            self.ended.add(transaction_id, known.kind, now_ms)

    def check_forget(self, transaction_id: str, application_id: str) -> None:
        """Raises the error that `forget` would be refused with."""
        if bool(transaction_id) == bool(application_id):
            raise InvalidArgumentError("name a transaction or an application")
        if transaction_id and transaction_id not in self.awaited:
            raise NotFoundError(f"no partition is waited for by a committed transaction {transaction_id}")
        if application_id and not self.applications.knows(application_id):
            raise NotFoundError(f"no application {application_id} is known")

    def forget(self, transaction_id: str, application_id: str, now_ms: int) -> None:
        """Waits no more for the partitions of a transaction, or forgets an application."""
        self.applications.forget(application_id)
        known = self.awaited.get(transaction_id)
        for group in () if known is None else known.waiting:
            self.confirm(transaction_id, group, now_ms)

    def release(self, group: GroupId, now_ms: int) -> None:
        """The partition is deleted: it counts as confirmed everywhere."""
        for transaction_id in list(self.waiting_for(group)):
            self.confirm(transaction_id, group, now_ms)


def _check_application_id(text: str) -> None:
    if len(text) > APPLICATION_ID_LENGTH_MAX:
        raise InvalidArgumentError(f"an application's id has up to {APPLICATION_ID_LENGTH_MAX} characters")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise InvalidArgumentError("an application's id has printable ASCII characters and no spaces")
