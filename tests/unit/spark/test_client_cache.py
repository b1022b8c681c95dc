"""The cache of clients: borrowing, eviction, and forks."""

import os
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark", reason="the spark extra")

from flotilla.client.client import Client
from flotilla.spark import client_cache as client_cache
from flotilla.spark.client_cache import CACHED_MAX, borrowed_client
from flotilla.types.errors import ConnectionClosedError, DeadlineError

HERE = ["localhost:1"]
LIMIT_MS = 1_000


@pytest.fixture(autouse=True)
def _none_cached() -> Iterator[None]:
    client_cache._cache.close()
    yield
    client_cache._cache.close()


def borrow(servers: list[str], timeout_ms: int = LIMIT_MS) -> Client:
    with borrowed_client(servers, timeout_ms) as client:
        client._opened()
        return client


def is_closed(client: Client) -> bool:
    try:
        client._opened()
    except ConnectionClosedError:
        return True
    return False


def test_the_next_one_gets_the_same_client() -> None:
    first = borrow(HERE)
    assert borrow(HERE) is first
    assert not is_closed(first)
    assert borrow(["localhost:2"]) is not first
    assert borrow(HERE, LIMIT_MS + 1) is not first


def test_two_at_once_have_one_each_and_one_of_them_stays() -> None:
    with borrowed_client(HERE, LIMIT_MS) as one, borrowed_client(HERE, LIMIT_MS) as other:
        assert one is not other
        one._opened(), other._opened()
    assert is_closed(other)
    assert borrow(HERE) is one


def test_a_client_whose_work_failed_is_not_kept() -> None:
    client = borrow(HERE)
    with pytest.raises(DeadlineError), borrowed_client(HERE, LIMIT_MS):
        raise DeadlineError("no leader")
    assert is_closed(client)
    assert borrow(HERE) is not client


def test_a_reader_that_has_enough_leaves_its_client() -> None:
    def read() -> Iterator[Client]:
        with borrowed_client(HERE, LIMIT_MS) as client:
            yield client

    rows = read()
    client = next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert borrow(HERE) is client


def test_the_least_recently_used_clients_are_closed() -> None:
    clients = [borrow([f"localhost:{port}"]) for port in range(1, CACHED_MAX + 3)]
    assert [is_closed(each) for each in clients] == [True] * 2 + [False] * CACHED_MAX


def test_a_forked_process_has_none_of_its_parents() -> None:
    client = borrow(HERE)
    child = os.fork()
    if not child:
        # Whatever happens, nothing of the test may run in here.
        try:
            os._exit(0 if borrow(HERE) is not client else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert borrow(HERE) is client
