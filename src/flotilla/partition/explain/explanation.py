"""Descriptions of groups and explanations of messages, from the leader's memory and the replicated state.

The history of a message from the log (`history`) is an argument. Nothing here changes a message. The states are those
of `delivery_states`.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from flotilla.partition.explain import delivery_states as states
from flotilla.partition.explain.history import MessageHistory
from flotilla.partition.leader.group_delivery import GroupDelivery
from flotilla.partition.leader.places import (
    ACKING,
    BLOCKED,
    DROPPING,
    EXPIRING,
    FAILING,
    KILLING,
    LEASED,
    RETRYING,
    STAGED,
)
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.state import endings
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.errors import OffsetOutOfRangeError
from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import Explanation, GroupDescription, MemberInfo
from flotilla.types.records import Headers

#: A member that has polled this recently counts as live when a message waits for one that takes it.
MEMBER_LIVE_MS = 60_000
_FILTERS_SHOWN = 8
_SETTLING = {
    ACKING: "the ack is being committed",
    FAILING: "the failure is being committed",
    KILLING: "it goes to the dead-letter topic when that is committed",
    EXPIRING: "its expiry is being committed",
    DROPPING: "it is dropped when that is committed",
}
_ENDED = {
    endings.ACKED: states.ACKED,
    endings.DEAD: states.DEAD,
    endings.CANCELLED: states.CANCELLED,
    endings.EXPIRED: states.EXPIRED,
    endings.DROPPED: states.DROPPED,
}


def describe_group(leader: QueueLeader, name: str, now_ms: int) -> GroupDescription:
    """All but oldest_age_ms, which needs the message. Raises NotFoundError.

    A message that came due counts as delayed until the leader's `advance` has read it, a few hundred batches a call.
    """
    group, machine, delays, rules, now_ms = leader.inspect(name, now_ms)
    state = group.state
    totals = state.totals
    lag = state.lag(machine.next_offset)
    pending = delays.pending_from(state.floor)
    taken, leased, waiting = _count_taken(group)
    members = [
        MemberInfo(name, member.leased, max(now_ms - member.last_poll_ms, 0))
        for name, member in sorted(group.leases.members.items())
    ]
    return GroupDescription(
        kind="queue",
        floor=state.floor,
        next_offset=machine.next_offset,
        log_start=machine.log_start,
        lag=lag,
        ready=max(lag - taken - pending, 0),
        leased=leased,
        delayed=pending + waiting,
        dying=state.dying_count,
        dead_total=totals.dead,
        acked_total=totals.acked,
        failed_total=totals.failed,
        expired_total=totals.expired,
        cancelled_total=totals.cancelled,
        trimmed_total=totals.trimmed,
        is_paused=bool(rules.paused),
        members=members,
        partition_count=state.partition_count,
    )


class OldestUnsettled(NamedTuple):
    """The messages that wait longest among those whose time of delivery has come.

    A message that waits for its next attempt was delivered once, so it counts.
    """

    #: The oldest message without a time of delivery; None: all have one.
    offset: Offset | None
    #: The earliest time of delivery of the others; 0: there are none.
    due_ms: int


def oldest_unsettled(leader: QueueLeader, name: str, now_ms: int) -> OldestUnsettled:
    """Raises NotFoundError. Costs little: of the ready messages it looks at the first of each priority only."""
    group, machine, *_ = leader.inspect(name, now_ms, reads_due=True)
    plain: Offset | None = None
    due_ms = 0
    for offset in (*sorted(group.ready.oldest()), *_taken_firsts(group)):
        if plain is not None and offset > plain:
            continue
        deliver_at_ms = machine.index.deliver_at_ms_of(offset)
        if not deliver_at_ms:
            plain = offset
        elif not due_ms or deliver_at_ms < due_ms:
            due_ms = deliver_at_ms
    return OldestUnsettled(plain, due_ms)


def _taken_firsts(group: GroupDelivery) -> Iterator[Offset]:
    """The first unsettled message of each taken run."""
    for first, end, _ in group.taken:
        unsettled = next(group.state.unsettled(first, end), None)
        if unsettled is not None:
            yield unsettled[0]


def _count_taken(group: GroupDelivery) -> tuple[int, int, int]:
    """Unsettled messages that are taken, leased ones and retrying ones among them."""
    taken = leased = waiting = 0
    for first, end, place in group.taken:
        count = sum([high - low for low, high in group.state.unsettled(first, end)])
        taken += count
        if place == LEASED:
            leased += count
        elif place >= RETRYING:
            waiting += count
    return taken, leased, waiting


def explain_message(
    leader: QueueLeader,
    name: str,
    offset: Offset,
    now_ms: int,
    token_ms: int = 0,
    past: MessageHistory | None = None,
    headers_of: Callable[[Offset], Headers] | None = None,
) -> Explanation:
    """Where one message is for one group, why, and what comes next. Raises NotFoundError, OffsetOutOfRangeError.

    `token_ms` is how long a rate limit that is kept elsewhere delivers nothing. `past` is the message's history from
    the log; without it the history is what the state remembers. `headers_of` reads the headers of a message.
    """
    group, machine, _, rules, now_ms = leader.inspect(name, now_ms)
    group.rate_limit.configure(rules.rate_limit_per_minute, rules.rate_limit_burst, now_ms)
    token_ms = max(token_ms, group.rate_limit.next_token_ms(now_ms))
    if not 0 <= offset < machine.next_offset:
        raise OffsetOutOfRangeError(f"there is no message at offset {offset}")
    found = _explain_settled(group, machine, offset) if group.state.is_settled(offset) else None
    if found is None:
        found = _explain_open(group, machine, rules, offset, now_ms, token_ms)
    last = group.limits.last_attempt_of(offset, rules)
    failure = group.state.failures.get(offset)
    if failure is not None:
        found.attempts = failure.attempts
        found.reason = failure.reason
        bound = f" of {last}" if last else ""
        found.history = [f"attempt {failure.attempts}{bound} failed: {failure.reason}"]
    if past is not None:
        remembered = [] if past.agrees(group.state) else found.history
        found.history = past.lines(group.state, last) + remembered
    if found.state == states.READY and not rules.paused and headers_of is not None:
        found.next = _unwanted(group, lambda: headers_of(offset), now_ms) or found.next
    return found


def _unwanted(group: GroupDelivery, read_headers: Callable[[], Headers], now_ms: int) -> str:
    """Who passes the message over, if all members do; empty: some member takes it, or there are none."""
    seen = [one for one in group.leases.members.values() if one.last_poll_ms + MEMBER_LIVE_MS > now_ms]
    if not seen or any(one.wanted.takes_all for one in seen):
        return ""
    headers = read_headers()
    if any(one.wanted.matches(headers) for one in seen):
        return ""
    asked = list(dict.fromkeys([str(one.wanted) for one in seen]))
    shown = "; ".join(asked[:_FILTERS_SHOWN]) + ("; ..." if len(asked) > _FILTERS_SHOWN else "")
    return f"it waits for a member that takes it: those that polled in the last minute ask only for {shown}"


def _explain_settled(group: GroupDelivery, machine: PartitionMachine, offset: Offset) -> Explanation:
    state = group.state
    if offset < state.start:
        return Explanation(states.SETTLED, history=[f"the group began after it, at {state.start}"])
    if state.endings.trimmed.contains(offset):
        return Explanation(states.TRIMMED, history=["retention or a trim removed it before the group had settled it"])
    ended = state.endings.runs.get(offset)
    if ended is None:
        if offset < max(state.endings.known_from, machine.log_start):
            return Explanation(states.SETTLED, history=["it ended, but how is not remembered"])
        return Explanation(states.ACKED)
    found = Explanation(_ENDED[ended.kind], attempts=ended.attempts, reason=ended.reason, ended_ms=ended.ended_ms)
    if ended.kind == endings.DEAD:
        found.history = [f"attempt {ended.attempts} was the last: {ended.reason}"]
        if state.death_of(offset) is not None:
            found.state = states.DYING
            found.next = "it is copied to the dead-letter topic"
    return found


def _explain_open(
    group: GroupDelivery, machine: PartitionMachine, rules: GroupRules, offset: Offset, now_ms: int, token_ms: int
) -> Explanation:
    place = group.taken.get(offset)
    if place is None:
        return _explain_untaken(machine, rules, offset, now_ms, token_ms)
    if place == LEASED:
        held = group.leases.lease_at(offset)
        assert held is not None, "a message is leased without a lease"
        lease, deadline_ms = held
        remaining_ms = max(deadline_ms - now_ms, 0)
        return Explanation(
            states.LEASED, holder=lease.member, remaining_ms=remaining_ms, next="its lease is settled, or expires"
        )
    if place == STAGED:
        return Explanation(
            states.STAGED, next="it is done when its transaction commits, and ready when that is aborted"
        )
    if place == BLOCKED:
        return Explanation(states.BLOCKED, next="it is ready when the messages of its key before it are settled")
    if place >= RETRYING:
        remaining_ms = max(place - RETRYING - now_ms, 0)
        return Explanation(states.RETRYING, remaining_ms=remaining_ms, next="it is retried")
    return Explanation(states.SETTLING, next=_SETTLING[place])


def _explain_untaken(
    machine: PartitionMachine, rules: GroupRules, offset: Offset, now_ms: int, token_ms: int
) -> Explanation:
    deliver_at_ms = machine.index.deliver_at_ms_of(offset)
    if deliver_at_ms > now_ms:
        return Explanation(states.DELAYED, remaining_ms=deliver_at_ms - now_ms, next="its time of delivery comes")
    if rules.paused:
        return Explanation(states.READY, next="it is delivered when the group is not paused any more")
    if token_ms:
        return Explanation(
            states.READY, remaining_ms=token_ms, next="the rate limit allows another message, which may be this one"
        )
    return Explanation(states.READY, next="the next poll may have it")
