"""Members of queue groups: they poll, work for a while, and settle; or they crash, stall, forget, or come late.

A member knows its leases. When the leader changes, it presents them to the next one. It believes an answer that says
its lease has expired, and repeats what was not answered. Behaviour is drawn message by message while faults last; after
that all members work quickly and well.
"""

from random import Random
from typing import Final

from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.plans.queue import ONCE, ORDERED, TOPIC, GroupPlan
from flotilla.sim.queue.host import QueueApplication
from flotilla.sim.queue.term import MemberLost
from flotilla.sim.trace import EVERYONE
from flotilla.sim.wire import Caller, Outcome
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import (
    ACK,
    BY_BACKOFF,
    FAIL,
    REJECT,
    RELEASE,
    Delivery,
    Extend,
    LeaseRange,
    Poll,
    Polled,
    Settle,
    Settled,
)

_IDLE_US: Final = 300 * MS
_SETTLE_RETRIES_MAX: Final = 6
#: What becomes of a message, with weights.
_OUTCOMES: Final = (ACK, FAIL, RELEASE, REJECT)
_WEIGHTS: Final = (78, 14, 5, 3)


class Consumer:
    """One member at a time; after a crash it is another one."""

    def __init__(self, number: int, group: GroupPlan, app: QueueApplication, timeout_us: int) -> None:
        self._app = app
        self._group = group
        self._number = number
        self._random: Random = app.world.stream(f"consumer {group.name} {number}")
        self._caller = Caller(app.wire, TOPIC, self._random, timeout_us)
        #: Rises with every crash: what was planned before is void.
        self._life = 0
        self._is_up = False
        self._paused_until_us = 0
        self._held: dict[tuple[int, Offset], None] = {}
        self._presented_to = 0
        self._is_calm = False
        self.settled_count = 0

    @property
    def name(self) -> str:
        return f"{self._group.name}-{self._number}.{self._life}"

    def start(self) -> None:
        self._life += 1
        self._is_up = True
        self._held.clear()
        self._later(int(self._random.random() * SECOND), self._poll)

    def calm(self) -> None:
        """From now on it behaves."""
        self._is_calm = True
        self._paused_until_us = 0
        if not self._is_up:
            self.start()

    def _later(self, delay_us: int, action: object, *arguments: object) -> None:
        self._app.world.after(delay_us, self._fire, self._life, action, arguments)

    def _fire(self, life: int, action: object, arguments: tuple[object, ...]) -> None:
        """Unless it has crashed since; and not before its pause ends."""
        if life != self._life or not self._is_up:
            return
        now_us = self._app.world.now_us
        if now_us < self._paused_until_us:
            self._app.world.at(self._paused_until_us, self._fire, life, action, arguments)
        else:
            action(*arguments)  # type: ignore[operator]

    # Polling.

    def _poll(self) -> None:
        request = Poll(
            "topic",
            self._group.name,
            self.name,
            max_messages=self._random.randint(1, self._app.plan.poll_messages_max),
            is_auto_ack=self._group.name == ONCE,
            is_ordered_by_key=self._group.name == ORDERED,
        )
        self._present()
        life = self._life
        self._caller.ask(request, lambda outcome: self._fire(life, self._polled, (outcome,)))

    def _polled(self, outcome: Outcome) -> None:
        deliveries = outcome.deliveries if isinstance(outcome, Polled) else []
        for delivery in deliveries:
            self._begin(delivery)
        wait_us = int(self._random.random() * _IDLE_US) + 20 * MS
        self._later(wait_us if not deliveries else wait_us // 4, self._poll)

    def _begin(self, delivery: Delivery) -> None:
        if not delivery.lease_id:
            self.settled_count += 1
            return
        held = delivery.lease_id, delivery.first
        self._held[held] = None
        trouble = self._app.plan.trouble_one_in
        if trouble and not self._is_calm and self._random.randrange(trouble) == 0:
            self._get_into_trouble(held)
        if self._is_up:
            work_ms = 5 if self._is_calm else int(self._random.expovariate(1.0) * self._app.plan.handle_ms)
            self._later(work_ms * MS + 1, self._end, held)

    def _get_into_trouble(self, held: tuple[int, Offset]) -> None:
        dice = self._random.random()
        seen, trace = self._app.sometimes.seen, self._app.trace
        if dice < 0.35:
            seen("consumer crashed")
            trace.note(EVERYONE, f"consumer {self.name} crashes with {len(self._held)} message(s)")
            if self._random.random() < 0.5:
                self._caller.ask(MemberLost(self.name), _ignore)
            self._is_up = False
            self._app.world.after(int(self._random.random() * 6 * SECOND), self._restart, self._life)
        elif dice < 0.7:
            seen("consumer paused")
            length_us = int(self._random.random() * 2 * self._group.rules.visibility_ms) * MS
            trace.note(EVERYONE, f"consumer {self.name} stalls for {length_us // MS} ms")
            self._paused_until_us = self._app.world.now_us + length_us
        elif dice < 0.85:
            seen("message forgotten by its consumer")
            trace.note(EVERYONE, f"consumer {self.name} forgets message {held[1]}")
            self._held.pop(held, None)
        else:
            seen("lease extended")
            self._extend([LeaseRange(held[0], held[1], held[1] + 1)])

    def _restart(self, life: int) -> None:
        if life == self._life and not self._is_up:
            self.start()

    # Renewing.

    def _present(self) -> None:
        """Presents its leases to a new leader."""
        if self._presented_to != self._caller.target and self._held:
            self._extend([LeaseRange(lease_id, offset, offset + 1) for lease_id, offset in self._held])
        self._presented_to = self._caller.target

    def _extend(self, held: list[LeaseRange]) -> None:
        request = Extend("topic", 0, self._group.name, self.name, held, self._group.rules.visibility_ms)
        life = self._life
        self._caller.ask(request, lambda outcome: self._fire(life, self._extended, (outcome,)))

    def _extended(self, outcome: Outcome) -> None:
        if isinstance(outcome, Settled):
            for lost in outcome.expired:
                for offset in range(lost.first, lost.end):
                    self._held.pop((lost.lease_id, offset), None)

    # Settling.

    def _end(self, held: tuple[int, Offset]) -> None:
        if held not in self._held and (self._is_calm or self._random.random() < 0.5):
            # Forgotten, or lost. Other members settle all the same.
            return
        delay_ms = self._random.choice((BY_BACKOFF, BY_BACKOFF, 0, 700))
        kind = ACK if self._is_calm else self._random.choices(_OUTCOMES, _WEIGHTS)[0]
        self._held.pop(held, None)
        lease_id, offset = held
        request = Settle(
            "topic", 0, self._group.name, kind, [LeaseRange(lease_id, offset, offset + 1)], "it did not work", delay_ms
        )
        self._settle(request, _SETTLE_RETRIES_MAX)

    def _settle(self, request: Settle, retries: int) -> None:
        life = self._life
        self._caller.ask(request, lambda outcome: self._fire(life, self._settled, (request, retries, outcome)))

    def _settled(self, request: Settle, retries: int, outcome: Outcome) -> None:
        if isinstance(outcome, Settled):
            self.settled_count += not outcome.expired
        elif retries:
            self._later(100 * MS, self._settle, request, retries - 1)


def _ignore(_: Outcome) -> None:
    """Ignores the answer: the member has crashed."""
