"""Deliberate bugs of leaders that answer by themselves: too early, or after another one has taken over.

Rows for the table in `mutants`, with faults like those of `clocks`.
"""

from typing import Any, Final

from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.runtime.confirmations import Confirmations
from flotilla.runtime.pause_detector import PauseDetector
from flotilla.sim.mutants.clocks import AimedRow


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


ROWS: Final[tuple[AimedRow, ...]] = (
    (
        "no-grace",
        "a new leader delivers at once what others hold",
        ("transfer", "kill"),
        ((QueueLeader, "__init__", _deliver_at_once),),
    ),
    (
        "answer-cut-off",
        "a leader answers by itself after its links left no quorum",
        ("isolate", "partition"),
        ((Confirmations, "link_lost", _ignore_lost_links),),
    ),
    (
        "answer-after-pause",
        "a leader answers by itself after a pause in which it was replaced",
        ("pause",),
        ((PauseDetector, "pauses", _ignore_pauses),),
    ),
)
