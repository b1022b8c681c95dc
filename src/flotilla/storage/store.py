"""The store of a node: the only interface of this package, beside the disk.

    journal/   numbered files of blocks: everything saved, once, in the order of saving
    groups/    a folder per group: segments with their indexes, snapshots
    format     marks the directory as a store, tells its version, and keeps the salt of its checksums

Saving collects a block in memory; writing it is one write and one sync. Maintenance moves tails into segments;
the checkpoint in the next block releases old journal files. A path is never used twice (numbers only rise),
and a file is removed only after the block that released it is durable, so the files that the newest durable
block names always exist.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from types import MappingProxyType

from flotilla.codec.log import encode_configuration
from flotilla.raft.messages import Configuration, Entry, HardState, SnapshotMeta
from flotilla.replica import ports
from flotilla.replica.ports import Block, Job, PendingSnapshot, Scrubbed, UnstorableError
from flotilla.storage.attachment import Attachment, attach_all
from flotilla.storage.block import CHECKPOINT_FLAG, BlockImage, PendingBlock, head_of, records_of
from flotilla.storage.checkpoint import group_record, node_record
from flotilla.storage.damage.copied_files import mend_damaged
from flotilla.storage.damage.repairs import RepairedEntry
from flotilla.storage.framing import (
    CHECKPOINT_GROUP,
    CHECKPOINT_NODE,
    CREATE,
    ENTRY,
    PAIR,
    REMOVE,
    REPAIRED,
    RESET,
    SNAPSHOT_TAKEN,
    encode_meta,
    hard_state_record,
    record,
    seal,
)
from flotilla.storage.group_log import Collector, SegmentedLog
from flotilla.storage.journal import FOLDER, Journal, journal_path
from flotilla.storage.journal_scan import JournalScan, has_salted_blocks, list_journal
from flotilla.storage.maintenance import GroupFlush, MaintenanceJob, remove_all
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Disk
from flotilla.storage.reads.copies_load import CopiesLoad
from flotilla.storage.reads.damage_search import DamageSearch, DamageSearches
from flotilla.storage.reads.journal_load import JournalLoad
from flotilla.storage.reads.loads import Load, Loads, SegmentLoad, SnapshotLoad
from flotilla.storage.reads.scrubber import Scrubber
from flotilla.storage.recovery import GROUP_FRONT, RESET_FRONT, Replay
from flotilla.storage.rewrites import Rewrites, SegmentRewrite
from flotilla.storage.snapshots import SnapshotFile, SnapshotJob
from flotilla.storage.store_format import Salt, StoreFormat
from flotilla.types.errors import CorruptionError, DiskFullError
from flotilla.types.ids import GroupId, Index
from flotilla.types.records import Span


class NodeStore:
    """Implements replica.ports.Store. Every method belongs to the loop, except write_block, mark_block and Job.run."""

    def __init__(self, disk: Disk, options: StoreOptions, describe: Callable[[Entry], Span | None], salt: Salt) -> None:
        """Use `open`: without recovery a store is empty."""
        self._disk = disk
        self._options = options
        self._salt = salt
        self._describe = describe
        self._loads = Loads(disk, options.open_files_max)
        self._scrubber = Scrubber(disk, salt, options.copied_texts)
        self._collector = Collector(PendingBlock(1))
        self._searches = DamageSearches(disk, self._collector.searches)
        self._logs: dict[GroupId, SegmentedLog] = {}
        self._groups: Mapping[GroupId, SegmentedLog] = MappingProxyType(self._logs)
        self._journal = Journal(disk, options, salt, 1, [])
        self._generations = count(1)
        # Numbers of segments and snapshots; unique over all groups and restarts.
        self._file_numbers = count(1)
        # The oldest journal file with entries that no segment has.
        self._keep_from = 0
        self._is_checkpoint_due = False
        self._rewrites = Rewrites(disk, options)
        # Logs may have repaired entries that are not in their segments.
        self._has_repairs = True
        # Repaired entries in the journal, since the last flush.
        self._repaired_bytes = 0
        # What follows from jobs that have ended once the next checkpoint is durable.
        self._moved: list[Callable[[], None]] = []
        # The last journal file in which damage was found, until the journal no longer needs it; 0: none.
        self._rotten = 0
        # Files that no durable block names any more.
        self._garbage: list[str] = []
        #: Those that the disk did not remove: the next flush tries again.
        self.unremoved: list[str] = []
        # Snapshots received but not yet marked as the group's state.
        self._incoming: dict[GroupId, SnapshotFile] = {}
        # Attachments of logs that the disk did not return when the store was opened.
        self._unattached: dict[GroupId, Attachment] = {}
        self._job: MaintenanceJob | None = None
        # A full journal file that is not needed any more, to be reused; 0 when there is none.
        self._retired = 0
        # The current journal file when a spare was last planned: one attempt for each file.
        self._spare_planned_for = -1
        #: The last block of the old journal was torn by a power cut and dropped; nothing of it was ever acknowledged.
        self.dropped_block = ""
        #: Copies of small files that were damaged when the store was opened, for people.
        self.mended_copies: list[str] = []

    @classmethod
    def open(
        cls,
        disk: Disk,
        options: StoreOptions,
        describe: Callable[[Entry], Span | None],
        attach: Callable[[Sequence[Attachment]], None] = attach_all,
    ) -> "NodeStore":
        """Recovers a directory, or creates a new one. Raises CorruptionError when durable state is unreadable.

        Raises InvalidArgumentError when another version of the program wrote it.

        `attach` runs and finishes the attachments of all logs, or of those that the disk returns in time.

        The last block of the old journal, if nothing proves that it was durable, is written and synced again before
        this returns: its pages may have survived a failed sync in memory only. Works on a full disk: files that exist
        are used before new ones are created.
        """
        try:
            return cls._open(disk, options, describe, attach, may_flush=True)
        except DiskFullError:
            return cls._open(disk, options, describe, attach, may_flush=False)

    @classmethod
    def _open(
        cls,
        disk: Disk,
        options: StoreOptions,
        describe: Callable[[Entry], Span | None],
        attach: Callable[[Sequence[Attachment]], None],
        *,
        may_flush: bool,
    ) -> "NodeStore":
        found = StoreFormat.read(disk)
        is_new = found is None or not found.is_complete
        disk.make_directory(FOLDER)
        disk.make_directory("groups")
        disk.sync_directory("")
        numbers = list_journal(disk)
        if (found is None or not found.salt.value) and has_salted_blocks(disk, numbers):
            raise CorruptionError("the file `format` is lost, and nothing can be read without it")
        file_number = _highest_file_number(disk) + 1
        salt = Salt() if found is None else found.salt
        if not salt.value:
            salt = _introduce_salt(disk, is_new=is_new, first_segment=file_number, first_journal=_after(numbers))
        store = cls(disk, options, describe, salt)
        store._file_numbers = count(max(file_number, salt.first_segment))
        scan = JournalScan.of(disk, numbers, salt)
        chain = scan.chain()
        if not chain and not is_new:
            raise CorruptionError("the journal is lost: no block of it is readable")
        store._recover(numbers, scan, chain_sequence=chain[-1].sequence if chain else 0)
        if chain:
            replay = Replay(store._make_log, salt.value, scan.file_bytes)
            replay.run(chain, scan.proven)
            store._logs.update(replay.logs)
            store._keep_from = replay.keep_from
            # `_remove_unnamed` below finds the released files again: the checkpoint does not name them.
            store._collector.block.trash.clear()
        attachments = [Attachment.of(disk, options, log) for log in store._logs.values()]
        attach(attachments)
        store._unattached = {one.group: one for one in attachments if not one.log.is_attached}
        if chain and (not may_flush or store._can_flush_later(scan)):
            store._settle_later(None if chain[-1].sequence <= scan.proven else chain[-1])
        else:
            store._settle()
        store._journal.limit_reserve()
        store._remove_unnamed()
        store._journal.restore_reserve()
        if is_new:
            StoreFormat(salt, is_complete=True).write(disk)
        store.mended_copies = mend_damaged(disk, options.copied_texts)
        return store

    @property
    def is_low(self) -> bool:
        """The disk was full: only entries that free space may still be written."""
        return self._journal.is_low

    def admits(self, entries: list[Entry]) -> int:
        """On a full disk few records, and soon nothing: the rest of the reserve is for what moves the logs' starts.

        A leader stops to accept records when it learns that its quorum has no room for them. Those that it has by then
        must be stored, because what frees space comes behind them.
        """
        if not self._journal.is_low:
            return len(entries)
        if self._journal.is_reserve_used(2):
            return 0
        records_bytes = 0
        for at, entry in enumerate(entries):
            if self._describe(entry) is not None:
                records_bytes += len(entry.data)
                if self._journal.is_reserve_used(4, records_bytes):
                    return at
        return len(entries)

    @property
    def groups(self) -> Mapping[GroupId, SegmentedLog]:
        return self._groups

    def create_group(self, group: GroupId, configuration: Configuration) -> SegmentedLog:
        assert group not in self._logs, f"group {group} exists"
        created = record(CREATE, GROUP_FRONT.pack(group) + encode_configuration(configuration))
        self._collector.block.records.append(created)
        log = self._logs[group] = self._make_log(group, configuration)
        return log

    def remove_group(self, group: GroupId) -> None:
        log = self._logs.pop(group)
        self._collector.block.records.append(record(REMOVE, GROUP_FRONT.pack(group)))
        log.generation = 0
        log.release_all()
        self._unattached.pop(group, None)
        incoming = self._incoming.pop(group, None)
        if incoming is not None:
            self._garbage.append(incoming.path)

    def plan_attachment(self, group: GroupId) -> Attachment | None:
        attachment = self._unattached.get(group)
        return None if attachment is None else attachment.again()

    def finish_attachment(self, attachment: ports.Load) -> None:
        assert isinstance(attachment, Attachment)
        known = self._unattached.get(attachment.group)
        if known is not None and known.log is attachment.log:
            del self._unattached[attachment.group]
            attachment.finish()
            self._has_repairs = True

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
        log = self._logs[group]
        block = self._collector.block
        # First of all: what follows must not end half-way.
        sealed = self._seal(ENTRY, group, entries) if entries else []
        mended = self._seal(ENTRY, group, repaired) if repaired else []
        if snapshot is not None:
            self._install(log, snapshot)
        if truncate_from and truncate_from <= log.last_index():
            log.truncate(truncate_from)
        if entries:
            if entries[0].index <= log.last_index():
                log.truncate(entries[0].index)
            for entry, head, span in sealed:
                log.append_in_memory(entry, head, span)
                block.add(head, entry.kind, entry.data)
        if mended:
            self._repair(log, mended)
        if hard_state is not None:
            log.hard_state = hard_state
            block.records.append(hard_state_record(group, hard_state))

    def _seal(self, tag: int, group: GroupId, entries: list[Entry]) -> list[tuple[Entry, bytes, Span | None]]:
        """The entries with their frame heads. Raises UnstorableError."""
        describe, salt = self._describe, self._salt.value
        try:
            return [(entry, seal(tag, group, entry, span := describe(entry), salt), span) for entry in entries]
        except Exception as failure:
            raise UnstorableError(f"an entry of group {group} cannot be described: {failure!r}") from failure

    def take_damage(self) -> list[tuple[GroupId, Index, Index]]:
        found, self._collector.found_damage = self._collector.found_damage, []
        # Without entries that were repaired, truncated or compacted meanwhile.
        return [
            (group, *left)
            for group, low, high in found
            if group in self._logs
            for left in self._logs[group].damaged.within(low, high)
        ]

    def take_loads(self) -> Sequence[Load]:
        if not self._loads.wanted and not self._collector.searches:
            return ()
        loads: list[Load] = self._loads.take()
        if self._collector.searches:
            loads += self._searches.plan(self._logs)
        return loads

    def finish_load(self, load: ports.Load) -> bool:
        assert isinstance(load, SegmentLoad | SnapshotLoad)
        log = self._logs.get(load.group)
        is_current = log is not None and load.path in log.paths()
        self._loads.finish(load, is_current=is_current)
        return is_current

    @property
    def scrubbed(self) -> Scrubbed:
        scrubber = self._scrubber
        return Scrubbed(scrubber.bytes, scrubber.damage, scrubber.passes, scrubber.skipped)

    def plan_scrub(self) -> Load | None:
        return self._scrubber.plan(self._logs, self._journal.written())

    def finish_scrub(self, load: ports.Load) -> bool:
        if isinstance(load, JournalLoad):
            if self._scrubber.finish_journal(load, is_current=load.number in self._journal.numbers):
                self._leave(load.number)
            return False
        if isinstance(load, CopiesLoad):
            self._scrubber.finish_copies(load)
            return False
        log = self._logs.get(load.group)
        is_current = log is not None and load.path in log.paths()
        if isinstance(load, DamageSearch):
            self._searches.finish(load, log if is_current else None)
            return False
        assert isinstance(load, SegmentLoad | SnapshotLoad)
        return self._scrubber.finish(load, log if is_current else None)

    def _leave(self, number: int) -> None:
        """A journal file is damaged. All that it holds is in memory: it is written again, and the file goes."""
        self._rotten = max(self._rotten, number)
        self._journal.full.discard(number)
        self._journal.left_number = self._rotten
        self._is_checkpoint_due = True

    def take_block(self) -> PendingBlock | None:
        block = self._collector.block
        if self._is_checkpoint_due:
            self._is_checkpoint_due = False
            block.flags |= CHECKPOINT_FLAG
            block.keep_from = self._keep_from
            block.records.append(node_record(self._keep_from))
            block.records += map(group_record, self._logs.values())
            block.saved, self._moved = self._moved, []
        if not block.records:
            return None
        block.close()
        self._collector.block = PendingBlock(block.sequence + 1)
        return block

    def write_block(self, block: Block) -> None:
        assert isinstance(block, PendingBlock)
        self._journal.write(block)

    def mark_block(self) -> None:
        self._journal.mark()

    def finish_block(self, block: Block) -> None:
        assert isinstance(block, PendingBlock)
        self._garbage += block.trash
        for saved in block.saved:
            saved()
        if block.keep_from:
            numbers = self._journal.numbers
            for number in [number for number in numbers if number < block.keep_from]:
                numbers.remove(number)
                if number in self._journal.full and not self._retired:
                    self._retired = number
                else:
                    self._garbage.append(journal_path(number))
                self._journal.full.discard(number)
                self._journal.ends.pop(number, None)

    def plan_maintenance(self, *, flush: bool = False, is_retry: bool = False) -> MaintenanceJob | None:
        """With `flush`, tails go into segments even if no journal file is full, as before a planned stop.

        `is_retry`: tries again to create what a full disk had no room for. A job that failed so gets more to remove.
        """
        if is_retry:
            self._spare_planned_for = -1
        if self._job is not None:
            if is_retry:
                self._job.removals += self._take_garbage()
            return None
        journal = self._journal
        is_left = 0 < self._rotten < journal.number
        is_due = self._has_repairs and any(map(GroupFlush.is_repair_due, self._logs.values()))
        flush = flush or is_due or is_left or (journal.number > self._keep_from and self._is_flush_due())
        # While the first half of a file fills, the file before it can still retire.
        is_pressed = journal.is_half_full or journal.is_low or self._rotten
        has_time = journal.full and not self._retired and not is_pressed
        wants_files = journal.spare is None or not journal.has_reserve
        wants_spare = wants_files and self._spare_planned_for != journal.number and not has_time
        if not flush and not self._garbage and not wants_spare:
            return None
        if is_left:
            self._rotten = 0
        if flush:
            self._garbage += self.unremoved
            self.unremoved.clear()
        retired = 0
        if wants_spare:
            self._spare_planned_for = journal.number
            retired, self._retired = self._retired, 0
        self._job = MaintenanceJob(
            self._disk,
            journal,
            removals=self._take_garbage(),
            flushes=self._plan_flushes() if flush else None,
            keep_from=journal.number,
            spare_number=journal.reserve_number() if wants_spare and journal.spare is None else 0,
            retired=retired,
            wants_reserve=wants_spare and not journal.has_reserve,
        )
        return self._job

    def _take_garbage(self) -> list[str]:
        garbage, self._garbage = self._garbage, []
        for path in garbage:
            self._loads.forget(path)
        return garbage

    def _is_flush_due(self) -> bool:
        """Whether a full file holds entries that no segment has. A file filled by a checkpoint alone is no reason."""
        full_count = self._journal.number - self._keep_from
        return full_count > 1 or (full_count == 1 and any(map(GroupFlush.is_needed, self._logs.values())))

    def finish_maintenance(self, job: Job) -> None:
        assert job is self._job
        assert isinstance(job, MaintenanceJob)
        self._job = None
        self.unremoved += job.unremoved
        self._journal.has_reserve |= job.has_created_reserve
        if job.spare is not None:
            self._journal.numbers.append(job.spare.number)
            self._journal.spare = job.spare
            # A damaged file is left with the next block.
            self._is_checkpoint_due |= self._rotten == self._journal.number
        if job.flushes is None:
            return
        for flush in job.flushes:
            self._garbage += flush.take_over()
            self._moved.append(partial(flush.log.unsaved.saved, flush.repairs))
        self._keep_from = job.keep_from
        self._is_checkpoint_due = True

    def plan_rewrites(self, *, is_retry: bool = False) -> Sequence[SegmentRewrite]:
        if is_retry:
            self._rewrites.retry()
        if not self._has_repairs:
            return ()
        repaired = [log for log in self._logs.values() if log.overlay]
        self._has_repairs = bool(repaired)
        return self._rewrites.plan(() if self._journal.is_low else repaired, self._file_numbers)

    def finish_rewrite(self, rewrite: ports.Load) -> None:
        assert isinstance(rewrite, SegmentRewrite)
        log = self._logs.get(rewrite.group)
        obsolete = self._rewrites.finish(rewrite, log)
        self._garbage += obsolete
        if log is not None and rewrite.is_complete and not obsolete:
            self._moved.append(partial(log.unsaved.saved, list(rewrite.repairs.values())))
            self._is_checkpoint_due = True

    def plan_snapshot(self, group: GroupId, snapshot: PendingSnapshot) -> SnapshotJob:
        assert group in self._logs
        return SnapshotJob(self._disk, group, next(self._file_numbers), snapshot)

    def finish_snapshot(self, job: Job) -> SnapshotMeta:
        """A snapshot beyond the log is valid from `save(snapshot=...)` on; until then the old one is."""
        assert isinstance(job, SnapshotJob)
        file = job.file
        meta = file.meta
        log = self._logs[file.group]
        newest = log.snapshot()
        if log.contains(meta.index, meta.term) and (newest is None or newest.index <= meta.index):
            taken = record(SNAPSHOT_TAKEN, PAIR.pack(file.group, file.number) + encode_meta(meta))
            self._collector.block.records.append(taken)
            log.take_snapshot_in_memory(file)
            return meta
        older = self._incoming.get(file.group)
        if older is not None:
            self._garbage.append(older.path)
        self._incoming[file.group] = file
        return meta

    def discard_snapshot(self, job: Job) -> None:
        assert isinstance(job, SnapshotJob)
        self._garbage.append(job.file.path)

    def close(self) -> None:
        """Closes files without writing. Anything not in a durable block is lost."""
        self._journal.close()
        self._loads.close()

    def _make_log(self, group: GroupId, configuration: Configuration) -> SegmentedLog:
        return SegmentedLog(
            group,
            configuration,
            disk=self._disk,
            loads=self._loads,
            options=self._options,
            salt=self._salt,
            collector=self._collector,
            generations=self._generations,
        )

    def _install(self, log: SegmentedLog, meta: SnapshotMeta) -> None:
        incoming = self._incoming.get(log.group)
        if incoming is not None and (incoming.meta.index, incoming.meta.term) == (meta.index, meta.term):
            file = self._incoming.pop(log.group)
        else:
            assert log.snapshots, "a snapshot is marked before its file was finished"
            file = log.snapshots[-1]
            assert (file.meta.index, file.meta.term) == (meta.index, meta.term), "the mark names another snapshot"
        front = RESET_FRONT.pack(log.group, file.number, meta.log_index, meta.log_term)
        self._collector.block.records.append(record(RESET, front + encode_meta(file.meta)))
        log.reset_in_memory(file, meta.log_index, meta.log_term)

    def _repair(self, log: SegmentedLog, sealed: list[tuple[Entry, bytes, Span | None]]) -> None:
        """Many go to their segments at once: the journal would write and sync every byte a second time.

        So do those that come while many wait in the journal for their segments: each flush writes these again.
        """
        size_bytes = sum(len(entry.data) for entry, _, _ in sealed)
        is_much = self._repaired_bytes + size_bytes > self._options.journal_bytes // 4
        is_direct = (size_bytes >= self._options.direct_repair_bytes or is_much) and not self._journal.is_low
        log.repair_in_memory([RepairedEntry(entry, head, span, not is_direct) for entry, head, span in sealed])
        for entry, _, span in sealed if not is_direct else ():
            self._append_repaired(log.group, entry, span)
        self._has_repairs = True

    def _plan_flushes(self) -> list[GroupFlush]:
        self._repaired_bytes = 0
        for log in self._logs.values():
            self._journal_again(log)
        return [
            GroupFlush(log, self._disk, self._options, self._file_numbers)
            for log in filter(GroupFlush.is_needed, self._logs.values())
        ]

    def _journal_again(self, log: SegmentedLog) -> None:
        """The journal is about to release the files with the repaired entries of segments."""
        for repaired in log.overlay.within(0, log.durable_index + 1):
            if repaired.is_journaled:
                self._append_repaired(log.group, repaired.entry, repaired.span)

    def _append_repaired(self, group: GroupId, entry: Entry, span: Span | None) -> None:
        self._collector.block.add(seal(REPAIRED, group, entry, span, self._salt.value), entry.kind, entry.data)
        self._repaired_bytes += len(entry.data)

    # Opening.

    def _recover(self, journal_numbers: list[int], scan: JournalScan, chain_sequence: int) -> None:
        """Continues the journal after the highest number on the disk, with a file that exists if possible."""
        next_number = max(_after(journal_numbers), self._salt.first_journal)
        journal = self._journal = Journal(self._disk, self._options, self._salt, next_number, list(journal_numbers))
        journal.ends.update(scan.ends)
        last_used = max(scan.ends, default=0)
        keep_from = scan.keep_from(is_proven=True)
        journal.start(
            unused=max((number for number in journal_numbers if number > last_used), default=0),
            obsolete=max((number for number in journal_numbers if number < keep_from), default=0),
            last=(last_used, scan.ends.get(last_used, 0)),
        )
        self._collector.block = PendingBlock(chain_sequence + 1)
        if scan.torn is not None:
            journal.ends[scan.torn.file_number] = scan.torn.position
            self.dropped_block = f"block {scan.torn.sequence} in {journal_path(scan.torn.file_number)}"

    def _can_flush_later(self, scan: JournalScan) -> bool:
        """Whether tails may stay in their journal files for now: few files, and nothing to repair."""
        kept = [number for number in scan.ends if number >= self._keep_from]
        is_damaged = any(log.damaged.as_list() or log.overlay for log in self._logs.values())
        return len(kept) <= self._options.journal_files_max and not is_damaged

    def _settle_later(self, unproven: BlockImage | None) -> None:
        """Writes a checkpoint and the unproven block to a new file; maintenance does the rest."""
        if not any(log.tail.entries or log.overlay for log in self._logs.values()):
            self._keep_from = self._journal.number
        elif unproven is not None:
            block = self._collector.block
            for tag, payload, frame, body in records_of(unproven):
                if frame is not None and body is None:
                    # The checkpoint lists the entry as damaged.
                    continue
                if frame is not None and body is not None:
                    block.add(head_of(unproven, payload, frame, body, self._salt.value), frame.kind, body)
                elif tag not in (CHECKPOINT_NODE, CHECKPOINT_GROUP):
                    block.records.append(record(tag, bytes(payload)))
        self._is_checkpoint_due = True
        self._write_checkpoint()

    def _settle(self) -> None:
        """Makes everything durable again: tails in segments, a checkpoint in a new file."""
        job = self.plan_maintenance(flush=True)
        assert job is not None
        job.run()
        self.finish_maintenance(job)
        self._write_checkpoint()

    def _write_checkpoint(self) -> None:
        block = self.take_block()
        assert block is not None
        self.write_block(block)
        self.finish_block(block)

    def _remove_unnamed(self) -> None:
        disk = self._disk
        named = {path for log in self._logs.values() for path in log.paths()}
        folders = disk.list("groups")
        paths = [f"groups/{folder}/{name}" for folder in folders for name in disk.list(f"groups/{folder}")]
        unnamed = [path for path in paths if path not in named]
        self.unremoved = remove_all(disk, unnamed + self._take_garbage())
        remove_all(disk, [f"groups/{one}" for one in folders if not one.isdigit() or int(one) not in self._logs])


def _introduce_salt(disk: Disk, *, is_new: bool, first_segment: int, first_journal: int) -> Salt:
    """Draws the salt of a store that has none, and makes it durable. On a full disk an old store goes on without."""
    salt = Salt.draw(disk.secret, first_segment, first_journal)
    introduced = StoreFormat(salt, is_complete=not is_new)
    if is_new:
        introduced.write(disk)
        return salt
    try:
        introduced.write(disk)
    except DiskFullError:
        return Salt()
    return salt


def _highest_file_number(disk: Disk) -> int:
    """Of segments and snapshots; 0 when there are none."""
    names = (name for folder in disk.list("groups") for name in disk.list(f"groups/{folder}"))
    numbers = (name.partition(".")[0].rpartition("-")[2] for name in names)
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _after(numbers: Sequence[int]) -> int:
    return max(numbers, default=0) + 1
