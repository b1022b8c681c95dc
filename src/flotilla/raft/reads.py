"""Linearizable reads without writing to the log (thesis 6.4).

A leader notes its commit index and confirms with a quorum that it still leads; the read may be served once
that index has been applied. Every round of confirmation has a new number, so the reply to an older heartbeat
never confirms a younger read. A leader that has not committed an entry of its own term does not know
the commit index yet: it defers reads until then. A follower forwards a read to the leader under an id of its
own; ids never repeat, not even after a restart.
"""

from collections import deque

from flotilla.types.ids import Index, NodeId


class ReadQueue:
    __slots__ = ("_next_id", "acknowledged", "deferred", "forwarded", "sequence", "sequence_sent", "waiting")

    def __init__(self, first_id: int) -> None:
        self._next_id = first_id
        #: The newest round that a read waits for, and the newest that was sent.
        self.sequence = 0
        self.sequence_sent = 0
        #: In the order of rounds: (round, commit index, the asking node, its read id).
        self.waiting: deque[tuple[int, Index, NodeId, int]] = deque()
        #: (the asking node, its read id), before the first commit of the term.
        self.deferred: list[tuple[NodeId, int]] = []
        #: The newest round that each replica replied to.
        self.acknowledged: dict[NodeId, int] = {}
        #: Ids of own reads that were sent to the leader.
        self.forwarded: dict[int, None] = {}

    def fresh_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def count(self) -> int:
        return len(self.waiting) + len(self.deferred) + len(self.forwarded)

    def add(self, index: Index, asking: NodeId, read_id: int) -> None:
        """One round serves all reads that come before it is sent."""
        if self.sequence == self.sequence_sent:
            self.sequence += 1
        self.waiting.append((self.sequence, index, asking, read_id))

    def acknowledge(self, node: NodeId, sequence: int) -> None:
        assert sequence <= self.sequence_sent
        if sequence > self.acknowledged.get(node, 0):
            self.acknowledged[node] = sequence

    def take_confirmed(self, sequence: int) -> list[tuple[NodeId, int, Index]]:
        confirmed: list[tuple[NodeId, int, Index]] = []
        while self.waiting and self.waiting[0][0] <= sequence:
            _, index, asking, read_id = self.waiting.popleft()
            confirmed.append((asking, read_id, index))
        return confirmed

    def drop_all(self) -> list[int]:
        """Leadership ended: forgets every read and returns the ids of the own ones."""
        own = [read_id for _, _, asking, read_id in self.waiting if asking == 0]
        own += [read_id for asking, read_id in self.deferred if asking == 0]
        self.waiting.clear()
        self.deferred.clear()
        self.acknowledged.clear()
        self.sequence = self.sequence_sent = 0
        return own + self.drop_forwarded()

    def drop_forwarded(self) -> list[int]:
        """Another node leads, or none: forgets the reads sent to the leader and returns their ids."""
        own = list(self.forwarded)
        self.forwarded.clear()
        return own
