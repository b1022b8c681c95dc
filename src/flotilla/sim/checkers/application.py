"""Entries are applied in order, once, only when committed; equal positions mean equal states.

The shadow is the list of all commands that any replica applied, with the index and the digest after each. A replica
that skips, repeats or swaps an entry disagrees with the shadow at once.
"""

from flotilla.sim.checkers.violation import Violation
from flotilla.types.ids import Index, NodeId


class ApplicationChecker:
    """The state of one group."""

    __slots__ = ("commands", "digests", "indexes")

    def __init__(self) -> None:
        self.commands: list[int] = []
        self.indexes: list[Index] = []
        #: digests[n] belongs to the first n commands.
        self.digests: list[int] = [0]

    def applied(self, node: NodeId, index: Index, position: int, command: int, digest: int, commit: Index) -> None:
        if index > commit:
            raise Violation("applied only when committed", f"node {node} applied {index}, committed is {commit}")
        if position == len(self.commands):
            if self.indexes and index <= self.indexes[-1]:
                raise Violation("applied once, in order", f"node {node} applied {index} after {self.indexes[-1]}")
            self.commands.append(command)
            self.indexes.append(index)
            self.digests.append(digest)
        elif position > len(self.commands):
            raise Violation("applied once, in order", f"node {node} stands at {position} before anyone else did")
        elif (self.indexes[position], self.digests[position + 1]) != (index, digest):
            raise Violation(
                "equal states",
                f"node {node} has command {command} of entry {index} at position {position}, "
                f"others have command {self.commands[position]} of entry {self.indexes[position]}",
            )

    def restored(self, node: NodeId, length: int, digest: int) -> None:
        if length >= len(self.digests) or self.digests[length] != digest:
            raise Violation(
                "snapshot equals replay", f"node {node} restored a state of {length} commands that no replica had"
            )
