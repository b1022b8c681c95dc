"""A deliberate bug of the whole product, and the runs that can catch it."""

from dataclasses import dataclass
from typing import Final

from flotilla.sim.devices.world import MS
from flotilla.sim.mutants.replacement import Replacement

#: Long enough for most: a run also has a start and a calm end.
MUTANT_S: Final = 30
#: Between two faults: few kinds strike, and often, so that a run meets what it takes.
MUTANT_FAULT_INTERVAL_US: Final = 1_500 * MS


@dataclass(frozen=True, slots=True)
class WholeMutant:
    name: str
    mistake: str
    replacements: tuple[Replacement, ...]
    #: The workloads whose judges can catch it.
    workloads: tuple[str, ...]
    #: The faults that bring about what it takes; None: drawn ones, empty: none.
    faults: tuple[str, ...] | None = ()
    duration_s: int = MUTANT_S
    #: One that has caught it, to be tried first.
    seed: int = 1
