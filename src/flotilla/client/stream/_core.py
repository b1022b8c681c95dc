"""One member of a stream group without threads or sockets: joins, sends heartbeats, claims and gives up partitions.

    claiming   the coordinator assigned it; the partition learns the epoch, and returns the committed offset
    owned      the application has it, or gets it at its next poll
    recalled   the coordinator wants it back, or it is lost; the application gives it up at its next poll

Heartbeats name the owned partitions. While those equal the assignment, a heartbeat is parked at the coordinator, which
answers when something changes; otherwise heartbeats are sent periodically, and at once when the application has given
something up. They belong to the session's loop, so a slow handler does not lose its partitions. An application that
does not poll for `poll_ms_max` loses recalled partitions; their epoch makes its later commits fail.

Another thread may take from `changes` and `errors`; everything else belongs to the session's thread.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from flotilla.client._core.calls import CallResult, ClientCall
from flotilla.client._core.session import Session
from flotilla.client._core.timers import Alarm, Timer
from flotilla.client.stream.options import StreamOptions
from flotilla.types.errors import FlotillaError, StaleGenerationError, TopicReplacedError
from flotilla.types.ids import Offset
from flotilla.types.operations import (
    EARLIEST,
    LATEST,
    CommitOffset,
    ListOffsets,
    OffsetCommitted,
    OffsetFound,
    Request,
)
from flotilla.types.operations.queue import FROM_OFFSET, FROM_TIME, Start
from flotilla.types.operations.stream import (
    HEARTBEAT_WAIT_MS_MAX,
    SESSION_MS_DEFAULT,
    ClaimPartition,
    GroupAssignment,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
)

#: The heartbeat interval while a partition is still to be given up, and after a failure.
BEAT_MS: Final = 500

_CLAIMING: Final = "claiming"
_OWNED: Final = "owned"
_RECALLED: Final = "recalled"


class OwnedPartition(NamedTuple):
    """A partition to read from `offset` on, and the epoch of its commits."""

    partition: int
    epoch: int
    offset: Offset
    #: The group has committed this offset; else it begins there.
    is_committed: bool
    #: Of the topic.
    topic_id: int = 0


class Recall(NamedTuple):
    """Partitions to give up, with their epochs."""

    partitions: dict[int, int]
    #: Another member owns them already.
    is_lost: bool


@dataclass(slots=True, eq=False)
class _Notice:
    """The recall of one partition, until the application takes it."""

    partition: int
    epoch: int
    #: May become True before the application takes it.
    is_lost: bool


Change: TypeAlias = OwnedPartition | _Notice


class _Partition:
    """One partition that was assigned to this member."""

    __slots__ = ("call", "epoch", "notice", "partition", "state", "timer", "topic_id")

    def __init__(self, partition: int, epoch: int, topic_id: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.topic_id = topic_id
        self.state = _CLAIMING
        #: The request in flight.
        self.call: ClientCall | None = None
        #: The recall, and the time at which it takes effect without the application.
        self.notice: _Notice | None = None
        self.timer: Timer | None = None


class StreamMember:
    def __init__(
        self,
        session: Session,
        topic: str,
        group: str,
        name: str,
        options: StreamOptions,
        *,
        client: str,
        news: Callable[[], None],
    ) -> None:
        """`client` is shown to operators; `news` is called for each change and each error."""
        self.name = name
        #: For the application, in order.
        self.changes: deque[Change] = deque()
        self.errors: deque[FlotillaError] = deque()
        self.generation = 0
        self.is_closed = False
        self._session = session
        self._topic = topic
        self._group = group
        self._client = client
        self._options = options
        self._notify = news
        self._session_ms = options.session_ms or SESSION_MS_DEFAULT
        #: The newest assignment: epochs by partition.
        self._target: dict[int, int] = {}
        self._parts: dict[int, _Partition] = {}
        #: The join or the heartbeat in flight, and the timer of the next heartbeat.
        self._call: ClientCall | None = None
        self._next_beat = Alarm(session.timers, self._beat)
        self._is_joined = False
        #: Of the topic whose group it has joined; 0: none, or it is about to join that of another topic of the name.
        self._topic_id = 0
        #: In partitions from this number on, which are younger than the group, it begins at the start; 0: in none.
        self._first_partitions = 0

    # For the shells.

    @property
    def is_idle(self) -> bool:
        """Neither a member nor about to become one."""
        return not self._is_joined and self._call is None and self._next_beat.when_ms is None

    @property
    def is_assigned(self) -> bool:
        """A member that has claimed all partitions that the group has assigned to it, and gives up none."""
        claimed = {part.partition for part in list(self._parts.values()) if part.state == _OWNED}
        return self._is_joined and claimed == set(self._target)

    def next_change(self) -> tuple[list[OwnedPartition] | Recall | None, int]:
        """The next change for the application; consecutive equal ones are joined. And how many they are.

        One other thread may call it, and `drop_changes` when it has taken them in. Until then it gets them again.
        """
        owned: list[OwnedPartition] = []
        recall: Recall | None = None
        count = 0
        for change in list(self.changes):
            if isinstance(change, OwnedPartition):
                if recall is not None:
                    break
                owned.append(change)
            else:
                recall = recall or Recall({}, change.is_lost)
                if owned or change.is_lost != recall.is_lost:
                    break
                recall.partitions[change.partition] = change.epoch
            count += 1
        return owned or recall, count

    def drop_changes(self, count: int) -> None:
        """The application has taken in so many changes."""
        for _ in range(count):
            self.changes.popleft()

    def take_change(self) -> list[OwnedPartition] | Recall | None:
        """Both at once."""
        change, count = self.next_change()
        self.drop_changes(count)
        return change

    def begin(self, now_ms: int) -> None:
        """Joins the group, unless that has happened."""
        self._session.now_ms = now_ms
        if self.is_idle and not self.is_closed:
            self._join()

    def gave_up(self, partitions: Mapping[int, int], now_ms: int) -> None:
        """The application has given up these partitions, by epoch."""
        self._session.now_ms = now_ms
        for partition, epoch in partitions.items():
            part = self._parts.get(partition)
            if part is not None and part.epoch == epoch:
                self._drop(part)
        self._beat_now()

    def lost(self, partition: int, epoch: int, now_ms: int) -> None:
        """A partition has refused our epoch: another member owns it."""
        self._session.now_ms = now_ms
        part = self._parts.get(partition)
        if part is not None and part.epoch == epoch:
            self._recall([part], is_lost=True)

    def replaced(self, topic_id: int, now_ms: int) -> None:
        """The topic of this id was deleted and created again: joins the group of the new one."""
        self._session.now_ms = now_ms
        if topic_id == self._topic_id and not self.is_closed:
            self._stop_beating()
            self._begin_anew()

    def leave(self, done: Callable[[FlotillaError | None], None], timeout_ms: int, now_ms: int) -> None:
        """Leaves the group; `done` is called once, with the error if the coordinator cannot be reached."""
        self._session.now_ms = now_ms
        was_joined = self._is_joined or self._call is not None
        self.is_closed = True
        self._stop_beating()
        for part in list(self._parts.values()):
            self._drop(part)
        if not was_joined:
            done(None)
            return

        def left(result: CallResult) -> None:
            done(result if isinstance(result, FlotillaError) else None)

        self._submit(LeaveGroup(self._topic, self._group, self.name, self._topic_id), left, timeout_ms)

    # Membership.

    def _join(self) -> None:
        options = self._options
        request = JoinGroup(
            self._topic,
            self._group,
            self.name,
            self._client,
            options.strategy,
            options.session_ms,
            self._topic_id,
        )
        self._call = self._submit(request, self._joined, options.timeout_ms)

    def _joined(self, result: CallResult) -> None:
        self._call = None
        if self.is_closed:
            return
        if isinstance(result, TopicReplacedError):
            self._begin_anew()
            return
        if isinstance(result, FlotillaError):
            # The next poll joins again.
            self._fail(result)
            return
        self._is_joined = True
        self._assigned(result)

    def _beat_now(self) -> None:
        """Reports a change of the owned partitions at once."""
        if self._is_joined and not self.is_closed:
            self._stop_beating()
            self._beat()

    def _beat(self) -> None:
        self._next_beat.set(None)
        owned = self._owned()
        wait_ms = min(self._session_ms // 3, HEARTBEAT_WAIT_MS_MAX) if owned == sorted(self._target) else 0
        request = Heartbeat(self._topic, self._group, self.name, self.generation, owned, wait_ms, self._topic_id)
        self._call = self._submit(request, self._beaten, wait_ms + self._options.timeout_ms)

    def _beaten(self, result: CallResult) -> None:
        self._call = None
        if self.is_closed:
            return
        if isinstance(result, StaleGenerationError):
            self._removed()
            self._join()
        elif isinstance(result, TopicReplacedError):
            self._begin_anew()
        elif not isinstance(result, FlotillaError):
            self._assigned(result)
        elif result.retryable:
            # No coordinator. The member keeps its partitions: a new owner must claim them first, which ends our epoch.
            self._beat_at(BEAT_MS)
        else:
            self._removed()
            self._fail(result)

    def _beat_at(self, delay_ms: int) -> None:
        self._next_beat.set(self._session.now_ms + delay_ms)

    def _stop_beating(self) -> None:
        self._next_beat.set(None)
        if self._call is not None:
            self._session.cancel(self._call)
            self._call = None

    def _removed(self) -> None:
        """The group has removed this member: all of its partitions are lost."""
        self._is_joined = False
        self._target = {}
        self._recall(list(self._parts.values()), is_lost=True)

    def _begin_anew(self) -> None:
        """The topic was deleted and created again: nothing of this member is left there, and it joins by name."""
        self._removed()
        self._topic_id = 0
        self.generation = 0
        self._join()

    # Assignment.

    def _assigned(self, result: CallResult) -> None:
        assert isinstance(result, GroupAssignment)
        self.generation = result.generation
        self._topic_id = result.topic_id
        self._first_partitions = result.first_partitions
        self._session_ms = result.session_ms or self._session_ms
        self._target = target = {owned.partition: owned.epoch for owned in result.partitions}
        # Another epoch of the same partition: a move was cancelled, and no other member owned it in between.
        moved = [part for part in self._parts.values() if target.get(part.partition) != part.epoch]
        self._recall(moved, is_lost=False)
        for partition, epoch in target.items():
            if partition not in self._parts:
                self._claim(partition, epoch)
        if self._call is not None or self._next_beat.when_ms is not None:
            return
        if self._owned() == sorted(target):
            self._beat()
        else:
            self._beat_at(BEAT_MS)

    def _owned(self) -> list[int]:
        """The owned partitions, without lost ones that the application has not taken note of."""
        parts = self._parts.values()
        return sorted([part.partition for part in parts if part.notice is None or not part.notice.is_lost])

    def _recall(self, parts: list[_Partition], *, is_lost: bool) -> None:
        """Asks the application to give these up; those that it never got are dropped at once."""
        for part in parts:
            if part.state == _CLAIMING:
                self._drop(part)
            elif part.state == _OWNED:
                part.state = _RECALLED
                part.notice = _Notice(part.partition, part.epoch, is_lost)
                due_ms = self._session.now_ms + self._options.poll_ms_max
                part.timer = self._session.timers.at(due_ms, partial(self._give_up_alone, part))
                self.changes.append(part.notice)
            elif is_lost:
                assert part.notice is not None
                part.notice.is_lost = True
        self._notify()

    def _give_up_alone(self, part: _Partition) -> None:
        """The application does not poll: the partition goes to another member without it."""
        assert part.notice is not None
        part.notice.is_lost = True
        self._drop(part)
        self._beat_now()

    def _drop(self, part: _Partition) -> None:
        if self._parts.get(part.partition) is part:
            del self._parts[part.partition]
        if part.call is not None:
            self._session.cancel(part.call)
            part.call = None
        if part.timer is not None:
            part.timer.cancel()
            part.timer = None

    # Claims.

    def _claim(self, partition: int, epoch: int) -> None:
        part = self._parts[partition] = _Partition(partition, epoch, self._topic_id)
        request = ClaimPartition(self._group, self._topic, partition, epoch, self._topic_id)
        part.call = self._submit(request, lambda result: self._claimed(part, result), self._options.timeout_ms)

    def _claimed(self, part: _Partition, result: CallResult) -> None:
        part.call = None
        if isinstance(result, FlotillaError):
            self._refused(part, result)
            return
        assert isinstance(result, OffsetCommitted)
        start = self._options.start
        if 0 < self._first_partitions <= part.partition:
            start = Start()
        if result.offset >= 0:
            self._own(part, result.offset, is_committed=True)
        elif start.kind == FROM_OFFSET:
            self._own(part, start.value, is_committed=False)
        else:
            self._find(part, start.value if start.kind == FROM_TIME else start.kind)

    def _find(self, part: _Partition, position: int) -> None:
        request = ListOffsets(self._topic, part.partition, position, part.topic_id)
        part.call = self._submit(request, lambda result: self._found(part, position, result), self._options.timeout_ms)

    def _found(self, part: _Partition, position: int, result: CallResult) -> None:
        part.call = None
        if isinstance(result, FlotillaError):
            self._refused(part, result)
            return
        assert isinstance(result, OffsetFound)
        if result.offset < 0 and position not in (EARLIEST, LATEST):
            # All records are older.
            self._find(part, LATEST)
        elif position == EARLIEST:
            self._own(part, result.offset, is_committed=False)
        else:
            self._begin_at(part, result.offset)

    def _begin_at(self, part: _Partition, offset: Offset) -> None:
        """Commits where the group begins, before anything is read: a later owner would find another place."""
        request = CommitOffset(
            self._group, self._topic, part.partition, offset, epoch=part.epoch, topic_id=part.topic_id
        )

        def begun(result: CallResult) -> None:
            part.call = None
            if isinstance(result, FlotillaError):
                self._refused(part, result)
            else:
                assert isinstance(result, OffsetCommitted)
                self._own(part, result.offset, is_committed=True)

        part.call = self._submit(request, begun, self._options.timeout_ms)

    def _own(self, part: _Partition, offset: Offset, *, is_committed: bool) -> None:
        part.state = _OWNED
        self.changes.append(OwnedPartition(part.partition, part.epoch, offset, is_committed, part.topic_id))
        self._notify()

    def _refused(self, part: _Partition, error: FlotillaError) -> None:
        """A claim failed: the next heartbeat reports it, and the answer assigns it again."""
        self._drop(part)
        if isinstance(error, TopicReplacedError):
            self.replaced(part.topic_id, self._session.now_ms)
            return
        if not isinstance(error, StaleGenerationError) and not error.retryable:
            self._fail(error)
        if self._is_joined and not self.is_closed:
            self._stop_beating()
            self._beat_at(BEAT_MS)

    # Inside.

    def _submit(self, request: Request, done: Callable[[CallResult], None], timeout_ms: int) -> ClientCall:
        call = ClientCall(request, self._session.now_ms + timeout_ms, done)
        self._session.submit(call, self._session.now_ms)
        return call

    def _fail(self, error: FlotillaError) -> None:
        self.errors.append(error)
        self._notify()
