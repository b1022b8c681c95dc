"""Brokers that the tests of all SDKs in one process of the test runner share."""

from collections.abc import Iterator

import pytest

from tests.conformance.sdk.harness import Harness


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    made = Harness(tmp_path_factory.mktemp("sdks"))
    try:
        made.start()
        yield made
    finally:
        made.close()
