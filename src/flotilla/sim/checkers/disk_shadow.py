"""The durable state of each replica, derived from its saves. The other checkers build on it.

A save becomes part of a block, and a block becomes durable when its write is reported done. Until then a crash keeps
the block whole or drops it whole. After a restart the store must have recovered the durable state, with or without the
block that was in flight.
"""

from collections.abc import Iterable
from typing import NamedTuple

from flotilla.raft.messages import Entry, HardState, SnapshotMeta
from flotilla.types.ids import NO_NODE, Index, NodeId, Term


class Save(NamedTuple):
    """One call of `Store.save`, reduced to what the shadow needs."""

    hard_state: HardState | None
    entries: list[Entry]
    truncate_from: Index
    snapshot: SnapshotMeta | None


class DurableLog:
    """Terms of all entries from base + 1 on, and the hard state."""

    __slots__ = ("base", "base_term", "commit", "term", "terms", "vote")

    def __init__(self) -> None:
        self.base: Index = 0
        self.base_term: Term = 0
        self.terms: list[Term] = []
        self.term: Term = 0
        self.vote: NodeId = NO_NODE
        self.commit: Index = 0

    @property
    def last_index(self) -> Index:
        return self.base + len(self.terms)

    def holds(self, index: Index, term: Term) -> bool:
        """Whether the entry is there, or was there before a snapshot took its place."""
        if index <= self.base:
            return True
        position = index - self.base - 1
        return position < len(self.terms) and self.terms[position] == term

    def apply(self, save: Save) -> None:
        if save.snapshot is not None:
            self.base = save.snapshot.log_index
            self.base_term = save.snapshot.log_term
            self.terms = []
        if save.truncate_from:
            del self.terms[max(0, save.truncate_from - self.base - 1) :]
        if save.entries:
            first = save.entries[0].index
            assert self.base < first <= self.last_index + 1, "a gap in the saved log"
            del self.terms[first - self.base - 1 :]
            self.terms.extend([entry.term for entry in save.entries])
        if save.hard_state is not None:
            self.term, self.vote, self.commit = (
                save.hard_state.term,
                save.hard_state.vote,
                save.hard_state.commit,
            )

    def copy(self) -> "DurableLog":
        other = DurableLog()
        other.base, other.base_term, other.terms = self.base, self.base_term, list(self.terms)
        other.term, other.vote, other.commit = self.term, self.vote, self.commit
        return other

    def agrees(self, other: "DurableLog") -> bool:
        """Same hard state and same terms where both have entries; `other` may begin later, but not end elsewhere.

        The commit index may lag: alone it is not worth a sync.
        """
        if (self.term, self.vote) != (other.term, other.vote) or self.last_index != other.last_index:
            return False
        low = max(self.base, other.base)
        return self.terms[low - self.base :] == other.terms[low - other.base :]


class ReplicaShadow:
    """One replica's durable state, and the saves in flight."""

    __slots__ = ("collected", "durable", "in_flight")

    def __init__(self) -> None:
        self.durable = DurableLog()
        #: Saved since the last block was closed.
        self.collected: list[Save] = []
        #: Saves of the block being written.
        self.in_flight: list[Save] = []

    def block_taken(self) -> None:
        assert not self.in_flight, "two blocks in flight at once"
        self.in_flight, self.collected = self.collected, self.in_flight

    def block_durable(self) -> None:
        for save in self.in_flight:
            self.durable.apply(save)
        self.in_flight.clear()

    def outcomes(self) -> Iterable[DurableLog]:
        """Every state a crash may have left: without the block in flight, and with all of it."""
        yield self.durable
        if self.in_flight:
            state = self.durable.copy()
            for save in self.in_flight:
                state.apply(save)
            yield state

    def restart(self, recovered: DurableLog) -> None:
        self.durable = recovered
        self.collected.clear()
        self.in_flight.clear()
