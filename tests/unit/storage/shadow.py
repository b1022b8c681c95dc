"""A naive store in memory, and a driver that does the same to it and to the real one.

The shadow is a value: copying it is taking a reference. After a crash the real store must equal the
shadow as of the last block that was reported durable, or as of the block in flight.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from flotilla.codec.log import encode_configuration
from flotilla.raft.messages import CONFIG, DATA, NOOP, Configuration, Entry, HardState, SnapshotMeta
from flotilla.replica.ports import PendingSnapshot
from flotilla.storage.block import PendingBlock
from flotilla.storage.maintenance import MaintenanceJob
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Disk
from flotilla.storage.snapshots import SnapshotJob
from flotilla.storage.store import NodeStore
from flotilla.types.errors import CorruptionError, DiskFullError, StorageFailedError
from flotilla.types.records import Span
from tests.unit.storage.loading import loaded

TINY = StoreOptions(
    journal_bytes=64 * 1024,
    reserve_bytes=64 * 1024,
    segment_bytes=8 * 1024,
    index_interval_bytes=1024,
    transfer_bytes=4096,
    open_files_max=2,
)
VOTERS = Configuration(voters=(1, 2, 3))
_NOTHING = HardState()


def describe(entry: Entry) -> Span | None:
    """Test batches: 'base count time' in text, padded with anything after a dot."""
    if entry.kind != DATA or not entry.data:
        return None
    base, count, time = bytes(entry.data).partition(b".")[0].split()
    return Span(int(base), int(count), int(time))


@dataclass(frozen=True)
class ShadowGroup:
    hard_state: HardState = _NOTHING
    base: int = 0
    base_term: int = 0
    entries: tuple[tuple[int, int, bytes], ...] = ()  # term, kind, data
    snapshot: SnapshotMeta | None = None
    snapshot_data: bytes = b""
    next_offset: int = 0
    #: Of the next entry at least: (index, term) names an entry's content for ever.
    term_min: int = 1

    @property
    def last_index(self) -> int:
        return self.base + len(self.entries)

    def term(self, index: int) -> int:
        return self.base_term if index == self.base else self.entries[index - self.base - 1][0]


@dataclass(frozen=True)
class Shadow:
    groups: dict[int, ShadowGroup] = field(default_factory=dict)

    def put(self, group: int, state: ShadowGroup | None) -> "Shadow":
        groups = dict(self.groups)
        groups.pop(group, None)
        if state is not None:
            groups[group] = state
        return Shadow(groups)


def differences(store: NodeStore, shadow: Shadow, *, damage_is_fine: bool = False) -> list[str]:
    """The differences between the real store and the shadow."""
    found: list[str] = []
    if set(store.groups) != set(shadow.groups):
        return [f"groups {sorted(store.groups)} != {sorted(shadow.groups)}"]
    for group, state in shadow.groups.items():
        log = store.groups[group]
        recovered = log.recovered()
        if (log.first_index(), log.last_index()) != (state.base + 1, state.last_index):
            found.append(
                f"{group}: [{log.first_index()}, {log.last_index()}] != [{state.base + 1}, {state.last_index}]"
            )
            continue
        if recovered.hard_state != state.hard_state:
            found.append(f"{group}: {recovered.hard_state} != {state.hard_state}")
        if log.snapshot() != state.snapshot and not damage_is_fine:
            found.append(f"{group}: {log.snapshot()} != {state.snapshot}")
        found += [
            f"{group}: term of {index}"
            for index in range(state.base, state.last_index + 1)
            if log.term(index) != state.term(index)
        ]
        found += _entry_differences(store, log, state, damage_is_fine)
        try:
            snapshot = log.read_snapshot()
            data = b"" if snapshot is None else snapshot.data
            if data != state.snapshot_data and not damage_is_fine:
                found.append(f"{group}: snapshot data")
        except CorruptionError:
            if not damage_is_fine:
                found.append(f"{group}: snapshot unreadable")
    return found


def _entry_differences(store: NodeStore, log, state: ShadowGroup, damage_is_fine: bool) -> list[str]:
    index = state.base + 1
    while index <= state.last_index:
        try:
            entries = loaded(store, lambda low=index: log.entries(low, state.last_index + 1, 4000))
        except CorruptionError as error:
            if not damage_is_fine:
                return [f"{log.group}: {error}"]
            if (error.group, error.low) != (log.group, index) or error.high <= index:
                return [f"{log.group}: asked for {index}, but {error}"]
            index = error.high
            continue
        assert entries
        for entry in entries:
            if entry.index != index:
                return [f"{log.group}: {entry.index} where {index} was expected"]
            if (entry.term, entry.kind, bytes(entry.data)) != state.entries[index - state.base - 1]:
                return [f"{log.group}: entry {index} differs"]
            index += 1
    return []


def pending(meta: SnapshotMeta, data: bytes) -> PendingSnapshot:
    """In two parts, as an encoder may give it."""
    half = len(data) // 2
    return PendingSnapshot(meta, lambda: (data[:half], data[half:]))


class Driver:
    """Random work on a store with the shadow beside it."""

    def __init__(self, disk: Disk, random: Random, options: StoreOptions = TINY) -> None:
        self.disk = disk
        self.random = random
        self.options = options
        self.shadow = Shadow()
        self.durable = Shadow()
        self.in_flight: Shadow | None = None
        self.block: PendingBlock | None = None
        self.job: MaintenanceJob | None = None
        self.snapshot_job: tuple[SnapshotJob, bool] | None = None
        self.term_next = 1
        #: How often a group had doubtful entries after a crash.
        self.torn_count = 0
        self.store = NodeStore.open(disk, options, describe)

    def reopen(self) -> None:
        """After a crash: opens again and adopts whichever of the allowed states is there."""
        self.block = self.job = self.snapshot_job = None
        self.store = NodeStore.open(self.disk, self.options, describe)
        if self.in_flight is not None and differences(self.store, self.durable):
            self.durable = self.in_flight
            self._repair_torn_block()
        assert differences(self.store, self.durable) == []
        self.in_flight = None
        self.shadow = self.durable
        for log in self.store.groups.values():
            assert not log.recovered().damaged
            assert not log.recovered().doubtful

    def _repair_torn_block(self) -> None:
        """One bad sector in the last block is damage that others repair. All of it but configurations is doubtful."""
        for group, log in self.store.groups.items():
            recovered = log.recovered()
            state = self.durable.groups[group]
            lost = [index for low, high in recovered.damaged for index in range(low, high)]
            entries = [Entry(index, *state.entries[index - state.base - 1]) for index in lost]
            doubtful = [index for low, high in recovered.doubtful for index in range(low, high)]
            assert doubtful == [entry.index for entry in entries if entry.kind != CONFIG]
            if entries:
                self.torn_count += 1
                self.store.save(group, repaired=entries)
        block = self.store.take_block()
        if block is not None:
            self.store.write_block(block)
            self.store.finish_block(block)

    def step(self) -> None:
        actions = (
            (self.append, 12), (self.vote, 2), (self.create, 1), (self.remove, 0.2), (self.conflict, 2),
            (self.compact, 2), (self.own_snapshot, 1), (self.install, 1), (self.finish_snapshot, 2),
            (self.take, 8), (self.write, 8), (self.mark, 2), (self.plan, 3), (self.run_job, 3), (self.read, 2),
        )  # fmt: skip
        action = self.random.choices([action for action, _ in actions], [weight for _, weight in actions])[0]
        action()

    def some_group(self) -> int | None:
        return self.random.choice(sorted(self.shadow.groups)) if self.shadow.groups else None

    def create(self) -> None:
        if len(self.shadow.groups) >= 4:
            return
        group = self.random.randint(1, 5)
        if group not in self.shadow.groups:
            self.store.create_group(group, VOTERS)
            self.shadow = self.shadow.put(group, ShadowGroup(term_min=self.fresh_term()))

    def fresh_term(self) -> int:
        self.term_next += 1
        return self.term_next

    def remove(self) -> None:
        group = self.some_group()
        if group is not None:
            self.store.remove_group(group)
            self.shadow = self.shadow.put(group, None)
            if self.snapshot_job is not None and self.snapshot_job[0].file.group == group:
                self.snapshot_job = None

    def new_entries(self, state: ShadowGroup, first: int, term: int) -> list[Entry]:
        offset = 0
        for _, kind, data in state.entries[: first - state.base - 1]:
            span = describe(Entry(0, 0, kind, data))
            offset = offset if span is None else span.base_offset + span.count
        offset = max(offset, state.next_offset if first == state.last_index + 1 else 0)
        entries: list[Entry] = []
        for index in range(first, first + self.random.choice((1, 1, 1, 2, 5))):
            kind = self.random.choices((DATA, NOOP, CONFIG), (20, 2, 1))[0]
            data = b""
            if kind == DATA:
                count = self.random.randint(1, 9)
                size = self.random.choice((0, 0, 7, 60, 500, 512, 3000))
                data = b"%d %d %d." % (offset, count, self.random.randint(0, 50) + index) + self.random.randbytes(size)
                offset += count
            elif kind == CONFIG:
                data = encode_configuration(Configuration(voters=(1, 2, index + 3)))
            entries.append(Entry(index, term, kind, data))
        return entries

    def extended(self, state: ShadowGroup, entries: list[Entry]) -> ShadowGroup:
        kept = state.entries[: entries[0].index - state.base - 1]
        offset = state.next_offset
        for entry in entries:
            span = describe(entry)
            offset = offset if span is None else span.base_offset + span.count
        added = tuple((entry.term, entry.kind, bytes(entry.data)) for entry in entries)
        return replace(state, entries=kept + added, next_offset=offset)

    def append(self) -> None:
        group = self.some_group()
        if group is None:
            return self.create()
        state = self.shadow.groups[group]
        term = max(state.term(state.last_index), state.term_min)
        if self.random.random() < 0.2:
            term = max(term, self.fresh_term())
        entries = self.new_entries(state, state.last_index + 1, term)
        hard_state = HardState(term, self.random.randint(0, 3), state.last_index)
        self.store.save(group, entries=entries, hard_state=hard_state)
        self.shadow = self.shadow.put(group, replace(self.extended(state, entries), hard_state=hard_state))
        return None

    def vote(self) -> None:
        group = self.some_group()
        if group is not None:
            state = self.shadow.groups[group]
            hard_state = HardState(state.hard_state.term + 1, self.random.randint(1, 3), state.hard_state.commit)
            self.store.save(group, hard_state=hard_state)
            self.shadow = self.shadow.put(group, replace(state, hard_state=hard_state))

    def conflict(self) -> None:
        group = self.some_group()
        if group is None:
            return
        state = self.shadow.groups[group]
        low = max(state.base, 0 if state.snapshot is None else state.snapshot.index) + 1
        if low > state.last_index:
            return
        first = self.random.randint(low, state.last_index)
        if self.random.random() < 0.3:
            self.store.save(group, truncate_from=first)
            kept = state.entries[: first - state.base - 1]
            state = replace(state, entries=kept, next_offset=0, term_min=self.fresh_term())
        else:
            entries = self.new_entries(state, first, self.fresh_term())
            self.store.save(group, entries=entries)
            state = self.extended(state, entries)
        self.shadow = self.shadow.put(group, state)

    def compact(self) -> None:
        group = self.some_group()
        if group is None:
            return
        state = self.shadow.groups[group]
        if state.snapshot is None or min(state.snapshot.index, state.last_index) <= state.base:
            return
        base = self.random.randint(state.base + 1, min(state.snapshot.index, state.last_index))
        self.store.groups[group].compact(base + 1, state.term(base))
        entries = state.entries[base - state.base :]
        self.shadow = self.shadow.put(group, replace(state, base=base, base_term=state.term(base), entries=entries))

    def own_snapshot(self) -> None:
        group = self.some_group()
        if group is None or self.snapshot_job is not None:
            return
        state = self.shadow.groups[group]
        # Only what is durable is ever applied.
        durable = self.durable.groups.get(group)
        low = state.base if state.snapshot is None else state.snapshot.index
        high = state.last_index if durable is None else min(state.last_index, durable.last_index)
        if durable is None or durable.base != state.base or low >= high:
            return
        index = self.random.randint(low + 1, high)
        if index <= durable.base or durable.term(index) != state.term(index):
            return
        data = self.random.randbytes(self.random.choice((0, 10, 2000)))
        meta = SnapshotMeta(index, state.term(index), state.base, state.base_term, VOTERS, len(data))
        self.snapshot_job = (self.store.plan_snapshot(group, pending(meta, data)), False)

    def install(self) -> None:
        group = self.some_group()
        if group is None or self.snapshot_job is not None:
            return
        state = self.shadow.groups[group]
        index = state.last_index + self.random.randint(1, 10)
        term = self.fresh_term()
        back = min(index, self.random.choice((0, 0, 3)))
        data = self.random.randbytes(self.random.choice((5, 1000)))
        meta = SnapshotMeta(index, term, index - back, term, VOTERS, len(data))
        self.snapshot_job = (self.store.plan_snapshot(group, pending(meta, data)), True)

    def finish_snapshot(self) -> None:
        if self.snapshot_job is None:
            return
        job, is_install = self.snapshot_job
        encode = job.encode
        if not self.attempt(job.run):
            return
        self.snapshot_job = None
        group, meta, data = job.file.group, job.file.meta, b"".join(encode())
        state = self.shadow.groups[group]
        if is_install:
            self.store.finish_snapshot(job)
            self.store.save(group, snapshot=meta)
            state = ShadowGroup(state.hard_state, meta.log_index, meta.log_term, (), meta, data, term_min=meta.term)
        else:
            is_there = state.base <= meta.index <= state.last_index and state.term(meta.index) == meta.term
            if not is_there:
                # Truncated meanwhile; a real group never takes back what it applied.
                return
            self.store.finish_snapshot(job)
            if state.snapshot is None or state.snapshot.index < meta.index:
                state = replace(state, snapshot=meta, snapshot_data=data)
        self.shadow = self.shadow.put(group, state)

    def take(self) -> None:
        if self.block is None:
            block = self.store.take_block()
            if block is not None:
                self.block = block
                self.in_flight = self.shadow

    def write(self) -> None:
        block = self.block
        if block is not None and self.attempt(lambda: self.store.write_block(block)):
            self.store.finish_block(block)
            self.block = None
            assert self.in_flight is not None
            self.durable = self.in_flight
            self.in_flight = None

    def mark(self) -> None:
        self.store.mark_block()

    def plan(self) -> None:
        if self.job is None:
            self.job = self.store.plan_maintenance(flush=self.random.random() < 0.2)

    def run_job(self) -> None:
        if self.job is not None and self.attempt(self.job.run):
            self.store.finish_maintenance(self.job)
            self.job = None

    def attempt(self, work) -> bool:
        try:
            work()
        except (DiskFullError, StorageFailedError):
            return False
        return True

    def read(self) -> None:
        """Offsets and times, against a walk over everything."""
        group = self.some_group()
        if group is None:
            return
        state = self.shadow.groups[group]
        log = self.store.groups[group]
        spans = [(index, describe(Entry(0, 0, kind, data)), data) for index, (_, kind, data) in
                 enumerate(state.entries, state.base + 1)]  # fmt: skip
        batches = [(index, span, data) for index, span, data in spans if span is not None]
        if any(low[1].base_offset + low[1].count > high[1].base_offset for low, high in pairwise(batches)):
            return
        offset = self.random.randint(0, batches[-1][1].base_offset + 12) if batches else 0
        high = self.random.randint(state.base + 1, state.last_index + 1)
        wanted = [data for index, span, data in batches if span.base_offset + span.count > offset and index < high]
        found = [bytes(entry.data) for entry in loaded(self.store, lambda: log.read_from_offset(offset, 2000, high))]
        assert found == wanted[: len(found)]
        assert bool(found) == bool(wanted)
        if len(found) < len(wanted):
            assert sum(map(len, found)) + 32 * len(found) + len(wanted[len(found)]) + 32 > 2000
        time = self.random.randint(0, 200)
        first = next((span.base_offset for _, span, _ in batches if span.timestamp_ms >= time), None)
        assert loaded(self.store, lambda: log.find_time(time)) == first
