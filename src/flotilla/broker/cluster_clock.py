"""Cluster time: the time of day that a majority of the brokers' clocks confirm, without the jumps of any of them.

Every time that a broker stores, compares or acts on is cluster time; nothing else reads a wall clock. Brokers tell
each other the readings of their wall clocks. This clock runs with the node's monotonic clock, and follows the wall
clocks only where a majority of all brokers, this node included, agree within AGREE_MS:

    before it is set             the lower middle of the clocks that were heard
    the first agreement          sets it; no partition is led before, unless there is none within GRACE_MS
    agreement                    slewed towards it, by a tenth at most
    far ahead of this clock      after BELIEVED_MS: a step; a cluster of one node runs at double speed instead
    far behind this clock        after BELIEVED_MS: slewed; this clock never goes back once it is set
    no agreement                 goes on with the monotonic clock

So one wrong clock changes nothing, in either direction. A clock that was set without an agreement is not *trusted*: a
leader stamps nothing, and deletes nothing by age, until a majority confirms its time. A leader has heard the clocks of
the majority that elected it, so the lower middle is not ahead of all of them.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from flotilla.types.ids import NodeId

#: Clocks this close to each other agree. It covers machines without time synchronisation for months of drift.
AGREE_MS: Final = 60_000
#: A wall clock further from cluster time than this was set, or is wrong.
JUMP_MS: Final = 5_000
#: A difference that a majority confirms for this long is real.
BELIEVED_MS: Final = 60_000
#: For the first agreement, from the start of the process.
GRACE_MS: Final = 10_000
#: A reading older than this does not count: the peer is down or cut off. Readings come with the checks of links,
#: three in an election timeout.
READING_MS: Final = 60_000
#: Readings of a peer that are compared: about two seconds of them.
READINGS: Final = 8
#: Between two looks at the wall clocks.
LOOK_MS: Final = 250
#: One part in this many of the elapsed time may go into the correction.
LEAN: Final = 10
#: The largest correction at once, after a time without corrections.
STEP_MS: Final = 100


class MachineClocks(Protocol):
    """The clocks of the machine."""

    def now_ms(self) -> int:
        """The wall clock."""

    def uptime_ms(self) -> int:
        """The monotonic clock, with the time in which the machine was suspended."""


class ClusterClock:
    def __init__(self, machine: MachineClocks, size: Callable[[], int]) -> None:
        """`size`: the number of brokers, this one included; 0 while the node is part of no cluster."""
        self._machine = machine
        self._size = size
        self._started_ms = self._steady_ms = machine.uptime_ms()
        self._now_ms = machine.now_ms()
        #: Of each peer: its wall clock minus this node's monotonic clock, and when it was read; the newest readings.
        self._readings: dict[NodeId, deque[tuple[int, int]]] = {}
        self._look_ms = self._started_ms
        #: The wall clocks of an agreeing majority, minus this node's monotonic clock.
        self._agreed_ms: int | None = None
        #: Elapsed time that no correction has used yet.
        self._slack_ms = 0
        #: Since when an agreement has been far ahead or behind.
        self._far_since_ms: int | None = None
        self._is_set = False
        self._is_confirmed = False
        #: This node's own wall clock minus cluster time, at the last look.
        self.offset_ms = 0
        #: How often the own wall clock was found to have jumped.
        self.jump_count = 0
        #: The offset after the last jump that was counted.
        self._jumped_to_ms = 0

    def heard(self, peer: NodeId, wall_ms: int) -> None:
        """A peer's wall clock, as it was when the reading left."""
        steady_ms = self._machine.uptime_ms()
        self._readings.setdefault(peer, deque(maxlen=READINGS)).append((wall_ms - steady_ms, steady_ms))
        if not self._is_confirmed:
            self._look_ms = steady_ms

    def forget(self, peer: NodeId) -> None:
        self._readings.pop(peer, None)

    def now_ms(self) -> int:
        steady_ms = self._machine.uptime_ms()
        elapsed_ms = steady_ms - self._steady_ms
        if elapsed_ms > 0:
            self._steady_ms = steady_ms
            self._now_ms += elapsed_ms
        if steady_ms >= self._look_ms:
            self._look_ms = steady_ms + LOOK_MS
            self._look(steady_ms)
        if elapsed_ms > 0 and self._agreed_ms is not None:
            drift_ms = self._agreed_ms + steady_ms - self._now_ms
            if drift_ms or self._far_since_ms is not None:
                self._correct(drift_ms, elapsed_ms)
        return self._now_ms

    def may_lead(self) -> bool:
        """Whether a leader may begin to serve. Sets the clock, also without an agreement after GRACE_MS."""
        self.now_ms()
        if not self._is_set and self._size() and self._steady_ms - self._started_ms >= GRACE_MS:
            self._is_set = True
        return self._is_set

    @property
    def is_set(self) -> bool:
        """Whether this node knows the time. Asking sets nothing: a node that leads nothing waits for an agreement."""
        return self._is_set

    @property
    def is_trusted(self) -> bool:
        """Whether this time may be stamped, and messages deleted by it.

        A majority has confirmed it, and does not contradict it now.
        """
        is_contradicted = (
            self._agreed_ms is not None
            and self._agreed_ms + self._steady_ms < self._now_ms - AGREE_MS
            # A node alone has no clock but its own: time goes on although its wall clock went back.
            and self._size() > 1
        )
        return self._is_confirmed and not is_contradicted

    @property
    def has_agreement(self) -> bool:
        """Whether a majority of the brokers' wall clocks agree, as far as this node hears them."""
        return self._agreed_ms is not None

    @property
    def is_off(self) -> bool:
        """Whether this node's own wall clock is far from cluster time."""
        return abs(self.offset_ms) > JUMP_MS

    def _look(self, steady_ms: int) -> None:
        own_ms = self._machine.now_ms() - steady_ms
        # A reading was late by its way: of several, the latest clock was read last.
        fresh = [max(readings)[0] for readings in self._readings.values() if steady_ms - readings[-1][1] <= READING_MS]
        offsets = sorted([own_ms, *fresh])
        size = self._size()
        self._agreed_ms = agreed(offsets, size // 2 + 1) if size else None
        if not self._is_set:
            self._is_set = self._is_confirmed = self._agreed_ms is not None
            offset_ms = offsets[(len(offsets) - 1) // 2] if self._agreed_ms is None else self._agreed_ms
            self._now_ms = steady_ms + offset_ms
        elif self._agreed_ms is not None and abs(self._agreed_ms + steady_ms - self._now_ms) <= AGREE_MS:
            self._is_confirmed = True
        self.offset_ms = own_ms + steady_ms - self._now_ms
        if abs(self.offset_ms - self._jumped_to_ms) > JUMP_MS:
            self.jump_count += self.is_off
            self._jumped_to_ms = self.offset_ms

    def _correct(self, drift_ms: int, elapsed_ms: int) -> None:
        lean = LEAN
        if abs(drift_ms) <= JUMP_MS:
            self._far_since_ms = None
        else:
            if self._far_since_ms is None:
                self._far_since_ms = self._steady_ms
            if self._is_confirmed and self._steady_ms - self._far_since_ms < BELIEVED_MS:
                return
            if drift_ms > 0 and self._size() > 1:
                self._now_ms += drift_ms
                self._far_since_ms = None
                return
            if drift_ms > 0:
                lean = 1
        self._slack_ms = min(self._slack_ms + elapsed_ms, lean * STEP_MS)
        most_ms = self._slack_ms // lean
        # Never by more than has just passed: that would go back.
        correction_ms = max(min(drift_ms, most_ms), -most_ms, -elapsed_ms)
        self._now_ms += correction_ms
        self._slack_ms -= lean * abs(correction_ms)


def agreed(offsets: list[int], quorum: int) -> int | None:
    """The middle of the closest `quorum` clocks, if they agree; `offsets` are sorted.

    Of two the upper one: a reading that was long on its way looks like a clock that is behind.
    """
    spread_ms, first = min(
        ((offsets[first + quorum - 1] - offsets[first], first) for first in range(len(offsets) - quorum + 1)),
        default=(AGREE_MS + 1, 0),
    )
    return offsets[first + quorum // 2] if spread_ms <= AGREE_MS else None
