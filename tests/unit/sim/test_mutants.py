"""Every mutant fits the code that it breaks: a name that moved would let it fail, or break nothing."""

import pytest

from flotilla.sim.mutants.mutants import MUTANTS, applied


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_replaces_what_is_there_and_puts_it_back(name: str) -> None:
    def current() -> list[object]:
        return [
            owner[key] if isinstance(owner, dict) else getattr(owner, key)
            for owner, key, _ in MUTANTS[name].replacements
        ]

    before = current()
    with applied(name):
        assert all(now is not then for now, then in zip(current(), before, strict=True))
    assert current() == before
