"""Who of the stream groups' members was heard when: the memory of the metadata's leader, for one term.

Nothing of it is replicated. A new leader knows nothing and gives everybody a whole session before it judges; so does
one that was stopped for a while itself, because what it was sent meanwhile still waits to be read.

A member that gives up what it shall have all the same gets it again under another epoch, which is a log entry. One
that keeps doing so, because its claims fail or it does not want the partition, gets that once in a while only.

Owns times, not members: who is not in the table is forgotten here. Time is handed in.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from flotilla.metadata.stream_groups import StreamGroup

#: Whoever looks must do so this often. A longer gap: the leader was not running.
GAP_MS_MAX: Final = 2_000

#: How often a member gets anew what it has given up and nobody else shall have.
RENEWAL_MS: Final = 1_000

#: Topic id and name.
GroupKey: TypeAlias = tuple[int, str]


class Silent(NamedTuple):
    """Members of one group of whom nobody heard for a whole session."""

    group: StreamGroup
    members: tuple[str, ...]


class _Attendance:
    """One group: its members and when they were heard, the longest silent first."""

    __slots__ = ("_group", "_heard_ms", "renewed_ms")

    def __init__(self, group: StreamGroup, now_ms: int) -> None:
        self._group = group
        self._heard_ms = {member.name: now_ms for member in group.members}
        #: When members last got something anew, for those who ever did.
        self.renewed_ms: dict[str, int] = {}

    def of(self, group: StreamGroup, now_ms: int) -> dict[str, int]:
        """Of the members as they are now. Whoever is new has just been heard."""
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
            # Taken out and put at the end: the order of the table is the order of times.
            del heard_ms[member]
            heard_ms[member] = now_ms

    def heard_ms_ago(self, group: StreamGroup, member: str, now_ms: int) -> int:
        """As far as this leader knows."""
        return now_ms - self._of(group, now_ms).get(member, now_ms)

    def renewed(self, group: StreamGroup, member: str, now_ms: int) -> None:
        """The member gets anew what it has given up."""
        self._attendance(group, now_ms).renewed_ms[member] = now_ms

    def until_renewal_ms(self, group: StreamGroup, member: str, now_ms: int) -> int:
        """How long the member has to wait until it may get something anew; 0: it may."""
        renewed_ms = self._attendance(group, now_ms).renewed_ms.get(member)
        return 0 if renewed_ms is None else max(renewed_ms + RENEWAL_MS - now_ms, 0)

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
