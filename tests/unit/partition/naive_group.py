"""A naive model of one queue group: a value for each message, and loops over all of them.

The outcome of a failure is read from its command, because its delay is partly random.
"""

from dataclasses import dataclass, field

from flotilla.partition.commands.partition_commands import GroupSettlement
from flotilla.partition.explain import delivery_states as states
from flotilla.types.group_settings import GroupRules
from flotilla.types.limits import LOSS_COUNT_MAX
from flotilla.types.operations.queue import ACK, FAIL, REJECT, RELEASE, LeaseRange

#: Places beside the names of states: what a settling message is settled as.
ENDS = {ACK: "acking", FAIL: "failing", REJECT: "killing"}
HELD = (states.LEASED, "acking", "killing")
SETTLING = tuple(ENDS.values())


@dataclass
class Message:
    priority: int
    deliver_at_ms: int
    key: bytes | None
    place: str = states.READY
    lease_id: int = 0
    #: Of a lease, or of the time that it waits for.
    until_ms: int = 0
    attempts: int = 0
    #: Uncounted ones, because its member was lost; of this leader.
    losses: int = 0
    not_before_ms: int = 0
    #: Its place if the log refuses the outcome: leased as before, free, or settling again.
    undo: str = ""


@dataclass
class NaiveGroup:
    rules: GroupRules
    term: int = 1
    now_ms: int = 0
    #: By offset; those that are settled, or in front of the group, are none of its business.
    open: dict[int, Message] = field(default_factory=dict)
    polls: int = 0
    #: Lease ids of this term from here on, and of earlier terms, mean something.
    first_lease: int = 0
    knows_earlier: bool = False
    #: The whole id of the first lease since the last reset: earlier ones mean nothing, also to later leaders.
    life_lease: int = 0
    opens_ms: int = 0
    #: Messages from here on were appended after the last change of leaders, and none is held from before.
    fresh_from: int = 0
    #: Cancelled or trimmed while they were leased: whether such an end is refused does not matter.
    ghosts: set[int] = field(default_factory=set)
    #: The same while their end was on its way: their keys are busy until the leader has heard of it.
    unheard: set[int] = field(default_factory=set)

    # Time.

    def advance(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for message in self.open.values():
            if message.place == states.LEASED and message.until_ms <= now_ms:
                self._fail(message, "settling")
            elif message.place in (states.RETRYING, states.DELAYED) and message.until_ms <= now_ms:
                message.place = states.READY

    def end_wait(self, offset: int) -> None:
        message = self.open.get(offset)
        if message is None:
            return
        message.deliver_at_ms = min(message.deliver_at_ms, self.now_ms)
        message.not_before_ms = min(message.not_before_ms, self.now_ms)
        if message.place in (states.RETRYING, states.DELAYED):
            message.place = states.READY

    def new_leader(self, grace_ms: int, fresh_from: int) -> None:
        self.term += 1
        self.fresh_from = fresh_from
        self._begin(1, knows_earlier=True)
        self.opens_ms = self.now_ms + grace_ms
        for message in self.open.values():
            self._put(message)

    def _begin(self, first_lease: int, *, knows_earlier: bool) -> None:
        self.polls = 0
        self.first_lease = first_lease
        self.knows_earlier = knows_earlier
        self.opens_ms = 0
        self.ghosts.clear()
        self.unheard.clear()
        for message in self.open.values():
            message.losses = 0

    def reset(self, messages: dict[int, Message], first_lease: int) -> None:
        self.open = messages
        self.life_lease = self.term << 40 | first_lease
        self._begin(first_lease, knows_earlier=False)
        for message in self.open.values():
            self._put(message)

    def _put(self, message: Message) -> None:
        """Free: ready, or waiting for a time."""
        message.place = states.READY
        if message.deliver_at_ms > self.now_ms:
            message.place, message.until_ms = states.DELAYED, message.deliver_at_ms
        if message.not_before_ms > self.now_ms:
            message.place, message.until_ms = states.RETRYING, message.not_before_ms

    # Polls and ends.

    def append(self, offset: int, message: Message) -> None:
        self.open[offset] = message
        self._put(message)

    def choose(self, count: int) -> list[int]:
        """What a poll must get, in its order."""
        ready = [offset for offset, message in sorted(self.open.items()) if message.place == states.READY]
        if self.now_ms < self.opens_ms:
            # What came due is not looked at yet.
            ready = [offset for offset in ready if offset >= self.fresh_from and not self.open[offset].deliver_at_ms]
        share = min(count // 4 + (self.polls % 4 == 3), count)
        by_priority = sorted(ready, key=lambda offset: (-self.open[offset].priority, offset))
        chosen = by_priority[: count - share]
        chosen += [offset for offset in ready if offset not in chosen][: count - len(chosen)]
        return sorted(chosen, key=lambda offset: (-self.open[offset].priority, offset))

    def lease(self, offset: int, lease_id: int, until_ms: int) -> None:
        message = self.open[offset]
        message.place, message.lease_id, message.until_ms = states.LEASED, lease_id, until_ms

    def settle(self, kind: int, held: LeaseRange, delay_ms: int) -> list[int]:
        """What is refused."""
        refused = []
        for offset in range(held.first, held.end):
            message = self.open.get(offset)
            if message is None or not self._may_end(kind, held.lease_id, message):
                refused.append(offset)
            elif kind == RELEASE:
                # A failure that was stored meanwhile counts.
                message.until_ms = max(self.now_ms + delay_ms, message.not_before_ms)
                message.place = states.RETRYING if message.until_ms > self.now_ms else states.READY
            else:
                undo = "leased" if message.place == states.LEASED else "free"
                if kind == FAIL:
                    self._fail(message, undo)
                else:
                    message.place, message.undo = ENDS[kind], undo
        return refused

    def _fail(self, message: Message, undo: str) -> None:
        message.place = "killing" if message.attempts + 1 >= self.rules.max_deliveries else "failing"
        message.undo = undo

    def lose(self, leases: list[int]) -> None:
        """Their member is lost."""
        for message in self.open.values():
            if message.place == states.LEASED and message.lease_id in leases:
                if message.losses >= LOSS_COUNT_MAX:
                    self._fail(message, "settling")
                else:
                    message.losses += 1
                    self._put(message)

    def settle_elsewhere(self, offset: int) -> None:
        """Cancelled or trimmed."""
        message = self.open.pop(offset, None)
        if message is not None and message.place == states.LEASED:
            self.ghosts.add(offset)
        elif message is not None and message.place in SETTLING:
            self.unheard.add(offset)

    def _may_end(self, kind: int, lease_id: int, message: Message) -> bool:
        if message.place == states.LEASED and message.lease_id == lease_id:
            return True
        if message.place in HELD or (message.place == "failing" and kind != ACK):
            return False
        if message.place == states.RETRYING and kind in (FAIL, RELEASE):
            return False
        if lease_id >> 40 == self.term:
            return kind == ACK and lease_id & (1 << 40) - 1 >= self.first_lease
        return lease_id >> 40 < self.term and self.knows_earlier and lease_id >= self.life_lease

    def extend(self, held: LeaseRange, until_ms: int) -> list[int]:
        """What is refused."""
        refused = []
        for offset in range(held.first, held.end):
            message = self.open.get(offset)
            if message is not None and message.place == states.LEASED and message.lease_id == held.lease_id:
                message.until_ms = until_ms
            elif message is not None and held.lease_id >> 40 < self.term and self._may_end(0, held.lease_id, message):
                self.lease(offset, held.lease_id, until_ms)
            else:
                refused.append(offset)
        return refused

    # The log.

    def apply(self, settlement: GroupSettlement) -> None:
        """Whatever the leader of the moment knows of it."""
        for first, end in (*settlement.acked, *((run.first, run.end) for run in settlement.dead)):
            for offset in range(first, end):
                self.open.pop(offset, None)
        for run in settlement.failed:
            for offset in range(run.first, run.end):
                if offset in self.open:
                    self.open[offset].attempts += 1
                    self.open[offset].not_before_ms = run.not_before_ms

    def committed(self, settlement: GroupSettlement) -> None:
        """Failures are not on their way any more."""
        self._heard(settlement)
        for run in settlement.failed:
            for message in self._settling(run.first, run.end, "failing"):
                self._put(message)

    def refused(self, settlement: GroupSettlement) -> None:
        self._heard(settlement)
        ends = [(*run, "acking") for run in settlement.acked]
        ends += [(run.first, run.end, "failing") for run in settlement.failed]
        ends += [(run.first, run.end, "killing") for run in settlement.dead]
        for first, end, place in ends:
            for message in self._settling(first, end, place):
                if message.undo == "leased":
                    message.place = states.LEASED
                elif message.undo == "free":
                    self._put(message)

    def _heard(self, settlement: GroupSettlement) -> None:
        runs = [*settlement.acked, *[(run.first, run.end) for run in (*settlement.failed, *settlement.dead)]]
        for first, end in runs:
            self.unheard.difference_update(range(first, end))

    def _settling(self, first: int, end: int, place: str) -> list[Message]:
        found = [self.open[offset] for offset in range(first, end) if offset in self.open]
        return [message for message in found if message.place == place]
