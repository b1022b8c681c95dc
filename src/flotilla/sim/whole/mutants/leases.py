"""Deliberate bugs of leases that go from one leader to the next."""

from typing import Any, Final

from flotilla.partition.commands.hand_over import HandOver
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.state.machine import PartitionMachine
from flotilla.sim.whole.mutants.mutant import WholeMutant


def _trust_any(original: Any) -> Any:
    def hand_over_at(self: PartitionMachine, index: int) -> HandOver | None:
        return None if self._hand_over is None else self._hand_over[1]

    return hand_over_at


def _forget_one(original: Any) -> Any:
    def hand_over(self: QueueLeader, now_ms: int) -> HandOver | None:
        made: HandOver | None = original(self, now_ms)
        if made is None:
            return None
        groups = [group._replace(leases=group.leases[:-1]) for group in made.groups]
        return HandOver(made.now_ms, tuple(groups))

    return hand_over


MUTANTS: Final = (
    WholeMutant(
        "trust-old-hand-over",
        "a new leader takes over leases that were handed over to another one before it",
        ((PartitionMachine, "hand_over_at", _trust_any),),
        ("queue",),
        ("transfer", "restart", "kill", "isolate"),
    ),
    WholeMutant(
        "hand-over-forgets",
        "a leader does not hand over the last lease of each group",
        ((QueueLeader, "hand_over", _forget_one),),
        ("queue",),
        ("transfer", "restart", "roll"),
    ),
)
