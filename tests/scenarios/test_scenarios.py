"""Every scenario prints what was recorded. After a wanted change: `python -m tests.scenarios.rewrite`."""

from pathlib import Path

import pytest

from tests.scenarios.play import play
from tests.scenarios.script import Command, parse, render, scenario_paths


@pytest.mark.parametrize("path", scenario_paths(), ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert render(play(text)).splitlines() == text.splitlines()


def test_there_are_scenarios() -> None:
    assert len(scenario_paths()) >= 20


def test_a_script_is_read_and_written_without_loss() -> None:
    text = "prose\n\n> first 1 2\n    out\n      indented\n> second\n\nmore prose\n    not output\n"
    parts = parse(text)
    commands = [part for part in parts if isinstance(part, Command)]
    assert [(command.line, command.words) for command in commands] == [(3, ["first", "1", "2"]), (6, ["second"])]
    assert commands[0].recorded == ["out", "  indented"]
    assert render(parts) == text


def test_a_scenario_that_fails_names_its_line() -> None:
    with pytest.raises(KeyError) as failure:
        play("> nodes 1\n> show 2\n")
    assert failure.value.__notes__ == ["line 2: show 2"]
