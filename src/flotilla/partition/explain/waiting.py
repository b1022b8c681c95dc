"""What waits in a queue group at its leader: a histogram of due times, and the keys that are blocked."""

from bisect import bisect_left
from typing import Final

from flotilla.partition.explain.explanation import explain_message
from flotilla.partition.leader.places import RETRYING
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.operations.waiting import DUE_EDGES_MS, BlockedKey, BlockedKeys, DueTimes

#: Stretches of delayed messages that one histogram looks at: about 50 ms, if each message has a time of its own.
_LOOKS_MAX: Final = 32_768


def due_times(
    leader: QueueLeader, machine: PartitionMachine, name: str, now_ms: int, looks_max: int = _LOOKS_MAX
) -> DueTimes:
    """Of a group, or without a name of the whole partition. Raises NotFoundError."""
    group = leader.inspect(name, now_ms).delivery if name else None
    counts = [0] * (len(DUE_EDGES_MS) + 1)
    entries, step = leader.delays.sample(looks_max)
    for time_ms, first in entries:
        stretch = machine.index.delayed_at(max(first, machine.log_start))
        if stretch is None or stretch.deliver_at_ms != time_ms:
            # It was trimmed.
            continue
        runs = [(stretch.first, stretch.end)] if group is None else group.state.unsettled(stretch.first, stretch.end)
        counts[bisect_left(DUE_EDGES_MS, time_ms - now_ms)] += step * sum([end - low for low, end in runs])
    if group is not None:
        for first, end, place in group.taken:
            if place >= RETRYING:
                count = sum([high - low for low, high in group.state.unsettled(first, end)])
                counts[bisect_left(DUE_EDGES_MS, place - RETRYING - now_ms)] += count
    return DueTimes(counts, step > 1)


def blocked_keys(leader: QueueLeader, name: str, limit: int, now_ms: int) -> BlockedKeys:
    """Raises NotFoundError."""
    found, key_count, message_count = leader.inspect(name, now_ms).delivery.blocked_keys(limit)
    keys = []
    for key, offset, count in found:
        why = explain_message(leader, name, offset, now_ms)
        keys.append(BlockedKey(key, offset, why.state, why.holder, why.remaining_ms, why.attempts, why.reason, count))
    return BlockedKeys(keys, key_count, message_count)
