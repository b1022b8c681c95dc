"""Topics, start offsets and committed offsets, looked up through a network."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

from flotilla.client._core.answer import Answer
from flotilla.client._core.asyncio_network import Network
from flotilla.machine import steady_ms
from flotilla.types.errors import InvalidArgumentError, NotFoundError
from flotilla.types.ids import Offset
from flotilla.types.operations import (
    EARLIEST,
    LATEST,
    CommitOffset,
    ListOffsets,
    OffsetCommitted,
    ReadOffset,
    TopicInfo,
)
from flotilla.types.operations.stream import NO_OFFSET

#: An offset, or the current end of a log.
Start: TypeAlias = int | Literal["earliest", "latest"]

_NAMED = {"earliest": EARLIEST, "latest": LATEST}


async def find_topic(
    network: Network, topic: str, timeout_ms: int, *, create: bool = False, owner: str = ""
) -> TopicInfo:
    """Describes a topic. Raises NotFoundError."""
    answer: Answer[TopicInfo] = Answer()
    time_ms = steady_ms()
    network.session.resolve(topic, time_ms + timeout_ms, answer.set, time_ms, create=create, owner=owner)
    network.wake()
    return await answer.wait()


def chosen_partitions(topic: TopicInfo, chosen: Sequence[int] | None) -> list[int]:
    """The partitions to read: the chosen ones, or all. Raises InvalidArgumentError."""
    numbers = [part.number for part in topic.partitions]
    if chosen is None:
        return numbers
    for number in chosen:
        if number not in numbers:
            raise InvalidArgumentError(f"topic {topic.name} has no partition {number}, only {len(numbers)} of them")
    return list(dict.fromkeys(chosen))


async def list_offset(
    network: Network,
    topic: str,
    partition: int,
    at: Start | None,
    timestamp_ms: int,
    timeout_ms: int,
    topic_id: int = 0,
) -> Offset:
    """The offset of a named position, or (None) of the first record at or after a time; -1: all records are older."""
    if isinstance(at, int):
        if at < 0:
            raise InvalidArgumentError(f"{at} is not an offset: offsets begin at 0, and the end is called latest")
        return at
    if at is not None and at not in _NAMED:
        raise InvalidArgumentError(f"an offset is a number, earliest or latest, not {at!r}")
    wanted = timestamp_ms if at is None else _NAMED[at]
    reply = await network.call(ListOffsets(topic, partition, wanted, topic_id), timeout_ms)
    return reply.offset


async def read_position(
    network: Network, group: str, topic: str, partition: int, timeout_ms: int, topic_id: int = 0
) -> OffsetCommitted:
    """The committed offset of a group, or NO_OFFSET, and as of when."""
    try:
        return await network.call(ReadOffset(group, topic, partition, topic_id, is_optional=True), timeout_ms)
    except NotFoundError:
        # Of a broker of an earlier release an unknown group is no error, but an unknown topic is.
        if topic not in network.session.routes.topics:
            raise
        return OffsetCommitted(NO_OFFSET)


async def read_offset(
    network: Network, group: str, topic: str, partition: int, timeout_ms: int, topic_id: int = 0
) -> Offset | None:
    """The committed offset of a group; None: it never committed."""
    return known_offset(await read_position(network, group, topic, partition, timeout_ms, topic_id))


def known_offset(found: OffsetCommitted) -> Offset | None:
    return found.offset if found.offset >= 0 else None


async def commit_offset(network: Network, request: CommitOffset, timeout_ms: int) -> Offset:
    """Commits, and returns the committed offset."""
    return (await network.call(request, timeout_ms)).offset


async def start_offsets(
    network: Network,
    topic: str,
    partitions: Sequence[int],
    *,
    committed: Callable[[int], Awaitable[Offset | None]] | None,
    at: Start | None,
    timestamp_ms: int | None,
    timeout_ms: int,
    topic_id: int = 0,
) -> dict[int, Offset]:
    """Where a reader starts: as asked, else at the committed offset of its group, else at the oldest record.

    `committed` looks up that offset; None: the reader has no group.
    """

    async def find(partition: int) -> Offset:
        chosen = at
        if at is None and timestamp_ms is None:
            known = None if committed is None else await committed(partition)
            if known is not None:
                return known
            chosen = "earliest"
        found = await list_offset(network, topic, partition, chosen, timestamp_ms or 0, timeout_ms, topic_id)
        if found >= 0:
            return found
        return await list_offset(network, topic, partition, "latest", 0, timeout_ms, topic_id)

    found = await asyncio.gather(*[find(partition) for partition in partitions])
    return dict(zip(partitions, found, strict=True))
