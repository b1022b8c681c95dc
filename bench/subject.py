"""The subjects of workloads: Flotilla, or a peer with its own client."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bench.peers.apart import Pair


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
        """Messages per second read from a backlog of that size, as the client's message objects."""

    def end_to_end(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        """Seconds from sending to being read, at a steady rate."""


@dataclass(frozen=True, slots=True)
class Failover:
    """What a steady producer saw of a leader that was killed, and what was read back afterwards."""

    #: From the kill to the acknowledgement of a record that was sent after it.
    waited_s: float
    acknowledged: int
    #: Acknowledged and lost.
    lost: int
    #: Stored more than once, because a client sent it again.
    doubled: int


class Contestant(Subject, Protocol):
    """A subject that is compared with others, and the workloads that all of them run."""

    nodes: int

    def produce_to_push(self, payload_bytes: int, rate: int, count: int) -> list[float] | None:
        """As `end_to_end`, to a consumer that acknowledges every message. None: cannot."""

    def apart(self) -> "Pair":
        """A producer and a worker of a new queue, in processes of their own; the worker acknowledges every message."""

    def drain(self, payload: bytes, count: int, consumers: int) -> float | None:
        """Messages a second out of a backlog, each taken by one of the consumers and acknowledged. None: cannot."""

    def fail_over(self) -> Failover | None:
        """Kills the leader under a steady producer; the subject cannot be used afterwards. None: cannot."""

    def resident_bytes(self) -> list[int]:
        """The memory of each of its server processes."""

    def busy_s(self) -> float:
        """Processor time that all of its server processes have used so far."""
