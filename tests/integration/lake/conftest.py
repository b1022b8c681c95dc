"""One broker in this process, and object stores, for all tests of the lake that need no Spark."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the extra lake")

from flotilla import Client
from flotilla.testing import LocalBroker
from tests.integration.lake.object_store import azure_store, google_store, object_store

__all__ = ["azure_store", "google_store", "object_store"]

_numbers = count(1)


@pytest.fixture(scope="package")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: LocalBroker) -> Iterator[Client]:
    with broker.client() as client:
        yield client


@pytest.fixture
def topic(client: Client) -> Callable[..., str]:
    """Makes topics that no other test has."""

    def make(partitions: int = 2) -> str:
        name = f"lake-{next(_numbers)}"
        client.create_topic(name, partitions=partitions)
        return name

    return make


#: The fixture of each kind of store.
STORES = {"s3": "object_store", "gs": "google_store", "abfs": "azure_store"}


@pytest.fixture(params=["disk", *STORES])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder that no other test has."""
    if request.param == "disk":
        return str(tmp_path / "lake")
    return f"{request.getfixturevalue(STORES[request.param])}/lake-{next(_numbers)}"
