"""Deliberate bugs of a partition at its broker: answers that come too early, and reads that ask too few."""

from typing import Any, Final

from flotilla.broker.partition.fetch import Fetches
from flotilla.broker.partition.long_polls import LongPolls
from flotilla.broker.partition.pending_batch import PendingBatch
from flotilla.broker.ports import Cancel, Done
from flotilla.sim.whole.mutants.mutant import WholeMutant
from flotilla.types.ids import Offset
from flotilla.types.operations import Fetch, Produced


def _answer_unstored(original: Any) -> Any:
    def propose(self: PendingBatch, base_offset: Offset) -> None:
        original(self, base_offset)
        # The second answer to a request is dropped.
        self._done(Produced(base_offset))

    return propose


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
