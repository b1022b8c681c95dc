"""Who of the stream groups' members was heard when: the memory of the metadata's leader, for one term.

Nothing of it is replicated. A new leader knows nothing and gives everybody a whole session before it judges; so does
one that was stopped for a while itself, because what it was sent meanwhile still waits to be read.

Owns times, not members: who is not in the table is forgotten here. Time is handed in.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from flotilla.metadata.stream_groups import StreamGroup

#: Whoever looks must do so this often. A longer gap: the leader was not running.
GAP_MS_MAX: Final = 2_000

#: Topic id and name.
GroupKey: TypeAlias = tuple[int, str]


class Silent(NamedTuple):
    """Members of one group of whom nobody heard for a whole session."""

    group: StreamGroup
    members: tuple[str, ...]


class _Attendance:
    """One group: its members and when they were heard, the longest silent first."""

    __slots__ = ("_group", "_heard_ms")

    def __init__(self, group: StreamGroup, now_ms: int) -> None:
        self._group = group
        self._heard_ms = {member.name: now_ms for member in group.members}

    def of(self, group: StreamGroup, now_ms: int) -> dict[str, int]:
        """Of the members as they are now. Whoever is new has just been heard."""
        if group is not self._group:
            self._group = group
            members = dict.fromkeys(member.name for member in group.members)
            kept = {name: heard_ms for name, heard_ms in self._heard_ms.items() if name in members}
            self._heard_ms = kept | {name: now_ms for name in members if name not in kept}
        return self._heard_ms


class StreamSessions:
    __slots__ = ("_groups", "_looked_ms")

    def __init__(self, now_ms: int) -> None:
        self._looked_ms = now_ms
        self._groups: dict[GroupKey, _Attendance] = {}

    def heard(self, group: StreamGroup, member: str, now_ms: int) -> None:
        heard_ms = self._of(group, now_ms)
        if member in heard_ms:
            # Taken out and put at the end: the order of the table is the order of times.
            del heard_ms[member]
            heard_ms[member] = now_ms

    def heard_ms_ago(self, group: StreamGroup, member: str, now_ms: int) -> int:
        """As far as this leader knows."""
        return now_ms - self._of(group, now_ms).get(member, now_ms)

    def silent(self, groups: Iterable[StreamGroup], now_ms: int) -> list[Silent]:
        """To be asked often, with all groups there are: whose time is over."""
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
        key = (group.topic_id, group.name)
        attendance = self._groups.get(key)
        if attendance is None:
            attendance = self._groups[key] = _Attendance(group, now_ms)
        return attendance.of(group, now_ms)


def _longer_silent(heard_ms: dict[str, int], since_ms: int) -> tuple[str, ...]:
    found = []
    for name, last_ms in heard_ms.items():
        if last_ms > since_ms:
            break
        found.append(name)
    return tuple(found)
