"""A shadow of transactions: what was promised to clients, what was decided, and what each partition does.

    Registry      of the whole run: what clients know to be staged, and the one decision about it
    StageShadow   of one partition: what its log has staged, and how much of it is visible

A stage is promised when its client got the answer before the decision. What is committed and promised becomes visible,
all of a partition at one entry, in the order of staging. Nothing else of a transaction ever becomes visible, and
nothing twice. That each record is stored once is checked where it is stored.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flotilla.codec.batch.view import BatchView
from flotilla.partition.state.transactions import publisher_id
from flotilla.sim.checkers.violation import Violation
from flotilla.types.ids import GroupId, Index, Offset
from flotilla.types.operations.transactions import TransactionShown

WHOLE: Final = "whole or not at all"


class NaiveAcks(NamedTuple):
    """Messages of a queue group that the transaction acknowledges."""

    group: str
    generation: Index
    offsets: tuple[Offset, ...]


class NaivePart(NamedTuple):
    """A staged batch: its name, and what is in it."""

    producer_id: int
    sequence: int
    values: tuple[bytes, ...]


@dataclass(slots=True)
class NaiveStage:
    parts: list[NaivePart] = field(default_factory=list)
    shown: int = 0
    acks: list[NaiveAcks] = field(default_factory=list)


@dataclass(slots=True)
class NaiveDecision:
    is_committed: bool
    groups: tuple[GroupId, ...]


class Registry:
    """What clients were answered, and what was decided."""

    def __init__(self) -> None:
        self.decisions: dict[str, NaiveDecision] = {}
        #: Called with the name of a transaction when it is decided.
        self.on_decided: Callable[[str], None] = _nothing
        #: By transaction and partition: names of batches, and messages with their queue groups.
        self.parts: dict[tuple[str, GroupId], dict[tuple[int, int], None]] = {}
        self.acks: dict[tuple[str, GroupId], dict[tuple[str, Offset], None]] = {}

    def answered_staged(self, transaction_id: str, group: GroupId, producer_id: int, sequence: int) -> None:
        if transaction_id not in self.decisions:
            self.parts.setdefault((transaction_id, group), {})[producer_id, sequence] = None

    def answered_acks_staged(self, transaction_id: str, group: GroupId, queue: str, offsets: list[Offset]) -> None:
        if transaction_id not in self.decisions:
            self.acks.setdefault((transaction_id, group), {}).update({(queue, offset): None for offset in offsets})

    def decided(self, transaction_id: str, is_committed: bool, groups: tuple[GroupId, ...]) -> None:
        known = self.decisions.get(transaction_id)
        if known is None:
            self.decisions[transaction_id] = NaiveDecision(is_committed, groups)
            self.on_decided(transaction_id)
        elif known.is_committed != is_committed:
            raise Violation(WHOLE, f"transaction {transaction_id} was decided in two ways")

    def has_part(self, transaction_id: str, group: GroupId) -> bool:
        """Whether what is staged there may become visible."""
        decision = self.decisions.get(transaction_id)
        return decision is not None and decision.is_committed and group in decision.groups

    def is_promised(self, transaction_id: str, group: GroupId) -> bool:
        place = (transaction_id, group)
        return self.has_part(transaction_id, group) and (place in self.parts or place in self.acks)


def _nothing(transaction_id: str) -> None:
    """Nobody listens."""


class StageShadow:
    """One partition."""

    def __init__(self, group: GroupId, registry: Registry) -> None:
        self._group = group
        self._registry = registry
        self.open: dict[str, NaiveStage] = {}
        #: What became visible, by transaction: the first offset of each batch.
        self.shown: dict[str, dict[tuple[int, int], Offset]] = {}

    def sums(self) -> dict[str, tuple[int, int, int]]:
        return {
            name: (len(stage.parts), stage.shown, sum([len(acks.offsets) for acks in stage.acks]))
            for name, stage in self.open.items()
        }

    # What entries say.

    def stage(self, transaction_id: str, batch: bytes | memoryview) -> None:
        view = BatchView(batch)
        part = NaivePart(view.header.producer_id, view.header.producer_sequence, tuple(view.payloads()))
        stage = self.open.setdefault(transaction_id, NaiveStage())
        if part[:2] not in [known[:2] for known in stage.parts]:
            stage.parts.append(part)

    def stage_acks(self, transaction_id: str, acks: NaiveAcks) -> None:
        self.open.setdefault(transaction_id, NaiveStage()).acks.append(acks)

    def publish(self, view: BatchView, end_offset: Offset) -> NaiveStage | None:
        """A batch of a transaction was stored. Returns the stage that becomes visible with it, if it was the last."""
        names = [name for name in self.open if publisher_id(name) == view.header.producer_id]
        if not names:
            raise Violation(WHOLE, f"group {self._group} stores a batch of a transaction that is not open")
        (name,) = names
        stage = self.open[name]
        if not self._registry.has_part(name, self._group):
            raise Violation(WHOLE, f"group {self._group} shows transaction {name}, which was not committed there")
        part = stage.parts[stage.shown]
        if part.values != tuple(view.payloads()):
            raise Violation(WHOLE, f"group {self._group} stores another batch of {name} than the next one")
        self.shown.setdefault(name, {})[part[:2]] = end_offset
        stage.shown += 1
        if stage.shown < len(stage.parts):
            return None
        self._end(name, stage)
        return stage

    def conclude(self, name: str) -> NaiveStage | None:
        """Committed, without batches. None: it was over before."""
        stage = self.open.get(name)
        if stage is not None:
            if not self._registry.has_part(name, self._group) or stage.parts:
                raise Violation(WHOLE, f"group {self._group} ends transaction {name}, which was not committed there")
            self._end(name, stage)
        return stage

    def drop(self, name: str) -> NaiveStage | None:
        stage = self.open.pop(name, None)
        if stage is None:
            return None
        if name not in self._registry.decisions:
            raise Violation(WHOLE, f"group {self._group} drops {name}, about which nothing was decided")
        if self._registry.is_promised(name, self._group):
            raise Violation(WHOLE, f"group {self._group} drops {name}, which was staged and committed")
        return stage

    def _end(self, name: str, stage: NaiveStage) -> None:
        """All that was promised must be in it."""
        del self.open[name]
        place = (name, self._group)
        known = {part[:2]: None for part in stage.parts}
        for promised in self._registry.parts.get(place, ()):
            if promised not in known:
                raise Violation(WHOLE, f"group {self._group} shows {name} without its batch {promised}")
        acked = {(acks.group, offset): None for acks in stage.acks for offset in acks.offsets}
        for ack in self._registry.acks.get(place, ()):
            if ack not in acked:
                raise Violation(WHOLE, f"group {self._group} ends {name} without the ack of {ack}")
        self.shown.setdefault(name, {})

    # Answers.

    def answered_outcome(self, name: str, reply: TransactionShown) -> None:
        """A client is answered with the outcome in this partition."""
        shown = self.shown.get(name)
        if reply.is_shown != (shown is not None):
            raise Violation(WHOLE, f"group {self._group} says of {name} that it is shown: {reply.is_shown}")
        answered = {(batch.producer_id, batch.producer_sequence): batch.base_offset for batch in reply.batches}
        if shown is not None and answered != shown:
            raise Violation(WHOLE, f"group {self._group} shows {name} at {shown}, and answers {answered}")

    def judge(self) -> None:
        """At the end of a run, when no transaction is open: what was promised is visible."""
        if self.open:
            raise Violation(WHOLE, f"group {self._group} has transactions that never ended: {list(self.open)}")
        for name, group in (*self._registry.parts, *self._registry.acks):
            is_mine = group == self._group and self._registry.has_part(name, group)
            if is_mine and name not in self.shown:
                raise Violation(WHOLE, f"group {group} does not show {name}, which was staged and committed")
