"""The history of one message: every step in the order of the log, and none that changed nothing."""

from collections.abc import Callable
from random import Random

import pytest

from flotilla.codec.batch.header import published
from flotilla.partition.commands.partition_commands import (
    BuryDeaths,
    CancelRecords,
    Command,
    ConcludeStage,
    DeadRun,
    DeleteGroup,
    DropStage,
    FailedRun,
    GroupSettlement,
    OpenGroup,
    ResetGroup,
    SettleRuns,
    StageBatch,
    StageSettlement,
    StampTime,
    TrimTo,
    encode_command,
)
from flotilla.partition.explain.history import MessageHistory
from flotilla.partition.explain.history_steps import STEPS_KEPT
from flotilla.partition.state.group import GroupState
from flotilla.partition.state.transactions import publisher_id
from flotilla.types.dead_letters import redrive_key
from flotilla.types.errors import FlotillaError
from tests.unit.partition.batches import Log, batch, describe, new_log

GROUP = "g"
OTHER = "h"


class Watched:
    """A partition, and everything that went into its log."""

    def __init__(self) -> None:
        self.log: Log = new_log()
        self.now_ms = 1_000
        self.entries: list[tuple[int, bytes]] = []

    def apply(self, data: bytes) -> object:
        result = self.log.apply(data)
        self.entries.append((self.log.index, data))
        return result

    def store(self, count: int = 1, deliver_at_ms: int = 0) -> int:
        offset = self.log.machine.next_offset
        self.apply(batch(offset, count=count, deliver_at_ms=deliver_at_ms))
        return offset

    def do(self, make: Callable[[int], Command]) -> object:
        """A command, a second later."""
        self.now_ms += 1_000
        return self.apply(encode_command(make(self.now_ms)))

    def open(self, group: str = GROUP, offset: int = 0) -> None:
        self.do(lambda now_ms: OpenGroup(group, offset, now_ms))

    def settle(self, *, group: str = GROUP, generation: int | None = None, **runs: tuple[object, ...]) -> None:
        if generation is None:
            generation = self.state(group).generation
        settlement = GroupSettlement(group, generation=generation, **runs)  # type: ignore[arg-type]
        self.do(lambda now_ms: SettleRuns(now_ms, (settlement,)))

    def fail(self, reason: str = "no", delay_ms: int = 0, offset: int = 0) -> None:
        self.settle(failed=(FailedRun(offset, offset + 1, self.now_ms + 1_000 + delay_ms, reason),))

    def state(self, group: str = GROUP) -> GroupState:
        return self.log.machine.groups[group]

    def history(self, offset: int = 0, group: str = GROUP, *, skipped: int = 0) -> MessageHistory:
        """`skipped` entries are in the log no more."""
        born = self.state(group).born
        found = MessageHistory(group, born, offset, describe, lambda time_ms: f"{time_ms / 1000:g}s")
        is_begun = False
        for index, data in self.entries[skipped:]:
            facts = describe(data)
            holds = facts is not None and facts.base_offset <= offset < facts.base_offset + facts.count
            if facts is not None and holds:
                found.begin(index, facts, 500)
                is_begun = True
            elif is_begun or skipped:
                found.add(index, data)
        return found

    def lines(self, offset: int = 0, bound: int = 0) -> list[str]:
        history = self.history(offset)
        assert history.agrees(self.state())
        return history.lines(self.state(), bound)


@pytest.fixture
def here() -> Watched:
    here = Watched()
    here.open()
    here.store(3)
    return here


STORED = "0.5s stored (by its own timestamp)"


def test_attempts_are_listed_up_to_the_ack(here: Watched) -> None:
    here.fail("timeout", delay_ms=250)
    here.fail("")
    here.fail("lease expired", offset=1)
    here.settle(acked=((0, 1),))
    assert here.lines(bound=5) == [
        STORED,
        "3s attempt 1 of 5 failed: timeout; not again before 3.25s",
        "4s attempt 2 of 5 failed, without a reason",
        "6s acknowledged",
    ]


