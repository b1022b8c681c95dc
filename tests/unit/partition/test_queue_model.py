"""Random lives of a queue group, held against a model that knows each message by itself.

After every step: the leader says of each message what the model says; a message is in exactly one place; and no
message has changed its state in a way that the table of states does not have. At the end everything is drained, so
that nothing can have been forgotten.
"""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flotilla.partition.commands.partition_commands import CancelRecords, DeliverNow, SettleRuns, TrimTo
from flotilla.partition.explain import delivery_states as states
from flotilla.partition.leader import key_order
from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.types.errors import FlotillaError
from flotilla.types.operations.queue import ACK, FAIL, REJECT, RELEASE, LeaseRange
from tests.unit.partition.leading import GROUP, RULES, Leading, offsets
from tests.unit.partition.naive_group import Message, NaiveGroup

#: Finding the shortest life that fails takes its time.
pytestmark = pytest.mark.timeout(600)

MESSAGES_MAX = 60
COMMITS = (
    states.COMMITTED_ACK,
    states.COMMITTED_FAILURE,
    states.COMMITTED_LAST,
    states.COMMITTED_EXPIRY,
)
FINAL = tuple(state.name for state in states.STATES if state.is_final)
OVER = (*FINAL, states.DYING)
reachable = cache(states.reachable)


