"""Deliberate bugs of time: each lets the wall clock of one broker decide."""

from typing import Any, Final

from flotilla import machine
from flotilla.broker.cluster_clock import ClusterClock
from flotilla.broker.log_upkeep import LogUpkeep
from flotilla.sim.whole.mutants.mutant import WholeMutant


class _OwnTime:
    """The clocks of a broker, with its wall clock in the place of cluster time."""

    def __init__(self, time: Any) -> None:
        self.now_ms = machine.now_ms
        self.steady_ms = time.steady_ms

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


#: The clock that jumps decides only while its node leads, so leaders have to change often.
_OTHER_LEADERS: Final = ("transfer", "isolate")

MUTANTS: Final = (
    WholeMutant(
        "own-clock",
        "a leader goes by its own wall clock",
        ((ClusterClock, "now_ms", _own_clock),),
        ("queue",),
        ("jump", *_OTHER_LEADERS),
        60,
    ),
    WholeMutant(
        "own-retention",
        "ages and stamps follow the leader's wall clock",
        ((LogUpkeep, "command", _own_retention),),
        ("queue",),
        ("jump", *_OTHER_LEADERS),
        60,
    ),
)
