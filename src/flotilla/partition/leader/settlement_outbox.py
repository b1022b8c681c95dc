"""The outbox of one group: settlements that the next command of the leader takes to the log.

Each piece keeps what it takes to undo it, because the log can refuse a command. Then a lease that its member settled
goes on as before. A settlement that no member asked for (a lease that expired) goes into the next command.
"""

from collections.abc import Iterable
from typing import NamedTuple

from flotilla.partition.commands.partition_commands import AckedResult, DeadRun, FailedRun, GroupSettlement
from flotilla.partition.leader.leases import Lease
from flotilla.partition.leader.places import ACKING, DROPPING, EXPIRING, FAILING, KILLING
from flotilla.partition.offset_runs import Run
from flotilla.types.ids import Index, Offset


class Piece(NamedTuple):
    """Neighbouring messages with the same outcome."""

    #: One of the settling places.
    kind: int
    first: Offset
    end: Offset
    #: None: no lease held them.
    lease: Lease | None = None
    deadline_ms: int = 0
    #: No member waits for the answer or asks again.
    is_unasked: bool = False
    not_before_ms: int = 0
    reason: str = ""
    #: Of an ack.
    results: tuple[AckedResult, ...] = ()

    @property
    def results_bytes(self) -> int:
        return sum([len(result.payload) for result in self.results])


class SettlementOutbox:
    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, piece: Piece) -> None:
        self._pieces.append(piece)

    def take(self, limit: int, bytes_max: int) -> list[Piece]:
        """The oldest pieces, at most `limit`, and until their results have this many bytes."""
        for count, piece in enumerate(self._pieces[:limit], 1):
            if piece.results:
                bytes_max -= piece.results_bytes
                if bytes_max <= 0:
                    limit = count
                    break
        if len(self._pieces) <= limit:
            taken = self._pieces
            self._pieces = []
            return taken
        taken = self._pieces[:limit]
        del self._pieces[:limit]
        return taken


def settlement_of(group: str, generation: Index, pieces: list[Piece]) -> GroupSettlement:
    """The pieces as the log has them."""
    by_kind: dict[int, list[Piece]] = {}
    for piece in pieces:
        by_kind.setdefault(piece.kind, []).append(piece)
    failed = [FailedRun(each.first, each.end, each.not_before_ms, each.reason) for each in by_kind.get(FAILING, ())]
    return GroupSettlement(
        group=group,
        acked=_runs(by_kind.get(ACKING, ())),
        expired=_runs(by_kind.get(EXPIRING, ())),
        failed=tuple(failed),
        dead=tuple([DeadRun(each.first, each.end, each.reason) for each in by_kind.get(KILLING, ())]),
        dropped=_runs(by_kind.get(DROPPING, ())),
        generation=generation,
        results=tuple([result for each in by_kind.get(ACKING, ()) for result in each.results]),
    )


def _runs(pieces: Iterable[Piece]) -> tuple[Run, ...]:
    """Neighbours as one."""
    runs: list[Run] = []
    for first, end in sorted([(piece.first, piece.end) for piece in pieces]):
        if runs and runs[-1][1] >= first:
            runs[-1] = (runs[-1][0], max(end, runs[-1][1]))
        else:
            runs.append((first, end))
    return tuple(runs)
