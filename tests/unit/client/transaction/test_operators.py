"""What operators see of transactions, and what they can end."""

import pytest

from flotilla.testing import LocalBroker
from flotilla.types.errors import NotFoundError, TransactionEndedError


def test_open_transactions_are_listed_and_aborted() -> None:
    with LocalBroker() as broker, broker.client() as client:
        client.create_topic("t")
        txn = client.transaction("job-7", transaction_timeout_ms=120_000)
        txn.stage("t", [b"a", b"b"])
        (found,) = client.admin.open_transactions("t", 0)
        assert (found.transaction_id, found.timeout_ms, found.record_count, found.ack_count) == ("job-7", 120_000, 2, 0)
        client.abort_transaction("job-7")
        with pytest.raises(TransactionEndedError):
            txn.commit()
        assert client.admin.open_transactions("t", 0) == []


def test_an_application_is_forgotten() -> None:
    with LocalBroker() as broker, broker.client() as client:
        for is_forgotten in (False, True):
            with client.transaction() as txn:
                txn.produce("t", b"a")
                txn.commit(application_id="job", version=1)
            found = client.admin.transactions()
            assert found.application_count == 1
            # The partition shows it, and may not have said so yet.
            assert found.awaited_count + found.remembered_count == 1 + is_forgotten
            assert len(client.peek("t", 0)) == 1 + is_forgotten
            client.admin.forget_application("job")
        with pytest.raises(NotFoundError):
            client.admin.forget_application("job")
        with pytest.raises(NotFoundError):
            client.admin.forget_transaction("unknown")
