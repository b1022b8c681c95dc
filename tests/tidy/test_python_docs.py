"""The reference page of the Python API is generated from the code. REWRITE=1 writes it again; read the diff."""

import os
import re

from tests.tidy.python_page import PATH, PUBLIC, names, render
from tests.tidy.tree import ROOT


def test_the_page_is_current() -> None:
    page = ROOT / PATH
    if os.environ.get("REWRITE"):
        page.write_text(render(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == render(), "run REWRITE=1 pytest tests/tidy/test_python_docs.py"


def test_every_public_name_is_on_the_page() -> None:
    text = (ROOT / PATH).read_text(encoding="utf-8")
    sections = re.findall(r"^## (\w+)$", text, re.MULTILINE)
    assert [name for name in sections if name in names()] == names()
    for name in PUBLIC:
        assert f"`{name}`" in text or name in sections, name
