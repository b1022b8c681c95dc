"""Whoever writes a script can ask every verb that has a result for JSON."""

import json

import pytest
import typer

from flotilla.cli.terminal.output import print_done
from tests.tidy.cli_page import options, verbs

#: They run until somebody stops them, or tell a story; `config show` and what talks to a cluster are not among them.
WITHOUT_RESULT = {"serve", "proxy", "worker", "shell", "sim", "version"}
COMMANDS = {name: verb for name, verb in verbs().items() if not isinstance(verb, typer.Typer)}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_with_a_result_offers_json(name):
    flags = {flag for option in options(COMMANDS[name]) for flag in option.flags}
    assert ("--json" in flags) == (name not in WITHOUT_RESULT)


def test_what_was_done_is_told_in_one_of_two_ways(capsys):
    print_done({"group": "grüße"}, "grüße is paused", as_json=True)
    assert json.loads(capsys.readouterr().out) == {"group": "grüße"}
    print_done({"group": "g"}, "g is paused", as_json=False)
    assert capsys.readouterr().out == "g is paused\n"