class QueueLife(RuleBasedStateMachine):
    """Polls in the order of priorities; `ordered` lives poll in the order of keys, and have no priorities."""

    ordered = False

    @initialize(grace_ms=st.sampled_from([0, 30]))
    def begin(self, grace_ms: int) -> None:
        self.here = Leading(grace_ms=grace_ms, rules=replace(RULES, max_deliveries=3))
        self.model = NaiveGroup(self.here.rules, now_ms=self.here.now_ms, first_lease=1)
        self.all: dict[int, Message] = {}
        #: Everything that was ever leased, also by leaders that are gone.
        self.handles: list[tuple[str, LeaseRange]] = []
        #: Commands that the log has not seen, and those that the leader has not heard of.
        self.proposed: list[SettleRuns] = []
        self.applied: list[SettleRuns] = []
        self.before: dict[int, str] = {}
        self.events: tuple[str, ...] = ()
        for priority, delay_ms, key in ((0, 0, b"a"), (3, 0, None), (7, 0, b"b"), (3, 60, b"a")):
            self.append(3, priority, delay_ms, key)

    # What producers and operators do.

    @rule(
        count=st.integers(1, 6),
        priority=st.integers(0, 7),
        delay_ms=st.sampled_from([0, 0, 0, 40, 200]),
        key=st.sampled_from([None, b"a", b"b"]),
    )
    def append(self, count: int, priority: int, delay_ms: int, key: bytes | None) -> None:
        if len(self.all) + count > MESSAGES_MAX:
            return
        if self.ordered:
            priority = delay_ms = 0
        deliver_at_ms = self.here.now_ms + delay_ms if delay_ms else 0
        first = self.here.append(count, priority=priority, deliver_at_ms=deliver_at_ms)
        for offset in range(first, first + count):
            if key is not None:
                self.here.keys[offset] = key
            self.all[offset] = Message(priority, deliver_at_ms, key)
            self.model.append(offset, replace(self.all[offset]))

    @rule(what=st.sampled_from(["cancel", "trim", "reset", "lose", "deliver"]), at=st.integers(0, 20))
    def disturb(self, what: str, at: int) -> None:
        """What happens now and then."""
        if what == "cancel":
            self.cancel(at)
        elif what == "trim":
            self.trim(at // 2)
        elif what == "reset":
            self.reset(at)
        elif what == "deliver":
            self.deliver(at)
        else:
            self.lose("mn"[at % 2])

    def cancel(self, at: int) -> None:
        if at in self.all and not isinstance(
            self.here.log.command(CancelRecords((at,), self.here.now_ms)), FlotillaError
        ):
            self.events = (states.CANCEL,)
            self.model.settle_elsewhere(at)
            del self.all[at]

    def deliver(self, at: int) -> None:
        """An operator ends the wait of a few messages."""
        wanted = tuple(offset for offset in (at, at + 2) if offset in self.all)
        due = self.here.log.command(DeliverNow(wanted, self.here.now_ms, GROUP))
        if isinstance(due, FlotillaError):
            return
        self.here.leader.due_now(due)
        self.here.leader.advance(self.here.now_ms)
        self.events = (states.DUE,)
        for offset in wanted:
            self.model.end_wait(offset)
            self.all[offset].deliver_at_ms = min(self.all[offset].deliver_at_ms, self.here.now_ms)

    def trim(self, at: int) -> None:
        machine = self.here.log.machine
        if machine.log_start < at <= machine.next_offset:
            self.here.log.command(TrimTo(at, self.here.now_ms))
            self.events = (states.TRIM,)
            for offset in range(at):
                self.model.settle_elsewhere(offset)
                self.all.pop(offset, None)

    def reset(self, back: int) -> None:
        machine = self.here.log.machine
        start = max(machine.next_offset - back, machine.log_start)
        self.here.reset(start)
        self.model.reset(
            {offset: replace(message) for offset, message in self.all.items() if offset >= start},
            self.here.leader._ids.next_number,
        )
        self.before.clear()

    @rule(duration_ms=st.sampled_from([1, 20, 50, 100, 500]))
    def wait(self, duration_ms: int) -> None:
        self.here.pass_ms(duration_ms)
        self.model.advance(self.here.now_ms)
        self.events = (states.DUE, states.RAN_OUT)

    # What members do.

    @rule(count=st.integers(1, 5), visibility_ms=st.sampled_from([60, 2_000]))
    def poll_again(self, count: int, visibility_ms: int) -> None:
        self.poll(count, "m", visibility_ms)

    @rule(count=st.integers(1, 9), member=st.sampled_from("mn"), visibility_ms=st.sampled_from([50, 300, 2_000]))
    def poll(self, count: int, member: str, visibility_ms: int) -> None:
        keys_of = self.here.keys_of if self.ordered else None
        now_ms = self.here.now_ms
        leases = self.here.leader.poll(GROUP, member, count, visibility_ms, now_ms, keys_of)
        self.events = (states.POLLED, states.KEY_BUSY, states.KEY_FREE)
        self.check_choice(count, offsets(leases))
        if not leases:
            return
        self.model.polls += 1
        for lease in leases:
            self.handles.append((member, LeaseRange(*lease[:3])))
            for offset in range(lease.first, lease.end):
                assert lease.attempt == self.model.open[offset].attempts + 1, "G4"
                self.model.lease(offset, lease.lease_id, now_ms + visibility_ms)

    def check_choice(self, count: int, got: list[int]) -> None:
        assert got == self.model.choose(count)

    @precondition(lambda self: self.handles)
    @rule(part=st.integers(0, 3))
    def release_unsent(self, part: int) -> None:
        """What a poll got and could not send."""
        _, held = self.handles[-1]
        if held.lease_id >> 40 != self.here.term:
            return
        first = min(held.first + part, held.end - 1)
        mine = [
            offset
            for offset in range(first, held.end)
            if offset in self.model.open
            and self.model.open[offset].place == states.LEASED
            and self.model.open[offset].lease_id == held.lease_id
        ]
        self.here.leader.release_unsent(GROUP, [LeasedMessages(held.lease_id, first, held.end, 1)], self.here.now_ms)
        self.events = (states.RELEASED,)
        for offset in mine:
            self.model.open[offset].place = states.READY

    @precondition(lambda self: self.handles)
    @rule(
        which=st.integers(0, 1_000),
        kind=st.sampled_from([ACK, ACK, FAIL, REJECT, RELEASE]),
        cut=st.integers(0, 3),
        delay_ms=st.sampled_from([-1, 0, 70]),
    )
    def settle(self, which: int, kind: int, cut: int, delay_ms: int) -> None:
        _, held = self.handles[-1 - which % min(len(self.handles), 12)]
        held = held._replace(first=min(held.first + cut, held.end - 1))
        refused = self.here.settle([held], kind, delay_ms=delay_ms)
        self.events = (states.ENDED, states.RELEASED, states.LATE)
        self.compare_refused(refused, self.model.settle(kind, held, delay_ms))

    @precondition(lambda self: self.handles)
    @rule(which=st.integers(0, 3), kind=st.sampled_from([ACK, FAIL]))
    def finish(self, which: int, kind: int) -> None:
        """Settled, and committed at once."""
        self.settle(which, kind, 0, -1)
        self.flush()
        self.events = (*self.events, states.ENDED, states.RELEASED, states.LATE)

    @precondition(lambda self: self.handles)
    @rule(which=st.integers(0, 1_000), visibility_ms=st.sampled_from([30, 400]))
    def extend(self, which: int, visibility_ms: int) -> None:
        member, held = self.handles[-1 - which % min(len(self.handles), 12)]
        now_ms = self.here.now_ms
        refused = self.here.leader.extend(GROUP, member, [held], visibility_ms, now_ms)
        self.events = (states.PRESENTED,)
        self.compare_refused(refused, self.model.extend(held, now_ms + visibility_ms))

    def compare_refused(self, refused: list[LeaseRange], expected: list[int]) -> None:
        got = [offset for held in refused for offset in range(held.first, held.end)]
        assert set(got) - self.model.ghosts == set(expected) - self.model.ghosts

    def lose(self, member: str) -> None:
        self.here.leader.release_member(member, self.here.now_ms, RULES.lost_ms)
        self.events = (states.LOST, states.LOST_OFTEN)
        self.model.lose([held.lease_id for name, held in self.handles if name == member])

    # What the log does.

    def flush(self) -> None:
        self.proposed += self.here.take()
        while self.proposed:
            self.apply()
        while self.applied:
            self.hear()

    @rule()
    def propose(self) -> None:
        self.proposed += self.here.take()

    @precondition(lambda self: self.proposed)
    @rule()
    def apply(self) -> None:
        self.apply_to_log(self.proposed[0])
        self.applied.append(self.proposed.pop(0))

    def apply_to_log(self, command: SettleRuns) -> None:
        generation = self.here.log.machine.groups[GROUP].generation
        assert not isinstance(self.here.log.command(command), FlotillaError)
        self.events = COMMITS
        for settlement in command.groups:
            if settlement.generation == generation:
                self.check_backoff(command)
                self.model.apply(settlement)

    def check_backoff(self, command: SettleRuns) -> None:
        for run in command.groups[0].failed:
            assert run.not_before_ms <= command.now_ms + self.here.rules.nack_backoff_max_ms

    @precondition(lambda self: self.applied)
    @rule()
    def hear(self) -> None:
        command = self.applied.pop(0)
        self.here.leader.committed(command)
        self.events = (*self.events, *COMMITS, states.DUE, states.KEY_FREE)
        for settlement in command.groups:
            if settlement.generation == self.here.log.machine.groups[GROUP].generation:
                self.model.committed(settlement)

    @precondition(lambda self: self.proposed)
    @rule(which=st.integers(0, 10))
    def refuse(self, which: int) -> None:
        command = self.proposed.pop(which % len(self.proposed))
        self.here.leader.failed(command)
        self.events = (states.REFUSED, states.DUE)
        for settlement in command.groups:
            if settlement.generation == self.here.log.machine.groups[GROUP].generation:
                self.model.refused(settlement)

    @rule(survive=st.integers(0, 3))
    def fail_over(self, survive: int) -> None:
        """Some of what was proposed is in the next leader's log, and some is not."""
        for command in self.proposed[:survive]:
            self.apply_to_log(command)
        self.proposed.clear()
        self.applied.clear()
        # A new leader waits for members without a name to the end of its grace.
        self.here.admit("")
        self.here.change_leader()
        self.model.new_leader(self.here.grace_ms, self.here.log.machine.next_offset)
        self.events = (*COMMITS, states.NEW_LEADER, states.DUE)

    # What holds after every step.

    @invariant()
    def every_message_is_where_the_model_says(self) -> None:
        now = {offset: self.here.state(offset) for offset in range(self.here.log.machine.next_offset)}
        self.check_ways(now)
        for offset, state in now.items():
            message = self.model.open.get(offset)
            if message is None:
                assert state in OVER, f"{offset} is over, not {state}"
            else:
                place = states.SETTLING if message.place in ("acking", "failing", "killing") else message.place
                assert self.seen_as(state) == place, f"{offset} is {state}, not {place}"

    def seen_as(self, state: str) -> str:
        return state

    def check_ways(self, now: dict[int, str]) -> None:
        for offset, before in self.before.items():
            after = now[offset]
            if before not in OVER:
                allowed = reachable(before, self.events)
                if after == states.SETTLED:
                    assert any(state in FINAL for state in allowed), f"{offset}: {before} to {after} by {self.events}"
                else:
                    assert after in allowed, f"{offset}: {before} to {after} by {self.events}"
        self.before = now
        self.events = ()

    @invariant()
    def every_message_is_in_exactly_one_place(self) -> None:
        leader = self.here.leader
        group = leader._find(GROUP)
        assert group is not None
        group.due.read()
        index = self.here.log.machine.index
        for offset in range(group.state.floor, self.here.log.machine.next_offset):
            stretch = index.stretch_at(offset)
            if group.state.is_settled(offset) or stretch is None:
                continue
            is_behind = stretch.deliver_at_ms == 0 and offset >= group.ready._cursors[stretch.priority]
            is_taken = group.taken.get(offset) is not None
            places = [
                is_taken,
                is_behind and not is_taken,
                *[returned.contains(offset) for returned in group.ready._returned],
                leader.delays.pending.contains(offset) and not is_taken,
            ]
            assert sum(places) == 1, f"{offset} is in {places}"
        leased = sum([end - first for first, end, place in group.taken if place == 1])
        assert leased == group.leases.count == sum([each.leased for each in group.leases.members.values()])

    def teardown(self) -> None:
        """Every message is settled: nothing was forgotten."""
        if not hasattr(self, "here"):
            return
        for _ in range(3 * MESSAGES_MAX):
            self.flush()
            if not self.model.open:
                break
            self.wait(2_500)
            self.poll(100, "m", 2_000)
            lease_id = self.handles[-1][1].lease_id if self.handles else 0
            for _, held in self.handles:
                if held.lease_id == lease_id:
                    self.here.settle([held])
                    self.model.settle(ACK, held, 0)
        assert self.model.open == {}
        assert self.here.floor == self.here.log.machine.next_offset


class OrderedLife(QueueLife):
    ordered = True

    def check_choice(self, count: int, got: list[int]) -> None:
        ready = [offset for offset, message in self.model.open.items() if message.place == states.READY]
        turns = [offset for offset in ready if self.is_its_turn(offset)]
        assert set(got) <= set(turns), "a message went before another one of its key"
        if self.model.now_ms >= self.model.opens_ms and not self.applied and not self.model.unheard:
            assert len(got) == min(count, len(turns)), "a key blocks others"

    def is_its_turn(self, offset: int) -> bool:
        key = self.all[offset].key
        return key is None or all(self.model.open[each].key != key for each in self.model.open if each < offset)

    def seen_as(self, state: str) -> str:
        return states.READY if state == states.BLOCKED else state


class CrowdedLife(OrderedLife):
    """No place is left for blocked messages, and polls look at few."""

    def __init__(self) -> None:
        super().__init__()
        self._bounds = key_order.BLOCKED_COUNT_MAX, key_order._LOOK_AHEAD
        key_order.BLOCKED_COUNT_MAX, key_order._LOOK_AHEAD = 1, 2  # type: ignore[misc]

    def check_choice(self, count: int, got: list[int]) -> None:
        assert all(self.is_its_turn(offset) for offset in got), "a message went before another one of its key"

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            key_order.BLOCKED_COUNT_MAX, key_order._LOOK_AHEAD = self._bounds  # type: ignore[misc]


LIFE = settings(
    max_examples=40, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)
TestQueueLife = QueueLife.TestCase
TestQueueLife.settings = LIFE
TestOrderedLife = OrderedLife.TestCase
TestOrderedLife.settings = LIFE
TestCrowdedLife = CrowdedLife.TestCase
TestCrowdedLife.settings = LIFE
