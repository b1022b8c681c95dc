"""Thin wrappers around a node's real store and state machine, through which an observer looks.

They change nothing and decide nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from flotilla.raft.messages import Configuration, Entry, HardState, SnapshotMeta
from flotilla.raft.node import RaftNode
from flotilla.replica.ports import Block, GroupLog, Job, Load, PendingSnapshot, Scrubbed, StateMachine, Store
from flotilla.sim.coverage import Sometimes
from flotilla.sim.observer import GroupObserver
from flotilla.types.ids import GroupId, Index, NodeId


class WatchedMachine(StateMachine, Protocol):
    """A state machine whose every step an observer sees."""

    #: Set once the replica exists.
    raft: RaftNode | None


class WatchedStore:
    """A store that reports saves and finished blocks to the shadow."""

    __slots__ = ("_in_flight", "_node", "_observers", "_saved", "_sometimes", "_store", "machines")

    def __init__(
        self, node: NodeId, store: Store, observers: dict[GroupId, GroupObserver], sometimes: Sometimes
    ) -> None:
        self._node = node
        self._store = store
        self._observers = observers
        self._sometimes = sometimes
        self.machines: dict[GroupId, WatchedMachine] = {}
        #: Groups with saves in the open block, and in the block that is being written.
        self._saved: dict[GroupId, None] = {}
        self._in_flight: dict[GroupId, None] = {}

    @property
    def groups(self) -> Mapping[GroupId, GroupLog]:
        return self._store.groups

    def create_group(self, group: GroupId, configuration: Configuration) -> GroupLog:
        return self._store.create_group(group, configuration)

    def remove_group(self, group: GroupId) -> None:
        self._store.remove_group(group)

    def plan_attachment(self, group: GroupId) -> Load | None:
        return self._store.plan_attachment(group)

    def finish_attachment(self, attachment: Load) -> None:
        self._store.finish_attachment(attachment)

    def save(
        self,
        group: GroupId,
        *,
        hard_state: HardState | None = None,
        entries: list[Entry] | None = None,
        repaired: list[Entry] | None = None,
        truncate_from: Index = 0,
        snapshot: SnapshotMeta | None = None,
    ) -> None:
        machine = self.machines.get(group)
        raft = machine.raft if machine is not None else None
        observer = self._observers[group]
        self._saved[group] = None
        observer.saved(self._node, raft, hard_state, entries, repaired, truncate_from, snapshot)
        if entries and entries[0].index <= self._store.groups[group].last_index():
            self._sometimes.seen("entries overwritten")
        self._store.save(
            group,
            hard_state=hard_state,
            entries=entries,
            repaired=repaired,
            truncate_from=truncate_from,
            snapshot=snapshot,
        )

    def take_damage(self) -> list[tuple[GroupId, Index, Index]]:
        return self._store.take_damage()

    def take_loads(self) -> Sequence[Load]:
        return self._store.take_loads()

    def finish_load(self, load: Load) -> bool:
        return self._store.finish_load(load)

    @property
    def scrubbed(self) -> Scrubbed:
        return self._store.scrubbed

    def plan_scrub(self) -> Load | None:
        return self._store.plan_scrub()

    def finish_scrub(self, load: Load) -> bool:
        return self._store.finish_scrub(load)

    def take_block(self) -> Block | None:
        block = self._store.take_block()
        if block is not None:
            for group in self._saved:
                shadow = self._observers[group].durability.shadow.get(self._node)
                if shadow is not None:
                    shadow.block_taken()
            self._in_flight, self._saved = self._saved, {}
        return block

    def write_block(self, block: Block) -> None:
        self._store.write_block(block)
        # From here on the store must have it after any crash.
        for group in self._in_flight:
            shadow = self._observers[group].durability.shadow.get(self._node)
            if shadow is not None:
                shadow.block_durable()

    def mark_block(self) -> None:
        self._store.mark_block()

    def finish_block(self, block: Block) -> None:
        self._store.finish_block(block)

    @property
    def is_low(self) -> bool:
        return self._store.is_low

    def admits(self, entries: list[Entry]) -> int:
        return self._store.admits(entries)

    def plan_maintenance(self, *, is_retry: bool = False) -> Job | None:
        return self._store.plan_maintenance(is_retry=is_retry)

    def finish_maintenance(self, job: Job) -> None:
        self._store.finish_maintenance(job)

    def plan_rewrites(self, *, is_retry: bool = False) -> Sequence[Load]:
        return self._store.plan_rewrites(is_retry=is_retry)

    def finish_rewrite(self, rewrite: Load) -> None:
        self._store.finish_rewrite(rewrite)
        self._sometimes.seen("segment rewritten")

    def plan_snapshot(self, group: GroupId, snapshot: PendingSnapshot) -> Job:
        return self._store.plan_snapshot(group, snapshot)

    def finish_snapshot(self, job: Job) -> SnapshotMeta:
        self._sometimes.seen("snapshot taken")
        if any(log.first_index() > 1 for log in self._store.groups.values()):
            self._sometimes.seen("log compacted")
        return self._store.finish_snapshot(job)

    def discard_snapshot(self, job: Job) -> None:
        self._store.discard_snapshot(job)
