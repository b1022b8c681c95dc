"""Queue groups of one partition against a naive model: any commands in any order, snapshots at any moment."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flotilla.partition.commands.partition_commands import (
    BuryDeaths,
    CancelRecords,
    CommitOffset,
    DeadRun,
    DeleteGroup,
    DeliverNow,
    FailedRun,
    GroupSettlement,
    OpenGroup,
    ReserveTokens,
    ResetGroup,
    SettleRuns,
    TrimTo,
)
from flotilla.partition.queries import ListGroups
from flotilla.partition.state.group_table import DueNow
from flotilla.types.errors import FlotillaError, GroupModeError, NotFoundError, OffsetOutOfRangeError, UnavailableError
from tests.unit.partition.batches import Log, new_log
from tests.unit.partition.naive_state import NaiveState

NAMES = st.sampled_from(["a", "b"])
REASONS = st.sampled_from(["", "late", "broken"])
#: Places as thousandths of the log, and lengths: whatever they are, they become runs inside the log.
PLACES = st.tuples(st.integers(0, 999), st.integers(1, 6))


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        #: A function that encodes an earlier state, and the bytes of that state.
        self.frozen = None
        self.log = new_log()
        self.log.append(count=5)
        #: The same entries, but never restored from a snapshot.
        self.twin = new_log()
        self.twin.append(count=5)
        self.naive: dict[str, NaiveState] = {}
        self.cancelled: set[int] = set()
        self.now_ms = 0

    def command(self, command):
        """Both say the same, and what `check` says beforehand."""
        refused = self.log.machine.check(command)
        result = self.log.command(command)
        assert type(self.twin.command(command)) is type(result)
        assert type(result) is type(refused) or refused is None
        return result

    def run_at(self, place) -> tuple[int, int]:
        size = self.log.machine.next_offset
        first = place[0] * size // 1000
        return first, min(first + place[1], size)

    @property
    def log_start(self) -> int:
        return self.log.machine.log_start

    @rule(count=st.integers(1, 4), priority=st.sampled_from([0, 7]), deliver_at_ms=st.sampled_from([0, 50]))
    def append(self, count, priority, deliver_at_ms):
        for log in (self.log, self.twin):
            log.append(count=count, priority=priority, deliver_at_ms=deliver_at_ms)

    @rule(name=NAMES, place=PLACES)
    def open(self, name, place):
        offset, _ = self.run_at(place)
        floor = self.command(OpenGroup(name, offset, self.now_ms))
        if name not in self.naive:
            self.naive[name] = NaiveState(max(offset, self.log_start), self.log.index)
            self._settle_cancelled(self.naive[name])
        assert floor == self.log.machine.groups[name].floor

    def _settle_cancelled(self, naive):
        for offset in sorted(self.cancelled):
            naive.settle("cancelled", offset, offset + 1)

    @rule(name=NAMES, place=PLACES)
    def reset(self, name, place):
        offset, _ = self.run_at(place)
        result = self.command(ResetGroup(name, offset, self.now_ms))
        if name not in self.naive:
            assert isinstance(result, NotFoundError)
            return
        self.naive[name].reset(max(offset, self.log_start), self.log.index)
        self._settle_cancelled(self.naive[name])

    @rule(
        name=NAMES,
        acked=st.lists(PLACES, max_size=3),
        expired=st.lists(PLACES, max_size=1),
        dropped=st.lists(PLACES, max_size=1),
        failed=st.lists(st.tuples(PLACES, st.integers(0, 3), REASONS), max_size=3),
        dead=st.lists(st.tuples(PLACES, REASONS), max_size=2),
        is_stale=st.booleans(),
        is_fenced=st.booleans(),
    )
    def settle(self, name, acked, expired, dropped, failed, dead, is_stale, is_fenced):
        naive = self.naive.get(name)
        generation = naive.generation if naive is not None and is_fenced else 0
        settlement = GroupSettlement(
            name,
            acked=tuple(map(self.run_at, acked)),
            expired=tuple(map(self.run_at, expired)),
            dropped=tuple(map(self.run_at, dropped)),
            failed=tuple(FailedRun(*self.run_at(place), wait_ms, reason) for place, wait_ms, reason in failed),
            dead=tuple(DeadRun(*self.run_at(place), reason) for place, reason in dead),
            generation=generation + 1 if is_stale and generation else generation,
        )
        count = self.command(SettleRuns(self.now_ms, (settlement, GroupSettlement("absent", acked=((0, 1),)))))
        if naive is None or settlement.generation > naive.generation:
            assert count == 0
            return
        before = sum(naive.totals.values())
        for total in ("acked", "expired", "dropped"):
            for first, end in getattr(settlement, total):
                naive.settle(total, first, end)
        for run in settlement.failed:
            naive.fail(*run)
        for run in settlement.dead:
            naive.die(*run)
        assert count == sum(naive.totals.values()) - before

    @rule(name=NAMES, beyond=st.integers(1, 3))
    def settle_beyond_the_end(self, name, beyond):
        end = self.log.machine.next_offset + beyond
        command = SettleRuns(self.now_ms, (GroupSettlement(name, acked=((0, 1), (end - 1, end))),))
        assert isinstance(self.command(command), OffsetOutOfRangeError)

    @rule(name=NAMES, count=st.integers(0, 3))
    def bury(self, name, count):
        naive = self.naive.get(name)
        if naive is not None:
            below = min(naive.buried + count, len(naive.deaths))
            assert self.command(BuryDeaths(name, below, self.now_ms)) == below - naive.buried
            naive.buried = below

    @rule(places=st.lists(PLACES, max_size=3))
    def cancel(self, places):
        offsets = [self.run_at(place)[0] for place in places]
        expected = sorted({offset for offset in offsets if offset >= self.log_start})
        assert self.command(CancelRecords(tuple(offsets), self.now_ms)) == tuple(expected)
        self.cancelled.update(expected)
        for naive in self.naive.values():
            self._settle_cancelled(naive)

    @rule(places=st.lists(PLACES, max_size=3), name=st.one_of(st.just(""), NAMES))
    def deliver_now(self, places, name):
        offsets = [self.run_at(place)[0] for place in places]
        due = self.command(DeliverNow(tuple(offsets), self.now_ms, name))
        if name and name not in self.naive:
            assert isinstance(due, FlotillaError)
            return
        expected = sorted({offset for offset in offsets if offset >= self.log_start})
        assert due == DueNow(tuple(expected), (), name)
        if name:
            self.naive[name].retry_now(expected, self.now_ms)

    @rule(place=PLACES)
    def trim(self, place):
        offset, _ = self.run_at(place)
        self.command(TrimTo(offset, self.now_ms))
        self.cancelled = {offset for offset in self.cancelled if offset >= self.log_start}
        for naive in self.naive.values():
            naive.settle("trimmed", naive.start, self.log_start)

    @rule(name=NAMES, tat_us=st.integers(0, 10**12))
    def reserve(self, name, tat_us):
        if name in self.naive:
            assert self.command(ReserveTokens(name, tat_us, self.now_ms)) is None
            assert self.log.machine.groups[name].reserved_tat_us == tat_us

    @rule(name=NAMES)
    def delete(self, name):
        result = self.command(DeleteGroup(name, self.now_ms))
        naive = self.naive.get(name)
        if naive is None:
            assert isinstance(result, NotFoundError)
        elif naive.buried < len(naive.deaths):
            assert isinstance(result, UnavailableError), "only the group knows of its dying messages"
        else:
            assert not isinstance(result, FlotillaError)
            del self.naive[name]

    @rule(name=NAMES)
    def commit(self, name):
        if name in self.naive:
            assert isinstance(self.command(CommitOffset(name, 0, self.now_ms)), GroupModeError)

    @rule()
    def restart(self):
        restored = new_log(entries_max=9)
        restored.machine.restore(self.log.machine.snapshot())
        self.log = Log(restored.machine, self.log.index)

    @rule()
    def freeze(self):
        self.frozen = (self.log.machine.freeze(), self.log.machine.snapshot())

    @invariant()
    def a_view_stays_as_it_was(self):
        if self.frozen is not None:
            encode, data = self.frozen
            assert b"".join(encode()) == data

    @rule(ms=st.integers(1, 100))
    def wait(self, ms):
        self.now_ms += ms

    @invariant()
    def equals_the_model(self):
        machine = self.log.machine
        assert machine.state_hash() == self.twin.machine.state_hash()
        assert machine.read(ListGroups()) == dict.fromkeys(sorted(self.naive), "queue")
        assert [offset for run in machine.cancelled for offset in range(*run)] == sorted(self.cancelled)
        assert machine.index.count == machine.next_offset - machine.log_start
        for name, naive in self.naive.items():
            self._compare(machine.groups[name], naive, machine.next_offset)

    def _compare(self, state, naive, next_offset):
        unsettled = [offset for offset in range(next_offset) if not naive.is_settled(offset)]
        assert [offset for run in state.unsettled(0, next_offset) for offset in range(*run)] == unsettled
        assert [offset for offset in range(next_offset) if not state.is_settled(offset)] == unsettled
        assert state.floor == (unsettled[0] if unsettled else next_offset)
        assert state.lag(next_offset) == len(unsettled)
        assert (state.start, state.generation) == (naive.start, naive.generation)
        assert {offset: failure for first, end, failure in state.failures for offset in range(first, end)} == (
            naive.failures
        )
        assert [state.attempts(offset) for offset in unsettled] == [naive.failures.get(at, (0,))[0] for at in unsettled]
        deaths = [(death.offset, death.attempts, death.reason) for death in state.deaths(10**6)]
        assert deaths == naive.deaths[naive.buried :]
        assert [death.number for death in state.deaths(10**6)] == list(range(naive.buried, len(naive.deaths)))
        totals = {name: getattr(state.totals, name) for name in type(state.totals).__slots__}
        assert totals == {name: naive.totals[name] for name in totals}


Groups.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_groups_are_what_the_model_says = Groups.TestCase