def test_a_message_that_was_redriven_says_so(here: Watched) -> None:
    first = here.log.machine.next_offset
    here.apply(batch(first, keys=[b"a key of its producer", redrive_key(2, "1/0/7")]))
    assert here.lines(first) == [STORED]
    assert here.lines(first + 1) == ["0.5s stored by redrive 2 of its dead letter (by its own timestamp)"]


@pytest.mark.parametrize(("bound", "expected"), [(0, "attempt 2"), (1, "attempt 2"), (2, "attempt 2 of 2")])
def test_a_bound_that_is_passed_is_no_bound(here: Watched, bound: int, expected: str) -> None:
    here.fail()
    here.fail()
    assert here.lines(bound=bound)[-1] == f"4s {expected} failed: no"


def test_a_delay_is_listed_with_the_message() -> None:
    here = Watched()
    here.open()
    here.store(deliver_at_ms=90_000)
    assert here.lines() == [f"{STORED}, to be delivered at 90s"]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ({"acked": ((0, 9),)}, "acknowledged"),
        ({"expired": ((0, 9),)}, "expired: its time to live was over"),
        (
            {"dropped": ((0, 9),)},
            "dropped: it failed for the last time, or was rejected, and the group has no dead letters",
        ),
        ({"dead": (DeadRun(0, 9, "bad"),)}, "attempt 1 was the last: bad"),
    ],
)
def test_every_ending_is_listed_once(runs: dict[str, tuple[object, ...]], expected: str) -> None:
    here = Watched()
    here.open()
    here.store(9)
    here.settle(**runs)  # type: ignore[arg-type]
    here.settle(acked=((0, 9),))
    here.fail(offset=4)
    assert here.lines(4) == [STORED, f"3s {expected}"]


def test_a_death_and_its_burial_among_others(here: Watched) -> None:
    here.settle(dead=(DeadRun(0, 2, "before"),))
    here.store(3)
    here.settle(dead=(DeadRun(4, 5, "other"),))
    here.fail("first", offset=3)
    here.settle(dead=(DeadRun(3, 4, "second"), DeadRun(5, 6, "other")))
    here.do(lambda now_ms: BuryDeaths(GROUP, 3, now_ms))
    here.do(lambda now_ms: BuryDeaths(GROUP, 4, now_ms))
    here.do(lambda now_ms: CancelRecords((3,), now_ms))
    here.do(lambda now_ms: BuryDeaths(GROUP, 5, now_ms))
    assert here.lines(3, bound=2) == [
        STORED,
        "5s attempt 1 of 2 failed: first",
        "6s attempt 2 was the last: second",
        "8s copied to the dead-letter topic",
        "9s cancelled, after it was settled here",
    ]
    assert here.lines(4)[1:] == ["4s attempt 1 was the last: other", "7s copied to the dead-letter topic"]
    assert here.lines(5)[1:] == ["6s attempt 1 was the last: other", "10s copied to the dead-letter topic"]


def test_a_reset_starts_again_and_makes_late_settlements_void(here: Watched) -> None:
    generation = here.state().generation
    here.fail()
    here.do(lambda now_ms: ResetGroup(GROUP, 0, now_ms))
    here.settle(generation=generation, acked=((0, 3),))
    here.fail("again")
    here.do(lambda now_ms: ResetGroup(OTHER, 3, now_ms))
    here.do(lambda now_ms: ResetGroup(GROUP, 2, now_ms))
    assert here.lines() == [
        STORED,
        "3s attempt 1 failed: no",
        "4s the group was reset to offset 0: the message is unsettled, and attempts count from 0",
        "6s attempt 1 failed: again",
        "8s the group was reset to offset 2: the message is skipped",
    ]


def test_a_cancelled_message_stays_cancelled_after_a_reset(here: Watched) -> None:
    here.do(lambda now_ms: CancelRecords((0, 2), now_ms))
    here.do(lambda now_ms: ResetGroup(GROUP, 0, now_ms))
    assert here.lines() == [STORED, "3s cancelled", "4s the group was reset to offset 0: it stays cancelled"]
    assert here.lines(1) == [
        STORED,
        "4s the group was reset to offset 0: the message is unsettled, and attempts count from 0",
    ]


