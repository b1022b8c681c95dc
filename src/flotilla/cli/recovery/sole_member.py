"""How a node becomes the only member of its groups, offline: its store is changed while no node runs on it.

Raft never does this by itself. A node that is left alone recovers so, and a restored cluster begins so.
"""

from collections.abc import Iterable
from dataclasses import replace

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.metadata.machine import MetadataMachine
from flotilla.raft.configuration import encode_configuration
from flotilla.raft.messages import CONFIG, DATA, NOOP, Configuration, Entry, HardState, SnapshotMeta
from flotilla.replica.ports import PendingSnapshot
from flotilla.storage.group_log import SegmentedLog
from flotilla.storage.store import NodeStore
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Index, NodeId, Term
from flotilla.types.snapshot_data import SnapshotData
from flotilla.types.version import why_unsupported


def replayed(entries: Iterable[Entry], index: Index = 0, snapshot: SnapshotData = b"") -> MetadataMachine:
    """The metadata after the snapshot of an index and the entries behind it.

    Raises CorruptionError, and InvalidArgumentError if the cluster has a version that this program does not support.
    """
    machine = MetadataMachine()
    machine.restore(snapshot)
    machine.applied = index
    for entry in entries:
        if entry.index <= machine.applied:
            continue
        if entry.kind == DATA:
            machine.apply(entry)
        machine.applied = entry.index
    unsupported = why_unsupported(machine.state.cluster_version)
    if unsupported:
        raise InvalidArgumentError(unsupported)
    return machine


def end_alone(store: NodeStore, log: SegmentedLog, node: NodeId, end: Index) -> None:
    """Ends the log after `end` with a configuration in which the node is the only voter, one term later."""
    term = max(log.hard_state.term, log.term(min(end, log.last_index()))) + 1
    snapshot = log.snapshot()
    covered = 0 if snapshot is None else snapshot.index
    # After a leader's snapshot the state may be ahead of the log: the entries between are in the state alone.
    entries = [Entry(index, term, NOOP, b"") for index in range(end + 1, covered + 1)]
    configuration = encode_configuration(Configuration(voters=(node,)))
    entries.append(Entry(max(end, covered) + 1, term, CONFIG, configuration))
    hard_state = HardState(term, node, log.hard_state.commit)
    store.save(log.group, truncate_from=end + 1, entries=entries, hard_state=hard_state)


def write_metadata(store: NodeStore, machine: MetadataMachine, node: NodeId, cluster_id: str, term: Term) -> None:
    """The metadata of a cluster of this node and of a new id. As a snapshot: a start must never see the old id."""
    machine.applied += 1
    state = machine.state
    state.cluster = replace(state.cluster, cluster_id=cluster_id, founders=(node,))
    index = machine.applied
    meta = SnapshotMeta(index, term, index, term, Configuration(voters=(node,)))
    job = store.plan_snapshot(METADATA_GROUP, PendingSnapshot(meta, machine.freeze()))
    job.run()
    written = store.finish_snapshot(job)
    store.save(METADATA_GROUP, snapshot=written, hard_state=HardState(term, node, index))


def write_block(store: NodeStore) -> None:
    """Makes everything saved durable."""
    block = store.take_block()
    if block is not None:
        store.write_block(block)
        store.finish_block(block)
