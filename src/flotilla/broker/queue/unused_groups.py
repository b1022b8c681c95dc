"""Groups of one partition that expire, at its leader, for one term: when members last used them.

A queue group is used while it has live members: such as hold messages, wait for some, or have polled a short time ago.
Its commands carry that time into the log, and where there are none for long, a change of holders without names does, so
a new leader knows it up to a step. A group that commits offsets is used when it commits. A new leader waits a while
before it calls anything unused: after an outage members have to come back first.

The metadata's leader asks all partitions, and deletes a group only when it is unused in all (`cluster/group_expiry`).
It has it held before, so that no member comes back while some partitions have deleted it and others have not.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from flotilla.broker.ports import Outside
from flotilla.metadata.values import Topic
from flotilla.partition.commands.partition_commands import ChangeHolders, encode_command
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.errors import UnavailableError
from flotilla.types.operations.group_expiry import GroupUse

SETTING: Final = "expires_after_ms"
#: The log knows the time of the last use within this part of the time after which a group expires.
STEPS_PER_EXPIRY: Final = 8
#: Members have this long to come back to a new leader.
GRACE_MS_MAX: Final = 300_000
#: How long a group is held at most: longer than the requests of its deletion may take.
HOLD_MS: Final = 30_000


class Queue(Protocol):
    """What is needed of the queue groups of the partition."""

    topic: Topic
    machine: PartitionMachine
    now_ms: Callable[[], int]

    def live_members(self, group: str) -> list[str]: ...


def expiring_groups(topic: Topic) -> list[tuple[str, int]]:
    """The groups that expire, and after how long."""
    found = []
    for name, chosen in topic.groups:
        for setting, value in chosen:
            if setting == SETTING and value:
                assert isinstance(value, int)
                found.append((name, value))
    return found


class UnusedGroups:
    def __init__(
        self, queue: Queue, outside: Outside, propose: Callable[[bytes, Callable[[object], None]], bool]
    ) -> None:
        self._queue = queue
        self._outside = outside
        self._propose = propose
        self._began_ms = queue.now_ms()
        #: The topic as it was last seen, and after how long its groups expire.
        self._topic: Topic | None = None
        self._after_ms: dict[str, int] = {}
        #: When each was last seen with members in this term.
        self._live_ms: dict[str, int] = {}
        #: Groups whose use is on its way into the log.
        self._noting: dict[str, None] = {}
        #: Groups that nobody may use now, with the end of that by the monotonic clock.
        self._held: dict[str, int] = {}

    def check(self) -> None:
        """Called periodically: carries the use of groups into the log, where nothing else did for long."""
        queue = self._queue
        for group, after_ms in self._expiring().items():
            state = queue.machine.groups.get(group)
            if state is None or group in self._noting:
                continue
            if queue.live_members(group):
                self._live_ms[group] = queue.now_ms()
            live_ms = self._live_ms.get(group, 0)
            if live_ms - state.used_ms >= after_ms // STEPS_PER_EXPIRY:
                self._noting[group] = None
                command = ChangeHolders(group, state.generation, live_ms)
                self._propose(encode_command(command), partial(self._noted, group))

    def _expiring(self) -> dict[str, int]:
        """After how long each group of the topic expires; without those that do not."""
        if self._topic is not self._queue.topic:
            self._topic = self._queue.topic
            self._after_ms = dict(expiring_groups(self._topic))
        return self._after_ms

    def used(self, group: str) -> None:
        """A member polls: it may be gone again before the next check."""
        if group in self._expiring():
            self._live_ms[group] = self._queue.now_ms()

    def _noted(self, group: str, _: object) -> None:
        """Done, or repeated by the next check."""
        del self._noting[group]

    def unused_ms(self, group: str, after_ms: int) -> int | None:
        """How long nobody has used a group that expires; None: there is no such group here."""
        queue = self._queue
        machine, now_ms = queue.machine, queue.now_ms()
        state, position = machine.groups.get(group), machine.positions.get(group)
        if state is not None:
            if queue.live_members(group):
                return 0
            used_ms = max(state.used_ms, self._live_ms.get(group, 0))
        elif position is not None:
            used_ms = position.committed_at_ms
        elif group in machine.fences:
            # A stream group that has committed nothing: the metadata know when it had members.
            used_ms = 0
        else:
            return None
        grace_left_ms = max(self._began_ms + min(after_ms, GRACE_MS_MAX) - now_ms, 0)
        return max(min(now_ms - used_ms, after_ms - grace_left_ms), 0)

    def look(self, group: str, after_ms: int) -> GroupUse:
        unused_ms = self.unused_ms(group, after_ms)
        if unused_ms is None:
            return GroupUse(is_held=self.is_held(group))
        return GroupUse(True, unused_ms, self.is_held(group))

    def hold(self, group: str, after_ms: int) -> GroupUse:
        """Lets nobody use the group for a moment, if it may be deleted now."""
        if self.may_delete(group, after_ms):
            now_ms = self._outside.steady_ms()
            self._held = {name: until_ms for name, until_ms in self._held.items() if until_ms > now_ms}
            self._held[group] = now_ms + HOLD_MS
        return self.look(group, after_ms)

    def may_delete(self, group: str, after_ms: int) -> bool:
        """Whether it has expired. A group that is not known here may be deleted elsewhere."""
        unused_ms = self.unused_ms(group, after_ms)
        state = self._queue.machine.groups.get(group)
        is_burying = state is not None and bool(state.dying)
        is_over = unused_ms is None or unused_ms >= after_ms
        return after_ms > 0 and is_over and not is_burying and self._outside.is_time_trusted()

    def release(self, group: str) -> None:
        self._held.pop(group, None)

    def is_held(self, group: str) -> bool:
        return bool(self._held) and self._held.get(group, 0) > self._outside.steady_ms()

    def check_free(self, group: str) -> None:
        """Raises UnavailableError while the group is held."""
        if self.is_held(group):
            raise UnavailableError(f"nobody has used group {group!r} for long, and it is being deleted; try again")