def test_a_group_that_comes_later_goes_and_comes_again() -> None:
    here = Watched()
    here.store()
    here.open()
    generation = here.state().generation
    here.fail()
    here.do(lambda now_ms: DeleteGroup(GROUP, now_ms))
    here.settle(generation=generation, acked=((0, 1),))
    here.open(offset=1)
    assert here.lines() == [
        STORED,
        "2s the group was opened at offset 0",
        "3s attempt 1 failed: no",
        "4s the group was deleted",
        "6s the group was opened at offset 1: the message is skipped",
    ]


def test_a_group_that_is_there_is_not_opened_again(here: Watched) -> None:
    here.open(offset=3)
    here.fail()
    here.open(offset=3)
    assert here.lines()[1:] == ["4s attempt 1 failed: no"]


@pytest.mark.parametrize("is_committed", [True, False])
def test_acks_in_a_transaction(here: Watched, is_committed: bool) -> None:
    acks = GroupSettlement(GROUP, ((0, 2),), generation=here.state().generation)
    here.do(lambda now_ms: StageSettlement("t", acks, now_ms))
    refused = here.do(lambda now_ms: StageSettlement("u", acks, now_ms))
    assert isinstance(refused, FlotillaError)
    here.do(lambda now_ms: ConcludeStage("t", now_ms) if is_committed else DropStage("t", now_ms))
    here.do(lambda now_ms: DropStage("t", now_ms))
    expected = "committed: acknowledged" if is_committed else "aborted: it is unsettled again"
    assert here.lines() == [STORED, "3s its ack was staged in transaction t", f"5s transaction t was {expected}"]
    assert here.lines(2) == [STORED]


def test_acks_that_are_true_with_the_batches_of_their_transaction(here: Watched) -> None:
    acks = GroupSettlement(GROUP, ((0, 1),), generation=here.state().generation)
    product = batch(producer=7)
    here.do(lambda now_ms: StageBatch("t", product, now_ms))
    here.do(lambda now_ms: StageSettlement("t", acks, now_ms))
    here.store()
    again = bytearray(published(product, publisher_id("t"), 0))
    again[:8] = here.log.machine.end_offset.to_bytes(8, "little")
    here.apply(bytes(again))
    assert here.lines()[1:] == [
        "4s its ack was staged in transaction t",
        "after 4s transaction t was committed: acknowledged",
    ]
    assert here.lines(4) == ["0.5s stored by a transaction (by its own timestamp)"]


def test_retention_is_listed_unless_the_message_may_have_been_spared(here: Watched) -> None:
    known = here.log.machine.applied
    here.do(lambda now_ms: TrimTo(1, now_ms, known))
    here.do(lambda now_ms: TrimTo(2, now_ms, known))
    assert here.lines() == [STORED, "3s retention removed it"]
    here.open(OTHER, 2)
    here.do(lambda now_ms: TrimTo(3, now_ms, known))
    assert here.log.machine.log_start == 2
    assert here.lines(2) == [STORED]


def test_a_trim_by_hand_spares_no_group(here: Watched) -> None:
    here.open(OTHER, 2)
    here.do(lambda now_ms: TrimTo(3, now_ms))
    assert here.log.machine.log_start == 3
    assert here.lines(2)[-1].endswith("it was trimmed by hand")


def test_without_its_beginning_attempts_have_no_numbers_and_the_state_has_the_word(here: Watched) -> None:
    here.fail("first")
    here.fail("second")
    history = here.history(skipped=3)
    history.begin_late()
    assert not history.agrees(here.state())
    assert history.lines(here.state(), 5) == [
        "4s an attempt failed: second",
        "the log begins after it: earlier steps are unknown",
    ]


