"""The reference page of settings is generated from the code. REWRITE=1 writes it again; read the diff."""

import os
import re
import tomllib
from pathlib import Path

from flotilla.runtime.settings_loader import load_settings
from flotilla.types.settings import SETTINGS, NodeSettings, OriginKind
from tests.tidy.markdown import prose, table_rows
from tests.tidy.settings_page import PATH, render
from tests.tidy.tree import ROOT


def page() -> str:
    return (ROOT / PATH).read_text("utf-8")


def test_the_page_is_fresh() -> None:
    if os.environ.get("REWRITE"):
        (ROOT / PATH).write_text(render(), "utf-8")
    assert page() == render(), "run REWRITE=1 pytest tests/tidy/test_settings_docs.py"


def test_every_setting_has_a_row() -> None:
    keys = [row[0] for row in table_rows(page()) if len(row) == 5 and row[0] != "key"]
    assert keys == [setting.name for setting in SETTINGS.values()]


def test_no_cell_breaks_its_table() -> None:
    assert {len(row) for row in table_rows(page())} == {3, 5}


def test_every_key_that_the_page_speaks_of_exists() -> None:
    known = {setting.name for setting in SETTINGS.values()}
    spoken = set(re.findall(r"`([a-z]+_[a-z_]+)`", prose(page())))
    assert spoken <= known


def test_the_file_on_the_page_gives_the_defaults(tmp_path: Path) -> None:
    block = re.search(r"```toml\n(.*?)```", page(), re.DOTALL)
    assert block
    file = tmp_path / "flotilla.toml"
    file.write_text(block[1], "utf-8")
    assert list(tomllib.loads(block[1])) == [setting.name for setting in SETTINGS.values()]
    loaded = load_settings({}, {}, file)
    assert loaded.settings == NodeSettings()
    assert {origin.kind for origin in loaded.origins.values()} == {OriginKind.FILE}
