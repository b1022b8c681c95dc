"""The operations on schedules, at the metadata's leader: it checks expressions, and computes the times in commands."""

from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.broker.ports import Consensus, Done, Elsewhere, Outside
from flotilla.broker.schedules.occurrences import check_times, next_after
from flotilla.broker.schedules.runs import Run, ScheduleRuns
from flotilla.metadata.commands import Command
from flotilla.metadata.queries import ListSchedules as AllSchedules
from flotilla.metadata.scheduling import commands as commands
from flotilla.metadata.scheduling.schedules import Plan, Schedule, check_plan
from flotilla.types.errors import AlreadyExistsError, FlotillaError, InvalidArgumentError, NotFoundError
from flotilla.types.operations import Reply
from flotilla.types.operations.schedules import (
    SCHEDULES_PER_PAGE,
    UPCOMING_COUNT_MAX,
    CreateSchedule,
    DeleteSchedule,
    ListSchedules,
    PauseSchedule,
    RunSchedule,
    ScheduleDefinition,
    ScheduleInfo,
    ScheduleList,
    ScheduleReply,
)
from flotilla.types.operations.transactions import TransactionOutcome
from flotilla.types.records import Record, RecordLimits, check_record
from flotilla.types.schedules import NAME_HEADER, TIME_HEADER

#: How long the answer to a RunSchedule waits until readers see the message.
_SHOWN_MS = 5_000


class Schedules:
    def __init__(
        self, catalog: Catalog, consensus: Consensus, outside: Outside, elsewhere: Elsewhere, runs: ScheduleRuns
    ) -> None:
        self._catalog = catalog
        self._consensus = consensus
        self._outside = outside
        self._elsewhere = elsewhere
        self._runs = runs

    def create_schedule(self, request: CreateSchedule, done: Done) -> None:
        self._catalog.leading()
        plan = plan_of(request.definition)
        known = self._runs.table.find(request.name)
        if known is not None and not request.is_update:
            raise AlreadyExistsError(f"schedule {request.name!r} exists")
        now_ms = self._outside.now_ms()
        if plan.every_ms and not plan.start_ms:
            is_same = known is not None and known.plan.every_ms == plan.every_ms
            start_ms = known.plan.start_ms if known is not None and is_same else now_ms
            plan = plan_of(request.definition, start_ms)
        if known is not None and known.plan == plan:
            done(ScheduleReply(self._describe(known)))
            return
        self._check(plan)
        next_ms = next_after(plan, now_ms)
        if not next_ms:
            raise InvalidArgumentError(f"the cron expression {plan.cron!r} names no time in the next 50 years")
        is_paused = known is not None and known.is_paused
        schedule_id = 0 if known is None else known.schedule_id
        self._propose(commands.PutSchedule(request.name, schedule_id, plan, 0 if is_paused else next_ms, now_ms), done)

    def _check(self, plan: Plan) -> None:
        """Raises InvalidArgumentError or NotFoundError: better now than at the first occurrence."""
        check_plan(plan)
        check_times(plan)
        settings = self._catalog.topic(plan.topic).settings
        limits = RecordLimits(payload_bytes_max=settings.payload_bytes_max)
        headers = (*plan.headers, (NAME_HEADER, b""), (TIME_HEADER, b""))
        check_record(Record(plan.payload, plan.key, headers, 0, plan.priority, plan.content_type), limits)

    def pause_schedule(self, request: PauseSchedule, done: Done) -> None:
        known = self._known(request.name)
        if known.is_paused == request.is_paused:
            done(ScheduleReply(self._describe(known)))
            return
        now_ms = self._outside.now_ms()
        next_ms = 0 if request.is_paused else next_after(known.plan, now_ms)
        self._propose(commands.PauseSchedule(known.schedule_id, request.is_paused, next_ms, now_ms), done)

    def delete_schedule(self, request: DeleteSchedule, done: Done) -> None:
        """Names the schedule by its id: another one may have its name when the command is applied."""
        known = self._known(request.name)
        self._propose(commands.RemoveSchedule(known.schedule_id, self._outside.now_ms()), done)

    def run_schedule(self, request: RunSchedule, done: Done) -> None:
        def ran(run: Run, result: object) -> None:
            if not isinstance(result, Schedule):
                done(self._catalog.explain(result))
                return
            reply = ScheduleReply(self._describe(result))

            def shown(_: Reply | FlotillaError) -> None:
                # It is committed in any case; if the partition does not answer, readers see it a little later.
                done(reply)

            topic = run.schedule.plan.topic
            self._elsewhere.ask(TransactionOutcome(topic, run.partition, run.transaction_id, _SHOWN_MS), shown)

        self._runs.run_now(self._known(request.name), ran)

    def list_schedules(self, request: ListSchedules, done: Done) -> None:
        """Confirmed by a quorum, so that a leader which was replaced does not answer."""
        self._catalog.leading()
        if not 0 <= request.upcoming <= UPCOMING_COUNT_MAX:
            raise InvalidArgumentError(f"upcoming is 0 to {UPCOMING_COUNT_MAX}, not {request.upcoming}")

        def found(result: object) -> None:
            if isinstance(result, FlotillaError):
                done(self._catalog.explain(result))
                return
            assert isinstance(result, list)
            wanted = [each for each in result if each.name > request.after and request.name in ("", each.name)]
            wanted.sort(key=lambda each: each.name)
            page = [self._describe(each, request.upcoming) for each in wanted[:SCHEDULES_PER_PAGE]]
            has_more = len(wanted) > SCHEDULES_PER_PAGE
            done(ScheduleList(page, page[-1].name if has_more else ""))

        self._consensus.read(METADATA_GROUP, AllSchedules(), found)

    def _known(self, name: str) -> Schedule:
        self._catalog.leading()
        found = self._runs.table.find(name)
        if found is None:
            raise NotFoundError(f"there is no schedule {name!r}")
        return found

    def _propose(self, command: Command, done: Done) -> None:
        def answered(result: object) -> None:
            if isinstance(result, Schedule):
                done(ScheduleReply(self._describe(result)))
            else:
                done(self._catalog.explain(result))

        self._catalog.propose(command, answered)

    def _describe(self, schedule: Schedule, upcoming: int = 1) -> ScheduleInfo:
        times: list[int] = []
        next_ms = 0 if schedule.is_paused else schedule.next_ms
        try:
            while next_ms and len(times) < upcoming:
                times.append(next_ms)
                next_ms = next_after(schedule.plan, next_ms) if len(times) < upcoming else 0
        except InvalidArgumentError:
            pass  # This node lacks a time zone that another one knew: the first time is all it can say.
        plan = schedule.plan
        definition = ScheduleDefinition(
            **{name: getattr(plan, name) for name in plan.__slots__ if name != "headers"},
            headers=list(plan.headers),
        )
        return ScheduleInfo(
            name=schedule.name,
            schedule_id=schedule.schedule_id,
            definition=definition,
            is_paused=schedule.is_paused,
            created_ms=schedule.created_ms,
            runs=schedule.runs,
            last_ms=schedule.last_ms,
            produced_ms=schedule.produced_ms,
            skipped_ms=schedule.skipped_ms,
            upcoming_ms=times,
            error=self._runs.error_of(schedule.schedule_id),
        )


def plan_of(definition: ScheduleDefinition, start_ms: int = 0) -> Plan:
    fields = {name: getattr(definition, name) for name in Plan.__slots__ if name not in ("headers", "start_ms")}
    return Plan(**fields, headers=tuple(definition.headers), start_ms=start_ms or definition.start_ms)
