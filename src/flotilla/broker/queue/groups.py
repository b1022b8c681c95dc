"""The queue groups of one partition at its leader, for one term: deliveries, timers and waiting clients.

Leases and everything else that is not replicated live in the QueueLeader; this module connects it to the log, to
proposals, to one timer and to the waiters. A waiter (a poll or a subscription) is offered ready messages in the order
of arrival, one waiter after the other until nothing is left, so one message wakes one waiter. Without waiters, leases
and delays there is no timer, and idle groups write nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import NamedTuple, Protocol

from flotilla.broker.batch_opener import BatchOpener
from flotilla.broker.log_loads import LogLoads
from flotilla.broker.log_reads import find_time
from flotilla.broker.ports import Cancel, Consensus, Elsewhere, Outside
from flotilla.broker.queue.admissions import Admissions, Admitted
from flotilla.broker.queue.dead_letters import DeadLetters
from flotilla.broker.queue.delivery import NotOpenedError, QueueReader
from flotilla.broker.queue.elder_partitions import ElderPartitions
from flotilla.broker.queue.first_settings import check_order, is_unset
from flotilla.broker.queue.rate_limit import TOKEN_PARTITION, TokenShares
from flotilla.broker.queue.result_reads import ResultReads
from flotilla.broker.queue.settlement_log import SettlementLog
from flotilla.broker.queue.stored_batches import BatchCache
from flotilla.broker.queue.takers import ReadResult, Room, Taker
from flotilla.broker.queue.unused_groups import UnusedGroups
from flotilla.broker.queue.waiting_room import WaitingRoom
from flotilla.broker.retention_holds import HeldBack, Holds, holds_of
from flotilla.metadata.values import Topic
from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.partition_commands import Command, HandOver, OpenGroup, SettleRuns, encode_command
from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.partition.leader.poll_filter import PollFilter
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.transactions import StagedAcks
from flotilla.replica.replica import Replica
from flotilla.types.dead_letters import dead_letter_topic
from flotilla.types.errors import (
    CorruptionError,
    FlotillaError,
    InvalidArgumentError,
    NotLeaderError,
    NotLoadedError,
    OffsetOutOfRangeError,
    UnavailableError,
)
from flotilla.types.filters import MessageFilter
from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import Offset, Term
from flotilla.types.operations import EARLIEST, LATEST
from flotilla.types.operations.queue import (
    ACK,
    FAIL,
    FROM_EARLIEST,
    FROM_OFFSET,
    FROM_TIME,
    RELEASE,
    Delivery,
    LeaseRange,
    MessageResult,
    Start,
)

#: A poll skips batches of expired messages this many times, then yields to the loop.
_EXPIRED_ROUNDS_MAX = 8


class Waiter(Protocol):
    """A poll or a subscription that waits for messages of one group."""

    @property
    def taker(self) -> Taker: ...

    def offer(self, queue: "PartitionQueue") -> bool:
        """Takes what is ready there. False: nothing."""


class QueuePorts(NamedTuple):
    """What a partition's queue groups need of the node."""

    consensus: Consensus
    outside: Outside
    random: Random
    elsewhere: Elsewhere
    cache: BatchCache
    #: Of batches that are read, here and by fetches with a filter.
    opener: BatchOpener
    #: After a change of leaders, members have this long to present their leases before earlier messages are delivered.
    grace_ms: Callable[[], int]
    #: What may be written (`types/version`).
    cluster_version: Callable[[], int]
    #: Called when a partition begins to serve its queue groups here, and when it ends.
    began: Callable[["PartitionQueue"], None]
    ended: Callable[["PartitionQueue", FlotillaError], None]


