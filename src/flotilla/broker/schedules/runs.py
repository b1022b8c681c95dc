"""The runs of schedules at the metadata's leader: each occurrence is produced once, whatever fails.

    1. the message is staged in a partition, as a transaction of its own
    2. one command commits the transaction and moves the schedule on (metadata/schedules)

A leader that is replaced after 1 leaves a stage that nobody commits, and its partition drops it; the next leader stages
again. After 2 the schedule has another version, so no other stage of that run can be committed. Nothing depends on how
long anything is remembered.

Time is cluster time, and only while a majority of the brokers' clocks confirms it: one wall clock that jumps runs
nothing.
"""

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Final

from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.broker.ports import Cancel, Consensus, Elsewhere, Outside
from flotilla.broker.schedules.occurrences import Due, due_now
from flotilla.codec.batch.records import encode_batch
from flotilla.codec.checksum import crc32c
from flotilla.metadata.scheduling.commands import RunSchedule
from flotilla.metadata.scheduling.schedules import Schedule, ScheduleTable
from flotilla.metadata.values import Topic
from flotilla.raft.roles import LEADER
from flotilla.runtime.observability.logs import get_logger
from flotilla.types.errors import FlotillaError, NotFoundError, UnavailableError
from flotilla.types.ids import Term
from flotilla.types.operations import Reply
from flotilla.types.operations.transactions import Stage, Staged
from flotilla.types.records import Record
from flotilla.types.schedules import NAME_HEADER, TIME_HEADER

log = get_logger("schedules")

#: Schedules whose messages are in flight.
RUNS_MAX: Final = 64
RETRY_MS: Final = 500
RETRY_MS_MAX: Final = 30_000
#: The longest sleep: clocks may step.
SLEEP_MS_MAX: Final = 60_000
_NEVER: Final[Term] = -1
#: Producer ids that clients draw do not have it.
_PRODUCER_BIT: Final = 1 << 63


class Run:
    """One message on its way."""

    __slots__ = ("answered", "due", "partition", "schedule", "transaction_id")

    def __init__(self, schedule: Schedule, due: Due, answered: Callable[["Run", object], None]) -> None:
        self.schedule = schedule
        self.due = due
        #: Called once, with the schedule as it is afterwards or an error.
        self.answered = answered
        #: Empty: there is nothing to stage.
        self.transaction_id = ""
        self.partition = 0


class _Failure:
    """The newest attempt of a schedule failed."""

    __slots__ = ("again_ms", "delay_ms", "error")

    def __init__(self, error: FlotillaError, delay_ms: int, again_ms: int) -> None:
        self.error = error
        self.delay_ms = delay_ms
        #: By the monotonic clock.
        self.again_ms = again_ms


