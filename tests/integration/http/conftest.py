"""A real node with its HTTP endpoint, and a plain client of it."""

from collections.abc import Iterator

import httpx
import pytest

from flotilla.testing import LocalBroker
from flotilla.types.address import Address


def http_address(broker: LocalBroker) -> str:
    """Where the broker's endpoint is: the cluster knows."""
    with broker.client() as client:
        while not (found := [each.http for each in client.admin.metadata().brokers]):
            pass
    return f"http://{found[0]}"


@pytest.fixture(scope="package")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(http_listen=Address("127.0.0.1", 0)) as broker:
        yield broker


@pytest.fixture(scope="package")
def url(broker: LocalBroker) -> str:
    return http_address(broker)


@pytest.fixture(scope="package")
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=30) as client:
        yield client
