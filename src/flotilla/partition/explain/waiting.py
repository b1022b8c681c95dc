"""What waits in a queue group at its leader: delayed messages, a histogram of them, and the keys that are blocked."""

from bisect import bisect_left
from heapq import merge
from typing import Final

from flotilla.partition.explain.explanation import explain_message
from flotilla.partition.leader.places import RETRYING
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.operations.waiting import (
    DUE_EDGES_MS,
    BlockedKey,
    BlockedKeys,
    DelayedMessage,
    DelayedMessages,
    DueTimes,
    ListDelayed,
)

#: Stretches of delayed messages that one histogram looks at: about 50 ms, if each message has a time of its own.
_LOOKS_MAX: Final = 32_768
#: The same of one list, which looks at them in the order of their times, and costs more.
_LIST_LOOKS_MAX: Final = 16_384


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
        of_group = machine.cancelled.gaps if group is None else group.state.unsettled
        runs = of_group(stretch.first, stretch.end)
        counts[bisect_left(DUE_EDGES_MS, time_ms - now_ms)] += step * sum([end - low for low, end in runs])
    if group is not None:
        for first, end, place in group.taken:
            if place >= RETRYING:
                count = sum([high - low for low, high in group.state.unsettled(first, end)])
                counts[bisect_left(DUE_EDGES_MS, place - RETRYING - now_ms)] += count
    return DueTimes(counts, step > 1)


def delayed_messages(
    leader: QueueLeader,
    machine: PartitionMachine,
    request: ListDelayed,
    now_ms: int,
    looks_max: int = _LIST_LOOKS_MAX,
) -> DelayedMessages:
    """Of a group, or without a name of the whole partition. Raises NotFoundError."""
    group = leader.inspect(request.group, now_ms).delivery if request.group else None
    runs = leader.delays.soonest(looks_max, machine.log_start)
    entries = leader.delays.waiting_count
    if group is not None:
        runs = merge(runs, group.retries.soonest(looks_max))
        entries = max(entries, len(group.retries))
    place = (max(request.from_ms, now_ms + 1), request.from_offset if request.from_ms > now_ms else 0)
    found: list[DelayedMessage] = []
    for due_ms, first, end in runs:
        if due_ms < place[0]:
            continue
        first = max(first, place[1] if due_ms == place[0] else 0)
        waiting = machine.cancelled.gaps(first, end) if group is None else group.state.unsettled(first, end)
        for low, high in waiting if first < end else ():
            for offset in range(low, high):
                if len(found) == request.limit:
                    return DelayedMessages(found, has_more=True)
                failure = None if group is None else group.state.failures.get(offset)
                attempts, reason = (0, "") if failure is None else (failure.attempts, failure.reason)
                found.append(DelayedMessage(offset, due_ms, attempts, reason))
                place = (due_ms, offset + 1)
    return DelayedMessages(found, is_cut=entries > looks_max)


def blocked_keys(leader: QueueLeader, name: str, limit: int, now_ms: int) -> BlockedKeys:
    """Raises NotFoundError."""
    found, key_count, message_count = leader.inspect(name, now_ms).delivery.blocked_keys(limit)
    keys = []
    for key, offset, count in found:
        why = explain_message(leader, name, offset, now_ms)
        keys.append(BlockedKey(key, offset, why.state, why.holder, why.remaining_ms, why.attempts, why.reason, count))
    return BlockedKeys(keys, key_count, message_count)
