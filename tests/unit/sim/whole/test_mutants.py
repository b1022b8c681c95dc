"""Every mutant of the whole product fits the code that it breaks, and names runs that there are."""

import pytest

from flotilla.sim.whole.faults import FAULTS
from flotilla.sim.whole.mutants.table import WHOLE_MUTANTS, applied_whole
from flotilla.sim.whole.run import WORKLOADS
from flotilla.sim.whole.swarm import mutant_order


@pytest.mark.parametrize("name", WHOLE_MUTANTS)
def test_a_mutant_replaces_what_is_there_and_puts_it_back(name: str) -> None:
    def current() -> list[object]:
        return [
            owner[key] if isinstance(owner, dict) else getattr(owner, key)
            for owner, key, _ in WHOLE_MUTANTS[name].replacements
        ]

    before = current()
    with applied_whole(name):
        assert all(now is not then for now, then in zip(current(), before, strict=True))
    assert current() == before


@pytest.mark.parametrize("name", WHOLE_MUTANTS)
def test_the_runs_of_a_mutant_can_be_made_and_repeated(name: str) -> None:
    mutant, order = WHOLE_MUTANTS[name], mutant_order(name)
    assert mutant.workloads
    assert set(mutant.workloads) <= set(WORKLOADS)
    assert set(mutant.faults or ()) <= set(FAULTS)
    assert order.plan(1).workloads == mutant.workloads
    assert order.command(1).endswith(f"--mutant {name}")
