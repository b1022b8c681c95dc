"""What a workload can be run against: Flotilla, or a peer with a client of its own."""

from typing import Protocol


class Subject(Protocol):
    #: As it stands in the table: product, setting, nodes.
    name: str
    #: Whether an acknowledgement means that a majority has the record on its disk.
    is_synced: bool

    def one_by_one(self, payload: bytes, count: int) -> list[float]:
        """Seconds until each acknowledgement, one in flight."""

    def pipelined(self, payload: bytes, count: int) -> float:
        """Records a second with many in flight, and an acknowledgement for each."""

    def replay(self, payload: bytes, count: int) -> float:
        """Messages a second out of a backlog of so many, into the client's message objects."""

    def end_to_end(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        """Seconds from sending to being read, at a steady rate."""
