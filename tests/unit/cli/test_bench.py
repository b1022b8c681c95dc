"""Leadership transfers in `flotilla bench`: the gap between acknowledgements, and the exit code."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.cli.bench import command as bench
from flotilla.cli.bench.hand_over import HandOvers, Sender

GOOD = HandOvers(
    count=2,
    gap_p50_ms=3.0,
    gap_longest_ms=4.0,
    steady_longest_ms=2.0,
    acknowledged=10,
    refused=0,
    lost=0,
    doubled=0,
)


def sender(*acknowledged: float) -> Sender:
    made = Sender(None, "topic")
    made.moments = [(done - 0.1, done) for done in acknowledged]
    return made


@pytest.mark.parametrize(
    ("begin", "end", "gap"),
    [
        # The gap may have begun with an acknowledgement before the hand-over.
        (4.0, 8.0, 5.0),
        (1.0, 2.0, 1.0),
        # Without any for as long as one looks.
        (3.0, 4.5, 1.5),
        (8.5, 9.5, 1.0),
    ],
)
def test_the_gap_is_the_longest_time_without_an_acknowledgement(begin, end, gap):
    assert sender(1.0, 2.0, 3.0, 8.0, 8.5).longest_gap(begin, end) == gap


@pytest.mark.parametrize(("lost", "doubled", "code"), [(0, 0, 0), (1, 0, 1), (0, 1, 1)])
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_lost_or_doubled_message_fails_the_run(monkeypatch, flags, lost, doubled, code):
    measured = replace(GOOD, lost=lost, doubled=doubled)
    monkeypatch.setattr(bench, "_measure", lambda servers, sizes, stages: ([], measured))
    result = CliRunner().invoke(app, ["bench", "-s", "nowhere:1", *flags])
    assert result.exit_code == code
    assert result.stderr.count("\n") == (code != 0)
    if flags:
        assert json.loads(result.stdout)["hand_overs"]["lost"] == lost
    else:
        assert result.stdout.splitlines()[-1].split()[-3:] == ["10", str(lost), str(doubled)]
