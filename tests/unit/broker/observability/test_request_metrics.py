"""The meter in front of the service: what it counts, and that it changes nothing."""

import pytest

from flotilla.broker.observability.request_metrics import MeteredService
from flotilla.types.errors import FlotillaError, NotFoundError, NotLeaderError
from flotilla.types.operations import (
    OPERATIONS,
    Fetch,
    Fetched,
    GetMetadata,
    ListOffsets,
    OffsetFound,
    Produce,
    Produced,
    Reply,
)
from flotilla.types.operations.queue import Delivery, Pushed, Subscribe
from tests.unit.broker.single_node import SilentService
from tests.unit.partition.batches import batch


def answer(metered: MeteredService, service: SilentService, request: Produce | Fetch, result: Reply) -> None:
    got: list[Reply | FlotillaError] = []
    assert metered.handle(request, got.append) is None
    [(received, done)] = service.waiting
    assert received is request
    service.waiting.clear()
    done(result)
    assert got == [result]
    assert got[0] is result


def test_a_metered_service_has_the_identity_of_its_service() -> None:
    metered = MeteredService(SilentService())
    assert (metered.node, metered.cluster_id) == (1, "test")


def test_every_request_is_metered_under_its_name() -> None:
    metered = MeteredService(SilentService())
    assert {kind: operation.name for kind, operation in metered.operations.items()} == {
        kind: name for name, kind in OPERATIONS.items()
    }


def test_produced_records_count_once_they_are_acknowledged() -> None:
    service = SilentService()
    metered = MeteredService(service)
    answer(metered, service, Produce("orders", 0, batch(count=3)), Produced(0))
    answer(metered, service, Produce("orders", 1, memoryview(batch(count=4))), Produced(0))
    answer(metered, service, Produce("other", 0, bytearray(batch(count=5))), Produced(0))
    answer(metered, service, Produce("orders", 0, batch(count=3)), Produced(0, duplicate=True))
    answer(metered, service, Produce("orders", 0, b"no batch"), NotLeaderError(2))  # type: ignore[arg-type]
    assert metered.produced == {"orders": 7, "other": 5}
    assert metered.operations[Produce].durations.count == 5
    assert metered.operations[Produce].errors == {"NOT_LEADER": 1}


@pytest.mark.parametrize(
    ("offset", "batches", "delivered"),
    [
        (0, [], {}),
        (0, [batch(0, count=3)], {"orders": 3}),
        (10, [batch(10, count=3), batch(13, count=2)], {"orders": 5}),
        (11, [batch(10, count=3), batch(13, count=2)], {"orders": 4}),
        (14, [memoryview(batch(13, count=2))], {"orders": 1}),
    ],
)
def test_delivered_records_count_from_the_offset_asked_for(
    offset: int, batches: list[bytes | memoryview], delivered: dict[str, int]
) -> None:
    service = SilentService()
    metered = MeteredService(service)
    answer(metered, service, Fetch("orders", 0, offset, 1000), Fetched(batches, 0, 100))
    assert metered.delivered == delivered


def test_a_long_poll_does_not_count_as_slow() -> None:
    service = SilentService()
    metered = MeteredService(service)
    given_up: list[bool] = []
    service.cancel = lambda: given_up.append(True)
    cancel = metered.handle(Fetch("orders", 0, 0, 1000, wait_ms=100), lambda result: None)
    assert cancel is not None
    cancel()
    assert given_up == [True]
    operation = metered.operations[Fetch]
    assert (operation.durations.count, operation.waits.count) == (0, 0)
    service.waiting[0][1](Fetched([], 0, 0))
    assert (operation.durations.count, operation.waits.count) == (0, 1)


def test_an_answer_at_once_is_counted_too() -> None:
    service = SilentService()
    service.at_once = lambda request, done: done(OffsetFound(4))
    metered = MeteredService(service)
    got: list[object] = []
    assert metered.handle(ListOffsets("orders", 0, -1), got.append) is None
    assert got == [OffsetFound(4)]
    assert metered.operations[ListOffsets].durations.count == 1


def test_errors_count_by_code() -> None:
    service = SilentService()
    metered = MeteredService(service)
    for error in (NotFoundError("a"), NotFoundError("b"), NotLeaderError(3)):
        answer(metered, service, Fetch("orders", 0, 0, 1), error)  # type: ignore[arg-type]
    assert metered.operations[Fetch].errors == {"NOT_FOUND": 2, "NOT_LEADER": 1}
    assert metered.delivered == {}


def test_a_fault_of_the_service_passes_through() -> None:
    def fail(request: object, done: object) -> None:
        raise RuntimeError("a fault")

    service = SilentService()
    service.at_once = fail
    with pytest.raises(RuntimeError, match="a fault"):
        MeteredService(service).handle(GetMetadata(), lambda result: None)


def test_topics_that_are_gone_are_forgotten() -> None:
    metered = MeteredService(SilentService())
    metered.produced = {"a": 1, "b": 2}
    metered.delivered = {"b": 3, "c": 4}
    metered.forget_topics_except({"b"})
    assert (metered.produced, metered.delivered) == ({"b": 2}, {"b": 3})


def test_pushes_count_as_deliveries_and_take_no_time() -> None:
    service = SilentService()
    service.cancel = lambda: None
    metered = MeteredService(service)
    got: list[Reply | FlotillaError] = []
    assert metered.handle(Subscribe("orders", "workers", "a", 10), got.append) is service.cancel
    [(_, done)] = service.waiting
    pushes = [Pushed([Delivery(0, 1, 0, 3, 1, b"")]), Pushed([Delivery(0, 2, 0, 2, 4, b"")])]
    for push in pushes:
        done(push)
    assert got == pushes
    assert (metered.delivered, metered.redelivered) == ({"orders": 5}, {"orders": 2})
    assert metered.operations[Subscribe].waits.count == 0
    done(NotLeaderError(2))
    assert metered.operations[Subscribe].errors == {"NOT_LEADER": 1}


def test_lost_members_are_passed_on() -> None:
    service = SilentService()
    MeteredService(service).lost(["a", "b"])
    assert service.lost_members == ["a", "b"]


def test_records_that_partitions_counted_are_included() -> None:
    produced = {"orders": 3}
    metered = MeteredService(SilentService(), produced)
    metered.forget_topics_except({"orders"})
    assert metered.produced is produced
