"""Whether a leader may answer by itself, or has to ask a quorum first whether it still leads.

Leadership is doubtful after a pause of this process (pause_detector.py), and once the links left no quorum of a group:
voters that lost their link to a leader elect another one at once. Both are counted. An answer that does not go through
a quorum is given only if a quorum has confirmed this leader since the last of them; the first caller after it asks.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from flotilla.raft.roles import LEADER
from flotilla.runtime.driver import Driver
from flotilla.runtime.pause_detector import PauseDetector
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import GroupId

#: Asks a quorum whether this node still leads a group. The reply is None or a FlotillaError.
Ask: TypeAlias = Callable[[GroupId, Callable[[object], None]], None]


class Confirmations:
    """All groups of a node."""

    __slots__ = ("_ask", "_asked_doubts", "_confirmed_doubts", "_driver", "_interruptions", "_pause_detector")

    def __init__(self, driver: Driver, pause_detector: PauseDetector, ask: Ask) -> None:
        self._driver = driver
        self._pause_detector = pause_detector
        self._ask = ask
        #: By group: how often the links left no quorum while this node led.
        self._interruptions: dict[GroupId, int] = {}
        #: By group: the count of pauses and interruptions when this node last asked a quorum, and when a quorum last
        #: confirmed it. Before the first one nothing needs to be confirmed.
        self._asked_doubts: dict[GroupId, int] = {}
        self._confirmed_doubts: dict[GroupId, int] = {}

    def is_confirmed(self, group: GroupId) -> bool:
        """Whether a leading replica may answer for its group. Called before each answer without a quorum."""
        if group in self._driver.failed:
            return False
        doubts = self._pause_detector.pauses() + self._interruptions.get(group, 0)
        if self._confirmed_doubts.get(group, 0) == doubts:
            return True
        if self._asked_doubts.get(group, 0) != doubts and self._driver.replicas[group].raft.role == LEADER:
            self._asked_doubts[group] = doubts
            self._ask(group, partial(self._answered, group, doubts))
        return False

    def _answered(self, group: GroupId, doubts: int, result: object) -> None:
        if isinstance(result, FlotillaError):
            # This node does not lead any more, or too many reads are pending: the next caller retries.
            self._asked_doubts.pop(group, None)
        else:
            self._confirmed_doubts[group] = doubts

    def link_lost(self) -> None:
        """The driver has learned that a peer is down."""
        for group, replica in self._driver.replicas.items():
            if replica.raft.role == LEADER and not replica.raft.reaches_quorum():
                self._interruptions[group] = self._interruptions.get(group, 0) + 1

    def forget(self, group: GroupId) -> None:
        """The group leaves this node."""
        for table in (self._interruptions, self._asked_doubts, self._confirmed_doubts):
            table.pop(group, None)
