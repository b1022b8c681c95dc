"""Events that a swarm of whole runs must reach: one that no run reaches is a hole in the test.

The list is closed: a test compares it with what runs count. Most are seen in the product's own
log, its counters and its state; the others are told by the faults. docs/simulation.md explains them.
"""

import logging
from collections.abc import Iterable
from typing import Final

from flotilla.sim.whole.process import Host
from flotilla.sim.whole.sockets import Internet

#: By name, with what it means.
SOMETIMES: Final[dict[str, str]] = {
    "leader changed while a call was open": "a partition got a new leader while a client waited for an answer",
    "all brokers lost power": "no broker was left, and all came back",
    "term without leader": "an election was held without a winner",
    "commit of an older term": "a new leader finished what an earlier one had begun",
    "voter added": "a group got a voter more",
    "voter removed": "a group lost a voter",
    "leader removed": "the leader of a group was removed from it",
    "entry repaired": "a damaged entry was fetched from another replica",
    "damaged tail dropped": "a damaged end of a log was dropped",
    "quiesced": "a partition without work went to sleep",
    "woken": "a partition that slept was woken up",
    "snapshot installed": "a replica got its state as a snapshot instead of by entries",
    "snapshot installed during a move": "a replica of a partition got a snapshot while its replicas were moved",
    "power lost in a disk operation": "the power failed in the middle of a write, a sync or a rename",
    "torn write dropped": "a start found a torn end of the journal and dropped it",
    "doubtful entries found": "a start found entries that may be torn, and other replicas decided",
    "journal failed": "a write or sync of the journal failed, and the broker stopped leading",
    "damage found": "a read met damaged bytes",
    "broker ended by its disk": "a broker could not start on its disk, and started later",
    "node refused for lost disk": "a broker with an empty disk founded nothing, because the cluster exists",
    "wiped broker came back": "a broker joined again after its disk was lost",
    "earlier disk refused": "a broker whose disk was put back to an earlier state was refused, and ended",
    "broker replaced": "a new broker took the place of one that is lost for good",
    "broker added": "a broker joined the running cluster",
    "broker removed": "a broker was removed, and ended",
    "broker drained": "a broker gave its replicas to others, and got them back",
    "partition moved": "the replicas of a partition were moved while in use",
    "leadership transferred": "an operator had another replica lead",
    "clock jumped": "the wall clock of one broker was set",
    "clock jump not acted upon": "a broker noticed that its clock jumped, and did not follow it",
    "dial met a full queue": "an accept queue was full when a client or a peer dialled",
    "client met a full accept queue": "an accept queue was full when a client dialled",
    "accept failed for descriptors": "accepting a connection failed because no descriptor was left",
    "peer refused": "a broker refused the link of another one",
    "healed a core only": "a majority went on while the rest stayed broken for ever",
    "settings differed": "brokers of a cluster had different settings",
    "a client leaves": "a client closed and another took its place",
    "client paused": "a client was paused, and went on later",
    "a client dies": "a client was killed, and another took its place",
    "change of unknown outcome": "a client did not learn whether a topic was made, altered or deleted",
    "commit of unknown outcome": "a client did not learn whether its transaction was committed, and asked again",
    "transaction decided after its coordinator died": "a transaction of a client that was killed was decided later",
    "left transaction was aborted": "nobody had decided a transaction of a dead client",
    "left transaction was committed": "a client died after its commit was decided, and before it was told",
    "lease re-presented to a new leader": "a member kept a lease of an earlier leader under a new one",
    "log trimmed": "retention removed the oldest messages of a partition",
    "message trimmed": "retention removed a message that a group was owed and does not hold",
    "outcome unknown": "a client was told that the outcome of its call is not known",
}
#: What the product says in its log, as the start of the sentence.
_SAID: Final[dict[str, str]] = {
    "a torn write was dropped": "torn write dropped",
    "entries may be torn or rotten": "doubtful entries found",
    "journal writes fail": "journal failed",
    "stored data are damaged": "damage found",
    "founds no cluster": "node refused for lost disk",
    "this node's wall clock jumped": "clock jump not acted upon",
    "refused a peer": "peer refused",
}


class Sometimes:
    """Counts of one run."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(SOMETIMES, 0)

    def seen(self, event: str, count: int = 1) -> None:
        self.counts[event] = self.counts.get(event, 0) + count


class LogWatch(logging.Handler):
    """Listens to the product's log during one run. Nothing of it is written anywhere."""

    def __init__(self, sometimes: Sometimes) -> None:
        super().__init__(logging.WARNING)
        self._sometimes = sometimes
        self._logger = logging.getLogger("flotilla")
        self._had_propagated = True

    def __enter__(self) -> "LogWatch":
        self._had_propagated, self._logger.propagate = self._logger.propagate, False
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._had_propagated

    def emit(self, record: logging.LogRecord) -> None:
        for start, event in _SAID.items():
            if record.msg.startswith(start):
                self._sometimes.seen(event)


def count_outcomes(sometimes: Sometimes, unknown: int, internet: Internet, brokers: Iterable[Host]) -> None:
    """What is known at the end of a run only."""
    of_brokers = sum(internet.full_queues.get(host, 0) for host in brokers)
    of_all = sum(internet.full_queues.values())
    sometimes.seen("outcome unknown", unknown)
    sometimes.seen("dial met a full queue", of_all)
    sometimes.seen("client met a full accept queue", of_all - of_brokers)
    sometimes.seen("accept failed for descriptors", internet.failed_accepts)


def missing(totals: dict[str, int]) -> list[str]:
    """Events that no run has reached."""
    return [event for event in SOMETIMES if not totals.get(event)]
