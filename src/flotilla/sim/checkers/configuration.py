"""Membership changes one step at a time, and every step's majorities overlap.

A leader logs a change only when the one before it is applied; from one configuration to the next
either a single voter comes or goes, or the group goes through a joint phase that keeps the old half.
"""

from flotilla.raft.messages import Configuration
from flotilla.sim.checkers.violation import Violation
from flotilla.types.ids import Index, NodeId


class ConfigurationChecker:
    """The configurations of one group."""

    __slots__ = ("_logged",)

    def __init__(self) -> None:
        #: Indexes of CONFIG entries in each replica's log, ascending.
        self._logged: dict[NodeId, list[Index]] = {}

    def logged(self, node: NodeId, index: Index) -> None:
        self._logged.setdefault(node, []).append(index)

    def cut(self, node: NodeId, index: Index) -> None:
        """The replica's log ends before `index` now."""
        logged = self._logged.get(node)
        while logged and logged[-1] >= index:
            logged.pop()

    def forget(self, node: NodeId) -> None:
        self._logged.pop(node, None)

    def proposed(
        self, node: NodeId, index: Index, applied: Index, current: Configuration, following: Configuration
    ) -> None:
        """A leader puts `following` into its log while `current` is in force."""
        pending = [logged for logged in self._logged.get(node, ()) if applied < logged < index]
        if pending:
            raise Violation("one change at a time", f"node {node} logs a change at {index} with {pending} not applied")
        if not _is_step(current, following):
            raise Violation("majorities overlap", f"node {node} goes from {current} to {following}")
        if set(following.learners) & {*following.voters, *following.outgoing}:
            raise Violation("learners do not vote", f"node {node} logs {following}")


def _is_step(current: Configuration, following: Configuration) -> bool:
    if current.outgoing:
        return not following.outgoing and following.voters == current.voters
    if following.outgoing:
        return following.outgoing == current.voters
    return len(set(current.voters) ^ set(following.voters)) <= 1
