"""The reference page of delivery states is generated from the code. REWRITE=1 writes it again; read the diff."""

import os
import re

from flotilla.partition.explain.delivery_states import STATES, TRANSITIONS
from tests.tidy.delivery_states_page import PATH, render
from tests.tidy.markdown import table_rows
from tests.tidy.tree import ROOT


def page() -> str:
    return (ROOT / PATH).read_text("utf-8")


def test_the_page_is_fresh() -> None:
    if os.environ.get("REWRITE"):
        (ROOT / PATH).write_text(render(), "utf-8")
    assert page() == render(), "run REWRITE=1 pytest tests/tidy/test_delivery_states_docs.py"


def test_every_state_and_every_transition_has_a_row() -> None:
    rows = table_rows(page())
    assert [row[0] for row in rows if len(row) == 3][1:] == [state.name for state in STATES]
    assert [tuple(row[:3]) for row in rows if len(row) == 4][1:] == [
        (each.before, each.event, each.after) for each in TRANSITIONS
    ]


def test_every_drawn_arrow_is_a_transition() -> None:
    arrows = re.findall(r"^    (\w+) --> (\w+):", page(), re.MULTILINE)
    assert arrows
    assert set(arrows) <= {(each.before, each.after) for each in TRANSITIONS}
