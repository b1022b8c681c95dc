"""The reference page of topic and group settings is generated from the code. REWRITE=1 writes it again."""

import os

from flotilla.types.group_settings import GROUP_SETTINGS
from flotilla.types.topics import PARTITIONS, REPLICATION_FACTOR, SETTINGS
from tests.tidy.markdown import table_rows
from tests.tidy.topic_settings_page import _NOTES, PATH, render
from tests.tidy.tree import ROOT

NAMES = [row.name for row in (PARTITIONS, REPLICATION_FACTOR, *SETTINGS.values())]
GROUP_NAMES = [row.name for row in GROUP_SETTINGS.values()]


def page() -> str:
    return (ROOT / PATH).read_text("utf-8")


def test_the_page_is_fresh() -> None:
    if os.environ.get("REWRITE"):
        (ROOT / PATH).write_text(render(), "utf-8")
    assert page() == render(), "run REWRITE=1 pytest tests/tidy/test_topic_settings_docs.py"


def test_every_setting_has_a_row() -> None:
    keys = [row[0] for row in table_rows(page()) if len(row) == 4 and row[0] != "setting"]
    assert keys == NAMES + GROUP_NAMES


def test_every_note_belongs_to_a_setting() -> None:
    assert set(_NOTES) <= {*NAMES, *GROUP_NAMES}
