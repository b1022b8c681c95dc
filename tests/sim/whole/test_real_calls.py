"""A run calls no clock, thread, socket or randomness of the real machine: looked at while it runs."""

import random
import sys
from types import FrameType
from typing import Any

import pytest

from flotilla.sim.devices.world import SECOND
from flotilla.sim.whole.plan import WholePlan
from flotilla.sim.whole.run import simulate_whole

#: Modules of which nothing may be called; of `_random` only the generator that all programs share.
FORBIDDEN = ("_socket", "_thread", "posix", "select", "time")
#: The simulator itself may count how long a run takes.
BESIDE = ("flotilla.sim.swarm",)


def forbidden_calls(run: Any) -> set[tuple[str, str]]:
    """(module, function) of each call that code of the package makes while `run` runs."""
    found: set[tuple[str, str]] = set()

    def look(frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call":
            return
        is_shared = isinstance(called.__self__, random.Random) and called.__self__ is random._inst  # type: ignore[attr-defined]
        if is_shared or called.__module__ in FORBIDDEN:
            name = frame.f_globals.get("__name__", "")
            if name.startswith("flotilla.") and name not in BESIDE:
                found.add((name, called.__qualname__))

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.slow
def test_a_run_calls_nothing_of_the_real_machine() -> None:
    plan = WholePlan(3, nodes=3, duration_us=2 * SECOND, faults=("kill", "power"), workloads=("log", "tasks"))
    # What is made once in the life of a process is not made during the second run.
    simulate_whole(WholePlan(1, nodes=3, duration_us=1, faults=(), workloads=("log",)))
    results = []
    assert forbidden_calls(lambda: results.append(simulate_whole(plan))) == set()
    assert results[0].is_good, results[0].failure


@pytest.mark.parametrize(
    "code", ["import time; time.monotonic()", "import random; random.random()", "import os; os.getpid()"]
)
def test_a_call_of_the_real_machine_is_seen(code: str) -> None:
    compiled = compile(code, "somewhere", "exec")
    assert forbidden_calls(lambda: exec(compiled, {"__name__": "flotilla.broker.broker"}))
