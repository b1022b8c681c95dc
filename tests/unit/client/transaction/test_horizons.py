"""What a transaction's client hears when the cluster has forgotten, or never knew, what it asks about."""

from collections.abc import Iterator
from typing import Any

import pytest

from flotilla.client.client import Client
from flotilla.testing import LocalBroker
from flotilla.types.errors import ForgottenError


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: LocalBroker) -> Iterator[Client]:
    with broker.client() as client:
        client.create_topic("t")
        client.create_topic("other")
        yield client


def seen(client: Client, topic: str) -> list[bytes]:
    return [message.payload for message in client.peek(topic, 0, max_messages=100)]


def forget(broker: LocalBroker, client: Client) -> None:
    """Time passes, and a decision makes the cluster forget old ones."""
    broker.advance(hours=25)
    with client.transaction() as txn:
        txn.produce("other", b"tick")


@pytest.mark.parametrize("application", [{}, {"application_id": "job", "version": 7}])
def test_a_commit_of_an_aborted_transaction_is_refused_when_that_is_forgotten(
    broker: LocalBroker, client: Client, application: dict[str, Any]
) -> None:
    late = client.transaction("late")
    late.stage("t", [b"a"])
    client.abort_transaction("late")
    forget(broker, client)
    with pytest.raises(ForgottenError):
        late.commit(**application)
    assert seen(client, "t") == []
    # The version is free: the job that runs again commits it.
    with client.transaction() as again:
        again.produce("t", b"again")
        again.commit(**application)
    assert len(again.receipts) == 1
    assert seen(client, "t") == [b"again"]


def test_a_repeated_commit_is_answered_within_the_horizon_and_refused_behind_it(
    broker: LocalBroker, client: Client
) -> None:
    client.transaction("mine").stage("t", [b"a"])
    first = client.commit_transaction("mine", partitions=[("t", 0)])
    broker.advance(minutes=15)
    assert client.commit_transaction("mine", partitions=[("t", 0)]) == first
    forget(broker, client)
    with pytest.raises(ForgottenError):
        client.commit_transaction("mine", partitions=[("t", 0)])
    assert seen(client, "t") == [b"a"]


def test_a_commit_that_names_a_partition_without_a_stage_changes_nothing(client: Client) -> None:
    client.transaction("mine").stage("t", [b"a"])
    with pytest.raises(ForgottenError, match="nothing is staged"):
        client.commit_transaction("mine", partitions=[("t", 0), ("other", 0)], application_id="job", version=1)
    assert seen(client, "t") == []
    committed = client.commit_transaction("mine", partitions=[("t", 0)], application_id="job", version=1)
    assert not committed.is_repeated
    assert seen(client, "t") == [b"a"]
