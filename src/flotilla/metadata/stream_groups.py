"""Stream groups as the cluster remembers them: who is a member, and who owns which partition since when.

Every change of a group makes a new generation of it. When members or partitions change, a strategy names a target for
each partition (`assignment`). A partition whose owner is its target is left alone. One without an owner goes to its
target at once. One that another live member owns waits until that member has released it. Whoever gets a partition
gets it under an epoch: the generation in which that happened. So does an owner that has stopped using a partition and
shall have it all the same, because a move was called off or a claim had failed.

Owns the table and what becomes of it, not who is alive: heartbeats are the coordinator's (`stream_sessions`).

Invariants:
1. the generation of a group only grows, also over its being forgotten, because partitions remember epochs;
2. a partition changes its owner only together with its epoch, which becomes the generation: in one generation it has
   one owner at most;
3. an owner that has said that it does not use a partition never gets it again under that epoch: what it said stays
   true, however late and however often it is heard;
4. owners and targets are members; a partition without an owner has no target.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from flotilla.metadata.assignment import NOBODY, STRATEGY_BY_NAME
from flotilla.types.errors import GroupInUseError, InvalidArgumentError, NotFoundError, OverloadedError
from flotilla.types.operations.stream import (
    MEMBER_COUNT_MAX,
    SESSION_MS_DEFAULT,
    SESSION_MS_MAX,
    SESSION_MS_MIN,
    STICKY,
    STRATEGIES,
    Owned,
)
from flotilla.types.topics import GROUP_COUNT_MAX, check_group_name

MEMBER_NAME_LENGTH_MAX: Final = 256
CLIENT_LENGTH_MAX: Final = 256
#: So many names stand in the cause of a rebalance; the rest is counted.
_NAMED_MAX: Final = 3


class Share(NamedTuple):
    """One partition of a group."""

    #: Who may use it; NOBODY only while the group has no members.
    owner: str
    #: The generation in which the owner got it.
    epoch: int
    #: Who shall have it when the owner has given it up. Mostly the owner.
    target: str


class GroupMember(NamedTuple):
    name: str
    #: For people.
    client: str


@dataclass(frozen=True, slots=True)
class StreamGroup:
    """One group of one topic. A change makes another value, so that whoever watches sees it by identity."""

    topic_id: int
    name: str
    strategy: str
    session_ms: int
    generation: int = 0
    #: In the order of joining.
    members: tuple[GroupMember, ...] = ()
    #: By partition.
    shares: tuple[Share, ...] = ()
    #: Of the last time that targets were named: when, why, and how many partitions they took from their owners.
    rebalanced_at_ms: int = 0
    cause: str = ""
    moved: int = 0

    def has_member(self, name: str) -> bool:
        return any(member.name == name for member in self.members)

    def assignments(self) -> dict[str, list[Owned]]:
        """What each member may own now: what it has and shall keep."""
        found: dict[str, list[Owned]] = {member.name: [] for member in self.members}
        for number, (owner, epoch, target) in enumerate(self.shares):
            if owner == target != NOBODY:
                found[owner].append(Owned(number, epoch))
        return found

    def given_up(self, member: str, generation: int, owned: Iterable[int]) -> tuple[int, ...]:
        """What the member owns and does not use any more, by what it says as of a generation.

        What it got later it does not know of, and so it cannot have given it up.
        """
        used = frozenset(owned)
        return tuple(
            number
            for number, (owner, epoch, _) in enumerate(self.shares)
            if owner == member and epoch <= generation and number not in used
        )

    def recalls(self) -> dict[str, list[Owned]]:
        """What members shall give up to others, of those who shall."""
        found: dict[str, list[Owned]] = {}
        for number, (owner, epoch, target) in enumerate(self.shares):
            if owner != target:
                found.setdefault(owner, []).append(Owned(number, epoch))
        return found

    def is_awaited(self, partitions: Iterable[int]) -> bool:
        """Whether another member shall have one of these as soon as its owner has given it up."""
        return any(self.shares[number].owner != self.shares[number].target for number in partitions)


def still_used(places: Iterable[Owned], generation: int, owned: Iterable[int]) -> list[Owned]:
    """Those of a member's places that it has not given up, by what it says as of a generation.

    Nothing else is told to it as its own: what it has given up it gets under another epoch, or not at all.
    """
    used = frozenset(owned)
    return [place for place in places if place.epoch > generation or place.partition in used]


class StreamGroupTable:
    """All stream groups of the cluster."""

    __slots__ = ("forgotten_generation", "topics")

    def __init__(self) -> None:
        #: By topic id, then by name, in the order of their founding.
        self.topics: dict[int, dict[str, StreamGroup]] = {}
        #: No group that was forgotten had a later one.
        self.forgotten_generation = 0

    def find(self, topic_id: int, name: str) -> StreamGroup | None:
        return self.topics.get(topic_id, {}).get(name)

    def groups_of(self, topic_id: int) -> list[StreamGroup]:
        return list(self.topics.get(topic_id, {}).values())

    def all_groups(self) -> list[StreamGroup]:
        """By topic, then in the order of founding."""
        return [group for _, groups in sorted(self.topics.items()) for group in groups.values()]

    def put(self, group: StreamGroup) -> StreamGroup:
        self.topics.setdefault(group.topic_id, {})[group.name] = group
        return group

    # Members.

    def check_join(self, topic_id: int, name: str, member: GroupMember, strategy: str, session_ms: int) -> None:
        """Raises the error that `join` would be refused with."""
        check_group_name(name)
        check_member_name(member.name)
        if len(member.client) > CLIENT_LENGTH_MAX or not member.client.isprintable():
            raise InvalidArgumentError(f"a client's name has at most {CLIENT_LENGTH_MAX} printable characters")
        if strategy and strategy not in STRATEGIES:
            raise InvalidArgumentError(f"a strategy is one of {', '.join(STRATEGIES)}, not {strategy[:80]!r}")
        if session_ms and not SESSION_MS_MIN <= session_ms <= SESSION_MS_MAX:
            raise InvalidArgumentError(f"session_ms is {SESSION_MS_MIN} to {SESSION_MS_MAX}, not {session_ms}")
        group = self.find(topic_id, name)
        if group is None:
            groups = self.topics.get(topic_id, {})
            if len(groups) >= GROUP_COUNT_MAX and all(known.members for known in groups.values()):
                raise OverloadedError(f"a topic has at most {GROUP_COUNT_MAX} stream groups with members")
        elif len(group.members) >= MEMBER_COUNT_MAX and not group.has_member(member.name):
            raise OverloadedError(f"a stream group has at most {MEMBER_COUNT_MAX} members")

    def join(
        self,
        topic_id: int,
        name: str,
        member: GroupMember,
        strategy: str,
        session_ms: int,
        *,
        partition_count: int,
        now_ms: int,
    ) -> StreamGroup:
        """A group without members takes the wishes of the first one; later wishes are not heard."""
        group = self.find(topic_id, name) or self._found(topic_id, name)
        if group.has_member(member.name):
            return group
        if not group.members:
            group = replace(group, strategy=strategy or group.strategy, session_ms=session_ms or group.session_ms)
        members = (*group.members, member)
        return self._rebalance(group, members, partition_count, f"{member.name} joined", now_ms)

    def _found(self, topic_id: int, name: str) -> StreamGroup:
        groups = self.topics.get(topic_id, {})
        if len(groups) >= GROUP_COUNT_MAX:
            # The one that has been there for longest among those that nobody uses makes room.
            forgotten = next(known for known in groups.values() if not known.members)
            self._forget(forgotten)
        return StreamGroup(topic_id, name, STICKY, SESSION_MS_DEFAULT, self.forgotten_generation)

    def remove(self, topic_id: int, name: str, members: Sequence[str], why: str, now_ms: int) -> StreamGroup | None:
        """Members leave, or are taken out. What they owned goes to others at once. None: there is no such group."""
        group = self.find(topic_id, name)
        if group is None:
            return None
        leaving = dict.fromkeys(members)
        gone = [member.name for member in group.members if member.name in leaving]
        if not gone:
            return group
        left = tuple(member for member in group.members if member.name not in leaving)
        return self._rebalance(group, left, len(group.shares), f"{_name(gone)} {why}", now_ms)

    def release(
        self, topic_id: int, name: str, member: str, generation: int, partitions: Sequence[int]
    ) -> StreamGroup | None:
        """A member has given these up, and whoever shall have them gets them. None: there is no such group."""
        group = self.find(topic_id, name)
        if group is None:
            return None
        named = dict.fromkeys(partitions)
        kept = [number for number in range(len(group.shares)) if number not in named]
        freed = group.given_up(member, generation, kept)
        if not freed:
            return group
        shares = list(group.shares)
        for number in freed:
            target = shares[number].target
            shares[number] = Share(target, group.generation + 1, target)
        return self.put(replace(group, generation=group.generation + 1, shares=tuple(shares)))

    # Groups without members.

    def check_empty(self, topic_id: int, name: str) -> StreamGroup:
        """Raises NotFoundError, or the GroupInUseError that `fence` and `forget` would be refused with."""
        group = self.find(topic_id, name)
        if group is None:
            raise NotFoundError(f"there is no stream group {name!r}")
        if group.members:
            names = [member.name for member in group.members]
            count = "one member" if len(names) == 1 else f"{len(names)} members"
            raise GroupInUseError(f"group {name!r} has {count}, to leave first: {_name(names)}")
        return group

    def fence(self, topic_id: int, name: str) -> StreamGroup:
        """A generation that no member ever had: what is done under it comes after all that members did."""
        group = self.topics[topic_id][name]
        assert not group.members, "members would hear of a generation in which nothing has changed"
        return self.put(replace(group, generation=group.generation + 1))

    def forget(self, topic_id: int, name: str) -> None:
        group = self.topics[topic_id][name]
        assert not group.members, "members would be out without having been told"
        self._forget(group)

    # Topics.

    def grow(self, topic_id: int, partition_count: int, now_ms: int) -> None:
        """The topic has so many partitions now."""
        for group in self.groups_of(topic_id):
            have = len(group.shares)
            if have < partition_count:
                cause = f"the topic grew from {have} to {partition_count} partitions"
                self._rebalance(group, group.members, partition_count, cause, now_ms)

    def drop_topic(self, topic_id: int) -> None:
        for group in self.groups_of(topic_id):
            self._forget(group)

    def _forget(self, group: StreamGroup) -> None:
        self.forgotten_generation = max(self.forgotten_generation, group.generation)
        groups = self.topics[group.topic_id]
        del groups[group.name]
        if not groups:
            del self.topics[group.topic_id]

    def _rebalance(
        self, group: StreamGroup, members: tuple[GroupMember, ...], partition_count: int, cause: str, now_ms: int
    ) -> StreamGroup:
        """Names targets anew. Partitions that nobody owns any more go to theirs."""
        assert partition_count >= len(group.shares), "a topic never loses partitions"
        generation = group.generation + 1
        names = [member.name for member in members]
        live = dict.fromkeys(names)
        grown = [Share(NOBODY, 0, NOBODY)] * (partition_count - len(group.shares))
        before = [*group.shares, *grown]
        owners = [share.owner if share.owner in live else NOBODY for share in before]
        targets = STRATEGY_BY_NAME[group.strategy](names, owners)
        shares = tuple(
            Share(owner, share.epoch, target) if owner != NOBODY else Share(target, generation, target)
            for share, owner, target in zip(before, owners, targets, strict=True)
        )
        moved = sum([share.owner != target for share, target in zip(before, targets, strict=True)])
        return self.put(
            replace(
                group,
                generation=generation,
                members=members,
                shares=shares,
                rebalanced_at_ms=now_ms,
                cause=cause,
                moved=moved,
            )
        )


def check_member_name(name: str) -> None:
    """Raises InvalidArgumentError."""
    if not (1 <= len(name) <= MEMBER_NAME_LENGTH_MAX and name.isprintable()):
        raise InvalidArgumentError(f"the name of a member has 1 to {MEMBER_NAME_LENGTH_MAX} printable characters")


def _name(names: list[str]) -> str:
    if len(names) > _NAMED_MAX:
        return f"{', '.join(names[:_NAMED_MAX])} and {len(names) - _NAMED_MAX} more"
    return ", ".join(names)
