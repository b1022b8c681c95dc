"""Decisions of transactions: a commit or an abort is one entry in the metadata for all partitions."""

from itertools import islice
from typing import Final

from flotilla.broker.catalog import Catalog
from flotilla.broker.ports import Done, Outside
from flotilla.metadata import commands
from flotilla.metadata.commands import CommitTogether, DecideTransaction
from flotilla.metadata.transactions import COMMITTED, Transaction
from flotilla.types.errors import InvalidArgumentError, NotFoundError, TransactionEndedError
from flotilla.types.ids import GroupId
from flotilla.types.operations import Done as DoneReply
from flotilla.types.operations.transactions import (
    AbortTransaction,
    AwaitedTransaction,
    CommitTransaction,
    ForgetTransaction,
    ListTransactions,
    TransactionDecided,
    TransactionList,
)

#: Bounds one answer.
_LISTED_MAX: Final = 1_000


class TransactionDecisions:
    """At the metadata's leader."""

    def __init__(self, catalog: Catalog, outside: Outside) -> None:
        self._catalog = catalog
        self._outside = outside

    def commit_transaction(self, request: CommitTransaction, done: Done) -> None:
        if request.members:
            self._decide(self._together(request), done)
            return
        self._decide(
            DecideTransaction(
                transaction_id=request.transaction_id,
                application_id=request.application_id,
                version=request.version,
                groups=self._groups(request),
                is_commit=True,
                begun_ms=request.begun_ms,
                owner=request.owner,
                now_ms=self._outside.now_ms(),
            ),
            done,
        )

    def abort_transaction(self, request: AbortTransaction, done: Done) -> None:
        self._catalog.leading()
        self._decide(
            DecideTransaction(
                transaction_id=request.transaction_id,
                application_id="",
                version=0,
                # Whatever partitions hold of it is dropped, also those that are not named.
                groups=(),
                is_commit=False,
                begun_ms=request.begun_ms,
                owner="",
                now_ms=self._outside.now_ms(),
            ),
            done,
        )

    def list_transactions(self, request: ListTransactions, done: Done) -> None:
        self._catalog.leading()
        table = self._catalog.transactions()
        oldest = list(islice(table.awaited.values(), min(request.limit, _LISTED_MAX)))
        done(
            TransactionList(
                [self._describe(transaction) for transaction in oldest],
                len(table.awaited),
                len(table.ended),
                table.ended.forgotten_ms,
                len(table.applications),
                table.applications.idle_count,
            )
        )

    def _describe(self, transaction: Transaction) -> AwaitedTransaction:
        state = self._catalog.machine.state
        partitions = []
        for group in transaction.waiting:
            # A deleted topic is waited for by none, so the group has a topic.
            assignment = state.assignments[group]
            partitions.append((state.topics[assignment.topic_id].name, assignment.partition))
        return AwaitedTransaction(
            transaction.transaction_id,
            transaction.application_id,
            transaction.version,
            transaction.decided_at_ms,
            partitions,
        )

    def forget_transaction(self, request: ForgetTransaction, done: Done) -> None:
        command = commands.ForgetTransaction(request.transaction_id, request.application_id, self._outside.now_ms())

        def answered(result: object) -> None:
            done(DoneReply() if result is None else self._catalog.explain(result))

        self._catalog.propose(command, answered)

    def _together(self, request: CommitTransaction) -> CommitTogether:
        """Raises NotFoundError, TopicReplacedError and InvalidArgumentError."""
        groups = self._places(request)
        members = []
        for transaction_id, places in request.members:
            if any(place >= len(request.partitions) for place in places):
                raise InvalidArgumentError(f"transaction {transaction_id} names a partition that is not in the list")
            members.append((transaction_id, tuple([groups[place] for place in places]) if groups else ()))
        return CommitTogether(
            request.transaction_id,
            request.application_id,
            request.version,
            tuple(members),
            request.begun_ms,
            request.owner,
            self._outside.now_ms(),
        )

    def _groups(self, request: CommitTransaction) -> tuple[GroupId, ...]:
        return tuple(dict.fromkeys(self._places(request)))

    def _places(self, request: CommitTransaction) -> list[GroupId]:
        """The group of each partition. Raises NotFoundError, TopicReplacedError and InvalidArgumentError.

        None if it is decided already: that decision stands, whatever has become of the topics.
        """
        self._catalog.leading()
        topic_ids = request.topic_ids or [0] * len(request.partitions)
        if len(topic_ids) != len(request.partitions):
            raise InvalidArgumentError("a commit has the topic id of each of its partitions, or of none")
        if self._catalog.transactions().get(request.transaction_id) is not None:
            return []
        groups = []
        for (name, number), topic_id in zip(request.partitions, topic_ids, strict=True):
            topic = self._catalog.topic(name)
            if topic_id:
                self._catalog.check_topic(name, topic_id)
            if not 0 <= number < len(topic.partitions):
                raise NotFoundError(f"topic {name!r} has no partition {number}")
            groups.append(topic.partitions[number].group)
        return groups

    def _decide(self, command: DecideTransaction | CommitTogether, done: Done) -> None:
        is_commit = isinstance(command, CommitTogether) or command.is_commit

        def answered(result: object) -> None:
            if not isinstance(result, Transaction):
                done(self._catalog.explain(result))
            elif is_commit == (result.state == COMMITTED) or result.is_repeated:
                done(TransactionDecided(result.is_repeated))
            else:
                ended = "committed" if result.state == COMMITTED else "aborted"
                done(TransactionEndedError(f"transaction {command.transaction_id} was {ended}"))

        self._catalog.propose(command, answered)
