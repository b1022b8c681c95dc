"""A leader of the metadata whom a member does not know hands over to a node that the member knows.

A member that was away while another node joined, or came back on an empty disk, refuses that node until the metadata
tell it otherwise. Only their leader sends them: if that is the unknown node, the member would wait for ever.
"""

from typing import Final

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.broker.ports import Consensus, Outside
from flotilla.raft import reasons
from flotilla.replica.replica import Replica
from flotilla.types.ids import NO_NODE, NodeId

#: Checks in a row that a member must refuse this node, and after which another heir is tried: two seconds.
PATIENCE_CHECKS: Final = 4


class UnknownLeader:
    def __init__(self, consensus: Consensus, outside: Outside) -> None:
        self._consensus = consensus
        self._outside = outside
        #: For how many checks each member has refused this node.
        self._refusals: dict[NodeId, int] = {}
        #: Nodes that were handed the leadership since then: the members may not know them either.
        self._tried: set[NodeId] = set()

    def check(self, replica: Replica) -> None:
        """Called periodically at the metadata's leader."""
        members = replica.raft.configuration.members()
        refusing = [member for member in members if self._outside.is_unknown_to(member)]
        self._refusals = {member: self._refusals.get(member, 0) + 1 for member in refusing}
        if not refusing:
            self._tried.clear()
        if any(count % PATIENCE_CHECKS == 0 for count in self._refusals.values()):
            heir = replica.complete_heir(self._tried)
            if heir != NO_NODE:
                self._tried.add(heir)
                self._consensus.transfer(METADATA_GROUP, heir, reasons.NOT_KNOWN)
