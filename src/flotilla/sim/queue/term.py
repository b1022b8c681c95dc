"""One term of one leader of a partition: requests go to the real queue code, and every step is reported to the checker.

Does on a simulated node what the broker does on a real one: admits batches, gives leases and reads the leased messages
from the log, gathers outcomes, runs one timer, reserves tokens, buries dead messages, trims. It decides nothing that
`partition/` decides. Nothing here calls into the driver while the driver calls it: that waits for an event.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, Protocol

from flotilla.broker.log_upkeep import LogUpkeep
from flotilla.broker.queue.settlement_log import SettlementLog
from flotilla.broker.retention import Retention
from flotilla.broker.retention_holds import Holds, lowest_dying
from flotilla.codec.batch.check import validate
from flotilla.codec.batch.facts import facts_of_view
from flotilla.codec.batch.header import patch_base_offset
from flotilla.codec.batch.view import BatchView
from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands import partition_commands as commands
from flotilla.partition.commands.partition_commands import Command, HandOver, OpenGroup, SettleRuns, encode_command
from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.partition.leader.holders import UNNAMED
from flotilla.partition.leader.produce_admission import Assigned, DuplicateInFlight, KnownKeys, ProduceAdmission
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.queries import GroupPosition, Position
from flotilla.partition.state.idempotency_keys import digests_of
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.producers import Duplicate
from flotilla.partition.state.transactions import Concluded, Published
from flotilla.replica.replica import Replica
from flotilla.sim.checkers.ages import AgeChecker
from flotilla.sim.checkers.queue_delivery import DeliveryChecker
from flotilla.sim.checkers.queue_transactions import StageShadow
from flotilla.sim.plans.queue_message import read_message
from flotilla.sim.queue.carrier import Carrier
from flotilla.sim.queue.decisions import DecisionBoard
from flotilla.sim.queue.transactions import SimTransactions
from flotilla.sim.wire import Answered, Outcome
from flotilla.types.access import NODES
from flotilla.types.errors import (
    CorruptionError,
    FlotillaError,
    NotFoundError,
    NotLeaderError,
    NotLoadedError,
    StorageFailedError,
    UnavailableError,
)
from flotilla.types.group_settings import GROUP_SETTINGS, GroupRules
from flotilla.types.ids import GroupId, Offset
from flotilla.types.operations import (
    ANY,
    REPEATABLE,
    CommitOffset,
    Done,
    OffsetCommitted,
    Produce,
    Produced,
    ReadOffset,
    Request,
)
from flotilla.types.operations.queue import (
    ACK,
    FAIL,
    RELEASE,
    CancelRecords,
    Delivery,
    Extend,
    GroupReset,
    LeaseRange,
    Poll,
    Polled,
    RecordsCancelled,
    ResetGroup,
    Settle,
    Settled,
)
from flotilla.types.operations.transactions import Stage, StageSettlement, TransactionOutcome
from flotilla.types.timing import Timing
from flotilla.types.topics import TopicSettings

#: As on a real node: members of the last leader present their leases before anything is delivered again.
GRACE_MS: Final = Timing().grace_ms
KIND_NAMES: Final = {1: "done", 2: "given back", 3: "failed", 4: "rejected"}
#: As long as any group waits for a member whose connection is lost.
_AWAY_MS: Final = GROUP_SETTINGS["lost_ms"].kind.maximum


class MemberLost(Request[Done], to=ANY, effect=REPEATABLE, needs=NODES):
    """The connection of a consumer is lost, as an endpoint of a real node reports it."""

    __slots__ = ("member",)

    def __init__(self, member: str) -> None:
        self.member = member


class TermPorts(Protocol):
    """What a leader needs of its node."""

    @property
    def replica(self) -> Replica: ...

    @property
    def machine(self) -> PartitionMachine: ...

    @property
    def checker(self) -> DeliveryChecker: ...

    @property
    def board(self) -> DecisionBoard: ...

    @property
    def stages(self) -> StageShadow: ...

    def now_us(self) -> int:
        """The world's time, for the checker only."""

    @property
    def ages(self) -> AgeChecker: ...

    def now_ms(self) -> int: ...

    def steady_ms(self) -> int: ...

    def is_time_trusted(self) -> bool: ...

    def rules_of(self, group: str) -> GroupRules: ...

    def holders(self) -> list[str]:
        """Groups that hold retention, whether they have been opened or not."""

    def later(self, delay_ms: int, action: Callable[[], None]) -> None: ...

    def propose(self, data: bytes | memoryview, answered: Callable[[object], None]) -> bool: ...

    def read(self, query: object, answered: Callable[[object], None]) -> None: ...

    def ask_elsewhere(self, request: Produce, answered: Answered) -> None: ...

    def note(self, text: str) -> None: ...

    def seen(self, name: str) -> None: ...


