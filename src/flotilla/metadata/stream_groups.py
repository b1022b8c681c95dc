"""The stream groups of the cluster: members, and the owner of each partition with its epoch.

Every change of a group makes a new generation of it. When members or partitions change, a strategy names a target for
each partition (`assignment`). A partition whose owner is its target is left alone. One without an owner goes to its
target at once. One that another live member owns waits until that member has released it. A member gets a partition
under an epoch: the generation in which that happened. An owner that has stopped using a partition and keeps it all the
same, because a move was called off or a claim failed, gets a new epoch, too.

Owns the table and its changes. Heartbeats are the coordinator's (`stream_sessions`).

Invariants:
1. the generation of a group only grows, also after the group was removed, because partitions remember epochs;
2. a partition changes its owner only together with its epoch, which becomes the generation: in one generation it has
   one owner at most;
3. an owner that has released a partition never gets it again under that epoch: so its release stays true, however late
   and however often it arrives;
4. owners and targets are members; a partition without an owner has no target.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from flotilla.metadata.assignment import NO_OWNER, STRATEGY_BY_NAME
from flotilla.types.errors import InvalidArgumentError, NotFoundError, OverloadedError, group_in_use, some_names
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


class Share(NamedTuple):
    """One partition of a group."""

    #: The member that may use it; NO_OWNER only while the group has no members.
    owner: str
    #: The generation in which the owner got it.
    epoch: int
    #: The next owner, when the present one has released it. Mostly the same.
    target: str


class GroupMember(NamedTuple):
    name: str
    #: For people.
    client: str


@dataclass(frozen=True, slots=True)
class StreamGroup:
    """One group of one topic. A change makes another value, so that watchers compare by identity."""

    topic_id: int
    name: str
    strategy: str
    session_ms: int
    generation: int = 0
    #: In the order of joining.
    members: tuple[GroupMember, ...] = ()
    #: By partition.
    shares: tuple[Share, ...] = ()
    #: The last rebalance: when, why, and how many partitions it takes from their owners.
    rebalanced_at_ms: int = 0
    cause: str = ""
    moved: int = 0
    #: The partitions that the topic had when the group was founded: in younger ones it begins at the start.
    first_partitions: int = 0

    def has_member(self, name: str) -> bool:
        return any(member.name == name for member in self.members)

    def assignments(self) -> dict[str, list[Owned]]:
        """The partitions of each member that it owns and keeps."""
        found: dict[str, list[Owned]] = {member.name: [] for member in self.members}
        for number, (owner, epoch, target) in enumerate(self.shares):
            if owner == target != NO_OWNER:
                found[owner].append(Owned(number, epoch))
        return found

    def given_up(self, member: str, generation: int, owned: Iterable[int]) -> tuple[int, ...]:
        """The partitions that the member owns and does not name in `owned`, as of a generation.

        Partitions that it got later are not included: it does not know of them.
        """
        used = frozenset(owned)
        return tuple(
            number
            for number, (owner, epoch, _) in enumerate(self.shares)
            if owner == member and epoch <= generation and number not in used
        )

    def recalls(self) -> dict[str, list[Owned]]:
        """The partitions that members have to release to others, by member."""
        found: dict[str, list[Owned]] = {}
        for number, (owner, epoch, target) in enumerate(self.shares):
            if owner != target:
                found.setdefault(owner, []).append(Owned(number, epoch))
        return found

    def is_awaited(self, partitions: Iterable[int]) -> bool:
        """Whether another member waits for one of these partitions."""
        return any(self.shares[number].owner != self.shares[number].target for number in partitions)


def still_used(places: Iterable[Owned], generation: int, owned: Iterable[int]) -> list[Owned]:
    """The partitions of `places` that a member has not released, as of a generation.

    Only these are returned to it as its own: a released partition comes back under another epoch, or not at all.
    """
    used = frozenset(owned)
    return [place for place in places if place.epoch > generation or place.partition in used]


class StreamGroupTable:
    """All stream groups of the cluster."""

    __slots__ = ("forgotten_generation", "topics")

    def __init__(self) -> None:
        #: By topic id, then by name, in the order of creation.
        self.topics: dict[int, dict[str, StreamGroup]] = {}
        #: The latest generation of any removed group.
        self.forgotten_generation = 0

    def find(self, topic_id: int, name: str) -> StreamGroup | None:
        return self.topics.get(topic_id, {}).get(name)

    def groups_of(self, topic_id: int) -> list[StreamGroup]:
        return list(self.topics.get(topic_id, {}).values())

    def all_groups(self) -> list[StreamGroup]:
        """By topic, then in the order of creation."""
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
        """The first member decides about strategy and session; those of later members are ignored."""
        group = self.find(topic_id, name) or self._found(topic_id, name, partition_count)
        if group.has_member(member.name):
            return group
        if not group.members:
            group = replace(group, strategy=strategy or group.strategy, session_ms=session_ms or group.session_ms)
        members = (*group.members, member)
        return self._rebalance(group, members, partition_count, f"{member.name} joined", now_ms)

    def _found(self, topic_id: int, name: str, partition_count: int) -> StreamGroup:
        groups = self.topics.get(topic_id, {})
        if len(groups) >= GROUP_COUNT_MAX:
            # The oldest group without members makes room.
            forgotten = next(known for known in groups.values() if not known.members)
            self._forget(forgotten)
        generation = self.forgotten_generation
        return StreamGroup(topic_id, name, STICKY, SESSION_MS_DEFAULT, generation, first_partitions=partition_count)

    def remove(self, topic_id: int, name: str, members: Sequence[str], why: str, now_ms: int) -> StreamGroup | None:
        """Members leave, or are removed. Their partitions go to others at once. None: there is no such group."""
        group = self.find(topic_id, name)
        if group is None:
            return None
        leaving = dict.fromkeys(members)
        gone = [member.name for member in group.members if member.name in leaving]
        if not gone:
            return group
        left = tuple(member for member in group.members if member.name not in leaving)
        return self._rebalance(group, left, len(group.shares), f"{some_names(gone)} {why}", now_ms)

    def release(
        self, topic_id: int, name: str, member: str, generation: int, partitions: Sequence[int]
    ) -> StreamGroup | None:
        """A member has released these partitions: their targets get them. None: there is no such group."""
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
        group = self.check_known(topic_id, name)
        if group.members:
            raise group_in_use(name, [member.name for member in group.members])
        return group

    def check_known(self, topic_id: int, name: str) -> StreamGroup:
        """Raises NotFoundError."""
        group = self.find(topic_id, name)
        if group is None:
            raise NotFoundError(f"there is no stream group {name!r}")
        return group

    def fence(self, topic_id: int, name: str) -> StreamGroup:
        """A generation that no member ever had: a commit under it supersedes those of all members."""
        group = self.topics[topic_id][name]
        assert not group.members, "members would get a generation in which nothing has changed"
        return self.put(replace(group, generation=group.generation + 1))

    def forget(self, topic_id: int, name: str) -> None:
        """Members that it has are told when they send their next heartbeat, and found it anew."""
        self._forget(self.topics[topic_id][name])

    # Topics.

    def grow(self, topic_id: int, partition_count: int, now_ms: int) -> None:
        """The topic has `partition_count` partitions now."""
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
        """Names new targets. Partitions without a live owner go to their target."""
        assert partition_count >= len(group.shares), "a topic never loses partitions"
        generation = group.generation + 1
        names = [member.name for member in members]
        live = dict.fromkeys(names)
        grown = [Share(NO_OWNER, 0, NO_OWNER)] * (partition_count - len(group.shares))
        before = [*group.shares, *grown]
        owners = [share.owner if share.owner in live else NO_OWNER for share in before]
        targets = STRATEGY_BY_NAME[group.strategy](names, owners)
        shares = tuple(
            Share(owner, share.epoch, target) if owner != NO_OWNER else Share(target, generation, target)
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
