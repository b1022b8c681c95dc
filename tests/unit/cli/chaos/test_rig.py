"""Patience of a chaos run: it ends when nothing moves, however much there is to do."""

import asyncio
from random import Random
from typing import Any, cast

import pytest

from flotilla.cli.chaos.scenario import rig as rig_module
from flotilla.cli.chaos.scenario.rig import Rig


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig_module, "WHOLE_S_MAX", 0.3)
    monkeypatch.setattr(rig_module, "_POLL_S", 0.05)


def wait(left: list[int], stops_at: int) -> Rig:
    """Each look finds one less, down to a number."""
    nothing = cast("Any", None)
    rig = Rig(nothing, nothing, nothing, Random(1), lambda text: None)

    async def look() -> str:
        left[0] = max(left[0] - 1, stops_at)
        return f"{left[0]} left" if left[0] else ""

    asyncio.run(rig.wait_until(look, "all is done", left=lambda: left[0]))
    return rig


def test_what_moves_is_waited_for():
    assert wait([20], 0).findings == []


def test_what_stands_still_is_a_finding():
    (finding,) = wait([20], 7).findings
    assert finding.rule == "all is done"
    assert finding.text.endswith("7 left")
