"""One partition at a node that hosts a replica of it: produce, fetch, offsets.

The leader checks a whole batch before it proposes it and gives it its offset (partition/leader/produce_admission); the
same bytes then go to the journal, to the followers and later to readers. Only a leader serves, except a fetch that any
replica may answer (partition/fetch). It must have applied everything that its log held when its term began, and must
not have been replaced unnoticed: it refuses while it hands leadership over, and after a pause until a quorum has
confirmed it. A method is named like its operation, and answers by `done` or raises a FlotillaError before it has
answered.
"""

from collections.abc import Callable

from flotilla.broker.batch_opener import BatchOpener
from flotilla.broker.clock_warnings import BEHIND_MS_MIN
from flotilla.broker.log_reads import find_time
from flotilla.broker.log_upkeep import LogUpkeep
from flotilla.broker.partition.fetch import Fetches
from flotilla.broker.partition.opening import BatchArrivals
from flotilla.broker.partition.pending_batch import PendingBatch
from flotilla.broker.partition.transactions import Decisions, PartitionTransactions
from flotilla.broker.ports import Cancel, Consensus, Done, Outside
from flotilla.broker.queue.groups import PartitionQueue, QueuePorts
from flotilla.broker.queue.requests import QueueRequests
from flotilla.broker.retention import Retention
from flotilla.codec.batch.facts import facts_of, facts_of_view
from flotilla.codec.batch.header import is_of_letter, patch_base_offset, patch_producer
from flotilla.codec.batch.view import BatchView
from flotilla.metadata.values import Topic
from flotilla.partition.batch_facts import BatchFacts, Describe
from flotilla.partition.commands.partition_commands import ClaimPartition as ClaimPartitionCommand
from flotilla.partition.commands.partition_commands import Command, TrimTo, encode_command
from flotilla.partition.commands.partition_commands import CommitOffset as CommitOffsetCommand
from flotilla.partition.leader.produce_admission import Assigned, DuplicateInFlight, KnownKeys, ProduceAdmission
from flotilla.partition.queries import DescribePartition, GroupPosition, PartitionFacts, Position, PositionFound
from flotilla.partition.state.group_table import DueNow
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.producers import Duplicate
from flotilla.partition.state.transactions import Concluded, Published
from flotilla.raft.messages import Entry
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.runtime.observability.logs import get_logger
from flotilla.types.dead_letters import LETTER_LIMITS
from flotilla.types.errors import (
    CorruptionError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    NotLeaderError,
    NotLoadedError,
    OverloadedError,
    UnavailableError,
)
from flotilla.types.ids import NO_NODE, GroupId, Index, NodeId, Offset, Term
from flotilla.types.limits import KIB
from flotilla.types.notation import format_duration
from flotilla.types.operations import (
    EARLIEST,
    LATEST,
    CommitOffset,
    Fetch,
    ListOffsets,
    OffsetCommitted,
    OffsetFound,
    Produce,
    Produced,
    ReadOffset,
    Reply,
)
from flotilla.types.operations.owners import owned_producer_id
from flotilla.types.operations.queue import GroupDescription
from flotilla.types.operations.stream import NO_OFFSET, ClaimPartition
from flotilla.types.operations.transactions import (
    ListOpenTransactions,
    Stage,
    StageSettlement,
    TransactionOutcome,
)
from flotilla.types.records import RecordLimits
from flotilla.types.topics import check_group_name
from flotilla.types.version import GROUP_ENDS_STORED

log = get_logger("partition")

#: The bits of a term that a batch's header holds.
_TERM_MASK = 0xFFFFFFFF
_NEVER: Term = -1
#: As of when the position of a group is known in a partition that has applied nothing; 0 would say that it is not
#: known. The first entry of every log is a leader's own, so no group was deleted before.
_FIRST_AS_OF: Index = 1
#: A batch up to this size is copied, see `_propose_batch`.
_SMALL_BYTES_MAX = 4 * KIB