class ScheduleRuns:
    """On every node; it does nothing unless the node leads the metadata."""

    def __init__(self, catalog: Catalog, consensus: Consensus, outside: Outside, elsewhere: Elsewhere) -> None:
        self._catalog = catalog
        self._consensus = consensus
        self._outside = outside
        self._elsewhere = elsewhere
        #: The term in which this node leads the metadata.
        self._term: Term = _NEVER
        #: Makes every attempt of this term a transaction of its own.
        self._attempt = 0
        #: By id, for this term.
        self._running: dict[int, Run] = {}
        self._failures: dict[int, _Failure] = {}
        self._sleep: tuple[int, Cancel] | None = None
        self._is_closed = False

    @property
    def table(self) -> ScheduleTable:
        return self._catalog.machine.state.schedules

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    def error_of(self, schedule_id: int) -> str:
        """Why the newest attempt failed; empty: it did not."""
        failure = self._failures.get(schedule_id)
        return "" if failure is None else str(failure.error)

    def has_work(self) -> bool:
        """Whether a message is in flight, or could be now."""
        if self._term == _NEVER or not self._is_time_good():
            return False
        now_ms = self._outside.now_ms()
        waiting = [schedule_id for next_ms, schedule_id in self.table.waiting if next_ms <= now_ms]
        return bool(self._running) or any(schedule_id not in self._failures for schedule_id in waiting)

    def look(self) -> None:
        """The metadata changed, a time has come, or a moment has passed."""
        if self._is_closed or not self._lead():
            self._wake()
            return
        if not self._is_time_good():
            return  # The next check looks again.
        now_ms = self._outside.now_ms()
        due: list[Schedule] = []
        for next_ms, schedule_id in self.table.waiting:
            if next_ms > now_ms or len(self._running) + len(due) >= RUNS_MAX:
                break
            if schedule_id not in self._running and not self._is_resting(schedule_id):
                due.append(self.table.schedules[schedule_id])
        for schedule in due:
            try:
                due_run = due_now(schedule.plan, schedule.next_ms, now_ms)
            except FlotillaError as error:
                # This node lacks a time zone that another one knew.
                self._failed(schedule, error)
            else:
                self._start(Run(schedule, due_run, _ignore))
        self._sleep_until_next(now_ms)

    def run_now(self, schedule: Schedule, answered: Callable[[Run, object], None]) -> None:
        """Produces the message of a schedule once more. Its occurrences stay as they are."""
        if schedule.schedule_id in self._running or not self._lead():
            raise UnavailableError(f"a message of schedule {schedule.name!r} is in flight; try again")
        now_ms = self._outside.now_ms()
        self._start(Run(schedule, Due(now_ms, schedule.next_ms, False), answered))

    # Internal.

    def _lead(self) -> bool:
        """Whether this node leads the metadata. A new term forgets what the last one had in flight."""
        replica = self._consensus.replica(METADATA_GROUP)
        is_leading = replica is not None and replica.raft.role == LEADER and replica.is_serving()
        term = replica.raft.term if replica is not None and is_leading else _NEVER
        if term != self._term:
            self._term = term
            lost, self._running = self._running, {}
            self._failures.clear()
            for run in lost.values():
                run.answered(run, UnavailableError("the leader of the metadata has changed"))
        return is_leading

    def _is_time_good(self) -> bool:
        return self._outside.is_time_set() and self._outside.is_time_trusted()

    def _is_resting(self, schedule_id: int) -> bool:
        failure = self._failures.get(schedule_id)
        return failure is not None and failure.again_ms > self._outside.steady_ms()

    def _sleep_until_next(self, now_ms: int) -> None:
        waiting = self.table.waiting
        if not waiting or waiting[0][0] <= now_ms:
            return  # A run that ends, or the next check, looks again.
        next_ms = waiting[0][0]
        if self._sleep is None or self._sleep[0] != next_ms:
            self._wake()
            delay_ms = min(next_ms - now_ms, SLEEP_MS_MAX)
            self._sleep = next_ms, self._outside.later(delay_ms, self._woken)

    def _woken(self) -> None:
        self._sleep = None
        self.look()

    def _wake(self) -> None:
        if self._sleep is not None:
            self._sleep[1]()
            self._sleep = None

    def _start(self, run: Run) -> None:
        schedule = run.schedule
        self._running[schedule.schedule_id] = run
        self._attempt += 1
        try:
            if not run.due.occurrence_ms:
                self._commit(run)
                return
            topic = self._catalog.find_topic(schedule.plan.topic)
            if topic is None:
                raise NotFoundError(f"there is no topic {schedule.plan.topic!r}")
            run.partition = self._partition_of(schedule, topic)
            run.transaction_id = f"schedule.{schedule.schedule_id}.{schedule.version}.{self._term}.{self._attempt}"
            batch = encode_batch([self._record(run)], producer_id=_producer_id(run.transaction_id))
        except FlotillaError as error:
            self._end(run, error)
            return
        request = Stage(topic.name, run.partition, run.transaction_id, batch, topic.topic_id)
        self._elsewhere.ask(request, partial(self._staged, run, topic.partitions[run.partition].group))

    def _partition_of(self, schedule: Schedule, topic: Topic) -> int:
        """That of the key; without one they take turns, and another attempt takes another."""
        if schedule.plan.key:
            return crc32c(schedule.plan.key) % topic.key_partitions
        count = len(topic.partitions)
        failure = self._failures.get(schedule.schedule_id)
        return (schedule.schedule_id + schedule.runs + (0 if failure is None else self._attempt)) % count

    def _record(self, run: Run) -> Record:
        plan = run.schedule.plan
        own = ((NAME_HEADER, run.schedule.name.encode()), (TIME_HEADER, b"%d" % run.due.occurrence_ms))
        return Record(
            payload=plan.payload,
            key=plan.key or None,
            headers=(*plan.headers, *own),
            timestamp_ms=self._outside.now_ms(),
            priority=plan.priority,
            content_type=plan.content_type,
        )

    def _staged(self, run: Run, group: int, result: Reply | FlotillaError) -> None:
        if self._running.get(run.schedule.schedule_id) is not run:
            return  # Of an earlier term: nobody commits the stage.
        if isinstance(result, FlotillaError):
            self._end(run, result)
        else:
            assert isinstance(result, Staged)
            self._outside.after_hold(partial(self._commit_staged, run, group, result.begun_ms))

    def _commit_staged(self, run: Run, group: int, begun_ms: int) -> None:
        if self._running.get(run.schedule.schedule_id) is run:
            self._commit(run, group, begun_ms)

    def _commit(self, run: Run, group: int = 0, begun_ms: int = 0) -> None:
        due = run.due
        command = RunSchedule(
            schedule_id=run.schedule.schedule_id,
            version=run.schedule.version,
            occurrence_ms=due.occurrence_ms,
            has_skipped=due.has_skipped,
            next_ms=due.next_ms,
            transaction_id=run.transaction_id,
            group=group,
            begun_ms=begun_ms,
            now_ms=self._outside.now_ms(),
        )
        try:
            self._catalog.propose(command, partial(self._committed, run))
        except FlotillaError as error:
            self._end(run, error)

    def _committed(self, run: Run, result: object) -> None:
        if self._running.get(run.schedule.schedule_id) is run:
            self._end(run, result)

    def _end(self, run: Run, result: object) -> None:
        schedule = run.schedule
        del self._running[schedule.schedule_id]
        if isinstance(result, FlotillaError):
            self._failed(schedule, result)
        else:
            self._failures.pop(schedule.schedule_id, None)
            if run.due.has_skipped:
                log.warning("missed occurrences of a schedule are skipped", schedule=schedule.name)
        run.answered(run, result)
        self._outside.later(0, self.look)

    def _failed(self, schedule: Schedule, error: FlotillaError) -> None:
        if self.table.schedules.get(schedule.schedule_id) is not schedule:
            # It was changed or deleted meanwhile, which is no failure.
            self._failures.pop(schedule.schedule_id, None)
            return
        known = self._failures.get(schedule.schedule_id)
        if known is None:
            log.warning("the message of a schedule was not produced", schedule=schedule.name, error=str(error))
        delay_ms = RETRY_MS if known is None else min(2 * known.delay_ms, RETRY_MS_MAX)
        again_ms = self._outside.steady_ms() + delay_ms
        self._failures[schedule.schedule_id] = _Failure(error, delay_ms, again_ms)


def _producer_id(transaction_id: str) -> int:
    return _PRODUCER_BIT | int.from_bytes(blake2b(transaction_id.encode(), digest_size=8).digest(), "little") >> 1


def _ignore(run: Run, result: object) -> None:
    """The metadata show what became of it."""
