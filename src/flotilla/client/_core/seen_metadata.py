"""The newest metadata that a client has seen, over all its connections: it wants to see nothing older from any broker.

Several sessions of one client share it. The index belongs to one cluster: it begins anew with another one at the same
addresses.
"""

from flotilla.types.ids import Index


class SeenMetadata:
    __slots__ = ("cluster_id", "index")

    def __init__(self) -> None:
        self.cluster_id = ""
        self.index: Index = 0

    def joined(self, cluster_id: str) -> None:
        """A broker of this cluster has answered; empty: the broker is in none yet."""
        if cluster_id and cluster_id != self.cluster_id:
            self.cluster_id = cluster_id
            self.index = 0

    def note(self, index: Index) -> None:
        if index > self.index:
            self.index = index
