"""Deliberate bugs of the client's calls and of its producer: errors that say too much, and records sent as new ones."""

from typing import Any, Final

from flotilla.client._core.routes import Routes
from flotilla.client.producer._batch import UNNUMBERED, Batch
from flotilla.client.producer._partition_lane import PartitionLane
from flotilla.sim.whole.mutants.mutant import WholeMutant
from flotilla.types.errors import FlotillaError


def _number_again(original: Any) -> Any:
    def send(self: PartitionLane, batch: Batch) -> None:
        batch.sequence = UNNUMBERED
        original(self, batch)

    return send


def _deny(original: Any) -> Any:
    def fail(self: PartitionLane, batch: Batch, error: FlotillaError) -> None:
        batch.is_unsure = False
        original(self, batch, error)

    return fail


def _keep_the_epoch(original: Any) -> Any:
    def begin_epoch(self: PartitionLane) -> None:
        epoch = self._epoch
        original(self)
        self._epoch = epoch

    return begin_epoch


def _learn_nothing(original: Any) -> Any:
    return lambda self, route, address: None


MUTANTS: Final = (
    WholeMutant(
        "number-again",
        "a batch that is sent again has a new number",
        ((PartitionLane, "_send", _number_again),),
        ("log",),
        ("slow-path", "reset", "kill"),
        seed=3,
    ),
    WholeMutant(
        "deny-batches",
        "a batch that may be stored is reported as not stored",
        ((PartitionLane, "_fail", _deny),),
        ("log",),
        ("slow-path", "cut-client", "cut"),
        60,
        seed=6,
    ),
    WholeMutant(
        "keep-the-epoch",
        "a producer begins again at 0 in the same epoch",
        ((PartitionLane, "_begin_epoch", _keep_the_epoch),),
        ("log",),
        ("slow-path", "cut-client", "cut"),
        60,
        seed=2,
    ),
    WholeMutant(
        "learn-nothing",
        "a client never learns of a new leader",
        ((Routes, "redirect", _learn_nothing), (Routes, "doubt", _learn_nothing)),
        ("log",),
        ("kill", "restart"),
    ),
)
