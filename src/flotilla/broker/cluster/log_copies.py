"""Copies of logs and snapshots for a backup: committed entries and stored state, as they are."""

from collections.abc import Callable
from typing import Final

from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.broker.ports import Consensus, Done, Outside
from flotilla.codec.log_copy import encode_entries
from flotilla.metadata.queries import DescribeCluster
from flotilla.partition.queries import DescribePartition
from flotilla.replica.replica import Replica
from flotilla.types.errors import FlotillaError, OffsetOutOfRangeError
from flotilla.types.ids import NodeId
from flotilla.types.limits import MIB
from flotilla.types.operations.backup import (
    HoldSettlements,
    LogRead,
    ReadLog,
    ReadSnapshot,
    SettlementsHeld,
    SnapshotRead,
)

#: Of one answer, beyond its first entry.
COPY_BYTES_MAX: Final = 1 * MIB


class LogCopies:
    def __init__(
        self,
        node: NodeId,
        catalog: Catalog,
        consensus: Consensus,
        outside: Outside,
        replica_of: Callable[[str, int], Replica],
    ) -> None:
        """`replica_of` is the replica of a partition that this node hosts; it raises what a client has to know."""
        self._node = node
        self._catalog = catalog
        self._consensus = consensus
        self._outside = outside
        self._replica_of = replica_of

    def read_log(self, request: ReadLog, done: Done) -> None:
        replica = self._replica(request.topic, request.partition)
        if request.first_index:
            done(_read(replica, request))
            return

        def answered(result: object) -> None:
            done(self._catalog.explain(result) if isinstance(result, FlotillaError) else _describe(replica))

        query = DescribePartition() if request.topic else DescribeCluster()
        self._consensus.read(replica.group, query, answered)

    def read_snapshot(self, request: ReadSnapshot, done: Done) -> None:
        replica = self._replica(request.topic, request.partition)
        done(SnapshotRead(replica.log.snapshot_chunk(request.index, request.offset, COPY_BYTES_MAX) or b""))

    def hold_settlements(self, request: HoldSettlements, done: Done) -> None:
        hold = self._outside.hold
        if request.hold_ms:
            hold.begin(request.hold_id, request.hold_ms)
            done(SettlementsHeld(self._node, True))
        else:
            done(SettlementsHeld(self._node, hold.end(request.hold_id)))

    def _replica(self, topic: str, partition: int) -> Replica:
        if topic:
            return self._replica_of(topic, partition)
        replica = self._catalog.leading()
        assert replica.group == METADATA_GROUP
        return replica


def _describe(replica: Replica) -> LogRead:
    log = replica.log
    last_index = replica.readable_end - 1
    snapshot = log.snapshot()
    return LogRead(
        group=replica.group,
        base_index=log.first_index() - 1,
        base_term=log.term(log.first_index() - 1),
        last_index=last_index,
        last_term=log.term(last_index),
        snapshot_index=0 if snapshot is None else snapshot.index,
        snapshot_term=0 if snapshot is None else snapshot.term,
        snapshot_bytes=0 if snapshot is None else snapshot.size_bytes,
    )


def _read(replica: Replica, request: ReadLog) -> LogRead:
    described = _describe(replica)
    if request.first_index <= described.base_index:
        raise OffsetOutOfRangeError(
            f"entry {request.first_index} was removed: the log begins at {described.base_index + 1}"
        )
    end = min(request.last_index, described.last_index) + 1
    if request.first_index < end:
        described.entries = encode_entries(replica.log.entries(request.first_index, end, COPY_BYTES_MAX))
    return described
