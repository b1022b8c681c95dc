"""One partition at a node that hosts a replica of it: produce, fetch, offsets.

The leader checks a batch whole before it is proposed and gives it its offset (queue/admission); the same
bytes then go to the journal, to the followers and later to readers. A fetch that finds nothing is parked and
woken by the next apply: no polling, and no cost while it waits.
"""

from collections.abc import Callable

from flotilla.codec.batch import patch_base_offset
from flotilla.codec.batch_check import validate
from flotilla.queue.admission import Assigned, DuplicateInFlight, PartitionLeader
from flotilla.queue.commands import CommitOffset as CommitOffsetCommand
from flotilla.queue.commands import encode_command
from flotilla.queue.facts import BatchFacts
from flotilla.queue.partition import PartitionMachine
from flotilla.queue.producers import Duplicate
from flotilla.queue.queries import GroupPosition, Position
from flotilla.raft.messages import Entry
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.service.ports import Cancel, Consensus, Done, Outside
from flotilla.types.errors import (
    FlotillaError,
    NotFoundError,
    NotLeaderError,
    OffsetOutOfRangeError,
    UnavailableError,
)
from flotilla.types.ids import GroupId, Term
from flotilla.types.operations import (
    EARLIEST,
    LATEST,
    CommitOffset,
    Fetch,
    Fetched,
    ListOffsets,
    OffsetCommitted,
    OffsetFound,
    Produce,
    Produced,
    ReadOffset,
)
from flotilla.types.records import RecordLimits

#: One fetch returns at most this much beyond its first batch, whatever it asks for.
FETCH_BYTES_MAX = 8 * 1024 * 1024
FETCH_WAIT_MS_MAX = 300_000
#: As much of a term as a batch's header holds.
_TERM_MASK = 0xFFFFFFFF


class WatchedMachine(PartitionMachine):
    """Tells its host that something was applied, once a turn at most."""

    def __init__(self, describe: Callable[[bytes | memoryview], BatchFacts | None]) -> None:
        super().__init__(describe)
        self.on_applied: Callable[[], None] = _nobody

    def apply(self, entry: Entry) -> object:  # type: ignore[override]
        result = super().apply(entry)
        self.on_applied()
        return result


def _nobody() -> None:
    """Nobody waits for this partition."""


