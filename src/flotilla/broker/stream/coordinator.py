"""The coordinator of stream groups, at the metadata's leader: it receives heartbeats and answers with assignments.

Membership and ownership are in the metadata (metadata/stream_groups), so a new leader continues where the last one
stopped. Heartbeats are not: they stay in this node's memory for one term (metadata/stream_sessions) and cost no log
entry. A heartbeat without news is parked until there is some, a third of a session at most, so that a member which
stops while it waits is missed as soon as any other. A heartbeat without a partition that its member owns releases it,
and the next owner, whose heartbeat is parked here, is answered at once.

A leader that was replaced unnoticed can mislead members for a moment, without harm: it answers with an earlier
generation, and partitions refuse its epochs once they have seen a later one.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.broker.ports import Cancel, Consensus, Done, Outside
from flotilla.broker.stream.heartbeats import Parked, ParkedHeartbeats
from flotilla.metadata.stream_commands import (
    FenceStreamGroup,
    ForgetStreamGroup,
    JoinStreamGroup,
    ReleasePartitions,
    RemoveStreamMembers,
)
from flotilla.metadata.stream_groups import StreamGroup, StreamGroupTable, still_used
from flotilla.metadata.stream_sessions import GroupKey, StreamSessions
from flotilla.metadata.values import Topic
from flotilla.raft.roles import LEADER
from flotilla.types.errors import (
    FlotillaError,
    NotFoundError,
    NotLeaderError,
    StaleGenerationError,
    UnavailableError,
)
from flotilla.types.ids import Term
from flotilla.types.operations import Done as DoneReply
from flotilla.types.operations import Reply
from flotilla.types.operations.stream import (
    HEARTBEAT_WAIT_MS_MAX,
    DescribeStreamGroup,
    FenceGroup,
    ForgetGroup,
    GroupAssignment,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListStreamGroups,
    Owned,
    StreamGroupDescription,
    StreamGroupList,
    StreamMember,
)

#: Parks the heartbeat of a member that knows which partitions to give up and has not done so: it may hurry.
HURRY_MS: Final = 100
#: Heartbeats in one session.
HEARTBEATS_PER_SESSION: Final = 3
_NEVER: Final[Term] = -1


class StreamCoordinator:
    def __init__(self, catalog: Catalog, consensus: Consensus, outside: Outside) -> None:
        self._catalog = catalog
        self._consensus = consensus
        self._outside = outside
        #: The term in which this node leads, or led at the last look.
        self._term: Term = _NEVER
        self._sessions = StreamSessions(outside.steady_ms())
        self._parked = ParkedHeartbeats(outside, self._answer)
        #: Groups with parked heartbeats, as of the last look.
        self._seen: dict[GroupKey, StreamGroup | None] = {}
        #: Groups from which silent members are being removed.
        self._removing: dict[GroupKey, None] = {}

    @property
    def _table(self) -> StreamGroupTable:
        return self._catalog.machine.state.streams

    # Requests of members.

    def join_group(self, request: JoinGroup, done: Done) -> None:
        topic = self._lead(request.topic)
        known = self._table.find(topic.topic_id, request.group)
        if known is not None and known.has_member(request.member):
            # A repeated request: nothing to write.
            self._joined(request.member, done, known)
            return
        command = JoinStreamGroup(
            topic_id=topic.topic_id,
            group=request.group,
            member=request.member,
            client=request.client,
            strategy=request.strategy,
            session_ms=request.session_ms,
            now_ms=self._outside.now_ms(),
        )
        self._catalog.propose(command, partial(self._joined, request.member, done))

    def _joined(self, member: str, done: Done, result: object) -> None:
        if isinstance(result, StreamGroup):
            self._sessions.heard(result, member, self._outside.steady_ms())
            done(_assigned(result, result.assignments()[member]))
        else:
            done(self._catalog.explain(result))

    def heartbeat(self, request: Heartbeat, done: Done) -> Cancel | None:
        topic = self._lead(request.topic)
        group = self._table.find(topic.topic_id, request.group)
        if group is None or not group.has_member(request.member):
            raise _not_a_member(request)
        if request.generation > group.generation:
            # It has heard from a newer leader.
            raise UnavailableError(f"generation {request.generation} of group {request.group!r} is not known here yet")
        now_ms = self._outside.steady_ms()
        self._sessions.heard(group, request.member, now_ms)
        given_up = group.given_up(request.member, request.generation, request.owned)
        renewal_ms = self._sessions.until_renewal_ms(group, request.member, now_ms)
        if given_up and (group.is_awaited(given_up) or not renewal_ms):
            self._release(request, group, given_up, done)
            return None
        offered = _offered(request, group.assignments()[request.member])
        wait_ms = self._wait_ms(request, group, offered)
        if given_up:
            # It gives up partitions that no other member gets: after that time it gets them back under a new epoch.
            wait_ms = min(wait_ms, renewal_ms)
        if not wait_ms:
            done(_assigned(group, offered))
            return None
        key = (group.topic_id, group.name)
        self._seen.setdefault(key, group)
        return self._parked.park(key, request, wait_ms, done)

    def _release(self, request: Heartbeat, group: StreamGroup, partitions: tuple[int, ...], done: Done) -> None:
        def answered(result: object) -> None:
            if isinstance(result, StreamGroup):
                done(_answer(request, result))
            elif result is None:
                done(_not_a_member(request))
            else:
                done(self._catalog.explain(result))

        command = ReleasePartitions(
            topic_id=group.topic_id,
            group=group.name,
            member=request.member,
            generation=request.generation,
            partitions=partitions,
            now_ms=self._outside.now_ms(),
        )
        self._catalog.propose(command, answered)
        if not group.is_awaited(partitions):
            self._sessions.renewed(group, request.member, self._outside.steady_ms())

    def leave_group(self, request: LeaveGroup, done: Done) -> None:
        """A member that is not there has left already."""
        topic = self._lead(request.topic)
        group = self._table.find(topic.topic_id, request.group)
        if group is None or not group.has_member(request.member):
            done(DoneReply())
            return
        self._remove(group, (request.member,), partial(self._answer_done, done), is_silent=False)

    def _answer_done(self, done: Done, result: object) -> None:
        done(self._catalog.explain(result) if isinstance(result, FlotillaError) else DoneReply())

    def _remove(
        self, group: StreamGroup, members: tuple[str, ...], answered: Callable[[object], None], *, is_silent: bool
    ) -> None:
        command = RemoveStreamMembers(
            topic_id=group.topic_id,
            group=group.name,
            members=members,
            is_silent=is_silent,
            now_ms=self._outside.now_ms(),
        )
        self._catalog.propose(command, answered)

    # Requests of administrators.

    def describe_stream_group(self, request: DescribeStreamGroup, done: Done) -> None:
        topic = self._lead(request.topic)
        group = self._table.find(topic.topic_id, request.group)
        if group is None:
            raise NotFoundError(f"topic {request.topic!r} has no stream group {request.group!r}")
        owned: dict[str, list[int]] = {member.name: [] for member in group.members}
        for number, share in enumerate(group.shares):
            if share.owner in owned:
                owned[share.owner].append(number)
        now_ms = self._outside.steady_ms()
        members = [
            StreamMember(name, client, owned[name], self._sessions.heard_ms_ago(group, name, now_ms))
            for name, client in group.members
        ]
        done(
            StreamGroupDescription(
                generation=group.generation,
                strategy=group.strategy,
                session_ms=group.session_ms,
                members=members,
                rebalanced_ms_ago=max(self._outside.now_ms() - group.rebalanced_at_ms, 0),
                cause=group.cause,
                moved=group.moved,
            )
        )

    def list_stream_groups(self, request: ListStreamGroups, done: Done) -> None:
        topic = self._lead(request.topic)
        done(StreamGroupList(sorted([group.name for group in self._table.groups_of(topic.topic_id)])))

    def fence_group(self, request: FenceGroup, done: Done) -> None:
        topic = self._lead(request.topic)

        def answered(result: object) -> None:
            done(_assigned(result, []) if isinstance(result, StreamGroup) else self._catalog.explain(result))

        self._catalog.propose(FenceStreamGroup(topic.topic_id, request.group, self._outside.now_ms()), answered)

    def forget_group(self, request: ForgetGroup, done: Done) -> None:
        topic = self._lead(request.topic)
        command = ForgetStreamGroup(topic.topic_id, request.group, request.is_forced, self._outside.now_ms())
        self._catalog.propose(command, partial(self._answer_done, done))

    # Leading.

    def _lead(self, topic: str) -> Topic:
        """The topic of a request. Raises NotLeaderError or UnavailableError when this node may not answer."""
        replica = self._catalog.leading()
        if not self._consensus.is_confirmed(METADATA_GROUP):
            raise UnavailableError("this node was paused and is asking a quorum whether it still leads")
        self._begin(replica.raft.term)
        return self._catalog.topic(topic)

    def _begin(self, term: Term) -> None:
        if term != self._term:
            self._refuse_parked(NotLeaderError())
            self._term = term
            self._sessions = StreamSessions(self._outside.steady_ms())

    def _is_leading(self) -> bool:
        replica = self._consensus.replica(METADATA_GROUP)
        return replica is not None and replica.raft.role == LEADER and replica.raft.term == self._term

    def _refuse_parked(self, reason: FlotillaError) -> None:
        self._parked.refuse_all(self._catalog.explain(reason))
        self._seen.clear()

    def check(self) -> None:
        """Called periodically: refuses heartbeats parked at an old leader, and removes silent members."""
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is None or not replica.is_serving():
            if self._parked and replica is not None and not self._is_leading():
                self._refuse_parked(NotLeaderError(replica.raft.leader))
            return
        self._begin(replica.raft.term)
        if not self._consensus.is_confirmed(METADATA_GROUP):
            return
        for group, members in self._sessions.silent(self._table.all_groups(), self._outside.steady_ms()):
            key = (group.topic_id, group.name)
            if key not in self._removing:
                self._remove_silent(key, group, members)

    def _remove_silent(self, key: GroupKey, group: StreamGroup, members: tuple[str, ...]) -> None:
        def answered(_: object) -> None:
            """Done, or retried at the next check."""
            self._removing.pop(key, None)

        self._removing[key] = None
        try:
            self._remove(group, members, answered, is_silent=True)
        except FlotillaError:
            answered(None)

    def close(self, reason: FlotillaError) -> None:
        self._refuse_parked(reason)

    # Parked heartbeats.

    def _wait_ms(self, request: Heartbeat, group: StreamGroup, offered: list[Owned]) -> int:
        """How long a heartbeat may be parked; 0: there is news."""
        wait_ms = min(request.wait_ms, HEARTBEAT_WAIT_MS_MAX, group.session_ms // HEARTBEATS_PER_SESSION)
        if not _is_news(request, offered):
            return wait_ms
        # It knows the present generation and is giving up partitions.
        return min(wait_ms, HURRY_MS) if request.generation == group.generation else 0

    def look(self) -> None:
        """The metadata changed: a member whose heartbeat is parked may own other partitions now."""
        if self._parked and not self._is_leading():
            self.check()
        for key in list(self._seen):
            group = self._table.find(*key)
            if group is not self._seen[key]:
                waiting = self._parked.of(key)
                if waiting:
                    self._seen[key] = group
                    self._look_through(group, waiting)
                else:
                    del self._seen[key]

    def _look_through(self, group: StreamGroup | None, waiting: list[Parked]) -> None:
        assignments = {} if group is None else group.assignments()
        recalls = {} if group is None else group.recalls()
        for parked in waiting:
            request = parked.request
            assignment = assignments.get(request.member)
            if group is None or assignment is None:
                self._parked.finish(parked, _not_a_member(request))
                continue
            offered = _offered(request, assignment)
            recalled = recalls.get(request.member, [])
            # Another member waits for what this one has given up: its next heartbeat releases that.
            is_awaited = len(still_used(recalled, request.generation, request.owned)) < len(recalled)
            if is_awaited or not self._wait_ms(request, group, offered):
                self._parked.finish(parked, _assigned(group, offered))

    def _answer(self, key: GroupKey, request: Heartbeat) -> Reply | FlotillaError:
        """The answer to a heartbeat that has waited long enough."""
        group = self._table.find(*key)
        return _not_a_member(request) if group is None else _answer(request, group)


def _answer(request: Heartbeat, group: StreamGroup) -> Reply | FlotillaError:
    assignment = group.assignments().get(request.member)
    return _not_a_member(request) if assignment is None else _assigned(group, _offered(request, assignment))


def _offered(request: Heartbeat, assignment: list[Owned]) -> list[Owned]:
    return still_used(assignment, request.generation, request.owned)


def _is_news(request: Heartbeat, assignment: list[Owned]) -> bool:
    """Whether the member uses other partitions than assigned, or under an earlier epoch."""
    if sorted(request.owned) != [owned.partition for owned in assignment]:
        return True
    return any(owned.epoch > request.generation for owned in assignment)


def _assigned(group: StreamGroup, assignment: list[Owned]) -> GroupAssignment:
    return GroupAssignment(group.generation, assignment, group.session_ms, group.topic_id, group.first_partitions)


def _not_a_member(request: Heartbeat) -> StaleGenerationError:
    return StaleGenerationError(f"{request.member!r} is not a member of group {request.group!r}: join again")
