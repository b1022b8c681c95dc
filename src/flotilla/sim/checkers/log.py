"""The committed log: every replica has the same, and it never changes.

One list of terms is the truth, extended by whoever commits first. (index, term) names content: the
first body seen under a name is the only one ever permitted: when saved, repaired, read back and applied.
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
        """Node counts `index` as committed. Tells whether that is news; called without gaps beyond the truth."""
        committed = self.committed
        if index < len(committed):
            if committed[index] != term:
                raise Violation(
                    "committed entries agree",
                    f"entry {index} is committed with term {committed[index]}, at node {node} with {term}",
                )
            return False
        if index > len(committed):
            raise Violation("committed entries agree", f"node {node} commits {index}, nobody knows {len(committed)}")
        if term < committed[-1]:
            raise Violation("committed terms rise", f"node {node} commits {index} of term {term} after {committed[-1]}")
        committed.append(term)
        return True

    def leads(self, node: NodeId, term: Term, last_index: Index, term_at_commit: Term) -> None:
        """A leader holds every entry that was committed in an earlier term (paper, figure 3: leader completeness).

        One that wins an old term late, while a newer one commits already, cannot and need not know.
        """
        if term <= self.commit_term:
            return
        if last_index < self.commit or term_at_commit != self.committed[-1]:
            raise Violation(
                "leader is complete",
                f"node {node} leads with entries to {last_index}, entry {self.commit} of term "
                f"{self.committed[-1]} is committed and it has term {term_at_commit} there",
            )
