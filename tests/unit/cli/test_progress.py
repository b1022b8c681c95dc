"""A bar on a terminal, nothing in a pipe, and no thread beside a measurement."""

import io
import sys
import threading

import pytest

from flotilla.cli.terminal.progress import Stages


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def attached(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called by the test itself: pytest takes the streams back when a test begins."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    return made


def test_people_see_which_stage_it_is_and_how_many_are_done(monkeypatch):
    terminal = attached(monkeypatch)
    with Stages(3, is_quiet=False) as stages:
        stages.begin("first")
        shown = terminal.getvalue()
        assert "first" in shown
        assert "0/3" in shown
        stages.begin("second")
        shown = terminal.getvalue().removeprefix(shown)
        assert "second" in shown
        assert "1/3" in shown


def test_nothing_is_drawn_while_a_stage_runs(monkeypatch):
    terminal = attached(monkeypatch)
    before = threading.active_count()
    with Stages(1, is_quiet=False) as stages:
        stages.begin("only")
        assert "only" in terminal.getvalue()
        assert threading.active_count() == before


def test_a_quiet_run_shows_no_progress(monkeypatch):
    terminal = attached(monkeypatch)
    with Stages(1, is_quiet=True) as stages:
        stages.begin("only")
    assert terminal.getvalue() == ""


def test_a_pipe_sees_nothing(capsys):
    with Stages(1, is_quiet=False) as stages:
        stages.begin("only")
    assert capsys.readouterr() == ("", "")
