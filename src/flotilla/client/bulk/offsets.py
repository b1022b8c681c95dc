"""Offsets of many partitions at once, looked up and committed in parallel."""

from collections.abc import Mapping, Sequence

from flotilla.client._core.answer import gather_answers
from flotilla.client._core.positions import Start as Start
from flotilla.client._core.positions import commit_offset, list_offset
from flotilla.client.client import Client
from flotilla.types.ids import Offset
from flotilla.types.operations import CommitOffset

#: Topic and number.
Partition = tuple[str, int]


def list_all(
    client: Client, partitions: Sequence[Partition], at: Start | None, *, timestamp_ms: int = 0, timeout_ms: int
) -> dict[Partition, Offset]:
    """`Client.list_offsets` of each partition. Raises the first error."""
    return client._channel().run(
        lambda network: gather_answers(
            {place: list_offset(network, *place, at, timestamp_ms, timeout_ms) for place in partitions}
        )
    )


def commit_all(client: Client, group: str, positions: Mapping[Partition, Offset], *, timeout_ms: int) -> None:
    """Commits an offset for each partition, without moving any backwards. Raises the first error."""
    requests = {place: CommitOffset(group, *place, offset) for place, offset in positions.items()}
    client._channel().run(
        lambda network: gather_answers(
            {place: commit_offset(network, each, timeout_ms) for place, each in requests.items()}
        )
    )
