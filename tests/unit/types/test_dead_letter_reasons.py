"""Reasons of failures: cut by bytes, with the innermost lines of a traceback."""

import pytest

from flotilla.types.dead_letters import cut_reason, summary, with_traceback
from flotilla.types.limits import REASON_BYTES_MAX

PLACE = '\n  File "shop/tasks.py", line {}, in handle\n    send(mail)'


@pytest.mark.parametrize("character", ["x", "é", "猫", "😀", "\ud800"])
def test_reasons_are_cut_by_bytes(character: str) -> None:
    cut = cut_reason(character * REASON_BYTES_MAX)
    assert REASON_BYTES_MAX - 8 <= len(cut.encode()) <= REASON_BYTES_MAX
    assert cut_reason("short") == "short"


@pytest.mark.parametrize("text", ["OSError: busy", "OSError: " + "x" * 900, "OSError: " + "x" * 2000, ""])
@pytest.mark.parametrize("count", [0, 1, 3, 100])
def test_the_innermost_places_are_kept(text: str, count: int) -> None:
    places = [PLACE.format(number) for number in range(count)]
    reason = with_traceback(text, places)
    assert len(reason.encode()) <= REASON_BYTES_MAX
    assert summary(reason) == cut_reason(text)
    kept = reason.removeprefix(summary(reason))
    assert "".join(places).endswith(kept)
    room = REASON_BYTES_MAX - len(reason.encode())
    assert len(kept) == len("".join(places)) or room < len(PLACE.format(99)), "as many as fit"
