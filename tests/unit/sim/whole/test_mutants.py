"""Every mutant of the whole product fits the code that it breaks, and names runs that there are."""

import inspect

import pytest

from flotilla.sim.whole.faults.faults import FAULTS
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


def _names(function: object) -> list[str]:
    """Its parameters; empty: it takes any, or is no function."""
    if not inspect.isfunction(function):
        return []
    parameters = inspect.signature(function).parameters.values()
    takes_any = any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters)
    return [] if takes_any else [each.name for each in parameters]


@pytest.mark.parametrize("name", WHOLE_MUTANTS)
def test_a_mutant_takes_what_the_original_takes(name: str) -> None:
    """One that fails when it is called would be caught for that, and not for its mistake."""
    for owner, key, _ in WHOLE_MUTANTS[name].replacements:
        if isinstance(owner, dict):
            continue
        before = _names(getattr(owner, key))
        with applied_whole(name):
            after = _names(getattr(owner, key))
        assert not before or not after or len(before) == len(after)
