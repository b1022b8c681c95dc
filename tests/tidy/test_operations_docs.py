"""The reference page of operations is generated from the code. REWRITE=1 writes it again; read the diff."""

import os

from flotilla.types.operations import OPERATIONS
from tests.tidy.markdown import table_rows
from tests.tidy.operations_page import PATH, render
from tests.tidy.tree import ROOT


def test_the_page_is_fresh() -> None:
    if os.environ.get("REWRITE"):
        (ROOT / PATH).write_text(render(), "utf-8")
    assert (ROOT / PATH).read_text("utf-8") == render(), "run REWRITE=1 pytest tests/tidy/test_operations_docs.py"


def test_every_operation_has_a_row_with_a_right() -> None:
    rows = table_rows((ROOT / PATH).read_text("utf-8"))[1:]
    assert [row[0] for row in rows] == sorted(OPERATIONS)
    assert all(row[1] for row in rows)
