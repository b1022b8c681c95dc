"""The description of a group over all partitions of its topic."""

from collections.abc import Mapping
from dataclasses import field

from flotilla.types.operations.queue import GroupDescription, MemberInfo
from flotilla.types.operations.stream import StreamGroupDescription
from flotilla.types.slotted import frozen


@frozen
class GroupInfo:
    """One group of a topic. Sums are over the partitions; `partitions` has each of them."""

    topic: str
    name: str
    #: "queue", "stream", or "offset" for a group that only commits offsets.
    kind: str
    partitions: Mapping[int, GroupDescription] = field(default_factory=dict)
    #: Stream groups only: the members, and when and why the last rebalance happened.
    stream: StreamGroupDescription | None = None

    @property
    def lag(self) -> int:
        """The number of unsettled messages."""
        return self._sum("lag")

    @property
    def oldest_age_ms(self) -> int:
        """The age of the oldest unsettled message that is not delayed; 0 without one."""
        return max([part.oldest_age_ms for part in self.partitions.values()], default=0)

    @property
    def ready(self) -> int:
        return self._sum("ready")

    @property
    def leased(self) -> int:
        return self._sum("leased")

    @property
    def delayed(self) -> int:
        """Messages that wait for their delivery time, or for the next attempt."""
        return self._sum("delayed")

    @property
    def dying(self) -> int:
        """Dead messages that are not in the dead-letter topic yet."""
        return self._sum("dying")

    @property
    def dead_total(self) -> int:
        return self._sum("dead_total")

    @property
    def acked_total(self) -> int:
        return self._sum("acked_total")

    @property
    def failed_total(self) -> int:
        return self._sum("failed_total")

    @property
    def expired_total(self) -> int:
        return self._sum("expired_total")

    @property
    def cancelled_total(self) -> int:
        return self._sum("cancelled_total")

    @property
    def trimmed_total(self) -> int:
        """Messages that retention, a trim or a purge removed before the group had settled them."""
        return self._sum("trimmed_total")

    @property
    def unburied(self) -> int:
        """Of `dying`: messages that the dead-letter topic has refused. They are tried again."""
        return self._sum("unburied")

    @property
    def held_back(self) -> int:
        """Messages that stay for the group although they are beyond the topic's retention."""
        return self._sum("held_back")

    @property
    def unused_ms(self) -> int:
        """Of a group that expires (`expires_after_ms`): how long nobody has used it; 0 while it has members."""
        if self.stream is not None and self.stream.members:
            return 0
        return min([part.unused_ms for part in self.partitions.values()], default=0)

    @property
    def is_paused(self) -> bool:
        return any(part.is_paused for part in self.partitions.values())

    @property
    def member_count(self) -> int:
        return len(self.members) if self.stream is None else len(self.stream.members)

    @property
    def owners(self) -> dict[int, str]:
        """Stream groups only: the owner of each partition."""
        members = [] if self.stream is None else self.stream.members
        return {number: member.name for member in members for number in member.partitions}

    @property
    def members(self) -> list[MemberInfo]:
        """Queue groups only: members that have leases or have polled recently, by name."""
        found: dict[str, MemberInfo] = {}
        for part in self.partitions.values():
            for member in part.members:
                known = found.get(member.name)
                if known is None:
                    found[member.name] = member
                else:
                    quietest = min(known.last_poll_ms_ago, member.last_poll_ms_ago)
                    is_live = known.is_live or member.is_live
                    found[member.name] = MemberInfo(member.name, known.leased + member.leased, quietest, is_live)
        return [found[name] for name in sorted(found)]

    def _sum(self, name: str) -> int:
        return sum([getattr(part, name) for part in self.partitions.values()])
