"""A backup of a running cluster: a point of every log, at which they fit together, and everything before it.

    1. every log is copied as far as it is committed: the bulk, which may take long
    2. settlements are held at all nodes, for a moment; the points of all logs are read, that of the metadata last
    3. what is missing up to the points is copied, and the manifest is written

Whatever was settled before a point has its cause before the points of all other logs, and a transaction is decided in
the metadata whenever it is visible in a partition (`broker/backup_hold.py`). A hold that did not last, and a log that
was shortened meanwhile, begin the next round; what was copied stays.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from copy import deepcopy
from secrets import token_hex
from time import time
from typing import Final, NamedTuple, TypeAlias

from flotilla.cli.recovery.log_copy import LogCopy, LogMovedError
from flotilla.cli.recovery.manifest import Manifest, backup_numbers, encode_manifest, read_manifest
from flotilla.cli.recovery.places import Place
from flotilla.client.async_client import AsyncClient
from flotilla.client.log_copies import LogCopies
from flotilla.types.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flotilla.types.operations import Metadata
from flotilla.types.operations.backup import LogRead
from flotilla.types.version import __version__

#: Logs that are copied at the same time, and points that are read at the same time.
COPIES_MAX: Final = 4
POINTS_MAX: Final = 64
#: The first rounds hold briefly; a cluster with many partitions needs longer.
HOLDS_MS: Final = (500, 1_000, 2_000, 5_000, 5_000)

#: Topic and partition; the metadata are ("", 0).
Name: TypeAlias = tuple[str, int]
METADATA: Final[Name] = ("", 0)
#: Connects to a broker by its address.
Connect: TypeAlias = Callable[[str], AsyncClient]


class Taken(NamedTuple):
    manifest: Manifest
    #: What this backup has added to the place.
    copied_bytes: int
    #: How long settlements were held, in the round that counts.
    held_ms: int


async def take_backup(client: AsyncClient, connect: Connect, place: Place) -> Taken:
    """Raises InvalidArgumentError if the place has backups of another cluster, UnavailableError."""
    return await _Taking(client, connect, place).run()


class _Taking:
    def __init__(self, client: AsyncClient, connect: Connect, place: Place) -> None:
        self._client = client
        self._connect = connect
        self._place = place
        self._reads = LogCopies(client)
        self._copies: dict[Name, LogCopy] = {}
        self._copied_bytes = 0

    async def run(self) -> Taken:
        numbers = backup_numbers(self._place)
        before = read_manifest(self._place) if numbers else None
        metadata = await self._metadata()
        if before is not None and before.cluster_id != metadata.cluster_id:
            raise InvalidArgumentError(
                f"{self._place.address} has backups of cluster {before.cluster_id}, and this is {metadata.cluster_id}: "
                "name another place"
            )
        for log in [] if before is None else before.logs:
            self._copies[log.topic, log.partition] = LogCopy(deepcopy(log), self._reads, self._place)
        for hold_ms in HOLDS_MS:
            try:
                await self._copy_bulk(metadata)
                points, held_ms = await self._take_points(metadata, hold_ms)
                await self._copy_rest(points)
            except LogMovedError:
                points = {}
            metadata = await self._metadata()
            if points:
                return self._write(metadata, points, held_ms, max(numbers, default=0) + 1)
        raise UnavailableError(
            "the points of all logs could not be read in one hold: nodes come and go, or are too slow; try again"
        )

    async def _metadata(self) -> Metadata:
        metadata = await self._client.admin.metadata()
        if metadata.is_stale or not metadata.cluster_id:
            raise UnavailableError("the metadata have no quorum: a backup would miss recent changes")
        return metadata

    # The copies.

    async def _copy_bulk(self, metadata: Metadata) -> None:
        await _each([*_names(metadata), METADATA], COPIES_MAX, self._follow)

    async def _follow(self, name: Name) -> None:
        try:
            seen = await self._reads.describe(*name)
        except NotFoundError:
            return  # Its topic was deleted.
        await self._copy_of(name, seen).follow(seen)

    def _copy_of(self, name: Name, seen: LogRead) -> LogCopy:
        copy = self._copies.get(name)
        if copy is None or copy.kept.group != seen.group:
            # A new topic, perhaps of an old name.
            copy = self._copies[name] = LogCopy.begin(*name, seen, self._reads, self._place)
        return copy

    async def _copy_rest(self, points: dict[Name, LogRead]) -> None:
        async def reach(name: Name) -> None:
            known = self._copies.get(name)
            copy = self._copy_of(name, points[name])
            await (copy.reach(points[name]) if copy is known else copy.follow(points[name]))

        await _each(list(points), COPIES_MAX, reach)

    # The points.

    async def _take_points(self, metadata: Metadata, hold_ms: int) -> tuple[dict[Name, LogRead], int]:
        """Without points: the hold did not last."""
        loop = asyncio.get_running_loop()
        held = {broker.node: broker.client for broker in metadata.brokers if broker.is_alive}
        points: dict[Name, LogRead] = {}
        async with AsyncExitStack() as stack:
            nodes = [LogCopies(await stack.enter_async_context(self._connect(address))) for address in held.values()]
            start = loop.time()
            async with _hold(nodes, hold_ms) as hold:
                under_hold = await self._metadata()

                async def read(name: Name) -> None:
                    try:
                        points[name] = await self._reads.describe(*name)
                    except NotFoundError:
                        return  # Its topic was deleted.

                await _each(list(_names(under_hold)), POINTS_MAX, read)
                await read(METADATA)
            held_ms = round((loop.time() - start) * 1000)
        after = await self._metadata()
        # A node that came back meanwhile held nothing.
        are_all_held = {broker.node for broker in after.brokers if broker.is_alive} <= held.keys()
        return (points if hold.nodes == held.keys() and are_all_held else {}), held_ms

    def _write(self, metadata: Metadata, points: dict[Name, LogRead], held_ms: int, number: int) -> Taken:
        logs = [self._copies[name].kept for name in sorted(points)]
        created_ms = round(time() * 1000)
        manifest = Manifest(number, created_ms, __version__, metadata.cluster_id, metadata.cluster_name, logs)
        self._place.put(manifest.path, encode_manifest(manifest), is_new=True)
        return Taken(manifest, sum(copy.copied_bytes for copy in self._copies.values()), held_ms)


class _Hold:
    def __init__(self) -> None:
        #: Where it was in force to its end.
        self.nodes: set[int] = set()


@asynccontextmanager
async def _hold(nodes: list[LogCopies], hold_ms: int) -> AsyncIterator[_Hold]:
    hold, hold_id = _Hold(), token_hex(8)
    try:
        await asyncio.gather(*(node.hold(hold_id, hold_ms) for node in nodes))
        yield hold
    finally:
        ended = await asyncio.gather(*(node.hold(hold_id, 0) for node in nodes), return_exceptions=True)
        hold.nodes = {reply.node for reply in ended if not isinstance(reply, BaseException) and reply.is_held}


def _names(metadata: Metadata) -> list[Name]:
    return [(topic.name, number) for topic in metadata.topics for number in range(len(topic.partitions))]


async def _each(names: list[Name], at_once: int, action: Callable[[Name], Awaitable[None]]) -> None:
    """Runs the action for all names, some at a time. The first error ends it."""
    left = iter(names)

    async def work() -> None:
        for name in left:
            await action(name)

    tasks = [asyncio.create_task(work()) for _ in range(min(at_once, len(names)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
