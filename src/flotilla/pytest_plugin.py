"""Fixtures for pytest, in every project that has Flotilla installed: a broker for a test, and a client of it.

def test_a_mail_is_sent(flotilla_broker, flotilla_client):
    flotilla_client.produce("mails", b"ann", delay_ms=HOUR_MS)
    flotilla_broker.advance(hours=1)
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    # Loaded when a test asks for them: pytest imports this module in every run.
    from flotilla.client.client import Client
    from flotilla.testing import LocalBroker


@pytest.fixture
def flotilla_broker() -> "Iterator[LocalBroker]":
    """A broker in this process, empty, with a clock that the test turns: `flotilla_broker.advance(days=7)`."""
    from flotilla.testing import LocalBroker

    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def flotilla_client(flotilla_broker: "LocalBroker") -> "Iterator[Client]":
    """A client of `flotilla_broker`."""
    with flotilla_broker.client() as client:
        yield client
