"""Queue groups as tests use them: short names for requests, and what they brought."""

from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.types.operations import Produce, Produced
from flotilla.types.operations.queue import (
    ACK,
    BY_BACKOFF,
    Delivery,
    DescribeGroup,
    GroupDescription,
    LeaseRange,
    Poll,
    Polled,
    Pushed,
    Settle,
    Settled,
)
from flotilla.types.records import Record
from tests.unit.broker.fleet import Answer, Node

TOPIC = "orders"
GROUP = "workers"


def store(node: Node, *values: bytes, partition: int = 0, topic: str = TOPIC, **fields: object) -> int:
    """One batch; its first offset."""
    said = {"timestamp_ms": node.now_ms(), **fields}
    records = [Record(value, **said) for value in values]  # type: ignore[arg-type]
    stored = node.call(Produce(topic, partition, encode_batch(records))).result
    assert isinstance(stored, Produced), stored
    return stored.base_offset


def poll(max_messages: int = 16, member: str = "a", group: str = GROUP, **fields: object) -> Poll:
    return Poll(TOPIC, group, member, max_messages=max_messages, **fields)  # type: ignore[arg-type]


def polled(node: Node, request: Poll | None = None) -> list[Delivery]:
    """What a poll brings now."""
    result = node.call(request or poll()).result
    assert isinstance(result, Polled), result
    return result.deliveries


def deliveries(answer: Answer) -> list[Delivery]:
    """Everything that came so far, by a poll or by pushes."""
    found: list[Delivery] = []
    for result in answer.results:
        assert isinstance(result, Polled | Pushed), result
        found += result.deliveries
    return found


def values(found: list[Delivery]) -> list[bytes]:
    """What a consumer reads out of them."""
    read: list[bytes] = []
    for delivery in found:
        view = BatchView(delivery.batch)
        assert (view.header.base_offset, view.count) == (delivery.first, delivery.count)
        read += view.payloads()
    return read


def held(found: list[Delivery]) -> list[LeaseRange]:
    return [LeaseRange(delivery.lease_id, delivery.first, delivery.first + delivery.count) for delivery in found]


def settle(
    found: list[Delivery],
    kind: int = ACK,
    reason: str = "",
    delay_ms: int = BY_BACKOFF,
    group: str = GROUP,
    topic: str = TOPIC,
) -> Settle:
    partition = found[0].partition if found else 0
    return Settle(topic, partition, group, kind, held(found), reason, delay_ms)


def ack(node: Node, found: list[Delivery], group: str = GROUP) -> None:
    assert node.call(settle(found, group=group)).result == Settled([])


def describe(node: Node, group: str = GROUP, partition: int = 0) -> GroupDescription:
    result = node.call(DescribeGroup(TOPIC, partition, group)).result
    assert isinstance(result, GroupDescription), result
    return result
