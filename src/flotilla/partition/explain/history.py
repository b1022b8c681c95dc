"""The history of one message for one queue group, from the log of a partition, for people.

It reads the log's entries in order, and follows the message through the same steps as the group's replicated state:
only entries that changed something become steps, so attempts have the numbers that they had. Leases, extensions and
releases are a leader's memory and not in the log. Nothing here changes anything.
"""

from collections.abc import Iterable

from flotilla.partition.batch_facts import BatchFacts, Describe
from flotilla.partition.commands.group_commands import DeadRun, FailedRun, GroupSettlement
from flotilla.partition.commands.partition_commands import (
    BuryDeaths,
    CancelRecords,
    Command,
    ConcludeStage,
    DeleteGroup,
    DeliverNow,
    DropStage,
    EndGroup,
    OpenGroup,
    ResetGroup,
    SettleRuns,
    StageSettlement,
    TrimTo,
    decode_command,
)
from flotilla.partition.explain.history_steps import Moment, Step, Steps
from flotilla.partition.offset_runs import Run
from flotilla.partition.state.group import GroupState
from flotilla.partition.state.transactions import publisher_id
from flotilla.types.dead_letters import redriven_count
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Index, Offset


class MessageHistory:
    def __init__(self, group: str, born: Index, offset: Offset, describe: Describe, moment: Moment) -> None:
        """`born` is that of the group as it is now."""
        self._group = group
        self._born = born
        self._offset = offset
        self._describe = describe
        self._moment = moment
        self._steps = Steps()
        #: It begins with the message's own batch.
        self._is_begun = False
        #: Why it ends before the log does.
        self._broken_off = ""
        #: Attempts that failed since the group was opened or reset; None: the log begins later.
        self.attempts: int | None = None
        self.is_settled = False
        self._is_cancelled = False
        self._is_trimmed = False
        #: The transaction in which the ack is staged.
        self._staged_by = ""
        self._is_group_there = True
        #: As in GroupState; 0: not known yet.
        self._generation: Index = 0
        #: The newest entry that may have opened or reset any group.
        self._newest_generation: Index = 0
        #: The group's deaths in the log so far, and the places of this message among them.
        self._deaths = 0
        self._own_deaths: list[int] = []
        self._burials: list[tuple[Index, BuryDeaths]] = []
        self._index: Index = 0
        self._now_ms = 0

    # Reading the log, in order.

    def begin(self, index: Index, facts: BatchFacts, time_ms: int | None) -> None:
        """With the message's batch; `time_ms` is the message's own timestamp, None if that cannot be read."""
        self._is_begun = True
        self.attempts = 0
        self._index = index
        text = "stored by a transaction" if facts.is_transactional else "stored"
        keys = facts.idempotency_keys
        redriven = redriven_count(keys[self._offset - facts.base_offset]) if keys else 0
        if redriven:
            text = f"stored by redrive {redriven} of its dead letter"
        if time_ms is not None:
            text = f"{self._moment(time_ms)} {text} (by its own timestamp)"
        if facts.deliver_at_ms:
            text += f", to be delivered at {self._moment(facts.deliver_at_ms)}"
        self._note(text)

    def begin_late(self) -> None:
        """With the log's first entry: the message is not in the log any more."""
        self._note("the log begins after it: earlier steps are unknown")

    def add(self, index: Index, data: bytes | memoryview) -> None:
        """The next entry of any kind."""
        self._index = index
        try:
            command = decode_command(data)
        except InvalidArgumentError:
            if self._staged_by:
                self._see_batch(self._describe(data))
            return
        self._now_ms = command.now_ms
        self._see(command)

    def break_off(self, why: str) -> None:
        """The rest of the log is not read."""
        self._broken_off = f"{why}: later steps are known from the present state only"

    # The result.

    def agrees(self, state: GroupState) -> bool:
        """Whether the history is complete: then the state has nothing to add."""
        if not self._is_begun or self._broken_off or self.is_settled != state.is_settled(self._offset):
            return False
        return self.is_settled or self.attempts == state.attempts(self._offset)

    def lines(self, state: GroupState, attempts_max: int) -> list[str]:
        """In the order of the log. `attempts_max` is the bound on attempts that holds now; 0: none."""
        found = self._steps.lines(self._moment, attempts_max, self._buried(state))
        return [*found, self._broken_off] if self._broken_off else found

    def _buried(self, state: GroupState) -> list[Step]:
        """Deaths are counted backwards from the newest: the log that was read does not hold the number of the first."""
        found: list[Step] = []
        for place in self._own_deaths if self.agrees(state) else ():
            number = state.next_death - self._deaths + place
            burial = next(
                (known for known in self._burials if known[1].first_number <= number < known[1].below_number), None
            )
            if burial is not None:
                found.append(Step(burial[0], burial[1].now_ms, "copied to the dead-letter topic"))
        return found

    def _add_step(self, text: str, attempt: int = 0) -> None:
        self._steps.put(Step(self._index, self._now_ms, text, attempt))

    def _note(self, text: str) -> None:
        self._steps.put(Step(self._index, 0, text))

    # Single entries.

    def _see(self, command: Command) -> None:
        match command:
            case SettleRuns():
                for settlement in command.groups:
                    if self._is_current(settlement):
                        self._settle(settlement)
            case OpenGroup() | ResetGroup():
                self._newest_generation = self._index
                if command.group == self._group and not self._is_trimmed:
                    self._restart(command)
            case CancelRecords() if self._offset in command.offsets and not self._is_trimmed:
                self._is_cancelled = True
                if not self._end("cancelled"):
                    self._add_step("cancelled, after it was settled here")
            case DeliverNow() if self._offset in command.offsets and not self.is_settled:
                self._add_step("an operator had it delivered now")
            case StageSettlement() if self._is_current(command.settlement):
                if self._is_unsettled(command.settlement.acked) and not self._staged_by:
                    self._staged_by = command.transaction_id
                    self._add_step(f"its ack was staged in transaction {command.transaction_id}")
            case ConcludeStage() if command.transaction_id == self._staged_by:
                self._end(f"transaction {command.transaction_id} was committed: acknowledged")
            case DropStage() if command.transaction_id == self._staged_by:
                self._staged_by = ""
                self._add_step(f"transaction {command.transaction_id} was aborted: it is unsettled again")
            case BuryDeaths() if command.group == self._group and self._own_deaths:
                self._burials.append((self._index, command))
            case DeleteGroup() | EndGroup() if command.group == self._group:
                self._delete()
            case TrimTo() if command.offset > self._offset and not self._is_trimmed:
                self._trim(command)
            case _:
                """It concerns other messages, or other groups."""

    def _is_current(self, settlement: GroupSettlement) -> bool:
        """A settlement from before a reset changed nothing."""
        if settlement.group != self._group or not self._is_group_there:
            return False
        if settlement.generation and settlement.generation < self._generation:
            return False
        self._generation = settlement.generation or self._generation
        return True

    def _is_unsettled(self, runs: Iterable[Run | FailedRun | DeadRun]) -> bool:
        """Whether the message is in one of these runs, and unsettled."""
        return not self.is_settled and any(run[0] <= self._offset < run[1] for run in runs)

    def _settle(self, settlement: GroupSettlement) -> None:
        if self._is_unsettled(settlement.acked):
            self._end("acknowledged")
        if self._is_unsettled(settlement.expired):
            self._end("expired: its time to live was over")
        if self._is_unsettled(settlement.dropped):
            self._end("dropped: it failed for the last time, or was rejected, and the group has no dead letters")
        for failed in settlement.failed:
            if self._is_unsettled((failed,)):
                self._fail(failed)
        for dead in settlement.dead:
            if self._is_unsettled((dead,)):
                self._die(dead)
            self._deaths += dead.end - dead.first

    def _fail(self, failed: FailedRun) -> None:
        text = f"failed{_because(failed.reason)}"
        if failed.not_before_ms > self._now_ms:
            text += f"; not again before {self._moment(failed.not_before_ms)}"
        if self.attempts is None:
            self._add_step(f"an attempt {text}")
        else:
            self.attempts += 1
            self._add_step(text, self.attempts)

    def _die(self, dead: DeadRun) -> None:
        self._own_deaths.append(self._deaths + self._offset - dead.first)
        which = "an attempt" if self.attempts is None else f"attempt {self.attempts + 1}"
        self._end(f"{which} was the last{_because(dead.reason)}")

    def _end(self, text: str) -> bool:
        """False: it was settled before, and nothing changed."""
        self._staged_by = ""
        if self.is_settled:
            return False
        self.is_settled = True
        self._add_step(text)
        return True

    def _see_batch(self, facts: BatchFacts | None) -> None:
        """Batches of a committed transaction are stored again, and settle its acks."""
        if facts is not None and facts.is_transactional and facts.producer_id == publisher_id(self._staged_by):
            self._note(f"after {self._moment(self._now_ms)} transaction {self._staged_by} was committed: acknowledged")
            self.is_settled = True
            self._staged_by = ""

    def _restart(self, command: OpenGroup | ResetGroup) -> None:
        is_opened = isinstance(command, OpenGroup)
        if is_opened and self._is_group_there and (self._generation or self._index > self._born):
            # It existed, and stayed as it was.
            return
        self._is_group_there = True
        self._generation = self._index
        self._staged_by = ""
        self.attempts = 0
        is_behind = command.offset > self._offset
        self.is_settled = is_behind or self._is_cancelled
        if is_behind:
            result = ": the message is skipped"
        elif self._is_cancelled:
            result = ": it stays cancelled"
        else:
            result = "" if is_opened else ": the message is unsettled, and attempts count from 0"
        self._add_step(f"the group was {'opened at' if is_opened else 'reset to'} offset {command.offset}{result}")

    def _delete(self) -> None:
        """Another group of that name knows nothing of this one, and counts its own deaths."""
        self._add_step("the group was deleted")
        self._is_group_there = False
        self._generation = 0
        self._staged_by = ""
        self._deaths = 0
        self._own_deaths.clear()
        self._burials.clear()

    def _trim(self, command: TrimTo) -> None:
        if command.known and self._newest_generation > command.known:
            # It may have been spared for a new group: the state knows.
            return
        self._is_trimmed = True
        self.is_settled = True
        self._add_step("retention removed it" if command.known else "it was trimmed by hand")


def _because(reason: str) -> str:
    return f": {reason}" if reason else ", without a reason"
