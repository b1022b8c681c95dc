"""Removing messages by hand: of a topic, everything below an offset of each partition, or all that is there now.

Everything is checked before anything is removed. Partitions are trimmed one by one: a call that fails half-way has
trimmed some of them, and may be repeated.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import Protocol, TypeVar

from flotilla.types.errors import InvalidArgumentError, NotFoundError, OffsetOutOfRangeError
from flotilla.types.ids import Offset
from flotilla.types.operations import LATEST, ListOffsets, Reply, Request, TopicInfo, TrimPartition

Answer = TypeVar("Answer", bound=Reply)


class Ask(Protocol):
    """Sends a request to its broker, within the time that is left."""

    def __call__(self, request: Request[Answer]) -> Awaitable[Answer]: ...


async def trim(ask: Ask, topic: TopicInfo, offsets: Mapping[int, Offset]) -> dict[int, Offset]:
    """Returns where the log of each partition begins now. Raises NotFoundError and OffsetOutOfRangeError."""
    numbers = {part.number for part in topic.partitions}
    for number, offset in offsets.items():
        if isinstance(offset, bool) or not isinstance(offset, int):
            raise InvalidArgumentError(f"partition {number}: {offset!r} is not an offset")
        if number not in numbers:
            raise NotFoundError(f"topic {topic.name!r} has no partition {number}, only {len(numbers)} of them")
    ends = await _ends(ask, topic, offsets)
    for number, offset in offsets.items():
        if not 0 <= offset <= ends[number]:
            raise OffsetOutOfRangeError(f"partition {number}: offset {offset} is not between 0 and {ends[number]}")
    return await _trim(ask, topic, offsets)


async def purge(ask: Ask, topic: TopicInfo) -> dict[int, Offset]:
    """Trims every partition to its end. Messages that are stored meanwhile stay."""
    return await _trim(ask, topic, await _ends(ask, topic, [part.number for part in topic.partitions]))


async def _ends(ask: Ask, topic: TopicInfo, numbers: Iterable[int]) -> dict[int, Offset]:
    chosen = list(numbers)
    found = await asyncio.gather(*[ask(ListOffsets(topic.name, number, LATEST)) for number in chosen])
    return {number: reply.offset for number, reply in zip(chosen, found, strict=True)}


async def _trim(ask: Ask, topic: TopicInfo, offsets: Mapping[int, Offset]) -> dict[int, Offset]:
    requests = [TrimPartition(topic.name, number, offset, topic.topic_id) for number, offset in offsets.items()]
    found = await asyncio.gather(*[ask(request) for request in requests])
    return {request.partition: reply.log_start for request, reply in zip(requests, found, strict=True)}
