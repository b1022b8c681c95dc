"""The sessions of stream groups' members: times of heartbeats, in the memory of the metadata's leader for one term.

Not replicated. A new leader knows nothing and gives every member a whole session before it removes any. So does a
leader that was paused, because heartbeats that came meanwhile are not read yet.

A member that releases a partition which it keeps all the same gets it again under another epoch, which is a log entry.
A member that does so again and again, because its claims fail, gets it at most once per `RENEWAL_MS`.

Owns times, not members: members that are not in the table are dropped here. Time is an argument.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from flotilla.metadata.stream_groups import StreamGroup

#: `silent` is called more often than this. A longer gap: the leader was paused.
GAP_MS_MAX: Final = 2_000

#: Bounds the log entries of a member that keeps releasing its own partitions.
RENEWAL_MS: Final = 1_000

#: Topic id and name.
GroupKey: TypeAlias = tuple[int, str]


class Silent(NamedTuple):
    """Members of one group without a heartbeat for a whole session."""

    group: StreamGroup
    members: tuple[str, ...]


class _Attendance:
    """One group: the last heartbeat of each member, the oldest first."""

    __slots__ = ("_group", "_heard_ms", "renewed_ms")

    def __init__(self, group: StreamGroup, now_ms: int) -> None:
        self._group = group
        self._heard_ms = {member.name: now_ms for member in group.members}
        #: When members last got a partition again that they had released.
        self.renewed_ms: dict[str, int] = {}

    def of(self, group: StreamGroup, now_ms: int) -> dict[str, int]:
        """The last heartbeats of the present members. For a new member it is now."""
        if group is not self._group:
            self._group = group
            members = dict.fromkeys(member.name for member in group.members)
            kept = {name: heard_ms for name, heard_ms in self._heard_ms.items() if name in members}
            self._heard_ms = kept | {name: now_ms for name in members if name not in kept}
            self.renewed_ms = {name: time_ms for name, time_ms in self.renewed_ms.items() if name in members}
        return self._heard_ms


class StreamSessions:
    __slots__ = ("_groups", "_looked_ms")

    def __init__(self, now_ms: int) -> None:
        self._looked_ms = now_ms
        self._groups: dict[GroupKey, _Attendance] = {}

    def heard(self, group: StreamGroup, member: str, now_ms: int) -> None:
        heard_ms = self._of(group, now_ms)
        if member in heard_ms:
            # Moved to the end: the order of the table is the order of times.
            del heard_ms[member]
            heard_ms[member] = now_ms

    def heard_ms_ago(self, group: StreamGroup, member: str, now_ms: int) -> int:
        """Since the member's last heartbeat, as far as this leader knows."""
        return now_ms - self._of(group, now_ms).get(member, now_ms)

    def renewed(self, group: StreamGroup, member: str, now_ms: int) -> None:
        """The member gets partitions again that it had released."""
        self._attendance(group, now_ms).renewed_ms[member] = now_ms

    def until_renewal_ms(self, group: StreamGroup, member: str, now_ms: int) -> int:
        """Until the member may get released partitions again; 0: it may now."""
        renewed_ms = self._attendance(group, now_ms).renewed_ms.get(member)
        return 0 if renewed_ms is None else max(renewed_ms + RENEWAL_MS - now_ms, 0)

    def silent(self, groups: Iterable[StreamGroup], now_ms: int) -> list[Silent]:
        """The members whose session is over. To be called often, with all groups."""
        known = self._groups if now_ms - self._looked_ms <= GAP_MS_MAX else {}
        self._looked_ms = now_ms
        self._groups = {}
        found = []
        for group in groups:
            if not group.members:
                continue
            key = (group.topic_id, group.name)
            if key in known:
                self._groups[key] = known[key]
            members = _longer_silent(self._of(group, now_ms), now_ms - group.session_ms)
            if members:
                found.append(Silent(group, members))
        return found

    def _of(self, group: StreamGroup, now_ms: int) -> dict[str, int]:
        return self._attendance(group, now_ms).of(group, now_ms)

    def _attendance(self, group: StreamGroup, now_ms: int) -> _Attendance:
        key = (group.topic_id, group.name)
        attendance = self._groups.get(key)
        if attendance is None:
            attendance = self._groups[key] = _Attendance(group, now_ms)
        return attendance


def _longer_silent(heard_ms: dict[str, int], since_ms: int) -> tuple[str, ...]:
    found = []
    for name, last_ms in heard_ms.items():
        if last_ms > since_ms:
            break
        found.append(name)
    return tuple(found)
