"""Deliberate bugs of a partition at its broker: answers that come too early, and reads that ask too few."""

from typing import Any, Final

from flotilla.broker.partition.fetch import Fetches
from flotilla.broker.partition.host import PartitionHost
from flotilla.broker.partition.long_polls import LongPolls
from flotilla.broker.partition.pending_batch import PendingBatch
from flotilla.broker.ports import Cancel, Done
from flotilla.sim.whole.mutants.mutant import WholeMutant
from flotilla.types.errors import NotFoundError
from flotilla.types.ids import Offset
from flotilla.types.operations import Fetch, OffsetCommitted, OffsetFound, Produced, ReadOffset


def _answer_unstored(original: Any) -> Any:
    def propose(self: PendingBatch, base_offset: Offset) -> None:
        original(self, base_offset)
        # The second answer to a request is dropped.
        self._done(Produced(base_offset))

    return propose


def _answer_repeats_unstored(original: Any) -> Any:
    return lambda self, done, reply: done(reply)


def _find_the_end_alone(original: Any) -> Any:
    return lambda self, done: done(OffsetFound(self.machine.next_offset))


def _find_positions_alone(original: Any) -> Any:
    def read_offset(self: PartitionHost, request: ReadOffset, done: Done) -> None:
        self._serving()
        position = self.machine.positions.get(request.group)
        done(NotFoundError("no position") if position is None else OffsetCommitted(position.offset))

    return read_offset


def _confirm_nothing(original: Any) -> Any:
    def fetch(self: Fetches, request: Fetch, done: Done) -> Cancel | None:
        self._admit(request)
        return self._serve(request, done)

    return fetch


def _never_finish(original: Any) -> Any:
    return lambda self, parked: None


MUTANTS: Final = (
    WholeMutant(
        "answer-unstored",
        "a produce is answered before its batch is stored",
        ((PendingBatch, "propose", _answer_unstored),),
        ("log",),
        ("cut", "one-way"),
    ),
    WholeMutant(
        "answer-repeats-unstored",
        "a repeated produce is answered before its batch is stored",
        ((PendingBatch, "join", _answer_repeats_unstored),),
        ("log",),
        ("reset", "isolate", "cut", "one-way", "cut-client", "kill"),
        60,
    ),
    WholeMutant(
        "end-alone",
        "a leader tells the end of the log without asking a quorum",
        ((PartitionHost, "_list_latest", _find_the_end_alone),),
        ("readers",),
        ("cut", "one-way"),
        60,
    ),
    WholeMutant(
        "positions-alone",
        "a leader tells positions of groups without asking a quorum",
        ((PartitionHost, "read_offset", _find_positions_alone),),
        ("stream",),
        ("cut", "one-way"),
        60,
    ),
    WholeMutant(
        "fetch-unconfirmed",
        "a linearizable fetch asks no quorum",
        ((Fetches, "fetch", _confirm_nothing),),
        ("readers",),
        ("isolate", "cut", "one-way"),
    ),
    WholeMutant(
        "fetch-never-answered",
        "a parked fetch is never answered",
        ((LongPolls, "_finish", _never_finish),),
        ("stream",),
    ),
)
