"""Settlements of many requests in few: what is shared, and that a refusal is each request's own."""

import asyncio
from typing import Any

import pytest

from flotilla.frontends.http.api.settlement_batcher import Settlement, SettlementBatcher
from flotilla.types.errors import LeaseExpiredError
from flotilla.types.operations.queue import ACK, LeaseRange, Settle, Settled

ACKED = Settlement("tasks.q", 1, 0, "workers", ACK)


class FakeGateway:
    """Refuses odd offsets."""

    caller = None

    def __init__(self) -> None:
        self.asked: list[Settle] = []

    async def ask(self, request: Settle) -> Settled:
        self.asked.append(request)
        if any(lease.first == 13 for lease in request.leases):
            raise ZeroDivisionError
        await asyncio.sleep(0)
        return Settled([lease for lease in request.leases if lease.first % 2])


def settled(*offsets: int) -> tuple[list[Settle], list[Any]]:
    async def work() -> tuple[list[Settle], list[Any]]:
        gateway = FakeGateway()
        batcher = SettlementBatcher(gateway)  # type: ignore[arg-type]
        settling = [batcher.settle(ACKED, offset, lease_id=0, member="w") for offset in offsets]
        return gateway.asked, list(await asyncio.gather(*settling, return_exceptions=True))

    return asyncio.run(work())


def test_settlements_that_come_together_share_a_request() -> None:
    asked, outcomes = settled(0, 2, 4)
    assert [request.leases for request in asked] == [[LeaseRange(0, offset, offset + 1) for offset in (0, 2, 4)]]
    assert outcomes == [None, None, None]


def test_each_refusal_is_an_error_of_its_own() -> None:
    """One that is shared would keep the traceback of every request that it was raised in."""
    _, (fine, first, second) = settled(2, 1, 3)
    assert fine is None
    assert isinstance(first, LeaseExpiredError)
    assert isinstance(second, LeaseExpiredError)
    assert first is not second
    with pytest.raises(LeaseExpiredError, match="expired"):
        raise first


def test_a_fault_leaves_no_request_waiting() -> None:
    _, outcomes = settled(2, 13)
    assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError, ZeroDivisionError]
