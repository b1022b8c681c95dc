"""The loop's side of one consumer: makes its fetches, and asks its questions about positions."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from flotilla.client.calls import Call, Outcome
from flotilla.client.network import Network
from flotilla.client.positions import Start, chosen_partitions, commit_offset, find_topic, read_offset, start_offsets
from flotilla.client.reader import Reader, Wanted
from flotilla.client.routes import Route
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Offset
from flotilla.types.operations import CommitOffset, Fetch


class Feed:
    def __init__(self, network: Network, topic: str, group: str, timeout_ms: int, news: Callable[[], None]) -> None:
        """`news` is called, on the loop, whenever the reader has been brought something."""
        self._network = network
        self._topic = topic
        self._group = group
        self._timeout_ms = timeout_ms
        self._news = news
        self._calls: dict[tuple[int, int], Call] = {}

    async def begin(
        self, partitions: Sequence[int] | None, at: Start | None, timestamp_ms: int | None
    ) -> dict[int, Offset]:
        """The partitions to read and where in them."""
        topic = await find_topic(self._network, self._topic, self._timeout_ms)
        return await self.find(chosen_partitions(topic, partitions), at, timestamp_ms)

    async def find(self, partitions: Sequence[int], at: Start | None, timestamp_ms: int | None) -> dict[int, Offset]:
        return await start_offsets(
            self._network,
            self._topic,
            partitions,
            group=self._group,
            at=at,
            timestamp_ms=timestamp_ms,
            timeout_ms=self._timeout_ms,
        )

    def fetch(self, reader: Reader, wanted: Iterable[tuple[int, Wanted]]) -> None:
        """Makes the requests that the reader asked for and brings it the answers."""
        for generation, request in wanted:
            name = (request.partition, generation)
            wait_ms = request.wait_ms if isinstance(request, Fetch) else 0
            arrived = partial(self._arrived, reader, name)
            route = Route(self._topic, request.partition)
            self._calls[name] = self._network.submit(request, route, self._timeout_ms + wait_ms, arrived)

    def _arrived(self, reader: Reader, name: tuple[int, int], outcome: Outcome) -> None:
        self._calls.pop(name, None)
        following = reader.following(*name, outcome)
        if following is not None:
            self.fetch(reader, [(name[1], following)])
        reader.arrived(*name, outcome, is_followed=following is not None)
        self._news()

    async def commit(self, positions: Mapping[int, Offset]) -> dict[int, Offset]:
        """Where the group stands afterwards."""
        group = self._checked_group()
        requests = [CommitOffset(group, self._topic, partition, offset) for partition, offset in positions.items()]
        found = await asyncio.gather(*[commit_offset(self._network, request, self._timeout_ms) for request in requests])
        return dict(zip(positions, found, strict=True))

    async def committed(self, partitions: Sequence[int]) -> dict[int, Offset | None]:
        group = self._checked_group()
        found = await asyncio.gather(
            *[read_offset(self._network, group, self._topic, partition, self._timeout_ms) for partition in partitions]
        )
        return dict(zip(partitions, found, strict=True))

    def close(self) -> None:
        """Nobody waits for what is under way."""
        for call in self._calls.values():
            self._network.session.cancel(call)
        self._calls.clear()

    def _checked_group(self) -> str:
        if not self._group:
            raise InvalidArgumentError("committing takes a group: consumer(..., group=...)")
        return self._group