class PartitionQueue:
    def __init__(
        self,
        number: int,
        topic: Topic,
        replica: Replica,
        machine: PartitionMachine,
        term: Term,
        ports: QueuePorts,
        check_serving: Callable[[], object],
    ) -> None:
        """`check_serving` raises when this node may not answer for the partition now."""
        self.number = number
        self.topic = topic
        self.machine = machine
        self.replica = replica
        self.now_ms = ports.outside.now_ms
        self.reader = QueueReader(topic.topic_id, number, replica, ports.cache, ports.opener, ports.outside)
        self.loads = LogLoads(ports.consensus, ports.outside)
        self.leader = QueueLeader(
            machine, term, self.now_ms(), ports.random, ports.grace_ms(), self._own_rules, replica.term_start()
        )
        self.settlements = SettlementLog(self.leader, self._propose, ports.outside.later, self.now_ms, self._decided)
        self.cluster_version = ports.cluster_version
        self._ports = ports
        self._outside = ports.outside
        self._check_serving = check_serving
        self._rules: dict[str, GroupRules] = {}
        #: Groups of which a member has asked for order by key.
        self._ordered: dict[str, None] = {}
        self._waiting: WaitingRoom[Waiter] = WaitingRoom(
            ports.outside, self._may_serve, lambda waiter: waiter.offer(self), self._look_ahead
        )
        #: The row of each waiter in the waiting room.
        self._rows: dict[Waiter, tuple[bool, MessageFilter, str]] = {}
        self._timer: Cancel | None = None
        self._timer_ms = 0
        #: Groups that are being opened, and the callers that wait for it.
        self._opening: dict[str, list[Callable[[FlotillaError | None], None]]] = {}
        self._admissions = Admissions(
            self.leader, self._propose, ports.outside, self.now_ms, changed=self.changed, retry=self.wake_soon
        )
        self._is_ended = False
        self._is_taking_back = False
        #: What retention has left to groups, for descriptions.
        self.held_back = HeldBack()
        self._shares = TokenShares(ports.elsewhere, ports.outside, self.now_ms, lambda: self.topic.name, self.wake_soon)
        self.result_reads = ResultReads(machine, ports.outside)
        self.unused = UnusedGroups(self, ports.outside, self._propose)
        self.dead_letters = DeadLetters(self, ports.elsewhere, ports.outside)
        self.dead_letters.look()
        for group, _, held in self.leader.inherited:
            with suppress(FlotillaError):
                # If the log cannot be read now, the bound of the group holds until a failure reads it again.
                self.recall_limits(group, [LeaseRange(one.lease_id, *run[:2]) for one in held for run in one.runs])

    def rules(self, group: str) -> GroupRules:
        rules = self._rules.get(group)
        if rules is None:
            rules = self._rules[group] = self.topic.rules_of(group)
        return rules

    def dead_letter_topic(self, group: str) -> str:
        return self.rules(group).dead_letter_topic or dead_letter_topic(group, self.topic.name)

    def _own_rules(self, group: str) -> GroupRules:
        """The rules for the leader here: without the rate limit, unless this partition keeps it."""
        rules = self.rules(group)
        if self.number == TOKEN_PARTITION or not rules.rate_limit_per_minute:
            return rules
        return replace(rules, rate_limit_per_minute=0)

    def configure(self, topic: Topic) -> None:
        """Settings of the topic or of its groups may have been altered."""
        self.topic = topic
        self._rules.clear()
        for waiter in list(self._rows):
            self.unpark(waiter)
            self.park(waiter)
        self.wake_soon()

    def propose(self, command: Command, answered: Callable[[object], None], *, frees_space: bool = False) -> None:
        """Raises the error with which the command would be refused. With `frees_space` also on a full disk."""
        refused = self.machine.check(command)
        if refused is not None:
            raise refused
        self._ports.consensus.propose(self.replica.group, encode_command(command), answered, frees_space=frees_space)

    def _propose(self, data: bytes, answered: Callable[[object], None]) -> bool:
        return self._ports.consensus.propose(self.replica.group, data, answered)

    # Admitting members.

    def is_prepared(self, taker: Taker) -> bool:
        """Whether it can take at once. Otherwise call `prepare` before."""
        self.catch_up()
        if self.unused.is_held(taker.group):
            return False
        self.unused.used(taker.group)
        return self.leader.has_group(taker.group) and self._is_admitted(taker)

    def _is_admitted(self, taker: Taker) -> bool:
        # What is delivered at most once is leased to nobody.
        return taker.is_auto_ack or self.leader.admits(taker.group, taker.holder, self.now_ms())

    def prepare(self, taker: Taker, prepared: Admitted) -> None:
        """Creates the group and has the member's name logged, where that is needed."""

        def opened(error: FlotillaError | None) -> None:
            if error is not None or taker.is_auto_ack:
                prepared(error)
            else:
                self.admit(taker.group, taker.holder, prepared)

        self.unused.check_free(taker.group)
        self.unused.used(taker.group)
        if self.leader.has_group(taker.group):
            opened(None)
        else:
            self.open(taker.group, taker.start, opened)

    def admit(self, group: str, holder: str, admitted: Admitted) -> None:
        """Has the name of a member logged that may hold leases from then on."""
        try:
            self.check_serving()
            self.unused.check_free(group)
        except FlotillaError as error:
            admitted(error)
            return
        self.catch_up()
        self._admissions.admit(group, holder, admitted)
        self._look_ahead()

    # Opening groups.

    def open(self, group: str, start: Start, opened: Callable[[FlotillaError | None], None]) -> None:
        """Creates a group. Callers that arrive meanwhile wait for the same proposal."""
        try:
            self._open(group, start, opened)
        except NotLoadedError as missing:
            # It begins at a time, which is looked up in the log.
            self.loads.wait(missing, lambda: self._open(group, start, opened), opened)

    def _open(self, group: str, start: Start, opened: Callable[[FlotillaError | None], None]) -> None:
        waiting = self._opening.get(group)
        if waiting is not None:
            waiting.append(opened)
            return
        self._opening[group] = [opened]
        if start.kind != EARLIEST and self.number >= self.topic.key_partitions:
            found = partial(self._open_by_age, group, start)
            ElderPartitions(self._ports.elsewhere, self.topic.name, self.number, group, found)
            return
        try:
            self._propose_open(group, start)
        except FlotillaError:
            del self._opening[group]
            raise

    def _open_by_age(self, group: str, start: Start, is_older: bool | FlotillaError) -> None:
        """Opens a group in a partition that its topic has got later: an older group begins at the start."""
        try:
            if isinstance(is_older, FlotillaError):
                raise UnavailableError(f"it is not known whether group {group!r} is older: {is_older}")
            self._propose_open(group, FROM_EARLIEST if is_older else start)
        except NotLoadedError as missing:
            opened = partial(self._opened, group)
            self.loads.wait(missing, lambda: self._propose_open(group, start), opened)
        except FlotillaError as error:
            self._opened(group, error)

    def _propose_open(self, group: str, start: Start) -> None:
        if start.kind == FROM_OFFSET and start.value > self.machine.next_offset:
            # One offset for all partitions of a topic: in one that is shorter the group begins at its end.
            start = Start(LATEST)
        count, first_lease = len(self.topic.partitions), self.leader.first_lease
        command = OpenGroup(group, self.offset_of(start), self.now_ms(), count, first_lease)
        self.propose(command, partial(self._opened, group))

    def _opened(self, group: str, result: object) -> None:
        error = result if isinstance(result, FlotillaError) else None
        for one in self._opening.pop(group, ()):
            one(error)

    def offset_of(self, start: Start) -> Offset:
        """Raises InvalidArgumentError or OffsetOutOfRangeError."""
        machine = self.machine
        if start.kind == EARLIEST:
            return machine.log_start
        if start.kind == LATEST:
            return machine.next_offset
        if start.kind == FROM_OFFSET:
            if not 0 <= start.value <= machine.next_offset:
                raise OffsetOutOfRangeError(f"offset {start.value} is not between 0 and {machine.next_offset}")
            return max(start.value, machine.log_start)
        if start.kind == FROM_TIME:
            found = find_time(self.replica, machine, start.value)
            return found if found >= 0 else machine.next_offset
        raise InvalidArgumentError(f"{start.kind} is not a kind of start")

    # Taking.

    @property
    def knows_priorities(self) -> bool:
        """Whether the log may have messages above the lowest priority."""
        index = self.machine.index
        return index.delayed_count > 0 or any(index.plain_ends[1:])

    def best_priority(self, group: str) -> int:
        """The highest priority that is ready for the group; below all priorities: nothing is."""
        self.catch_up()
        return self.leader.best_priority(group, self.now_ms())

    def take(self, taker: Taker, room: Room) -> list[Delivery]:
        """Leases ready messages. Raises CorruptionError; then nothing is leased.

        Raises NotLoadedError too; then the waiters of the group are woken when the messages were loaded or opened.
        """
        try:
            return self._take(taker, room)
        except NotOpenedError as missing:
            self.reader.openings.begin(missing.batch, taker.group, lambda: self.wake_soon(taker.group))
            raise
        except NotLoadedError:
            self.when_loaded(lambda _: self.wake_soon(taker.group))
            raise

    def _take(self, taker: Taker, room: Room) -> list[Delivery]:
        self.catch_up()
        now_ms = self.now_ms()
        if not self._is_admitted(taker):
            # It was forgotten since it began to wait, or the group was reset.
            self._look_ahead()
            return []
        keys_of = self.reader.keys if self._orders_keys(taker) else None
        poll_filter = None if taker.wanted.takes_all else PollFilter(taker.wanted, self.reader.matching)
        for _ in range(_EXPIRED_ROUNDS_MAX):
            leases = self.leader.poll(
                taker.group, taker.member, room.messages, taker.visibility_ms, now_ms, keys_of, poll_filter
            )
            leases = self._within_limit(taker, leases, now_ms)
            if not leases:
                if self.leader.stands_by(taker.group, taker.member, now_ms):
                    break
                if poll_filter is not None and self.leader.has_unseen(taker.group, poll_filter):
                    # It has looked at as many as one poll may; a waiter goes on from there.
                    self.wake_soon(taker.group)
                if keys_of is not None and self.leader.has_unseen_keys(taker.group):
                    self.wake_soon(taker.group)
                break
            read = self._read(taker.group, leases, room, now_ms)
            if read.deliveries or room.is_full:
                self._look_ahead()
                return read.deliveries
        else:
            self.wake_soon(taker.group)
        self._look_ahead()
        return []

    def _orders_keys(self, taker: Taker) -> bool:
        """Whether the group orders by key. Raises when that does not agree with what the member asks for."""
        group = taker.group
        if taker.is_ordered:
            check_order(self.topic, group)
            # The setting may come a moment later here: no member may be served without order meanwhile.
            self._ordered[group] = None
        is_ordered = bool(self.rules(group).ordered) or (group in self._ordered and is_unset(self.topic, group))
        if is_ordered and not taker.wanted.takes_all:
            raise InvalidArgumentError(f"group {group!r} orders by key: its members have no filters")
        return is_ordered

    def take_auto(
        self,
        taker: Taker,
        max_messages: int,
        max_bytes: int,
        deliver: Callable[[list[Delivery] | FlotillaError], None],
    ) -> int:
        """Takes ready messages and delivers them when their ack has committed: never before, and never twice.

        Returns how many messages it took; 0: `deliver` will not be called.
        """
        deliveries = self.take(taker, Room(max_messages, max_bytes))
        if not deliveries:
            return 0
        leases = [LeaseRange(one.lease_id, one.first, one.first + one.count) for one in deliveries]
        refused = self.leader.settle(taker.group, ACK, leases, "", 0, self.now_ms())
        assert not refused, "a new lease can be settled"

        def answered(error: FlotillaError | None) -> None:
            if error is None:
                for delivery in deliveries:
                    delivery.lease_id = 0
                deliver(deliveries)
                return
            if not self._is_ended:
                # The ack was refused and the messages are leased as before: do not wait for that lease to expire.
                self.leader.settle(taker.group, RELEASE, leases, "", 0, self.now_ms())
                self.wake_soon(taker.group)
            deliver(error)

        self.settlements.push(answered)
        return sum([delivery.count for delivery in deliveries])

    def _within_limit(self, taker: Taker, leases: list[LeasedMessages], now_ms: int) -> list[LeasedMessages]:
        """The leases for which there are tokens. The rest is released, and its tokens are requested."""
        if not leases or self.number == TOKEN_PARTITION or not self.rules(taker.group).rate_limit_per_minute:
            return leases
        allowed = self._shares.take(
            taker.group, sum([lease.end - lease.first for lease in leases]), taker.start, now_ms
        )
        kept: list[LeasedMessages] = []
        excess: list[LeasedMessages] = []
        for lease in leases:
            border = min(lease.first + allowed, lease.end)
            allowed -= border - lease.first
            if lease.first < border:
                kept.append(lease._replace(end=border))
            if border < lease.end:
                excess.append(lease._replace(first=border))
        if excess:
            self.leader.release_unsent(taker.group, excess, now_ms)
        return kept

    def lag(self, group: str) -> int:
        """Unsettled messages of the group."""
        state = self.machine.groups.get(group)
        return 0 if state is None else state.lag(self.machine.next_offset)

    def retry_after_ms(self, group: str) -> int:
        """Until the group's rate limit allows the next message, as far as known; 0: no limit."""
        now_ms = self.now_ms()
        if self.number == TOKEN_PARTITION:
            return self.leader.retry_after_ms(group, now_ms)
        return self._shares.retry_after_ms(group, now_ms)

    def _read(self, group: str, leases: list[LeasedMessages], room: Room, now_ms: int) -> ReadResult:
        try:
            read = self.reader.deliver(leases, room, now_ms)
        except FlotillaError:
            self._unspend(group, leases)
            self.leader.release_unsent(group, leases, now_ms)
            raise
        room.fill(read)
        if read.left:
            self._unspend(group, read.left)
            self.leader.release_unsent(group, read.left, now_ms)
        if read.expired:
            self._unspend(group, read.expired)
            for lease in read.expired:
                self.leader.expire(group, lease.first, lease.end, now_ms)
            self.settlements.push()
        for first, end, max_deliveries in read.limited:
            self.leader.limit_deliveries(group, first, end, max_deliveries)
        return read

    def _unspend(self, group: str, leases: list[LeasedMessages]) -> None:
        """Returns their tokens. In the token partition the leader does that itself."""
        if self.number != TOKEN_PARTITION and self.rules(group).rate_limit_per_minute:
            self._shares.give_back(group, sum([lease.end - lease.first for lease in leases]))

    def settle(
        self,
        group: str,
        kind: int,
        leases: list[LeaseRange],
        reason: str,
        delay_ms: int,
        members: Sequence[str] = (),
        results: Sequence[MessageResult] = (),
    ) -> list[LeaseRange]:
        """Settles leases and returns the refused ones. The caller pushes `settlements` for what needs the log."""
        if kind == FAIL:
            self.recall_limits(group, leases)
        refused = self.leader.settle(
            group, kind, leases, reason, delay_ms, self.now_ms(), members=members, results=results
        )
        if kind != ACK:
            # An ack makes nothing ready or due before it has committed.
            self.changed(group)
        return refused

    def recall_limits(self, group: str, leases: list[LeaseRange]) -> None:
        """Reads max_deliveries of messages that an earlier leader leased: this one has not seen them."""
        for lease_id, first, end in leases:
            if not self.leader.is_earlier(lease_id):
                continue
            try:
                limits = self.reader.limits(max(first, self.machine.log_start), end)
            except CorruptionError:
                # Until the log can be read again, the group's limit applies.
                continue
            for limited in limits:
                self.leader.limit_deliveries(group, *limited)

    def release_member(self, member: str, away_ms: int) -> None:
        """The connection of a consumer is lost for `away_ms`."""
        if self.leader.release_member(member, self.now_ms(), away_ms):
            self.settlements.push()
            self.changed()
        else:
            self._look_ahead()

    def leave(self, group: str, member: str) -> None:
        """A consumer is closed."""
        if self.leader.leave(group, member, self.now_ms()) or self.rules(group).single_active:
            self.changed(group)
        else:
            self._look_ahead()

    def live_members(self, group: str) -> list[str]:
        """Members that hold messages, wait for some, or have polled a short time ago; in the order of names."""
        waiting = [waiter.taker.member for waiter in self._waiting.of(group)]
        return sorted({*self.leader.live_members(group, self.now_ms()), *waiting})

    # Timers and waiters.

    def changed(self, group: str | None = None) -> None:
        """Messages were released, or something else is due next; in one group, or in any."""
        self.wake_soon(group)
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Arms the timer for the next event and reserves tokens."""
        if self._is_ended:
            return
        now_ms = self.now_ms()
        for command in self.leader.take_reservations(now_ms):
            self._propose(encode_command(command), self._reserved)
        self._admissions.propose()
        next_ms = self.leader.next_event_ms(now_ms)
        if next_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= next_ms:
                # It fires early enough, and then looks ahead again.
                return
            self._timer()
        self._timer_ms = next_ms
        self._timer = self._outside.later(max(next_ms - now_ms, 1), self._advance)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer()
            self._timer = None

    def catch_up(self) -> bool:
        """Processes due events now, before their timer fires. False: there are more, for the next turns of the loop."""
        if self._is_event_due():
            self._advance()
            return not self._is_event_due()
        return True

    def _is_event_due(self) -> bool:
        now_ms = self.now_ms()
        next_ms = self.leader.next_event_ms(now_ms)
        return next_ms is not None and next_ms <= now_ms

    def _advance(self) -> None:
        self._disarm()
        if self._is_ended:
            return
        now_ms = self.now_ms()
        if self.leader.advance(now_ms):
            self.wake_soon()
        self.settlements.push()
        self._look_ahead()

    def _reserved(self, _: object) -> None:
        """Tokens were reserved, or the reservation failed and is repeated."""
        if not self._is_ended:
            self.changed()

    def _decided(self, command: SettleRuns, is_committed: bool) -> None:
        """A command with settlements has committed, or was refused."""
        for settlement in command.groups:
            if settlement.dead and is_committed:
                self.dead_letters.move(settlement.group)
            if is_committed:
                self.result_reads.settled(settlement)
            self.wake_soon(settlement.group)
        self._look_ahead()

    def applied(self, facts: BatchFacts) -> None:
        """A batch was applied. Runs inside the driver, so it only records."""
        self.leader.applied(facts)
        self._waiting.wake_soon()

    def unstage(self, staged: Iterable[StagedAcks], *, is_committed: bool) -> None:
        """A transaction has ended. Runs inside the driver, like `applied`."""
        for acks in staged:
            self.leader.unstage(acks, is_committed=is_committed)
            self.result_reads.ended(acks.group, acks.runs)
            self.wake_soon(acks.group)

    def park(self, waiter: Waiter) -> None:
        taker = waiter.taker
        # Where only one member gets messages, the others find nothing, and must not stand in front of it.
        member = taker.member if self.rules(taker.group).single_active else ""
        row = self._rows[waiter] = (*taker.row, member)
        self._waiting.enter(waiter, taker.group, row)

    def unpark(self, waiter: Waiter) -> None:
        row = self._rows.pop(waiter, None)
        if row is not None:
            self._waiting.leave(waiter, waiter.taker.group, row)

    def wake_soon(self, group: str | None = None) -> None:
        """Something may be ready for one group, or for any."""
        self._waiting.wake_soon(group)

    def _may_serve(self) -> bool:
        """Whether this node may answer for the partition. `end` handles the loss of leadership."""
        if self._is_ended:
            return False
        try:
            self._check_serving()
        except FlotillaError:
            return False
        return True

    # Work of more than one turn of the loop.

    def when_loaded(self, loaded: Callable[[FlotillaError | None], None]) -> None:
        """Calls `loaded` when a part of the log was loaded from disk, or that failed."""
        self._ports.consensus.when_loaded(self.replica.group, loaded)

    def next_turn(self, action: Callable[[], None]) -> Cancel:
        """Runs `action` after other work of the loop. It calls `check_serving` first: the term may be over by then."""
        return self._outside.later(0, action)

    def check_serving(self) -> None:
        """Raises NotLeaderError or UnavailableError, also when this node leads again in another term."""
        self._check_serving()
        if self._is_ended:
            raise NotLeaderError(self.replica.raft.leader)

    @property
    def is_burying(self) -> bool:
        """Dead letters are in flight."""
        return not self._is_ended and self.dead_letters.is_moving

    # Retention.

    def holds(self) -> Holds:
        """What retention must keep."""
        return holds_of(self.topic, self.machine, self.rules)

    # Leadership that is transferred.

    def hand_over(self) -> None:
        """Leadership is about to be transferred: passes the leases on to the next leader, as the last entry.

        Nothing is leased from now on. If the transfer fails, `take_back` ends that.
        """
        if self._is_ended or not self.settlements.ship_all():
            return
        command = self.leader.hand_over(self.now_ms())
        if command is not None:
            self._propose(encode_command(command), _ignore)

    def take_back(self) -> None:
        """Leadership stays here: leases again after an entry has committed that makes the hand-over void."""
        if not self._is_taking_back:
            self._is_taking_back = True
            self._propose(encode_command(HandOver(self.now_ms(), is_void=True)), self._taken_back)

    def _taken_back(self, result: object) -> None:
        self._is_taking_back = False
        if not isinstance(result, FlotillaError) and not self._is_ended:
            self.leader.take_back()
            self.changed()

    # The end.

    def end(self, reason: FlotillaError) -> None:
        """The term is over, and all leases with it."""
        if self._is_ended:
            return
        self._is_ended = True
        self._disarm()
        self.settlements.end(reason)
        self.reader.close()
        self._waiting.empty()
        self._admissions.end(reason)
        self._rows.clear()
        self.result_reads.end(reason)
        self._ports.ended(self, reason)

    @property
    def is_ended(self) -> bool:
        return self._is_ended


def _ignore(_: object) -> None:
    """Whether the next leader has it is seen there."""
