"""Deliberate bugs of retention: messages that go though they are young, or go uncounted."""

from typing import Any, Final

from flotilla.broker.retention import Retention
from flotilla.partition.state.group_table import GroupTable
from flotilla.sim.whole.mutants.mutant import WholeMutant
from flotilla.types.ids import Offset
from flotilla.types.topics import TopicSettings


def _one_too_many(original: Any) -> Any:
    def excess(self: Retention, settings: TopicSettings) -> Offset:
        found: Offset = original(self, settings)
        return found + 1 if found > self._machine.log_start else found

    return excess


def _count_nothing(original: Any) -> Any:
    def trim(self: GroupTable, log_start: Offset) -> None:
        before = {name: queue.totals.trimmed for name, queue in self.queues.items()}
        original(self, log_start)
        for name, count in before.items():
            self.queues[name].totals.trimmed = count

    return trim


MUTANTS: Final = (
    WholeMutant(
        "one-too-many",
        "retention by count removes a message too many",
        ((Retention, "_excess", _one_too_many),),
        ("trimmed",),
        None,
    ),
    WholeMutant(
        "count-no-trim",
        "what retention has removed is not counted",
        ((GroupTable, "trim", _count_nothing),),
        ("trimmed",),
        None,
    ),
)
