"""Raw reads of logs and snapshots, for backups: a client for `flotilla cluster backup` alone."""

from flotilla.client.async_client import AsyncClient
from flotilla.types.ids import Index
from flotilla.types.operations.backup import (
    HoldSettlements,
    LogRead,
    ReadLog,
    ReadSnapshot,
    SettlementsHeld,
)


class LogCopies:
    """Without a topic, the log of the metadata is meant."""

    def __init__(self, client: AsyncClient) -> None:
        self._call = client._call

    async def describe(self, topic: str, partition: int) -> LogRead:
        """The bounds of a log, with every entry that was acknowledged before."""
        return await self._call(ReadLog(topic, partition), None)

    async def entries(self, topic: str, partition: int, first_index: Index, last_index: Index) -> LogRead:
        """Committed entries of this range, from its first on. Raises OffsetOutOfRangeError."""
        return await self._call(ReadLog(topic, partition, first_index, last_index), None)

    async def snapshot(self, topic: str, partition: int, index: Index, offset: int) -> bytes:
        """Bytes of the snapshot; none: a newer one has taken its place."""
        return (await self._call(ReadSnapshot(topic, partition, index, offset), None)).data

    async def hold(self, hold_id: str, hold_ms: int) -> SettlementsHeld:
        """Holds settlements at the node that this client is connected to; 0: ends the hold."""
        return await self._call(HoldSettlements(hold_id, hold_ms), None)
