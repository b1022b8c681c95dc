"""The parser of the scripts, on text of our own; and that it drops nothing of the scripts of others."""

from pathlib import Path

import pytest

from tests.oracle.datadriven import DEFAULT_FOLDER, folder, parse, scripts

SCRIPT = """\
# comment

first 1 2 flag=true cfg=(1, 2) empty=() bare
input one
input two
----
out one
out two

second drop=3 \\
  more=(4)
----

third
----
----
with

a gap
----
----

# the end has no blank line
last
----
ok"""


def test_every_part_of_the_format_is_read(tmp_path: Path) -> None:
    path = tmp_path / "script.txt"
    path.write_text(SCRIPT, encoding="utf-8")
    first, second, third, last = parse(path)
    assert (first.command, first.positional, first.line) == ("first", ["1", "2", "bare"], 3)
    assert first.named == {"flag": ["true"], "cfg": ["1", "2"], "empty": []}
    assert (first.input, first.expected) == ("input one\ninput two", "out one\nout two")
    assert first.flag("flag")
    assert first.flag("bare")
    assert not first.flag("absent")
    assert first.numbers("cfg") == [1, 2]
    assert (second.number("drop", 0), second.numbers("more"), second.expected) == (3, [4], "")
    assert third.expected == "with\n\na gap"
    assert (last.command, last.expected) == ("last", "ok")


@pytest.mark.skipif(
    folder() != DEFAULT_FOLDER or not DEFAULT_FOLDER.is_dir(), reason="only the default folder's scripts are known"
)
@pytest.mark.parametrize(("kind", "count"), [("quorum", 127), ("confchange", 58)])
def test_every_directive_of_the_known_scripts_is_read(kind: str, count: int) -> None:
    """A directive that the parser drops would be ignored, and no other test would notice."""
    assert sum(len(parse(path)) for path in scripts(kind)) == count
