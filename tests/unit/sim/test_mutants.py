"""Every mutant fits the code that it breaks: a name that moved would let it fail, or break nothing."""

from collections.abc import Callable

import pytest

from flotilla.sim.mutants.mutants import MUTANTS, applied
from tests.unit.raft import test_repair_ends as repair_ends

#: Mutants that a swarm meets once in many seeds, and the test that brings their case about itself.
AIMED: dict[str, Callable[[], None]] = {
    "damaged-no-vote": repair_ends.test_a_leader_is_elected_by_a_replica_whose_damaged_tail_only_a_leader_can_drop,
    "keep-conflict": repair_ends.test_the_damaged_tail_of_a_deposed_leader_gives_way_to_a_compacted_log,
    "step-down-unnoticed": repair_ends.test_a_leader_that_steps_down_for_damage_wakes_its_group,
}


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


@pytest.mark.parametrize("name", AIMED)
def test_caught_for_certain(name: str) -> None:
    AIMED[name]()
    with applied(name), pytest.raises(AssertionError):
        AIMED[name]()
