"""The log of a stopped node, read by a tool: what is not in memory is loaded at once."""

from flotilla.raft.messages import Entry
from flotilla.storage.group_log import SegmentedLog
from flotilla.storage.store import NodeStore
from flotilla.types.errors import NotLoadedError
from flotilla.types.ids import Index
from flotilla.types.limits import MIB

#: How much of a log is read at once.
_READ_BYTES = 8 * MIB


def read_entries(store: NodeStore, log: SegmentedLog, low: Index, high: Index) -> list[Entry]:
    """Entries from `low` on, at least one. Raises CorruptionError."""
    while True:
        try:
            return log.entries(low, high, _READ_BYTES)
        except NotLoadedError:
            for load in store.take_loads():
                load.run()
                (store.finish_scrub if load.is_background else store.finish_load)(load)
