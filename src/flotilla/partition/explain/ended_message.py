"""How a message ended in a group, with its result, from the replicated state alone.

A leader that was replaced knows of fewer ends, never of others: an end does not change, except by a reset of the group.
"""

from flotilla.partition.explain import delivery_states as states
from flotilla.partition.state import endings
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import FORGOTTEN_STATE, EndedMessage

_STATES = {
    endings.DEAD: states.DEAD,
    endings.CANCELLED: states.CANCELLED,
    endings.EXPIRED: states.EXPIRED,
    endings.DROPPED: states.DROPPED,
}


def ended_message(machine: PartitionMachine, group: str, offset: Offset) -> EndedMessage | None:
    """None: it has not ended, or the group is not open yet."""
    if not 0 <= offset < machine.next_offset:
        return EndedMessage(offset, "")
    result = machine.results.find(group, offset)
    if result is not None:
        return EndedMessage(offset, states.ACKED, result)
    state = machine.groups.get(group)
    if state is None or not state.is_settled(offset):
        return None
    if machine.results.is_unkept(group, offset):
        return EndedMessage(offset, FORGOTTEN_STATE, reason="it was acked with a result that is not kept")
    if offset < state.start:
        return EndedMessage(offset, states.SETTLED, reason=f"the group began after it, at {state.start}")
    if state.endings.trimmed.contains(offset):
        return EndedMessage(offset, states.TRIMMED, reason="retention or a trim removed it")
    ended = state.endings.runs.get(offset)
    if ended is None:
        if offset < max(state.endings.known_from, machine.log_start):
            return EndedMessage(offset, FORGOTTEN_STATE, reason="it ended, but how is not remembered")
        return EndedMessage(offset, states.ACKED)
    if ended.kind == endings.ACKED:
        return EndedMessage(offset, states.ACKED)
    return EndedMessage(offset, _STATES[ended.kind], reason=ended.reason, attempts=ended.attempts)