class PartitionHost:
    def __init__(
        self,
        group: GroupId,
        machine: WatchedMachine,
        replica: Replica,
        consensus: Consensus,
        outside: Outside,
        limits: RecordLimits,
    ) -> None:
        self.group = group
        self.machine = machine
        self.limits = limits
        self._replica = replica
        self._consensus = consensus
        self._outside = outside
        #: Gives out offsets while this node leads; made anew for each term.
        self._leader: PartitionLeader | None = None
        self._leader_term: Term = 0
        #: Who else waits for a batch that is being replicated: proposals by their own `Done`.
        self._joined: dict[int, list[Done]] = {}
        self._fetches: dict[int, tuple[Fetch, Done, Cancel]] = {}
        self._fetch_count = 0
        self._is_wake_due = False
        machine.on_applied = self._applied

    @property
    def leader_node(self) -> int:
        return self._replica.raft.leader

    def _require_serving(self) -> PartitionLeader:
        raft = self._replica.raft
        if raft.role != LEADER:
            raise NotLeaderError(raft.leader)
        if self._leader is None or self._leader_term != raft.term:
            if not self._replica.is_serving():
                raise UnavailableError("the new leader has not applied its log yet")
            self._leader = PartitionLeader(self.machine)
            self._leader_term = raft.term
        return self._leader

    # Writing.

    def produce(self, request: Produce, done: Done) -> None:
        leader = self._require_serving()
        view = validate(request.batch, self.limits)
        header = view.header
        facts = BatchFacts(
            base_offset=0,
            count=header.count,
            max_time_ms=header.max_time_ms,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            producer_sequence=header.producer_sequence,
            size_bytes=len(request.batch),
        )
        admission = leader.admit(facts, done)
        if isinstance(admission, Assigned):
            self._propose_batch(leader, request.batch, admission.base_offset, done)
        elif isinstance(admission, DuplicateInFlight):
            first = admission.first_offset
            self._joined.setdefault(id(admission.token), []).append(lambda answer: done(_repeated(answer, first)))
        elif isinstance(admission, Duplicate):
            done(Produced(admission.first_offset, duplicate=True))
        else:
            done(admission)

    def _propose_batch(
        self, leader: PartitionLeader, batch: bytes | bytearray | memoryview, base_offset: int, done: Done
    ) -> None:
        # A batch in a buffer of its own is stored as it came in; only what cannot be written to is copied.
        is_writable = isinstance(batch, memoryview) and not batch.readonly
        stored = batch if is_writable else memoryview(bytearray(batch))
        assert isinstance(stored, memoryview)
        patch_base_offset(stored, base_offset, self._replica.raft.term & _TERM_MASK)

        def answered(result: object) -> None:
            answer = result if isinstance(result, FlotillaError) else Produced(base_offset)
            done(answer)
            for other in self._joined.pop(id(done), ()):
                other(answer)

        if not self._consensus.propose(self.group, stored, answered):
            leader.retract(base_offset)

    def commit_offset(self, request: CommitOffset, done: Done) -> None:
        self._require_serving()
        command = CommitOffsetCommand(
            group=request.group, offset=request.offset, now_ms=self._outside.now_ms(), reset=request.reset
        )
        refused = self.machine.check(command)
        if refused is not None:
            done(refused)
            return

        def answered(result: object) -> None:
            done(OffsetCommitted(result.offset) if isinstance(result, Position) else _failure(result))

        self._consensus.propose(self.group, encode_command(command), answered)

    # Reading.

    def fetch(self, request: Fetch, done: Done) -> Cancel | None:
        self._require_serving()
        machine = self.machine
        if not machine.log_start <= request.offset <= machine.next_offset:
            raise OffsetOutOfRangeError(
                f"offset {request.offset} is not between {machine.log_start} and {machine.next_offset}"
            )
        if request.offset < machine.next_offset or request.wait_ms <= 0:
            done(self._read(request))
            return None
        return self._park(request, done)

    def _read(self, request: Fetch) -> Fetched:
        machine = self.machine
        batches: list[bytes | memoryview] = []
        if request.offset < machine.next_offset:
            max_bytes = min(request.max_bytes, FETCH_BYTES_MAX)
            high_index = self._replica.applied + 1
            entries = self._replica.log.read_from_offset(request.offset, max_bytes, high_index)
            batches = [entry.data for entry in entries]
        return Fetched(batches, machine.log_start, machine.next_offset)

    def _park(self, request: Fetch, done: Done) -> Cancel:
        self._fetch_count += 1
        number = self._fetch_count
        wait_ms = min(request.wait_ms, FETCH_WAIT_MS_MAX)
        stop = self._outside.later(wait_ms, lambda: self._answer_fetch(number))
        self._fetches[number] = (request, done, stop)

        def cancel() -> None:
            if self._fetches.pop(number, None) is not None:
                stop()

        return cancel

    def _applied(self) -> None:
        if self._fetches and not self._is_wake_due:
            self._is_wake_due = True
            self._outside.later(0, self._wake)

    def _wake(self) -> None:
        """Everything applied in one turn wakes a fetch once."""
        self._is_wake_due = False
        due = [number for number, (fetch, _, _) in self._fetches.items() if fetch.offset < self.machine.next_offset]
        for number in due:
            self._answer_fetch(number)

    def _answer_fetch(self, number: int) -> None:
        parked = self._fetches.pop(number, None)
        if parked is None:
            return
        request, done, stop = parked
        stop()
        try:
            self._require_serving()
            done(self._read(request))
        except FlotillaError as error:
            done(error)

    def list_offsets(self, request: ListOffsets, done: Done) -> None:
        self._require_serving()
        machine = self.machine
        if request.timestamp_ms == EARLIEST:
            done(OffsetFound(machine.log_start))
        elif request.timestamp_ms == LATEST:
            done(OffsetFound(machine.next_offset))
        else:
            found = self._replica.log.find_time(request.timestamp_ms)
            visible = found is not None and found < machine.next_offset
            done(OffsetFound(max(found, machine.log_start) if visible and found is not None else -1))

    def read_offset(self, request: ReadOffset, done: Done) -> None:
        self._require_serving()

        def answered(result: object) -> None:
            if isinstance(result, Position):
                done(OffsetCommitted(result.offset))
            elif result is None:
                done(NotFoundError(f"group {request.group!r} never committed an offset here"))
            else:
                done(_failure(result))

        self._consensus.read(self.group, GroupPosition(request.group), answered)

    def close(self, reason: FlotillaError) -> None:
        """The partition goes away: nobody waits for it any longer."""
        for _, done, stop in self._fetches.values():
            stop()
            done(reason)
        self._fetches.clear()


def _repeated(answer: object, first_offset: int) -> Produced | FlotillaError:
    return answer if isinstance(answer, FlotillaError) else Produced(first_offset, duplicate=True)


def _failure(result: object) -> FlotillaError:
    assert isinstance(result, FlotillaError), f"unexpected answer {result!r}"
    return result
