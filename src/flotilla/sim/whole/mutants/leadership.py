"""Deliberate bugs of leaders that answer by themselves: too early, or after another one has taken over."""

from typing import Any, Final

from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.runtime.confirmations import Confirmations
from flotilla.runtime.pause_detector import PauseDetector
from flotilla.sim.whole.mutants.mutant import WholeMutant


def _deliver_at_once(original: Any) -> Any:
    def __init__(  # noqa: N807 -- it takes the place of one.
        self: QueueLeader, machine: Any, term: int, now_ms: int, random: Any, grace_ms: int, rules_of: Any, start: int
    ) -> None:
        original(self, machine, term, now_ms, random, 0, rules_of, start)

    return __init__


def _ignore_lost_links(original: Any) -> Any:
    return lambda self: None


def _ignore_pauses(original: Any) -> Any:
    return lambda self: 0


MUTANTS: Final = (
    WholeMutant(
        "no-grace",
        "a new leader delivers at once what others hold",
        ((QueueLeader, "__init__", _deliver_at_once),),
        ("queue",),
        ("kill", "isolate"),
    ),
    WholeMutant(
        "answer-cut-off",
        "a leader answers by itself after its links left no quorum",
        ((Confirmations, "link_lost", _ignore_lost_links),),
        ("queue",),
        ("isolate", "cut"),
    ),
    WholeMutant(
        "answer-after-pause",
        "a leader answers by itself after a pause in which it was replaced",
        ((PauseDetector, "pauses", _ignore_pauses),),
        ("queue",),
        ("pause",),
    ),
)
