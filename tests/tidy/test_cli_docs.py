"""The reference page of the command line is generated from the code. REWRITE=1 writes it again; read the diff."""

import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from flotilla.cli.app import VERBS, app
from flotilla.cli.terminal.exit_codes import ALL
from flotilla.types.settings import SETTINGS
from tests.tidy.cli_page import PATH, options, render, takes_settings, verbs
from tests.tidy.markdown import prose, table_rows
from tests.tidy.tree import ROOT, texts

QUICKSTART = "docs/quickstart.md"


def page(path: str = PATH) -> str:
    return (ROOT / path).read_text("utf-8")


def test_the_page_is_fresh() -> None:
    if os.environ.get("REWRITE"):
        (ROOT / PATH).write_text(render(), "utf-8")
    assert page() == render(), "run REWRITE=1 pytest tests/tidy/test_cli_docs.py"


def test_every_verb_and_exit_code_is_on_it() -> None:
    titles = re.findall(r"^#+ flotilla (.+)$", prose(page()), re.MULTILINE)
    assert [title for title in titles if " " not in title] == list(VERBS)
    codes = [row[0] for row in table_rows(page()) if row[0].isdigit()]
    assert codes == [str(row.code) for row in ALL]


def test_no_cell_breaks_its_table() -> None:
    assert {len(row) for row in table_rows(page())} == {2, 3}


def test_every_option_has_a_meaning() -> None:
    for row in table_rows(page()):
        if row[0].startswith("-"):
            assert row[-1], row


def test_no_default_is_an_object_of_the_program() -> None:
    assert not re.findall(r"<class|<object|<function|`[A-Z]\w+\.[A-Z]+`", page())


def test_a_letter_means_one_option_everywhere() -> None:
    meanings: dict[str, set[str]] = {}
    for verb in verbs().values():
        for option in [] if isinstance(verb, typer.Typer) else options(verb):
            for letter in option.flags[1:]:
                meanings.setdefault(letter, set()).add(option.flags[0])
    # Both are the most that is printed.
    assert meanings.pop("-n") == {"--count", "--limit"}
    assert {letter: names for letter, names in meanings.items() if len(names) > 1} == {}


#: Patterns, new names, and counts.
NOT_COMPLETED = {("acl", "topic"), ("acl", "group"), ("role", "topic"), ("role", "group"), ("cert", "node")}


def commands(group: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if isinstance(command, TyperGroup):
            yield from commands(command, *words, name)
        else:
            yield (*words, name), command


COMMANDS = dict(commands(get_command(app)))


def test_shells_complete_topics_groups_and_nodes() -> None:
    missing = {
        (words[0], parameter.name)
        for words, command in COMMANDS.items()
        for parameter in command.params
        if parameter.name in ("topic", "topics", "into", "group", "node")
        # Typer keeps it there.
        and parameter._custom_shell_complete is None
    }
    assert missing == NOT_COMPLETED


def test_every_help_has_an_example() -> None:
    assert [words for words, command in COMMANDS.items() if "Example" not in (command.help or "")] == []


#: Command lines of a console block, and those in the middle of a sentence.
TYPED = re.compile(r"^\$ (?:[^`\n]*\| )?flotilla (.+)$|`flotilla ([^`]+)`", re.MULTILINE)
PAGES = [path for path in texts() if path.endswith(".md") and path not in (PATH, "CHANGELOG.md")]


@pytest.mark.parametrize("path", PAGES)
def test_documents_type_only_what_exists(path: str) -> None:
    known = verbs()
    for line in ("".join(found) for found in TYPED.findall(page(path))):
        words = shlex.split(line, comments=True)
        if words[0].startswith("-") or words[0].isupper():
            continue
        verb = next((known[name] for name in (" ".join(words[:count]) for count in (3, 2, 1)) if name in known), None)
        assert verb, f"{path}: flotilla {line}"
        flags = set() if isinstance(verb, typer.Typer) else {flag for option in options(verb) for flag in option.flags}
        if not isinstance(verb, typer.Typer) and takes_settings(verb):
            flags |= {setting.flag for setting in SETTINGS.values()}
        used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)} - {"--help", "--version"}
        assert used <= flags, f"{path}: flotilla {line}"


def test_the_quickstart_types_commands() -> None:
    assert len(TYPED.findall(page(QUICKSTART))) > 10
