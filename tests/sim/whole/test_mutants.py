"""A few deliberate bugs of the whole product are caught within a few seeds. `make mutants` tries all of them."""

import pytest

from flotilla.sim.whole.mutants.table import WHOLE_MUTANTS
from flotilla.sim.whole.swarm import find_catch

#: With the promise that breaks.
QUICK = {
    "fetch-unconfirmed": "a linearizable read shows what was acknowledged",
    "dial-once": "progress after healing",
    "bury-unarrived": "dead-lettered once",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_caught(name: str) -> None:
    caught = find_catch(name, range(1, 4), workers=1)
    assert caught is not None, f"{WHOLE_MUTANTS[name].mistake}, and no judge noticed"
    assert caught.promise == QUICK[name]