def test_a_history_that_breaks_off_says_so_and_has_no_burials(here: Watched) -> None:
    here.settle(dead=(DeadRun(0, 1, "bad"),))
    here.do(lambda now_ms: BuryDeaths(GROUP, 1, now_ms))
    history = here.history()
    history.break_off("enough")
    assert not history.agrees(here.state())
    assert history.lines(here.state(), 0) == [
        STORED,
        "3s attempt 1 was the last: bad",
        "enough: later steps are known from the present state only",
    ]


def test_of_very_many_steps_the_first_and_the_last_are_kept(here: Watched) -> None:
    count = 3 * STEPS_KEPT
    for _ in range(count):
        here.fail()
    lines = here.lines()
    assert len(lines) == 2 * STEPS_KEPT + 1
    assert lines[STEPS_KEPT - 1].endswith(f"attempt {STEPS_KEPT - 1} failed: no")
    assert lines[STEPS_KEPT] == f"({count + 1 - 2 * STEPS_KEPT} steps are left out)"
    assert lines[STEPS_KEPT + 1].endswith(f"attempt {count - STEPS_KEPT + 1} failed: no")
    assert lines[-1].endswith(f"attempt {count} failed: no")


def _some_command(here: Watched, random: Random) -> Command:
    machine, now_ms = here.log.machine, here.now_ms
    end = machine.next_offset
    first = random.randrange(end)
    run = (first, random.randint(first + 1, end))
    generation = here.state().generation
    kind = random.choice(("acked", "expired", "dropped", "failed", "failed", "failed", "dead"))
    runs: object = run
    if kind == "failed":
        runs = FailedRun(*run, now_ms, "no")
    elif kind == "dead":
        runs = DeadRun(*run, "no")
    settlement = GroupSettlement(random.choice((GROUP, GROUP, OTHER)), generation=generation, **{kind: (runs,)})  # type: ignore[arg-type]
    name = random.choice("tuv")
    return random.choice(
        (
            SettleRuns(now_ms, (settlement,)),
            SettleRuns(now_ms, (settlement,)),
            SettleRuns(now_ms, (settlement,)),
            StageSettlement(name, GroupSettlement(GROUP, (run,), generation=generation), now_ms),
            ConcludeStage(name, now_ms),
            DropStage(name, now_ms),
            CancelRecords((first,), now_ms),
            ResetGroup(GROUP, random.randint(0, end), now_ms),
            OpenGroup(random.choice((GROUP, OTHER)), random.randint(0, end), now_ms),
            DeleteGroup(random.choice((GROUP, OTHER)), now_ms),
            BuryDeaths(GROUP, here.state().next_death, now_ms),
            TrimTo(random.randint(0, min(end, machine.log_start + 1)), now_ms),
            StampTime(now_ms),
        )
    )


@pytest.mark.parametrize("seed", range(30))
def test_the_history_follows_the_state_through_random_commands(seed: int) -> None:
    """Whatever a leader may propose: the log's story of each message ends where the group's state stands."""
    random = Random(seed)
    here = Watched()
    here.open()
    made: list[Command] = []
    for turn in range(60):
        if random.random() < 0.2 or not here.log.machine.next_offset:
            here.store(random.randint(1, 3))
        made.append(_some_command(here, random))
        # A settlement may come late, when its group was reset, or is another one under the same name.
        late = random.choice(made)
        command = late if isinstance(late, SettleRuns) else made[-1]
        if here.log.machine.check(command) is None:
            here.now_ms += 1_000
            assert not isinstance(here.apply(encode_command(command)), FlotillaError)
        if GROUP not in here.log.machine.groups:
            here.open(offset=random.randint(0, here.log.machine.next_offset))
        if turn % 12 == 11:
            _compare(here)


def _compare(here: Watched) -> None:
    state = here.state()
    for offset in range(here.log.machine.next_offset):
        history = here.history(offset)
        assert history.is_settled == state.is_settled(offset), (offset, history.lines(state, 0))
        assert state.is_settled(offset) or history.attempts == state.attempts(offset)