class WatchedMachine(PartitionMachine):
    """A state machine with a callback for each applied entry."""

    def __init__(self, describe: Describe) -> None:
        super().__init__(describe)
        self.on_applied: Callable[[object], None] = _no_host

    def apply(self, entry: Entry) -> object:  # type: ignore[override]
        result = super().apply(entry)
        self.on_applied(result)
        return result


def _no_host(_: object) -> None:
    """Until the partition has its host."""


class PartitionHost:
    def __init__(
        self,
        number: int,
        topic: Topic,
        replica: Replica,
        machine: WatchedMachine,
        consensus: Consensus,
        outside: Outside,
        explain: Callable[[object], FlotillaError],
        queues: QueuePorts,
        decisions: Decisions,
        is_informed: Callable[[], bool],
        opener: BatchOpener,
    ) -> None:
        """`is_informed`: this node has applied the current metadata. `opener` is of batches that come."""
        self.number = number
        self.replica = replica
        self.machine = machine
        self._consensus = consensus
        self._outside = outside
        #: Gives out offsets while this node leads; a new one for each term.
        self._leader: ProduceAdmission | None = None
        self._leader_term: Term = _NEVER
        self._upkeep: LogUpkeep | None = None
        #: The queue groups while this node leads, and the requests to them; new ones for each term.
        self._queue: PartitionQueue | None = None
        self._queue_requests: QueueRequests | None = None
        self._queue_ports = queues
        #: Transactions while this node leads.
        self._transactions: PartitionTransactions | None = None
        self._decisions = decisions
        self._retention = Retention(replica, machine, consensus, is_informed)
        self._explain = explain
        self._fetches = Fetches(replica, machine, consensus, outside, self._check_readable, explain, queues.opener)
        self._is_upkeep_in_flight = False
        self._arrivals = BatchArrivals(opener, outside)
        self._set(topic)
        machine.on_applied = self._applied
        replica.last_word = self._hand_over

    @property
    def group(self) -> GroupId:
        return self.replica.group

    def configure(self, topic: Topic) -> None:
        """The topic may have been altered."""
        if topic is not self._topic:
            self._set(topic)
            if self._queue is not None:
                self._queue.configure(topic)

    def _set(self, topic: Topic) -> None:
        settings = topic.settings
        self._topic = topic
        self._settings = settings
        self.limits = RecordLimits(payload_bytes_max=settings.payload_bytes_max)
        #: The leader while all replicas are up.
        self.preferred: NodeId = topic.partitions[self.number].wanted[0]

    def _serving(self) -> ProduceAdmission:
        """The admission of a leader that may serve. Raises NotLeaderError; UnavailableError if it may be replaced."""
        raft = self.replica.raft
        if raft.role != LEADER or raft.term != self._leader_term:
            self._begin_leading()
        if raft.transferee != NO_NODE:
            raise UnavailableError("leadership is being handed over")
        if not self._consensus.is_confirmed(self.replica.group):
            raise UnavailableError("this node was paused and is asking a quorum whether it still leads")
        assert self._leader is not None
        return self._leader

    def serving_replica(self) -> Replica:
        """The replica, if it leads and may serve. Raises as `_serving` does."""
        self._serving()
        return self.replica

    def _begin_leading(self) -> None:
        self._end_leading()
        raft = self.replica.raft
        if raft.role != LEADER:
            raise NotLeaderError(raft.leader)
        if not self.replica.is_serving():
            raise UnavailableError("the new leader has not applied its log yet")
        if not self._outside.is_time_set():
            raise UnavailableError("the new leader has not heard the clocks of a majority of the brokers yet")
        self._leader = ProduceAdmission(self.machine)
        self._leader_term = raft.term
        self._queue = PartitionQueue(
            self.number,
            self._topic,
            self.replica,
            self.machine,
            raft.term,
            self._queue_ports,
            self._serving,
        )
        self._queue_requests = QueueRequests(self._queue, self._explain)
        self._upkeep = LogUpkeep(self.machine, self._leader, self._retention, self._outside, self._queue.holds)
        self._queue.held_back = self._retention.held_back
        self._queue_ports.began(self._queue)
        self._transactions = PartitionTransactions(
            self.replica,
            self.machine,
            self._leader,
            self._consensus,
            self._outside,
            self._decisions,
            self._explain,
            lambda: self._settings.transaction_timeout_ms,
            self._topic.topic_id,
        )
        self._transactions.begin()

    def _end_leading(self, reason: FlotillaError | None = None) -> None:
        if self._leader is not None:
            self._leader.end()
            self._leader = None
            self._leader_term = _NEVER
            assert self._queue is not None
            assert self._transactions is not None
            reason = reason or NotLeaderError(self.replica.raft.leader)
            self._queue.end(reason)
            self._transactions.end(reason)
            self._queue = self._queue_requests = self._transactions = self._upkeep = None
            self._retention.held_back.clear()

    # Writing.

    def _check_delay(self, deliver_at_ms: int) -> None:
        """A time far ahead is a mistake, and would keep its part of the log until then."""
        if deliver_at_ms > self._outside.now_ms() + self._settings.delay_max_ms:
            most = format_duration(self._settings.delay_max_ms)
            raise InvalidArgumentError(f"the time of delivery is more than {most} ahead (topic setting delay_max_ms)")

    def produce(self, request: Produce, done: Done) -> None:
        self._serving()
        batch = request.batch
        owner = request.owner
        # The limits of a dead-letter topic are for its other producers. No user has the id of such a producer.
        limits = LETTER_LIMITS if is_of_letter(batch) and not owner else self.limits
        self._arrivals.enter(batch, limits, lambda view: self._produce(batch, view, owner, done), self._refuser(done))

    def _refuser(self, done: Done) -> Callable[[FlotillaError], None]:
        return lambda error: done(self._explain(error))

    def _produce(self, batch: bytes | bytearray | memoryview, view: BatchView, owner: str, done: Done) -> None:
        """The batch was opened, perhaps a while ago."""
        leader = self._serving()
        assert self._transactions is not None
        if self._transactions.is_blocking:
            raise OverloadedError("the batches of a transaction are being stored, without others in between")
        facts = facts_of_view(view)
        self._check_delay(facts.deliver_at_ms)
        owned_id = 0
        if owner and facts.producer_id:
            owned_id = facts.producer_id = owned_producer_id(owner, facts.producer_id)
        pending = PendingBatch(done, self._explain)
        admission = leader.admit(facts, pending)
        if isinstance(admission, Assigned):
            if self._outside.room.is_refusing:
                leader.retract(admission.base_offset)
                self._outside.room.check()
            self._propose_batch(leader, batch, admission.base_offset, owned_id, pending)
        elif isinstance(admission, DuplicateInFlight):
            assert isinstance(admission.token, PendingBatch)
            admission.token.join(done, Produced(admission.first_offset, duplicate=True))
        elif isinstance(admission, Duplicate):
            done(Produced(admission.first_offset, duplicate=True))
        elif isinstance(admission, KnownKeys):
            _answer_known(admission, done)
        else:
            raise admission

    def _propose_batch(
        self,
        leader: ProduceAdmission,
        batch: bytes | bytearray | memoryview,
        base_offset: Offset,
        owned_id: int,
        pending: PendingBatch,
    ) -> None:
        # A batch in a buffer of its own is stored as it came; a read-only one is copied.
        if not isinstance(batch, memoryview) or batch.readonly:
            batch = memoryview(bytearray(batch))
        if owned_id:
            patch_producer(batch, owned_id)
        patch_base_offset(batch, base_offset, self._leader_term & _TERM_MASK)
        pending.propose(base_offset)
        # A small one is not worth a buffer and its view, which the garbage collector would have to visit.
        data = bytes(batch) if len(batch) <= _SMALL_BYTES_MAX else batch
        if not self._consensus.propose(self.replica.group, data, pending):
            leader.retract(base_offset)

    def commit_offset(self, request: CommitOffset, done: Done) -> None:
        self._check_free(request.group)
        command = CommitOffsetCommand(
            group=request.group,
            offset=request.offset,
            now_ms=self._outside.now_ms(),
            reset=request.reset,
            epoch=request.epoch,
            as_of=request.as_of if self._queue_ports.cluster_version() >= GROUP_ENDS_STORED else 0,
        )
        # The commit is a later entry. No group was deleted in between, or the next commit is refused.
        known = max(request.as_of, self.machine.applied, _FIRST_AS_OF)
        self._propose_command(command, done, lambda result: self._committed(result, known))

    def _check_free(self, group: str) -> None:
        """Raises UnavailableError while the group is being deleted because nobody has used it."""
        self._serving()
        assert self._queue is not None
        self._queue.unused.check_free(group)

    def _committed(self, result: object, as_of: Index) -> Reply | FlotillaError:
        return OffsetCommitted(result.offset, as_of) if isinstance(result, Position) else self._explain(result)

    def claim_partition(self, request: ClaimPartition, done: Done) -> None:
        self._check_free(request.group)

        def translate(result: object) -> Reply | FlotillaError:
            return OffsetCommitted(result) if isinstance(result, int) else self._explain(result)

        command = ClaimPartitionCommand(request.group, request.epoch, self._outside.now_ms())
        self._propose_command(command, done, translate)

    def _propose_command(
        self, command: Command, done: Done, translate: Callable[[object], Reply | FlotillaError]
    ) -> None:
        refused = self.machine.check(command)
        if refused is not None:
            raise refused
        self._consensus.propose(self.group, encode_command(command), lambda result: done(translate(result)))

    # Reading.

    def _check_readable(self) -> None:
        """A leader serves what is committed; so does a replica without a leader while its disk takes no write.

        No replica can lead while a majority of the disks has no room. This replica may lack the newest acknowledged
        records.
        """
        try:
            self._serving()
        except NotLeaderError as error:
            if error.leader != NO_NODE or self._consensus.storage_error() is None:
                raise

    def fetch(self, request: Fetch, done: Done) -> Cancel | None:
        return self._fetches.fetch(request, done)

    def _applied(self, result: object) -> None:
        self._fetches.applied()
        if self._queue is not None:
            if type(result) is BatchFacts:
                self._queue.applied(result)
            elif type(result) is DueNow:
                self._queue.leader.due_now(result)
                self._queue.wake_soon()
            elif type(result) is Published or type(result) is Concluded:
                self._transaction_applied(result)

    def _transaction_applied(self, result: Published | Concluded) -> None:
        assert self._queue is not None
        assert self._transactions is not None
        if isinstance(result, Published):
            for facts in result.batches:
                self._queue.applied(facts)
            if result.batches:
                self._count_visible(sum([facts.count for facts in result.batches]))
            self._queue.unstage(result.acks, is_committed=True)
        else:
            self._queue.unstage(result.acks, is_committed=result.ended.is_committed)
        self._transactions.applied(result)

    def _count_visible(self, records: int) -> None:
        topic = self._topic.name
        self._decisions.shown[topic] = self._decisions.shown.get(topic, 0) + records

    def list_offsets(self, request: ListOffsets, done: Done) -> None:
        self._check_readable()
        if request.timestamp_ms == EARLIEST:
            done(OffsetFound(self.machine.log_start))
        elif request.timestamp_ms == LATEST:
            self._confirm_offset(self.machine.next_offset, done)
        elif request.timestamp_ms < 0:
            raise InvalidArgumentError(
                f"timestamp_ms = {request.timestamp_ms}: expected a time, or -2 (earliest), or -1 (latest)"
            )
        else:
            self._confirm_offset(find_time(self.replica, self.machine, request.timestamp_ms), done)

    def _confirm_offset(self, offset: Offset, done: Done) -> None:
        """By a quorum: a leader that was paused or cut off, and replaced, must not return an old end."""
        if self.replica.raft.role != LEADER:
            done(OffsetFound(offset))
            return

        def confirmed(result: object) -> None:
            done(OffsetFound(offset) if isinstance(result, PartitionFacts) else self._explain(result))

        self._consensus.read(self.group, DescribePartition(), confirmed)

    def read_offset(self, request: ReadOffset, done: Done) -> None:
        self._serving()
        check_group_name(request.group)

        def translate(result: object) -> Reply | FlotillaError:
            if not isinstance(result, PositionFound):
                return self._explain(result)
            if result.position is not None or request.is_optional:
                offset = NO_OFFSET if result.position is None else result.position.offset
                return OffsetCommitted(offset, max(result.as_of, _FIRST_AS_OF))
            return NotFoundError(f"group {request.group!r} never committed an offset here")

        self._consensus.read(self.group, GroupPosition(request.group), lambda result: done(translate(result)))

    # Transactions.

    def stage(self, request: Stage, done: Done) -> None:
        self._serving()
        facts = facts_of(request.batch)
        if facts is not None:
            self._check_delay(facts.deliver_at_ms)

        def opened(_: BatchView) -> None:
            self._serving()
            self._outside.room.check()
            assert self._transactions is not None
            self._transactions.stage(request, done)

        self._arrivals.enter(request.batch, self.limits, opened, self._refuser(done))

    def stage_settlement(self, request: StageSettlement, done: Done) -> None:
        requests = self.queue_requests()
        assert self._transactions is not None
        self._transactions.stage_settlement(request, requests, done)

    def transaction_outcome(self, request: TransactionOutcome, done: Done) -> Cancel | None:
        self._serving()
        assert self._transactions is not None
        return self._transactions.outcome(request, done)

    def list_open_transactions(self, request: ListOpenTransactions, done: Done) -> None:
        self._serving()
        assert self._transactions is not None
        done(self._transactions.list_open())

    def look_at_transactions(self) -> None:
        """The metadata changed: a transaction that is staged here may have been decided."""
        if self._transactions is not None:
            self._transactions.look()

    def confirm_transactions(self, transaction_ids: list[str]) -> None:
        """The metadata want confirmation that these have ended here."""
        if self._transactions is not None:
            self._transactions.confirm(transaction_ids)

    # Queue groups.

    def queue(self) -> PartitionQueue:
        """The queue groups. Raises NotLeaderError or UnavailableError."""
        self._serving()
        assert self._queue is not None
        self._check_leases()
        return self._queue

    def queue_requests(self) -> QueueRequests:
        self._serving()
        assert self._queue_requests is not None
        self._check_leases()
        return self._queue_requests

    def _check_leases(self) -> None:
        """Raises UnavailableError if the leases were handed over: the next leader must not know older ones."""
        assert self._queue is not None
        if self._queue.leader.is_handed_over:
            self._queue.take_back()
            raise UnavailableError("leadership was to be handed over, and the leases are being taken back")

    def _hand_over(self) -> None:
        if self._queue is not None and self.replica.raft.term == self._leader_term:
            self._queue.hand_over()

    def lost_ms_of(self, member: str) -> list[int]:
        """How long its groups give a member to come back when its connection is lost."""
        return [] if self._queue is None else self._queue.leader.lost_ms_of(member)

    def release_member(self, member: str, away_ms: int) -> None:
        """A member is away: releases its leases where that is too long."""
        if self._queue is not None:
            self._queue.release_member(member, away_ms)

    def abort_transactions(self, member: str) -> None:
        """A member is away: aborts its undecided transactions."""
        if self._transactions is not None:
            self._transactions.lose(member)

    def leave_queue(self, group: str, member: str) -> None:
        """A consumer is closed."""
        if self._queue is not None:
            self._queue.leave(group, member)

    def queue_groups(self) -> list[str]:
        return [] if self._queue is None else self._queue.leader.groups()

    def offset_groups(self) -> list[str]:
        """Groups that commit offsets: stream groups, and readers. Of a leader."""
        if self._queue is None:
            return []
        return [name for name in self.machine.positions if not self._queue.leader.has_group(name)]

    def kept_results(self) -> tuple[int, int]:
        """Results of acked messages, and the memory that they take. Of a leader."""
        results = self.machine.results
        return (0, 0) if self._queue is None else (len(results.kept), results.size_bytes)

    def measure_queue(self, group: str) -> GroupDescription | None:
        return None if self._queue_requests is None else self._queue_requests.measure(group)

    def count_queue(self, group: str) -> GroupDescription | None:
        """The same without the age of its oldest message, which has to be read."""
        return None if self._queue_requests is None else self._queue_requests.count(group)

    # Periodic upkeep.

    @property
    def retention_behind_ms(self) -> int:
        """How much later than asked for messages go by age: retention removes a backlog step by step."""
        return self._upkeep.behind_ms if self._upkeep is not None and self._settings.retention_ms else 0

    def held_messages(self) -> dict[str, int]:
        """Messages that groups hold although they are beyond the topic's retention, by group. Of a leader."""
        return self._retention.held_back.messages

    def held_back(self) -> dict[str, int]:
        """The same, of groups that have held them for long."""
        return self._retention.held_back.lasting(self._outside.now_ms())

    def check(self, now_ms: int) -> None:
        """Ends a lost leadership; on a leader, proposes the upkeep of the log."""
        raft = self.replica.raft
        self._fetches.check()
        if raft.role != LEADER:
            self._end_leading()
        elif not self._is_upkeep_in_flight and (raft.term == self._leader_term or self._may_begin()):
            if raft.term != self._leader_term:
                self._begin_leading()
            assert self._upkeep is not None
            command = self._upkeep.command(self._settings)
            if command is not None:
                if isinstance(command, TrimTo) and self._upkeep.behind_ms >= BEHIND_MS_MIN:
                    self._log_step(command.offset)
                self._is_upkeep_in_flight = True
                # Retention works on a full disk too, or it would stay full.
                self._consensus.propose(self.group, encode_command(command), self._kept_up, frees_space=True)
            self._log_holds()
            assert self._queue is not None
            assert self._transactions is not None
            if self._queue.leader.is_handed_over and raft.transferee == NO_NODE:
                self._queue.take_back()
            self._queue.wake_soon()
            self._queue.result_reads.check()
            self._queue.unused.check()
            self._transactions.check(now_ms)
        try:
            self._retention.release(self._outside.steady_ms())
        except (CorruptionError, NotLoadedError):
            # Repaired from the other replicas or loaded from disk, and then released.
            return

    def _log_step(self, offset: Offset) -> None:
        """After a step of time, or a long stop: an operator has hours to notice that it is wrong."""
        topic, behind_ms = self._topic.name, self.retention_behind_ms
        log.warning(
            "retention removes overdue messages step by step",
            topic=topic,
            partition=self.number,
            below=offset,
            behind_s=behind_ms // 1000,
        )

    def _log_holds(self) -> None:
        """Once when a group begins to hold retention back, and once when it ends."""
        held_back = self._retention.held_back
        begun, ended = held_back.news(self._outside.now_ms())
        for group in begun:
            place = {"topic": self._topic.name, "partition": self.number, "group": group}
            log.warning("a group keeps more than the retention", **place, messages=held_back.messages[group])
        for group in ended:
            place = {"topic": self._topic.name, "partition": self.number, "group": group}
            log.info("a group keeps no more than the retention", **place)

    def _may_begin(self) -> bool:
        return self.replica.is_serving() and self._outside.is_time_set()

    def _kept_up(self, _: object) -> None:
        """Done, or retried by the next check."""
        self._is_upkeep_in_flight = False

    def release_polls(self, reason: FlotillaError) -> None:
        self._fetches.fail_all(reason)

    def close(self, reason: FlotillaError) -> None:
        """The partition leaves this node. Consensus answers pending proposals; everything else is answered now."""
        self._end_leading(reason)
        self._fetches.fail_all(reason)


def _answer_known(known: KnownKeys, done: Done) -> None:
    """Some records of the batch are known already, and nothing was stored now. If they are pending, waits for them."""
    reply = Produced(known.offsets[0], known=list(zip(known.positions, known.offsets, strict=True)))
    if known.token is None:
        done(reply)
    else:
        assert isinstance(known.token, PendingBatch)
        known.token.join(done, reply)
