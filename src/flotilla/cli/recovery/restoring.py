"""What `flotilla cluster restore` does: it writes the data directory of the first node of a new cluster.

Every log is written as it was, with its snapshot, and ends with a configuration in which the node is the only voter.
So every record keeps its offset, and groups, producers and transactions are as they were at the point of the backup;
leases are not, because no log has them. The cluster has a new id. Other nodes join it and get their replicas.

The directory is made under another name and renamed at the end: a restore that fails leaves nothing that would start.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import Final

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.cli.recovery.manifest import KeptLog, Manifest
from flotilla.cli.recovery.places import Place
from flotilla.cli.recovery.sole_member import end_alone, replayed, write_block, write_metadata
from flotilla.codec.batch.facts import span_of
from flotilla.codec.log_copy import decode_entries
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.values import ACTIVE, Broker
from flotilla.raft.messages import Configuration, Entry, HardState, SnapshotMeta
from flotilla.replica.ports import PendingSnapshot
from flotilla.runtime.data_dir_identity import DataDir
from flotilla.runtime.path_folder import PathFolder, sync_directory
from flotilla.storage.options import StoreOptions
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore
from flotilla.types.errors import CorruptionError, InvalidArgumentError
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.limits import MIB
from flotilla.types.version import FIRST, __version__

#: Of entries in one block of the journal.
_BLOCK_BYTES: Final = 8 * MIB


@dataclass(slots=True)
class Restored:
    backup: int
    node: NodeId
    cluster_id: str
    cluster_name: str
    topics: int
    partitions: int
    #: Partitions that were created while the backup was taken: they begin empty.
    empty: list[str]


def restore(place: Place, manifest: Manifest, directory: Path, node: NodeId, cluster_name: str = "") -> Restored:
    """Raises InvalidArgumentError if the directory is not empty, CorruptionError if the backup is damaged."""
    if directory.exists() and any(directory.iterdir()):
        raise InvalidArgumentError(f"{directory} is not empty: a cluster is restored into a new data directory")
    name = cluster_name or manifest.cluster_name
    made = directory.with_name(f"{directory.name}.{token_hex(4)}.restoring")
    try:
        restored = _restore_into(made, place, manifest, node, name)
    except BaseException:
        rmtree(made, ignore_errors=True)
        raise
    if directory.exists():
        directory.rmdir()
    made.rename(directory)
    sync_directory(directory.parent)
    return restored


def _restore_into(folder: Path, place: Place, manifest: Manifest, node: NodeId, cluster_name: str) -> Restored:
    data = DataDir.claim(PathFolder(folder), node, cluster_name)
    disk = PosixDisk(str(folder))
    try:
        store = NodeStore.open(disk, StoreOptions(), span_of)
        try:
            restored = _Restoring(place, store, node, data.identity.incarnation).run(manifest, cluster_name)
        finally:
            store.close()
    finally:
        disk.close()
    # The first start learns the version.
    data.entered(restored.cluster_id, FIRST)
    return restored


class _Restoring:
    def __init__(self, place: Place, store: NodeStore, node: NodeId, incarnation: int) -> None:
        self._place = place
        self._store = store
        self._node = node
        self._incarnation = incarnation
        self._configuration = Configuration(voters=(node,))

    def run(self, manifest: Manifest, cluster_name: str) -> Restored:
        metadata, *partitions = manifest.logs
        machine = replay_metadata(self._place, metadata)
        kept = {log.group: log for log in partitions}
        state = machine.state
        empty: list[str] = []
        for group, assignment in sorted(state.assignments.items()):
            if group in kept:
                self._restore_log(kept[group])
            else:
                self._store.create_group(group, self._configuration)
                empty.append(f"{state.topics[assignment.topic_id].name}/{assignment.partition}")
        registered_ms = manifest.created_ms
        own = Broker(self._node, "", "", "", "", __version__, ACTIVE, registered_ms, incarnation=self._incarnation)
        state.gather(own)
        cluster_id = token_hex(16)
        state.cluster = replace(state.cluster, name=cluster_name)
        self._store.create_group(METADATA_GROUP, self._configuration)
        # Last: without the metadata the other groups are nothing.
        write_metadata(self._store, machine, self._node, cluster_id, metadata.last_term + 1)
        self._write()
        self._store.mark_block()
        return Restored(
            backup=manifest.number,
            node=self._node,
            cluster_id=cluster_id,
            cluster_name=cluster_name,
            topics=len(state.topics),
            partitions=len(state.assignments),
            empty=empty,
        )

    def _restore_log(self, kept: KeptLog) -> None:
        store, group = self._store, kept.group
        log = store.create_group(group, self._configuration)
        if kept.snapshot is not None:
            self._restore_snapshot(group, kept)
        entries: list[Entry] = []
        size_bytes = 0
        for entry in entries_of(self._place, kept):
            entries.append(entry)
            size_bytes += entry.size_bytes
            if size_bytes >= _BLOCK_BYTES:
                store.save(group, entries=entries)
                self._write()
                entries, size_bytes = [], 0
        hard_state = HardState(kept.last_term, 0, kept.last_index)
        store.save(group, entries=entries, hard_state=hard_state)
        end_alone(store, log, self._node, kept.last_index)
        self._write()

    def _restore_snapshot(self, group: GroupId, kept: KeptLog) -> None:
        snapshot = kept.snapshot
        assert snapshot is not None
        meta = SnapshotMeta(snapshot.index, snapshot.term, kept.base_index, kept.base_term, self._configuration)
        place, parts = self._place, snapshot.parts
        pending = PendingSnapshot(meta, lambda: (part.read(place) for part in parts))
        job = self._store.plan_snapshot(group, pending)
        job.run()
        self._store.save(group, snapshot=self._store.finish_snapshot(job))

    def _write(self) -> None:
        write_block(self._store)
        job = self._store.plan_maintenance()
        if job is not None:
            job.run()
            self._store.finish_maintenance(job)


def replay_metadata(place: Place, kept: KeptLog) -> MetadataMachine:
    """The metadata at the point of the backup. Raises CorruptionError."""
    snapshot = kept.snapshot
    if snapshot is None:
        return replayed(entries_of(place, kept))
    return replayed(entries_of(place, kept), snapshot.index, b"".join(part.read(place) for part in snapshot.parts))


def entries_of(place: Place, kept: KeptLog) -> Iterator[Entry]:
    """All entries of a log, in order. Raises CorruptionError when one is missing or damaged."""
    index = kept.base_index
    for piece in kept.pieces:
        try:
            for entry in decode_entries(piece.file.read(place)):
                if entry.index <= kept.base_index:
                    continue
                if entry.index != index + 1:
                    raise CorruptionError(f"{kept.name}: entry {index + 1} is missing in the backup")
                index = entry.index
                yield entry
        except InvalidArgumentError as error:
            raise CorruptionError(f"{piece.file.path}: {error}") from error
    if index != kept.last_index:
        raise CorruptionError(f"{kept.name}: the backup ends at entry {index}, not at {kept.last_index}")
