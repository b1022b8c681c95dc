"""The history of what clients saw, and the check that one list of commands explains all of it.

An operation has a start, an end and an outcome: done, certainly not done, or unknown (which may have
happened once, or not at all, at any time after its start). The final list is the truth that the
replicas agree on after the run. The checks, each near-linear in the number of operations:

* an acknowledged append stands at the position of its answer, and nowhere else;
* nothing stands there twice, nothing that was certainly not done, nothing that no client sent;
* a read saw a prefix of the list, as it was;
* real time holds: when one operation ended before another began, the list does not say otherwise.

The last one is linearizability. An append at position p takes effect at rank 2p + 1, a read of length
n at rank 2n (after the append that made that length, before the next); so a history is linearizable
if and only if no operation that begins after another ended has a lower rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from flotilla.sim.ledger.machine import fold

#: Outcomes.
UNKNOWN = 0
DONE = 1
NOT_DONE = 2

#: Kinds.
APPEND = 1
READ = 2

NEVER_US = 1 << 62


@dataclass(slots=True)
class Operation:
    """One call of one client. A retry is another operation with another id."""

    identity: int
    kind: int
    start_us: int
    end_us: int = NEVER_US
    outcome: int = UNKNOWN
    #: Of an append: its position. Of a read: the length of the list it saw.
    position: int = -1
    #: Of a read: the digest of what it saw.
    digest: int = 0


@dataclass(slots=True)
class History:
    """All operations of a run, in the order of their start."""

    operations: list[Operation] = field(default_factory=list)

    def begin(self, kind: int, now_us: int) -> Operation:
        operation = Operation(identity=len(self.operations) + 1, kind=kind, start_us=now_us)
        self.operations.append(operation)
        return operation

    def count(self, kind: int, outcome: int) -> int:
        return sum(1 for operation in self.operations if operation.kind == kind and operation.outcome == outcome)


def check_history(operations: Sequence[Operation], final: Sequence[int]) -> list[str]:
    """Every way in which the final list fails to explain the operations; empty when it does."""
    appends = {operation.identity: operation for operation in operations if operation.kind == APPEND}
    places: dict[int, int] = {}
    problems = []
    for position, identity in enumerate(final):
        if identity in places:
            problems.append(f"append {identity} stands twice: at {places[identity]} and {position}")
        elif identity not in appends:
            problems.append(f"append {identity} at {position} was sent by no client")
        elif appends[identity].outcome == NOT_DONE:
            problems.append(f"append {identity} at {position} was answered as certainly not done")
        places.setdefault(identity, position)
    for operation in appends.values():
        if operation.outcome == DONE and places.get(operation.identity) != operation.position:
            found = places.get(operation.identity)
            where = "is lost" if found is None else f"stands at {found}"
            problems.append(f"append {operation.identity} was acknowledged at {operation.position} and {where}")
    problems += _check_reads(operations, final)
    problems += _check_real_time(operations, places)
    return problems


def _check_reads(operations: Sequence[Operation], final: Sequence[int]) -> list[str]:
    digests = [0]
    for identity in final:
        digests.append(fold(digests[-1], identity))
    problems = []
    for operation in operations:
        if operation.kind == READ and operation.outcome == DONE:
            if operation.position >= len(digests):
                problems.append(f"read {operation.identity} saw {operation.position} commands of {len(final)}")
            elif operation.digest != digests[operation.position]:
                problems.append(f"read {operation.identity} saw other commands than the first {operation.position}")
    return problems


def _check_real_time(operations: Sequence[Operation], places: dict[int, int]) -> list[str]:
    """Sweeps over starts and ends: an operation must not rank below the highest one that ended before it began."""
    ranked: list[tuple[int, Operation]] = []
    for operation in operations:
        if operation.kind == READ:
            if operation.outcome == DONE:
                ranked.append((2 * operation.position, operation))
        elif operation.identity in places:
            ranked.append((2 * places[operation.identity] + 1, operation))
    by_start = sorted(ranked, key=lambda pair: (pair[1].start_us, pair[1].identity))
    by_end = sorted(
        (pair for pair in ranked if pair[1].outcome == DONE), key=lambda pair: (pair[1].end_us, pair[1].identity)
    )
    problems = []
    ended = 0
    highest = -1
    holder: Operation | None = None
    for rank, operation in by_start:
        while ended < len(by_end) and by_end[ended][1].end_us < operation.start_us:
            if by_end[ended][0] > highest:
                highest, holder = by_end[ended]
            ended += 1
        if rank < highest and holder is not None:
            problems.append(f"{_name(operation)} began after {_name(holder)} ended, yet comes before it")
    return problems


def _name(operation: Operation) -> str:
    if operation.kind == READ:
        return f"read {operation.identity} of {operation.position} commands"
    return f"append {operation.identity}"
