"""Every action of the web console shows a command line, and every command that a page names exists."""

import re
from pathlib import Path

import pytest

from tests.tidy.cli_page import verbs
from tests.tidy.tree import ROOT

PAGES = sorted((ROOT / "src/flotilla/console/pages").glob("*.js"))
#: Where a page makes the request of an action; `request` is that of one which alters settings.
REQUEST = re.compile(r"\b(?:build|request): (?:\(|_ =>|values =>)")
COMMAND = re.compile(r'\bcli\("([a-z-]+)"(?:, "([a-z-]+)")?')


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_action_has_a_command(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(REQUEST.findall(text)) == len(re.findall(r"\bcli: (?!\"\")", text))


def test_every_command_exists() -> None:
    found = {" ".join(filter(None, words)) for page in PAGES for words in COMMAND.findall(page.read_text("utf-8"))}
    assert len(found) > 25
    assert found - set(verbs()) == set()


def test_there_are_actions() -> None:
    assert sum(len(REQUEST.findall(page.read_text("utf-8"))) for page in PAGES) > 25
