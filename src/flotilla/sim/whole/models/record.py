"""What the models of a run share: dead letters, decisions and topics; and the way to report a broken promise."""

import traceback
from collections.abc import Callable, Hashable
from typing import Any

from flotilla.metadata.values import Topic
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import World
from flotilla.sim.whole.models.queue_transactions import Registry


class WatchRecord:
    """One run: what its models share."""

    def __init__(self, world: World, broken: Callable[[Violation], None], note: Callable[[str], None]) -> None:
        """`broken` gets the first broken promise: models know nothing after that. `note` gets events that happened."""
        self.note = note
        self.world = world
        self._broken = broken
        self._is_broken = False
        self.registry = Registry()
        #: Dead letters that are stored, by the id of the topic that has them; and all deaths that have one.
        self.letters: dict[Hashable, int] = {}
        self.deaths: dict[Hashable, None] = {}
        self.topics: dict[int, Topic] = {}
        #: Ids of topics.
        self.deleted: dict[int, None] = {}

    def check(self, action: Callable[..., None], *arguments: Any, **named: Any) -> None:
        """Never raises, so that the broker goes on as without a watch."""
        if self._is_broken:
            return
        try:
            action(*arguments, **named)
        except Violation as violation:
            self._report(violation)
        except Exception as error:
            text = "".join(traceback.format_exception(error, limit=-6))
            self._report(Violation("the models know what brokers do", text))

    def _report(self, violation: Violation) -> None:
        self._is_broken = True
        self._broken(violation)
