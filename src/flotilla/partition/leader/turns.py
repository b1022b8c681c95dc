"""Turns of the members of a group with a single active member: one at a time gets messages, the others stand by.

A turn ends when the member is gone, or when it holds nothing and is silent. Nobody else gets anything while messages
are leased to a member, whoever has the turn: so no two members ever hold messages of the partition at once.
"""

from flotilla.partition.leader.leases import MEMBER_LIVE_MS, LeaseTable


class Turns:
    __slots__ = ("_active", "_leases", "succession_ms")

    def __init__(self, leases: LeaseTable) -> None:
        self._leases = leases
        #: The member that has its turn; empty: none had one yet.
        self._active = ""
        #: When another one may have it, if the active one stays silent.
        self.succession_ms: int | None = None

    def stands_by(self, member: str, now_ms: int) -> bool:
        """Whether another member has its turn. If none has, it is this one's from now on."""
        members = self._leases.members
        own = members.get(member)
        if self._leases.count > (0 if own is None else own.leased):
            return True
        if self._active == member:
            return False
        active = members.get(self._active)
        if active is not None and now_ms < active.last_poll_ms + MEMBER_LIVE_MS:
            self.succession_ms = active.last_poll_ms + MEMBER_LIVE_MS
            return True
        self._active = member
        return False

    def advance(self, now_ms: int) -> bool:
        """Whether it is time to ask those that stand by again."""
        is_due = self.succession_ms is not None and self.succession_ms <= now_ms
        if is_due:
            self.succession_ms = None
        return is_due
