"""Every verb with a result prints it as JSON too."""

import json

import pytest
import typer

from flotilla.cli.terminal.output import print_done
from tests.tidy.cli_page import options, verbs

#: They run until they are stopped.
WITHOUT_RESULT = {"serve", "proxy", "worker", "shell"}
COMMANDS = {name: verb for name, verb in verbs().items() if not isinstance(verb, typer.Typer)}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_with_a_result_offers_json(name):
    flags = {flag for option in options(COMMANDS[name]) for flag in option.flags}
    assert ("--json" in flags) == (name not in WITHOUT_RESULT)


def test_a_result_is_json_or_a_sentence(capsys):
    print_done({"group": "grüße"}, "grüße is paused", as_json=True)
    assert json.loads(capsys.readouterr().out) == {"group": "grüße"}
    print_done({"group": "g"}, "g is paused", as_json=False)
    assert capsys.readouterr().out == "g is paused\n"
