"""The metadata of transactions: the real table of decisions, and copies at the nodes, which lag behind.

Consensus about it is not simulated here, it is that of every other group: there is one table, and the way to it loses,
delays and repeats what it carries. A node learns of a change some time later, and after a crash it may learn it again.
So a leader may follow old decisions, but never ones that were not made.
"""

from bisect import bisect_right
from collections.abc import Callable
from random import Random
from typing import Final

from flotilla.metadata.transactions import COMMITTED, Transaction, TransactionTable
from flotilla.sim.checkers.queue_transactions import Registry
from flotilla.sim.devices.world import MS, SECOND, World
from flotilla.sim.wire import Answered, Call, Wire
from flotilla.types.errors import FlotillaError, TransactionEndedError, UnavailableError
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.operations.transactions import AbortTransaction, CommitTransaction, TransactionDecided

#: How long a node usually takes to learn of a change, and how often it takes much longer.
_HEARD_US: Final = 200 * MS
_LATE_CHANCE: Final = 0.1
_LATE_US: Final = 6 * SECOND
#: Nothing is forgotten by its age here.
_DECIDED_AT_MS: Final = 2
_BEGUN_MS: Final = 2


class DecisionBoard:
    def __init__(self, world: World, wire: Wire, registry: Registry, heard: Callable[[NodeId], None]) -> None:
        """`heard` is called when a node has learned of a change."""
        self._world = world
        self._wire = wire
        self._registry = registry
        self._heard = heard
        self._random: Random = world.stream("decisions")
        self._table = TransactionTable()
        #: Changes, counted; by transaction, at which of them it became what; and how many each node has heard of.
        self._changes = 0
        self._history: dict[str, tuple[list[int], list[Transaction]]] = {}
        self._known: dict[NodeId, int] = {}
        self._calls = 0

    # What clients ask.

    def ask(
        self,
        request: CommitTransaction | AbortTransaction,
        groups: tuple[GroupId, ...],
        answered: Answered,
        timeout_us: int,
    ) -> None:
        self._calls += 1
        call = Call(self._calls, answered)
        self._wire.carry(self._arrive, request, groups, call)
        self._world.after(timeout_us, call.close, UnavailableError("no answer came"))

    def _arrive(self, request: CommitTransaction | AbortTransaction, groups: tuple[GroupId, ...], call: Call) -> None:
        is_commit = isinstance(request, CommitTransaction)
        application_id, version = "", 0
        if isinstance(request, CommitTransaction):
            application_id, version = request.application_id, request.version
        try:
            decided = self._decide(request.transaction_id, application_id, version, groups, is_commit)
        except FlotillaError as error:
            self._wire.carry(call.close, error.with_traceback(None))
            return
        if is_commit == (decided.state == COMMITTED) or decided.is_repeated:
            self._wire.carry(call.close, TransactionDecided(decided.is_repeated))
        else:
            self._wire.carry(call.close, TransactionEndedError("it was decided otherwise"))

    def _decide(
        self, transaction_id: str, application_id: str, version: int, groups: tuple[GroupId, ...], is_commit: bool
    ) -> Transaction:
        self._table.check(transaction_id, application_id, version, groups, is_commit=is_commit, begun_ms=_BEGUN_MS)
        decided = self._table.decide(
            transaction_id, application_id, version, groups, is_commit=is_commit, now_ms=_DECIDED_AT_MS
        )
        self._registry.decided(transaction_id, decided.state == COMMITTED, groups)
        self._changed(transaction_id)
        return decided

    # What partitions report and ask.

    def confirm(self, transaction_ids: list[str], group: GroupId) -> None:
        self._wire.carry(self._confirmed, transaction_ids, group)

    def _confirmed(self, transaction_ids: list[str], group: GroupId) -> None:
        for transaction_id in transaction_ids:
            self._table.confirm(transaction_id, group, _DECIDED_AT_MS)
            self._changed(transaction_id)

    def ask_for_abortion(self, transaction_id: str, group: GroupId) -> None:
        self._wire.carry(self._abort, transaction_id, group)

    def _abort(self, transaction_id: str, group: GroupId) -> None:
        if self._table.get(transaction_id) is None:
            self._decide(transaction_id, "", 0, (group,), is_commit=False)

    # What nodes know.

    def of(self, node: NodeId, transaction_id: str) -> Transaction | None:
        """As far as the node has heard."""
        changes, states = self._history.get(transaction_id, ([], []))
        at = bisect_right(changes, self._known.get(node, 0))
        return states[at - 1] if at else None

    def waiting_for(self, node: NodeId, group: GroupId) -> list[str]:
        """Transactions that wait to hear from a partition, as far as the node has heard."""
        found = [(name, self.of(node, name)) for name in self._history]
        return [name for name, known in found if known is not None and group in known.waiting]

    def restarted(self, node: NodeId) -> None:
        """What it had heard last may be lost with the crash; it hears it again."""
        self._known[node] = self._random.randint(0, self._known.get(node, 0))
        self._send(node)

    def _changed(self, transaction_id: str) -> None:
        state = self._table.get(transaction_id)
        if state is None:
            # A confirmation of one that was never decided.
            return
        changes, states = self._history.setdefault(transaction_id, ([], []))
        if states and states[-1] == state:
            return
        self._changes += 1
        changes.append(self._changes)
        states.append(state)
        for node in self._wire.nodes:
            self._send(node)

    def _send(self, node: NodeId) -> None:
        delay_us = int(self._random.expovariate(1.0) * _HEARD_US)
        if self._random.random() < _LATE_CHANCE:
            delay_us += int(self._random.random() * _LATE_US)
        self._world.after(delay_us + 1, self._hear, node, self._changes)

    def _hear(self, node: NodeId, changes: int) -> None:
        if changes > self._known.get(node, 0):
            self._known[node] = changes
            self._heard(node)
