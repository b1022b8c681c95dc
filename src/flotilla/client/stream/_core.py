"""One member of a stream group without threads or sockets: joins, stays alive, claims what it is given, gives up.

    claiming   the coordinator gave it to us; the partition is told, and says where the group stands
    held       the application has it, or gets it at its next poll
    recalled   the coordinator wants it back, or it is lost; the application gives it up at its next poll

Heartbeats name what is ours. While that is what we shall have, they are parked at the coordinator, which answers when
something changes; while it is not, they go out from time to time and at once when the application has given
something up. They belong to the session's loop, so a slow handler does not cost its partitions. An application that
does not come back for `poll_ms_max` loses what others wait for; what it commits afterwards is refused by its epoch.

`changes` and `errors` may be taken from by another thread; everything else belongs to the session's.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from flotilla.client._core.calls import CallResult, ClientCall
from flotilla.client._core.session import Session
from flotilla.client._core.timers import Timer
from flotilla.client.stream.options import StreamOptions
from flotilla.types.errors import FlotillaError, StaleGenerationError
from flotilla.types.ids import Offset
from flotilla.types.operations import EARLIEST, LATEST, ListOffsets, OffsetCommitted, OffsetFound, Request
from flotilla.types.operations.queue import FROM_OFFSET, FROM_TIME
from flotilla.types.operations.stream import (
    HEARTBEAT_WAIT_MS_MAX,
    SESSION_MS_DEFAULT,
    ClaimPartition,
    GroupAssignment,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
)

#: How often a heartbeat goes out while something is still to be given up, and after a failure.
BEAT_MS: Final = 500

_CLAIMING: Final = "claiming"
_OWNED: Final = "owned"
_RECALLED: Final = "recalled"


class OwnedPartition(NamedTuple):
    """A partition to read from `offset` on, and the epoch under which its offsets are committed."""

    partition: int
    epoch: int
    offset: Offset
    #: The group stands there; else it has never committed, and begins there.
    is_committed: bool


class Recall(NamedTuple):
    """Partitions to give up, with their epochs."""

    partitions: dict[int, int]
    #: They are somebody else's already.
    is_lost: bool


@dataclass(slots=True, eq=False)
class _Notice:
    """That one partition is to be given up, until the application takes it."""

    partition: int
    epoch: int
    #: May become so while nobody looks.
    is_lost: bool


Change: TypeAlias = OwnedPartition | _Notice


class _Partition:
    """One partition that was given to this member."""

    __slots__ = ("call", "epoch", "notice", "partition", "state", "timer")

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.state = _CLAIMING
        #: A question on its way.
        self.call: ClientCall | None = None
        #: What the application is told, and when it is not waited for any longer.
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
        """`client` tells people who this is; `news` is called whenever there is a change or an error."""
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
        #: What the coordinator said last: partition to epoch.
        self._target: dict[int, int] = {}
        self._parts: dict[int, _Partition] = {}
        #: Joining, or the heartbeat under way; and the time of the next.
        self._call: ClientCall | None = None
        self._timer: Timer | None = None
        self._is_joined = False

    # What the shells ask for.

    @property
    def is_idle(self) -> bool:
        """Neither a member nor about to become one."""
        return not self._is_joined and self._call is None and self._timer is None

    def take_change(self) -> list[OwnedPartition] | Recall | None:
        """What comes next for the application, what is alike together. May be called by another thread, one only."""
        owned: list[OwnedPartition] = []
        recall: Recall | None = None
        while self.changes:
            change = self.changes[0]
            if isinstance(change, OwnedPartition):
                if recall is not None:
                    break
                owned.append(change)
            else:
                recall = recall or Recall({}, change.is_lost)
                if owned or change.is_lost != recall.is_lost:
                    break
                recall.partitions[change.partition] = change.epoch
            self.changes.popleft()
        return owned or recall

    def begin(self, now_ms: int) -> None:
        """Joins the group, unless it is a member or about to be one."""
        self._session.now_ms = now_ms
        if self.is_idle and not self.is_closed:
            self._join()

    def gave_up(self, partitions: Mapping[int, int], now_ms: int) -> None:
        """The application is done with these, under these epochs."""
        self._session.now_ms = now_ms
        for partition, epoch in partitions.items():
            part = self._parts.get(partition)
            if part is not None and part.epoch == epoch:
                self._drop(part)
        self._beat_now()

    def lost(self, partition: int, epoch: int, now_ms: int) -> None:
        """A partition has refused our epoch: it is somebody else's."""
        self._session.now_ms = now_ms
        part = self._parts.get(partition)
        if part is not None and part.epoch == epoch:
            self._recall([part], is_lost=True)

    def leave(self, done: Callable[[FlotillaError | None], None], timeout_ms: int, now_ms: int) -> None:
        """Ends it; `done` is called once, when the coordinator knows or cannot be told."""
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

        self._submit(LeaveGroup(self._topic, self._group, self.name), left, timeout_ms)

    # Joining and staying.

    def _join(self) -> None:
        options = self._options
        request = JoinGroup(
            self._topic, self._group, self.name, self._client, options.strategy, session_ms=options.session_ms
        )
        self._call = self._submit(request, self._joined, options.timeout_ms)

    def _joined(self, result: CallResult) -> None:
        self._call = None
        if self.is_closed:
            return
        if isinstance(result, FlotillaError):
            # The next poll tries again.
            self._fail(result)
            return
        self._is_joined = True
        self._assigned(result)

    def _beat_now(self) -> None:
        """What is ours has changed: the coordinator shall know at once."""
        if self._is_joined and not self.is_closed:
            self._stop_beating()
            self._beat()

    def _beat(self) -> None:
        self._timer = None
        owned = self._owned()
        wait_ms = min(self._session_ms // 3, HEARTBEAT_WAIT_MS_MAX) if owned == sorted(self._target) else 0
        request = Heartbeat(self._topic, self._group, self.name, self.generation, owned, wait_ms)
        self._call = self._submit(request, self._beaten, wait_ms + self._options.timeout_ms)

    def _beaten(self, result: CallResult) -> None:
        self._call = None
        if self.is_closed:
            return
        if isinstance(result, StaleGenerationError):
            self._removed()
            self._join()
        elif not isinstance(result, FlotillaError):
            self._assigned(result)
        elif result.retryable:
            # Nobody can be asked. What is ours stays so: whoever gets it first tells the partition, which tells us.
            self._beat_at(BEAT_MS)
        else:
            self._removed()
            self._fail(result)

    def _beat_at(self, delay_ms: int) -> None:
        self._timer = self._session.timers.at(self._session.now_ms + delay_ms, self._beat)

    def _stop_beating(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._call is not None:
            self._session.cancel(self._call)
            self._call = None

    def _removed(self) -> None:
        """The group does not know this member any more: everything it had is somebody else's, or will be."""
        self._is_joined = False
        self._target = {}
        self._recall(list(self._parts.values()), is_lost=True)

    # What it shall have.

    def _assigned(self, result: CallResult) -> None:
        assert isinstance(result, GroupAssignment)
        self.generation = result.generation
        self._session_ms = result.session_ms or self._session_ms
        self._target = target = {owned.partition: owned.epoch for owned in result.partitions}
        # Under another epoch it is given to us anew, after a move that was called off: nobody had it in between.
        moved = [part for part in self._parts.values() if target.get(part.partition) != part.epoch]
        self._recall(moved, is_lost=False)
        for partition, epoch in target.items():
            if partition not in self._parts:
                self._claim(partition, epoch)
        if self._call is not None or self._timer is not None:
            return
        if self._owned() == sorted(target):
            self._beat()
        else:
            self._beat_at(BEAT_MS)

    def _owned(self) -> list[int]:
        """What is ours: not what is lost and the application still has to hear of."""
        parts = self._parts.values()
        return sorted([part.partition for part in parts if part.notice is None or not part.notice.is_lost])

    def _recall(self, parts: list[_Partition], *, is_lost: bool) -> None:
        """Asks the application for these; those that it never heard of go at once."""
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
        """The application does not come back: others need not wait for it."""
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
        part = self._parts[partition] = _Partition(partition, epoch)
        request = ClaimPartition(self._group, self._topic, partition, epoch)
        part.call = self._submit(request, lambda result: self._claimed(part, result), self._options.timeout_ms)

    def _claimed(self, part: _Partition, result: CallResult) -> None:
        part.call = None
        if isinstance(result, FlotillaError):
            self._refused(part, result)
            return
        assert isinstance(result, OffsetCommitted)
        start = self._options.start
        if result.offset >= 0:
            self._own(part, result.offset, is_committed=True)
        elif start.kind == FROM_OFFSET:
            self._own(part, start.value, is_committed=False)
        else:
            self._find(part, start.value if start.kind == FROM_TIME else start.kind)

    def _find(self, part: _Partition, position: int) -> None:
        request = ListOffsets(self._topic, part.partition, position)
        part.call = self._submit(request, lambda result: self._found(part, position, result), self._options.timeout_ms)

    def _found(self, part: _Partition, position: int, result: CallResult) -> None:
        part.call = None
        if isinstance(result, FlotillaError):
            self._refused(part, result)
            return
        assert isinstance(result, OffsetFound)
        if result.offset < 0 and position not in (EARLIEST, LATEST):
            # No record is that young.
            self._find(part, LATEST)
        else:
            self._own(part, result.offset, is_committed=False)

    def _own(self, part: _Partition, offset: Offset, *, is_committed: bool) -> None:
        part.state = _OWNED
        self.changes.append(OwnedPartition(part.partition, part.epoch, offset, is_committed))
        self._notify()

    def _refused(self, part: _Partition, error: FlotillaError) -> None:
        """Not to be had now: the coordinator is told that it is not ours, and asked again."""
        self._drop(part)
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
