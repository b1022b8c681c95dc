"""Deliberate bugs of time: each lets the wall clock of one node decide.

Rows for the table in `mutants`: a name, the mistake, faults that bring it about where the drawn ones seldom do,
and what to put in the place of what.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from flotilla.broker import cluster_clock
from flotilla.broker.cluster_clock import ClusterClock
from flotilla.broker.log_upkeep import LogUpkeep

AimedRow: TypeAlias = tuple[str, str, tuple[str, ...] | None, tuple[tuple[Any, str, Callable[[Any], Any]], ...]]


class _OwnTime:
    """The clocks of a node, with its wall clock in the place of cluster time."""

    def __init__(self, host: Any) -> None:
        self.now_ms = host.node.now_ms
        self.steady_ms = host.steady_ms

    def is_time_trusted(self) -> bool:
        return True


def _own_clock(original: Any) -> Any:
    def now_ms(self: ClusterClock) -> int:
        original(self)
        return self._machine.now_ms()

    return now_ms


def _own_retention(original: Any) -> Any:
    def command(self: LogUpkeep, settings: Any) -> Any:
        if not isinstance(self._time, _OwnTime):
            self._time = _OwnTime(self._time)
        return original(self, settings)

    return command


def _latest_clock(original: Any) -> Any:
    return lambda offsets, quorum: offsets[-1]


def _own_beginning(original: Any) -> Any:
    def may_lead(self: ClusterClock) -> bool:
        self.now_ms()
        if not self._is_set:
            self._is_set = self._is_confirmed = True
            self._now_ms = self._machine.now_ms()
        return True

    return may_lead


#: The clock that jumps decides only while its node leads, so leaders have to change often.
_OTHER_LEADERS: Final = ("transfer", "isolate")

ROWS: Final[tuple[AimedRow, ...]] = (
    ("own-clock", "a leader goes by its own wall clock", None, ((ClusterClock, "now_ms", _own_clock),)),
    (
        "own-retention",
        "ages and stamps follow the leader's wall clock",
        _OTHER_LEADERS,
        ((LogUpkeep, "command", _own_retention),),
    ),
    ("latest-clock", "the latest of all clocks is believed", None, ((cluster_clock, "agreed", _latest_clock),)),
    ("own-beginning", "a node begins with its own wall clock", None, ((ClusterClock, "may_lead", _own_beginning),)),
)
