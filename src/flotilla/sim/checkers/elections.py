"""One leader per term, chosen by a majority of voters, holding everything that is committed."""

from flotilla.raft.messages import Configuration
from flotilla.sim.checkers.durability import majority
from flotilla.sim.checkers.violation import Violation
from flotilla.types.ids import NodeId, Term


class ElectionChecker:
    """The elections of one group."""

    __slots__ = ("_grants", "leaders", "newest_term")

    def __init__(self) -> None:
        #: The leader of each term.
        self.leaders: dict[Term, NodeId] = {}
        self.newest_term: Term = 0
        #: Votes that were sent: (term, candidate) -> voters.
        self._grants: dict[tuple[Term, NodeId], list[NodeId]] = {}

    def granted(self, voter: NodeId, term: Term, candidate: NodeId) -> None:
        self._grants.setdefault((term, candidate), []).append(voter)

    def leads(self, node: NodeId, term: Term, configuration: Configuration) -> None:
        """A node was seen leading a term for the first time in its life."""
        earlier = self.leaders.setdefault(term, node)
        if earlier != node:
            raise Violation("one leader per term", f"nodes {earlier} and {node} both lead term {term}")
        self.newest_term = max(self.newest_term, term)
        supporters = {node, *self._grants.get((term, node), ())}
        for voters in (configuration.voters, configuration.outgoing):
            if not majority(voters, sum(1 for voter in voters if voter in supporters)):
                raise Violation(
                    "leader by majority",
                    f"node {node} leads term {term} with votes of {sorted(supporters)} among {list(voters)}",
                )
