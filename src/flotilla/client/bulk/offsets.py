"""Questions about many partitions at once, for readers of whole topics: as long as one takes, not as long as all."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.positions import Start, commit_offset, list_offset
from flotilla.client.client import Client
from flotilla.types.ids import Offset
from flotilla.types.operations import CommitOffset

#: Topic and number.
Partition = tuple[str, int]
Answer = TypeVar("Answer")


def list_all(
    client: Client, partitions: Sequence[Partition], at: Start | None, *, timestamp_ms: int = 0, timeout_ms: int
) -> dict[Partition, Offset]:
    """As `Client.list_offsets`, for each of them. Raises the first error."""
    network = client._opened()[1]
    return client._run(
        _gathered({place: list_offset(network, *place, at, timestamp_ms, timeout_ms) for place in partitions})
    )


def commit_all(client: Client, group: str, positions: Mapping[Partition, Offset], *, timeout_ms: int) -> None:
    """Sets where a group goes on, without moving it back anywhere. Raises the first error."""
    network: Network = client._opened()[1]
    requests = {place: CommitOffset(group, *place, offset) for place, offset in positions.items()}
    client._run(_gathered({place: commit_offset(network, each, timeout_ms) for place, each in requests.items()}))


async def _gathered(questions: Mapping[Partition, Coroutine[Any, Any, Answer]]) -> dict[Partition, Answer]:
    answers = await asyncio.gather(*questions.values(), return_exceptions=True)
    found: dict[Partition, Answer] = {}
    for place, answer in zip(questions, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        found[place] = answer
    return found
