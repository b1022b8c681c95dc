"""A client of the broker that a test module brings along."""

import pytest


@pytest.fixture
def client(broker):
    with broker.client() as client:
        yield client
