"""The committed log: every replica has the same, and it never changes.

One list of terms is the truth; the replica that commits an entry first extends it. (index, term) names content: the
first body seen under that name is the only one permitted when an entry is saved, repaired, read back or applied.
"""

from zlib import crc32

from flotilla.raft.messages import Entry
from flotilla.sim.checkers.violation import Violation
from flotilla.types.ids import Index, NodeId, Term


class LogChecker:
    """The log of one group."""

    __slots__ = ("_contents", "commit_term", "committed")

    def __init__(self) -> None:
        #: Terms of committed entries; the entry at index i stands at i.
        self.committed: list[Term] = [0]
        #: The newest term whose leader committed something.
        self.commit_term: Term = 0
        #: Checksum of the body by (index, term).
        self._contents: dict[tuple[Index, Term], int] = {}

    @property
    def commit(self) -> Index:
        return len(self.committed) - 1

    def stored(self, node: NodeId, entry: Entry) -> None:
        """A replica saves an entry, or has read it back."""
        content = crc32(entry.data, entry.kind)
        earlier = self._contents.setdefault((entry.index, entry.term), content)
        if earlier != content:
            raise Violation("one content per entry", f"node {node} has another {entry.index} of term {entry.term}")

    def commits(self, node: NodeId, index: Index, term: Term) -> bool:
        """The node counts `index` as committed. True: it is the first one. Called without gaps beyond the truth."""
        committed = self.committed
        if index < len(committed):
            if committed[index] != term:
                raise Violation(
                    "committed entries agree",
                    f"entry {index} is committed with term {committed[index]}, at node {node} with {term}",
                )
            return False
        if index > len(committed):
            raise Violation(
                "committed entries agree", f"node {node} commits {index}, no replica committed {len(committed)}"
            )
        if term < committed[-1]:
            raise Violation("committed terms rise", f"node {node} commits {index} of term {term} after {committed[-1]}")
        committed.append(term)
        return True

    def leads(self, node: NodeId, term: Term, last_index: Index, term_at_commit: Term) -> None:
        """A leader holds every entry that was committed in an earlier term (paper, figure 3: leader completeness).

        A leader of an old term that wins late, while a newer term commits already, cannot know and need not.
        """
        if term <= self.commit_term:
            return
        if last_index < self.commit or term_at_commit != self.committed[-1]:
            raise Violation(
                "leader is complete",
                f"node {node} leads with entries to {last_index}, entry {self.commit} of term "
                f"{self.committed[-1]} is committed and it has term {term_at_commit} there",
            )
