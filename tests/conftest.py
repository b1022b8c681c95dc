"""Settings for every test, on every machine: one profile for hypothesis, and Ctrl-C that is heard."""

import signal

import pytest
from hypothesis import settings

# Derandomized, so that a red run is red again; the simulator is where new seeds are drawn.
settings.register_profile("flotilla", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("flotilla")

# A shell starts what runs in the background with the signal ignored, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tests of one group share what only one process may change; pytest-xdist has lost groups without a word before."""
    if session.config.getoption("loadgroup", default=False):
        lost = [
            item.nodeid for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid
        ]
        assert not lost, f"pytest-xdist does not keep the groups of {len(lost)} tests together: {lost[0]}"