class BatchWait:
    """A batch in flight, and the callers that sent it again meanwhile."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[tuple[Answered, Produced]] = []


class QueueTerm:
    """See the module. It is over when its node leads no longer."""

    def __init__(self, node: int, term: int, ports: TermPorts, random: Random, settings: TopicSettings) -> None:
        self._ports = ports
        self._settings = settings
        self.term = term
        self.machine = ports.machine
        self.is_over = False
        self._checker = ports.checker
        self._at = ports.checker.begin(node, term)
        self._admission = ProduceAdmission(self.machine)
        retention = Retention(ports.replica, self.machine, _NoSnapshots(), lambda: True)
        self._upkeep = LogUpkeep(self.machine, self._admission, retention, ports, self._find_holds)
        self._is_keeping_up = False
        self.queue = QueueLeader(
            self.machine, term, ports.now_ms(), random, GRACE_MS, ports.rules_of, ports.replica.term_start()
        )
        self._checker.inherited(self._at, self.queue.inherited, ports.now_ms(), self.machine.applied)
        for group, _, leases in self.queue.inherited:
            self._recall_limits(group, [LeaseRange(one.lease_id, *run[:2]) for one in leases for run in one.runs])
        if self.queue.inherited:
            ports.seen("leases handed over")
        self._is_taking_back = False
        self._settlements = SettlementLog(
            self.queue, self._propose_settlement, ports.later, ports.now_ms, self._settlement_answered
        )
        self._carrier = Carrier(self)
        self.transactions = SimTransactions(node, term, ports, self._admission, self.queue, random, self._parted)
        self._timer_ms: int | None = None
        self._opening: dict[str, None] = {}
        self._carrier.look()
        self._serves: dict[type[Request], Callable[..., None]] = {
            Produce: self._produce,
            Poll: self._poll,
            Settle: self._settle,
            Extend: self._extend,
            MemberLost: self._member_lost,
            CancelRecords: self._cancel,
            CommitOffset: self._commit_offset,
            ReadOffset: self._read_offset,
            ResetGroup: self._reset,
            Stage: self.transactions.stage,
            StageSettlement: self.transactions.stage_settlement,
            TransactionOutcome: self.transactions.outcome,
        }

    def serve(self, request: Request, answer: Answered) -> None:
        if self.queue.is_handed_over and type(request) not in (Produce, CommitOffset, ReadOffset):
            self.take_back()
            raise UnavailableError("the leases are being taken back")
        self._serves[type(request)](request, answer)
        self._look_ahead()

    # Leadership that is transferred.

    def hand_over(self) -> None:
        if not self._settlements.ship_all():
            return
        command = self.queue.hand_over(self._ports.now_ms())
        if command is not None:
            self._ports.propose(encode_command(command), _ignore)

    def take_back(self) -> None:
        if not self._is_taking_back:
            self._is_taking_back = True
            self._ports.propose(encode_command(HandOver(self._ports.now_ms(), is_void=True)), self._taken_back)

    def _taken_back(self, result: object) -> None:
        self._is_taking_back = False
        if not self.is_over and not isinstance(result, FlotillaError):
            self._ports.seen("leases taken back")
            self.queue.take_back()
            self._look_ahead()

    # What the carrier needs.

    def now_ms(self) -> int:
        return self._ports.now_ms()

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._ports.later(delay_ms, action)

    def ask_elsewhere(self, request: Produce, answered: Answered) -> None:
        self._ports.ask_elsewhere(request, answered)

    def note(self, text: str) -> None:
        self._ports.note(text)

    def propose(self, command: Command, answered: Callable[[object], None]) -> None:
        """What makes no sense is refused here, as on a real node, and never logged."""
        refused = self.machine.check(command)
        if refused is not None:
            answered(refused)
        else:
            self._ports.propose(encode_command(command), answered)

    # Produce.

    def _produce(self, request: Produce, answer: Answered) -> None:
        self.transactions.check_free()
        view = validate(request.batch)
        wait = BatchWait()
        admission = self._admission.admit(facts_of_view(view), wait)
        answer = self._checked(view, answer)
        if isinstance(admission, Assigned):
            wait.waiting.append((answer, Produced(admission.base_offset)))
            batch = bytearray(request.batch)
            patch_base_offset(batch, admission.base_offset, self.term & 0xFFFFFFFF)
            if not self._ports.propose(memoryview(batch), partial(_answer_all, wait)):
                self._admission.retract(admission.base_offset)
        elif isinstance(admission, DuplicateInFlight):
            assert isinstance(admission.token, BatchWait)
            self._ports.seen("duplicate joined the first copy")
            admission.token.waiting.append((answer, Produced(admission.first_offset, duplicate=True)))
        elif isinstance(admission, Duplicate):
            self._ports.seen("duplicate recognised")
            answer(Produced(admission.first_offset, duplicate=True))
        elif isinstance(admission, KnownKeys):
            self._answer_known(admission, answer)
        else:
            answer(admission)

    def _answer_known(self, known: KnownKeys, answer: Answered) -> None:
        self._ports.seen("known key recognised")
        reply = Produced(known.offsets[0], known=list(zip(known.positions, known.offsets, strict=True)))
        if known.token is None:
            answer(reply)
        else:
            assert isinstance(known.token, BatchWait)
            known.token.waiting.append((answer, reply))

    def _checked(self, view: BatchView, answer: Answered) -> Answered:
        """Reports an answer to a producer to the checker, before it leaves."""
        values = view.payloads()
        if values[0][:1] != b"M":
            return answer
        identities = [read_message(value)[0] for value in values]

        def checked(outcome: Outcome) -> None:
            if isinstance(outcome, Produced):
                self._checker.answered_produced(identities, outcome)
                if not outcome.duplicate and not outcome.known:
                    self.note(f"stores {len(identities)} message(s) from {outcome.base_offset} on")
            answer(outcome)

        return checked

    # Polling.

    def _poll(self, request: Poll, answer: Answered) -> None:
        if not self.queue.has_group(request.group):
            self._open(request.group)
            answer(Polled([]))
            return
        if not request.is_auto_ack and not self.queue.admits(request.group, UNNAMED, self.now_ms()):
            answer(Polled([]))
            return
        deliveries = self._take(request)
        if not deliveries or not request.is_auto_ack:
            answer(Polled(deliveries, retry_after_ms=self.queue.retry_after_ms(request.group, self.now_ms())))
            return
        self._ports.seen("acked before it left")
        held = [LeaseRange(one.lease_id, one.first, one.first + one.count) for one in deliveries]
        now_ms = self.now_ms()
        refused = self.queue.settle(request.group, ACK, held, "", 0, now_ms)
        assert not refused, "a lease that was just given is there"
        self._checker.settled(self._at, request.group, held, now_ms)
        self._settlements.push(partial(self._deliver_once, request.group, deliveries, held, answer))

    def _deliver_once(
        self,
        group: str,
        deliveries: list[Delivery],
        held: list[LeaseRange],
        answer: Answered,
        error: FlotillaError | None,
    ) -> None:
        if error is None:
            for one in deliveries:
                self._checker.delivered_once(self._at, group, one.first, one.first + one.count)
                one.lease_id = 0
            answer(Polled(deliveries))
            return
        if not self.is_over:
            self.queue.settle(group, RELEASE, held, "", 0, self.now_ms())
        answer(error)

    def _open(self, group: str) -> None:
        if group not in self._opening:
            self._opening[group] = None
            command = OpenGroup(group, self.machine.log_start, self.now_ms(), first_lease=self.queue.first_lease)
            self.propose(command, lambda _: self._opening.pop(group, None))

    def _take(self, request: Poll) -> list[Delivery]:
        now_ms = self.now_ms()
        name, member = request.group, request.member
        rules = self._ports.rules_of(name)
        keys_of = self._keys_of if request.is_ordered_by_key else None
        taken = self.queue.poll(name, member, request.max_messages, request.visibility_ms, now_ms, keys_of)
        deadline_ms = now_ms + min(request.visibility_ms or rules.visibility_ms, rules.lease_ms_max)
        for leased in taken:
            self._checker.leased(
                self._at,
                name,
                member,
                leased,
                deadline_ms,
                now_ms,
                self.machine.applied,
                is_ordered=request.is_ordered_by_key,
            )
        deliveries: list[Delivery] = []
        for leased in taken:
            self._deliver(name, leased, now_ms, deliveries)
        if deliveries:
            count = sum([one.count for one in deliveries])
            self._checker.delivered(self._at, name, count, rules, now_ms, self._ports.now_us())
            self._ports.seen("delivered")
            text = ", ".join([f"{one.first} (attempt {one.attempt})" for one in deliveries])
            self.note(f"leases {text} of {name} to {member}")
        return deliveries

    def _deliver(self, name: str, leased: LeasedMessages, now_ms: int, deliveries: list[Delivery]) -> None:
        """Message by message: simple, and every message may expire or have a bound of its own."""
        for offset in range(leased.first, leased.end):
            one = leased._replace(first=offset, end=offset + 1)
            try:
                view = self._batch(offset)
            except (CorruptionError, NotLoadedError, StorageFailedError):
                # A sector has rotted; the replica repairs it, and the message is delivered later.
                self._ports.seen("message unreadable")
                self.queue.release_unsent(name, [one], now_ms)
                self._checker.returned(self._at, name, [one])
                continue
            record = view.record(offset - view.header.base_offset)
            if record.ttl_ms and record.timestamp_ms + record.ttl_ms <= now_ms:
                self._ports.seen("message expired")
                self._ports.ages.happens(record.timestamp_ms + record.ttl_ms, f"message {offset} expires")
                self.note(f"finds message {offset} of {name} too old")
                self.queue.expire(name, offset, offset + 1, now_ms)
                self._checker.returned(self._at, name, [one])
                self._settlements.push()
                continue
            if record.max_deliveries:
                self.queue.limit_deliveries(name, offset, offset + 1, record.max_deliveries)
            self._ports.ages.happens(record.deliver_at_ms, f"message {offset} is delivered")
            if leased.attempt > 1:
                self._ports.seen("delivered again")
            deliveries.append(Delivery(0, leased.lease_id, offset, 1, leased.attempt, b""))

    def _batch(self, offset: Offset) -> BatchView:
        replica = self._ports.replica
        entries = replica.log.read_from_offset(offset, 0, replica.readable_end)
        if not entries:
            raise CorruptionError(f"no batch holds offset {offset}", replica.group)
        return BatchView(entries[0].data)

    def _keys_of(self, first: Offset, end: Offset) -> list[bytes | None]:
        found: list[bytes | None] = []
        for offset in range(first, end):
            view = self._batch(offset)
            found.append(view.key(offset - view.header.base_offset))
        return found

    # Outcomes.

    def _settle(self, request: Settle, answer: Answered) -> None:
        group, kind = request.group, request.kind
        if not self.queue.has_group(group):
            raise NotFoundError(f"there is no queue group {group!r}")
        now_ms = self.now_ms()
        if kind == FAIL:
            self._recall_limits(group, request.leases)
        refused = self.queue.settle(group, kind, request.leases, request.reason, request.delay_ms, now_ms)
        accepted = _without(request.leases, refused)
        generation = self.machine.groups[group].generation
        self._checker.settled(self._at, group, accepted, now_ms)
        if refused:
            self._ports.seen("lease refused as expired")
        for held in accepted:
            if held.lease_id >> 40 != self.term:
                self._ports.seen("lease of an earlier leader settled")
            self.note(f"hears that {held.first} of {group} is {KIND_NAMES[kind]}")
        if kind == RELEASE:
            answer(Settled(refused))
            return

        def shipped(error: FlotillaError | None) -> None:
            if error is not None:
                answer(error)
                return
            self._checker.answered_settled(group, kind, accepted, generation)
            known = self.queue.settled_of(group, kind, refused)
            # A member takes this for the end of the message, as if it had been accepted.
            self._checker.answered_settled(group, ACK, known, generation)
            answer(Settled(refused, known))

        self._settlements.push(shipped)

    def _parted(self, group: str, held: list[LeaseRange]) -> None:
        """A transaction has the messages now."""
        self._checker.settled(self._at, group, held, self.now_ms())

    def _extend(self, request: Extend, answer: Answered) -> None:
        now_ms = self.now_ms()
        if not self.queue.has_group(request.group):
            raise NotFoundError(f"there is no queue group {request.group!r}")
        if any(self.queue.is_earlier(one.lease_id) for one in request.leases) and not self.queue.admits(
            request.group, UNNAMED, now_ms
        ):
            self._look_ahead()
            raise UnavailableError("the log does not know the member yet")
        self._recall_limits(request.group, request.leases)
        refused = self.queue.extend(request.group, request.member, request.leases, request.visibility_ms, now_ms)
        accepted = _without(request.leases, refused)
        self._checker.extended(self._at, request.group, request.member, accepted, request.visibility_ms, now_ms)
        if any(held.lease_id >> 40 != self.term for held in accepted):
            self._ports.seen("lease adopted from an earlier leader")
        answer(Settled(refused))

    def _recall_limits(self, group: str, held: list[LeaseRange]) -> None:
        """Limits of messages that an earlier leader has delivered: only that leader knew them."""
        for lease_id, first, end in held:
            for offset in range(max(first, self.machine.log_start), end) if self.queue.is_earlier(lease_id) else ():
                try:
                    view = self._batch(offset)
                except (CorruptionError, NotLoadedError, StorageFailedError):
                    continue
                bound = view.max_deliveries(offset - view.header.base_offset)
                if bound:
                    self.queue.limit_deliveries(group, offset, offset + 1, bound)

    def _member_lost(self, request: MemberLost, answer: Answered) -> None:
        if self.queue.release_member(request.member, self.now_ms(), _AWAY_MS):
            self.note(f"takes back what {request.member} held")
            self._settlements.push()
        self._checker.lost(self._at, request.member)

    # Commands.

    def _cancel(self, request: CancelRecords, answer: Answered) -> None:
        by_key = (self.machine.keys.get(digest) for digest in digests_of(request.keys))
        offsets = tuple(sorted({*request.offsets, *(offset for offset in by_key if offset is not None)}))

        def answered(result: object) -> None:
            self._ports.seen("message cancelled")
            answer(result if isinstance(result, FlotillaError) else RecordsCancelled(list(offsets)))

        self.propose(commands.CancelRecords(offsets, self.now_ms()), answered)

    def _reset(self, request: ResetGroup, answer: Answered) -> None:
        def answered(result: object) -> None:
            self.queue.end_reset(request.group)
            answer(result if isinstance(result, FlotillaError) else GroupReset(0, request.start.value))

        offset = max(request.start.value, self.machine.log_start)
        self._ports.seen("group reset")
        self.note(f"resets {request.group} to {offset}")
        first_lease = self.queue.begin_reset(request.group)
        self.propose(commands.ResetGroup(request.group, offset, self.now_ms(), first_lease), answered)

    def _commit_offset(self, request: CommitOffset, answer: Answered) -> None:
        command = commands.CommitOffset(request.group, request.offset, self.now_ms())
        self.propose(command, partial(_answer_position, answer))

    def _read_offset(self, request: ReadOffset, answer: Answered) -> None:
        self._ports.read(GroupPosition(request.group), partial(_answer_position, answer))

    # The log and time.

    def _propose_settlement(self, data: bytes, answered: Callable[[object], None]) -> bool:
        return self._ports.propose(data, answered)

    def _settlement_answered(self, command: SettleRuns, is_committed: bool) -> None:
        if not is_committed:
            self._ports.seen("settlement refused")
        for settlement in command.groups:
            if settlement.dead and is_committed:
                self._carrier.move(settlement.group)
        self._ports.later(0, self._look_ahead)

    def applied(self, result: BatchFacts | Published | Concluded) -> None:
        """Runs inside of the driver."""
        if isinstance(result, BatchFacts):
            self.queue.applied(result)
            return
        for facts in result.batches if isinstance(result, Published) else ():
            self.queue.applied(facts)
        self.transactions.applied(result)
        self._ports.later(0, self._look_ahead)

    def _look_ahead(self) -> None:
        """Reserves tokens, and sets the timer for what comes next."""
        if self.is_over:
            return
        now_ms = self.now_ms()
        for reservation in self.queue.take_reservations(now_ms):
            self._ports.propose(encode_command(reservation), lambda _: None)
        for change in self.queue.take_holder_changes(now_ms):
            self._ports.propose(encode_command(change), partial(self._holders_changed, change))
        next_ms = self.queue.next_event_ms(now_ms)
        if next_ms is not None and (self._timer_ms is None or next_ms < self._timer_ms):
            self._timer_ms = next_ms
            self._ports.later(max(next_ms - now_ms, 1), partial(self._advance, next_ms))

    def _holders_changed(self, change: commands.ChangeHolders, result: object) -> None:
        if not self.is_over:
            self.queue.holders_changed(change)

    def _advance(self, timer_ms: int) -> None:
        if self.is_over or timer_ms != self._timer_ms:
            return
        self._timer_ms = None
        self.queue.advance(self.now_ms())
        self._settlements.push()
        self._look_ahead()

    def keep_up(self) -> None:
        """As the checks of a real node: timers that time has passed over, and the upkeep of the log."""
        self.queue.advance(self.now_ms())
        self._settlements.push()
        self._look_ahead()
        command = None if self._is_keeping_up else self._upkeep.command(self._settings)
        if command is None:
            return
        if isinstance(command, commands.TrimTo):
            self._ports.seen("log trimmed")
            self.note(f"trims the log to {command.offset}")
        self._is_keeping_up = True
        self.propose(command, self._kept_up)

    def _kept_up(self, _: object) -> None:
        self._is_keeping_up = False

    def _find_holds(self) -> Holds:
        groups, log_start = self.machine.groups, self.machine.log_start
        held = {name: groups[name].floor if name in groups else log_start for name in self._ports.holders()}
        return Holds(held, lowest_dying(self.machine))

    def end(self) -> None:
        self.is_over = True
        self._admission.end()
        self.transactions.end()
        self._settlements.end(NotLeaderError())


class _NoSnapshots:
    """A host releases the log by itself."""

    def snapshot(self, group: GroupId) -> None:
        raise NotImplementedError


def _answer_all(wait: BatchWait, result: object) -> None:
    for answer, reply in wait.waiting:
        answer(result if isinstance(result, FlotillaError) else reply)


def _answer_position(answer: Answered, result: object) -> None:
    if isinstance(result, FlotillaError):
        answer(result)
    else:
        answer(OffsetCommitted(result.offset if isinstance(result, Position) else 0))


def _without(held: list[LeaseRange], refused: list[LeaseRange]) -> list[LeaseRange]:
    """One for each message that was not refused."""
    left = {(each.lease_id, offset): None for each in held for offset in range(each.first, each.end)}
    for each in refused:
        for offset in range(each.first, each.end):
            left.pop((each.lease_id, offset), None)
    return [LeaseRange(lease_id, offset, offset + 1) for lease_id, offset in left]


def _ignore(_: object) -> None:
    """Whether the next leader has it is seen there."""
