"""Groups that expire, at the metadata's leader: it deletes those that nobody has used for as long as a setting says.

    1. every partition is asked how long nobody has used the group; the metadata know it of members of stream groups
    2. every partition holds the group for a moment: a member that comes back now waits for the end
    3. the group is removed from the stream groups, then from every partition, and its settings last

A step that fails ends the attempt; partitions that hold the group are released, and the next look begins anew. Since
settings go last, a new leader of the metadata goes on where the last one stopped. Time is cluster time, and only while
a majority of the brokers' clocks confirms it.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.broker.ports import Consensus, Elsewhere, Outside
from flotilla.broker.queue.unused_groups import expiring_groups
from flotilla.metadata.commands import AlterGroup
from flotilla.metadata.stream_commands import ForgetStreamGroup
from flotilla.metadata.values import Topic
from flotilla.runtime.observability.logs import get_logger
from flotilla.types.errors import FlotillaError, NotFoundError
from flotilla.types.ids import Index, Term
from flotilla.types.operations import Reply
from flotilla.types.operations.group_expiry import (
    STEP_DELETE,
    STEP_HOLD,
    STEP_LOOK,
    STEP_RELEASE,
    ExpireGroup,
    GroupUse,
)

log = get_logger("groups")

#: Groups that are looked at together.
LOOKS_MAX: Final = 16
#: The next look comes no earlier; nor later after an attempt that failed.
LOOK_MS_MIN: Final = 1_000
RETRY_MS: Final = 10_000
_NEVER: Final[Term] = -1

#: Topic id and name.
GroupKey: TypeAlias = tuple[int, str]


class GroupExpiry:
    """On every node; it does nothing unless the node leads the metadata."""

    def __init__(self, catalog: Catalog, consensus: Consensus, outside: Outside, elsewhere: Elsewhere) -> None:
        self.catalog = catalog
        self.outside = outside
        self.elsewhere = elsewhere
        self._consensus = consensus
        #: The term in which this node leads the metadata.
        self._term: Term = _NEVER
        #: Groups that expire, and after how long, as of an entry of the metadata.
        self._groups: dict[GroupKey, int] = {}
        self._groups_index: Index = -1
        #: When each is looked at next, by the monotonic clock.
        self._next_ms: dict[GroupKey, int] = {}
        self._looking: dict[GroupKey, Expiration] = {}

    def check(self) -> None:
        """Called periodically."""
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is None or not replica.is_serving():
            self._begin(_NEVER)
            return
        self._begin(replica.raft.term)
        if not (self.outside.is_time_set() and self.outside.is_time_trusted()):
            return
        self._read()
        now_ms = self.outside.steady_ms()
        for key, after_ms in self._groups.items():
            if len(self._looking) >= LOOKS_MAX:
                break
            if key not in self._looking and self._next_ms.get(key, 0) <= now_ms:
                topic = self.catalog.machine.state.topics[key[0]]
                self._looking[key] = Expiration(self, self._term, topic, key[1], after_ms)
                self._looking[key].begin()

    def look_at_all(self) -> None:
        """For a clock that was turned by hand."""
        self._next_ms.clear()
        self.check()

    @property
    def is_looking(self) -> bool:
        return bool(self._looking)

    def _begin(self, term: Term) -> None:
        if term != self._term:
            self._term = term
            self._groups_index = -1
            self._groups.clear()
            self._next_ms.clear()
            self._looking.clear()

    def is_leading(self, term: Term) -> bool:
        replica = self._consensus.replica(METADATA_GROUP)
        return term == self._term and replica is not None and replica.is_serving() and replica.raft.term == term

    def _read(self) -> None:
        """Which groups expire; one whose setting was altered is looked at now."""
        index = self.catalog.machine.topics_index
        if index == self._groups_index:
            return
        self._groups_index = index
        found = {
            (topic.topic_id, name): after_ms
            for topic in self.catalog.topics()
            for name, after_ms in expiring_groups(topic)
        }
        same = {key for key, after_ms in found.items() if self._groups.get(key) == after_ms}
        self._next_ms = {key: next_ms for key, next_ms in self._next_ms.items() if key in same}
        self._groups = found

    def ended(self, expiration: "Expiration", wait_ms: int) -> None:
        key = expiration.key
        if self._looking.get(key) is expiration:
            del self._looking[key]
            self._next_ms[key] = self.outside.steady_ms() + max(wait_ms, LOOK_MS_MIN)


class Expiration:
    """One look at one group, and its deletion if it has expired."""

    def __init__(self, expiry: GroupExpiry, term: Term, topic: Topic, group: str, after_ms: int) -> None:
        self.key: GroupKey = (topic.topic_id, group)
        self._expiry = expiry
        self._term = term
        self._topic = topic
        self._group = group
        self._after_ms = after_ms
        self._unused_ms = 0

    def begin(self) -> None:
        self._ask(STEP_LOOK, self._looked)

    def _ask(self, step: int, then: Callable[[list[GroupUse]], None]) -> None:
        """Asks all partitions; an error of one of them ends the attempt, and so does a new partition."""
        topic = self._topic
        answers: list[Reply | FlotillaError] = []

        def answered(answer: Reply | FlotillaError) -> None:
            answers.append(answer)
            if len(answers) < len(topic.partitions):
                return
            found = [each for each in answers if isinstance(each, GroupUse)]
            if len(found) == len(answers) and self._expiry.is_leading(self._term) and not self._has_changed():
                then(found)
            else:
                self._give_up(step)

        for partition in topic.partitions:
            request = ExpireGroup(topic.name, partition.number, self._group, step, topic.topic_id)
            self._expiry.elsewhere.ask(request, answered)

    def _has_changed(self) -> bool:
        """Whether the topic has other partitions than those that are asked, or is gone."""
        topic = self._expiry.catalog.machine.state.topics.get(self._topic.topic_id)
        return topic is None or len(topic.partitions) != len(self._topic.partitions)

    def _looked(self, uses: list[GroupUse]) -> None:
        unused = [use.unused_ms for use in uses if use.is_known]
        stream = self._expiry.catalog.machine.state.streams.find(*self.key)
        if stream is not None:
            used_ms = self._expiry.outside.now_ms() if stream.members else stream.rebalanced_at_ms
            unused.append(max(self._expiry.outside.now_ms() - used_ms, 0))
        self._unused_ms = min(unused, default=0)
        if self._unused_ms < self._after_ms:
            self._expiry.ended(self, self._after_ms - self._unused_ms)
        else:
            self._ask(STEP_HOLD, self._held)

    def _held(self, uses: list[GroupUse]) -> None:
        expiry = self._expiry
        if not all(use.is_held for use in uses):
            self._give_up(STEP_HOLD)
            return
        if expiry.catalog.machine.state.streams.find(*self.key) is None:
            self._forgotten(None)
            return
        command = ForgetStreamGroup(*self.key, is_forced=False, now_ms=expiry.outside.now_ms())
        self._propose(command, self._forgotten)

    def _forgotten(self, result: object) -> None:
        """The coordinator does not know the group; or a member has joined it meanwhile."""
        if isinstance(result, FlotillaError) and not isinstance(result, NotFoundError):
            self._give_up(STEP_HOLD)
        else:
            self._ask(STEP_DELETE, self._deleted)

    def _deleted(self, uses: list[GroupUse]) -> None:
        if any(use.is_known for use in uses):
            # A leader has changed, and lets members come back: the rest goes later, if none has come.
            self._give_up(STEP_DELETE)
            return
        self._expiry.catalog.expired_group_count += 1
        log.info(
            "a group that nobody used was deleted",
            topic=self._topic.name,
            group=self._group,
            unused_s=self._unused_ms // 1000,
        )
        topic = self._expiry.catalog.find_topic(self._topic.name)
        chosen = topic.chosen_for(self._group) if topic is not None and topic.topic_id == self.key[0] else ()
        if not chosen:
            self._settings_forgotten(None)
            return
        names = tuple(name for name, _ in chosen)
        command = AlterGroup(self._topic.name, self._group, (), names, self._expiry.outside.now_ms())
        self._propose(command, self._settings_forgotten)

    def _settings_forgotten(self, _: object) -> None:
        """Done; or they stay, as if they had been set for a group that does not exist yet."""
        self._release()
        self._expiry.ended(self, self._after_ms)

    def _propose(self, command: AlterGroup | ForgetStreamGroup, answered: Callable[[object], None]) -> None:
        try:
            self._expiry.catalog.propose(command, answered)
        except FlotillaError as error:
            answered(error)

    def _give_up(self, step: int) -> None:
        if step != STEP_LOOK:
            self._release()
        self._expiry.ended(self, RETRY_MS)

    def _release(self) -> None:
        for partition in self._topic.partitions:
            request = ExpireGroup(self._topic.name, partition.number, self._group, STEP_RELEASE, self._topic.topic_id)
            self._expiry.elsewhere.ask(request, partial(_ignore))


def _ignore(_: Reply | FlotillaError) -> None:
    """The hold ends by itself."""
