"""What `flotilla node recover` does: the only node that kept its data becomes a cluster of its own.

Raft never does this by itself: a lone node cannot know what the others had acknowledged without it. A person who knows
that the other disks are gone can. Every group in the data directory gets a new configuration with this node as its only
voter, one term later, and the metadata a new cluster id. All of that is one block of the journal, so it happens or
does not. The log of this node counts as committed to its end; what only the others had is gone.

The new id keeps the old members out: whoever comes back with its old disk is refused by its handshake. Nodes with empty
disks join under their old ids like any node that lost its disk, and get their replicas again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.cli.recovery.log_reading import read_entries
from flotilla.cli.recovery.sole_member import end_alone, replayed, write_block, write_metadata
from flotilla.codec.batch.facts import span_of
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.values import Partition
from flotilla.raft.configuration import decode_configuration
from flotilla.raft.messages import Configuration, Entry
from flotilla.runtime.data_dir_identity import DataDir, read_identity
from flotilla.runtime.path_folder import PathFolder
from flotilla.storage.group_log import SegmentedLog
from flotilla.storage.options import StoreOptions
from flotilla.storage.overlay_disk import OverlayDisk
from flotilla.storage.ports import Disk
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore
from flotilla.types.errors import CorruptionError, InvalidArgumentError
from flotilla.types.ids import GroupId, Index, NodeId


@dataclass(slots=True)
class KeptGroup:
    """A group of which this node has a log."""

    group: GroupId
    name: str
    last_index: Index
    #: Known to be committed here. Later entries are kept, whether they were acknowledged or not.
    committed: Index
    #: The members with which it was committed; later entries of theirs may be gone.
    voters: tuple[NodeId, ...]
    #: Entries after the last one that are damaged or follow a damaged one, and go.
    cut: int


@dataclass(slots=True)
class Recovery:
    """What stays and what is gone."""

    node: NodeId
    #: Empty until it is done.
    cluster_id: str = ""
    kept: list[KeptGroup] = field(default_factory=list)
    #: Partitions that begin empty: this node was to hold them and has nothing of them.
    empty: list[str] = field(default_factory=list)
    #: Partitions of which this node has no replica. They stay unavailable until their topics are deleted.
    gone: list[str] = field(default_factory=list)


def recover(directory: Path, *, is_accepted: bool, may_cut: bool = False) -> Recovery:
    """Does it if it is accepted, and otherwise only says what it would do.

    `may_cut`: damaged entries that are not known to be committed go, with all that follow them.

    Raises InvalidArgumentError if the directory cannot be recovered, StorageFailedError if a node runs on it.
    """
    folder = PathFolder(directory)
    data = DataDir(folder, read_identity(folder))
    posix = PosixDisk(str(directory))
    disk: Disk = posix if is_accepted else OverlayDisk(posix)
    try:
        # Without the limit, a dry run of a store with many journal files would flush them all, in memory.
        store = NodeStore.open(disk, StoreOptions(journal_files_max=1_000_000), span_of)
        try:
            survivor = _Survivor(store, data.identity.node, may_cut=may_cut)
            if is_accepted:
                survivor.found.cluster_id = token_hex(16)
                # First: a crash in between leaves a directory that no node starts with, and this can be repeated.
                data.recovered(survivor.found.cluster_id)
                survivor.change()
            return survivor.found
        finally:
            store.close()
    except CorruptionError as error:
        raise InvalidArgumentError(f"the store in {directory} cannot be read: {error}") from error
    finally:
        posix.close()


class _Survivor:
    def __init__(self, store: NodeStore, node: NodeId, *, may_cut: bool) -> None:
        self._store = store
        self._configuration = Configuration(voters=(node,))
        self._node = node
        if METADATA_GROUP not in store.groups:
            raise InvalidArgumentError("the node was never part of a cluster: there is nothing to recover")
        for log in store.groups.values():
            _check_intact(store, log, may_cut=may_cut)
        self._machine = _replayed(store)
        self.found = Recovery(node)
        self._look()

    def _look(self) -> None:
        found, groups = self.found, self._store.groups
        found.kept.append(self._kept(METADATA_GROUP, "metadata"))
        topics = sorted(self._machine.state.topics.values(), key=lambda topic: topic.name)
        for topic in topics:
            for place in topic.partitions:
                name = f"{topic.name}/{place.number}"
                if place.group in groups:
                    found.kept.append(self._kept(place.group, name))
                else:
                    (found.empty if self._node in place.hosts else found.gone).append(name)

    def _kept(self, group: GroupId, name: str) -> KeptGroup:
        log = self._store.groups[group]
        recovered = log.recovered()
        configuration = recovered.configuration
        for entry in recovered.configuration_entries:
            configuration = decode_configuration(entry.data)
        end = _end(log)
        return KeptGroup(group, name, end, _committed(log), configuration.voters, log.last_index() - end)

    def change(self) -> None:
        """Writes the new configurations of all groups, and the new id, in one block."""
        store = self._store
        for group, log in list(store.groups.items()):
            if group != METADATA_GROUP:
                end_alone(store, log, self._node, _end(log))
        for place in self._missing():
            self._machine.state.confirm_lost(place.group, self._node)
            store.create_group(place.group, self._configuration)
        term = store.groups[METADATA_GROUP].hard_state.term + 1
        write_metadata(store, self._machine, self._node, self.found.cluster_id, term)
        write_block(store)
        store.mark_block()

    def _missing(self) -> list[Partition]:
        assigned = self._machine.state.assignments_to(self._node)
        return [assignment.place for group, assignment in assigned.items() if group not in self._store.groups]


def _check_intact(store: NodeStore, log: SegmentedLog, *, may_cut: bool) -> None:
    """Nobody is left to repair it from. Doubtful entries at the end may never have been acknowledged, and are cut."""
    doubtful = log.doubtful.as_list()
    for low, high in log.damaged.as_list():
        is_cut = low > _committed(log)
        if (not doubtful or low < doubtful[0][0]) and not (is_cut and may_cut):
            way_out = "; --cut-damaged drops them and all that follow" if is_cut else ""
            raise InvalidArgumentError(
                f"entries {low} to {high - 1} of group {log.group} are damaged, and no other node is left to repair "
                f"them from{way_out}"
            )
    low, end = log.first_index(), _end(log) + 1
    while low < end:
        low += len(read_entries(store, log, low, end))


def _end(log: SegmentedLog) -> Index:
    """The last entry that is kept."""
    bad = log.doubtful.as_list() + log.damaged.as_list()
    return min(low for low, _ in bad) - 1 if bad else log.last_index()


def _committed(log: SegmentedLog) -> Index:
    """The last entry that is known to be committed; later ones may be, too."""
    snapshot = log.snapshot()
    return max(log.hard_state.commit, 0 if snapshot is None else snapshot.index)


def _replayed(store: NodeStore) -> MetadataMachine:
    """The metadata at the end of their log."""
    log = store.groups[METADATA_GROUP]

    def entries(low: Index) -> Iterator[Entry]:
        end = _end(log) + 1
        while low < end:
            found = read_entries(store, log, low, end)
            yield from found
            low = found[-1].index + 1

    snapshot = log.read_snapshot()
    if snapshot is None:
        machine = replayed(entries(1))
    else:
        machine = replayed(entries(snapshot.meta.index + 1), snapshot.meta.index, snapshot.data)
    if not machine.state.cluster.cluster_id:
        raise InvalidArgumentError("the node has not entered its cluster yet: there is nothing to recover")
    return machine
