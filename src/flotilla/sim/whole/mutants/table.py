"""All deliberate bugs of the whole product, by name."""

from contextlib import AbstractContextManager
from typing import Final

from flotilla.sim.mutants.replacement import replaced
from flotilla.sim.whole.mutants import (
    client,
    clocks,
    consumer,
    deliveries,
    leases,
    moves,
    node,
    ownership,
    partition,
    queue,
    runtime,
    stages,
    stream,
    topics,
    transactions,
    trims,
)
from flotilla.sim.whole.mutants.mutant import WholeMutant

_MODULES: Final = (
    partition,
    queue,
    deliveries,
    leases,
    clocks,
    stream,
    ownership,
    transactions,
    trims,
    stages,
    client,
    consumer,
    node,
    runtime,
    moves,
    topics,
)

WHOLE_MUTANTS: Final[dict[str, WholeMutant]] = {mutant.name: mutant for each in _MODULES for mutant in each.MUTANTS}
assert len(WHOLE_MUTANTS) == sum(len(each.MUTANTS) for each in _MODULES)


def applied_whole(name: str) -> AbstractContextManager[None]:
    """The product with one bug in it."""
    return replaced(WHOLE_MUTANTS[name].replacements)
