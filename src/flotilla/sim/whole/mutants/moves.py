"""Deliberate bugs of moves: steps that are not reported, or reported too early."""

from typing import Any, Final

from flotilla.broker.cluster.moves import ReplicaMoves
from flotilla.metadata.move_commands import ConfirmLost, FinishMove
from flotilla.metadata.values import Partition
from flotilla.raft.messages import Configuration
from flotilla.sim.whole.mutants.mutant import WholeMutant


def _forward_all_but(kind: type) -> Any:
    def make(original: Any) -> Any:
        def forward(self: ReplicaMoves, command: ConfirmLost | FinishMove) -> None:
            if not isinstance(command, kind):
                original(self, command)

        return forward

    return make


def _finish_at_once(original: Any) -> Any:
    def confirm(self: ReplicaMoves, configuration: Configuration, place: Partition) -> None:
        original(self, configuration, place)
        if place.move is not None:
            self._forward(FinishMove(place.group, place.move.number, self._outside.now_ms()))

    return confirm


MUTANTS: Final = (
    WholeMutant(
        "never-finish-a-move",
        "the metadata never hear that a move is done",
        ((ReplicaMoves, "_forward", _forward_all_but(FinishMove)),),
        ("log",),
        ("add", "drain"),
    ),
    WholeMutant(
        "never-confirm-a-loss",
        "the metadata never hear that a lost replica is out",
        ((ReplicaMoves, "_forward", _forward_all_but(ConfirmLost)),),
        ("log",),
        ("wipe",),
    ),
    WholeMutant(
        "finish-at-once",
        "a move counts as done when it begins, and the replicas that leave are removed",
        ((ReplicaMoves, "_confirm", _finish_at_once),),
        ("log",),
        ("add", "drain"),
    ),
)
