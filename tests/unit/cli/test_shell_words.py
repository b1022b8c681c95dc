"""Lines and completions of the shell, without a terminal."""

import pytest

from flotilla.cli.shell.command import ShellSession
from flotilla.cli.shell.words import WORDS, completions, read_line, split_options
from flotilla.types.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("line", "name", "arguments"),
    [
        ("send orders hello world", "send", ["orders", "hello", "world"]),
        ("send orders 'two  spaces' #1", "send", ["orders", "two  spaces", "#1"]),
        ("  poll\n", "poll", []),
        ("str", "stream", []),
        ("q", None, None),
    ],
)
def test_a_line_is_a_command_and_its_arguments(line, name, arguments):
    if name is None:
        with pytest.raises(InvalidArgumentError, match="no command"):
            read_line(line)
        return
    word, found = read_line(line)
    assert (word.name, found) == (name, arguments)


@pytest.mark.parametrize("line", ["", "   ", "# a remark in a script", "\n"])
def test_nothing_to_do(line):
    assert read_line(line) is None


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("s", "could be send or subscribe or stream or seek or status"),
        ("send orders", "usage: send TOPIC TEXT"),
        ("commit now", "usage: commit"),
        ("send t 'open", "quotes come in pairs"),
    ],
)
def test_a_mistake_is_met_with_the_right_way(line, complaint):
    with pytest.raises(InvalidArgumentError, match=complaint):
        read_line(line)


def test_options_are_separated_from_words():
    assert split_options(["orders", "key=1", "a=b", "key=2=3"], "key") == (["orders", "a=b"], {"key": "2=3"})


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("se", ["send ", "seek "]),
        ("", [f"{word.name} " for word in WORDS]),
        ("send o", ["orders "]),
        ("send ", ["orders ", "payments "]),
        ("mode m", ["manual "]),
        ("seek ", ["earliest ", "latest "]),
        ("help st", ["stream ", "status "]),
        ("send orders o", []),
        ("nothing x", []),
        ("poll ", []),
    ],
)
def test_tab_offers(line, offers):
    assert completions(line, ["orders", "payments"]) == offers


def test_the_session_runs_every_word():
    session = ShellSession(client=None)
    assert {word.name for word in WORDS} == {*session._do, "exit"}
    assert session.run("exit") is False
    assert session.run("") is True
