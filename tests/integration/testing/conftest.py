"""A client of the broker that a test module brings along, and nothing of that broker afterwards."""

import pytest

from flotilla.client.in_process import CLOCKS_HERE


@pytest.fixture
def client(broker):
    with broker.client() as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def _no_clock_is_left_behind():
    """A later broker on the port of one that is gone would count by its turned time."""
    yield
    assert CLOCKS_HERE == {}
