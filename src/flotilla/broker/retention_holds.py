"""Groups that hold the retention of a partition, and what retention would have removed without them.

A queue group holds what it owes, unless it was told not to. Other groups hold if that was chosen for them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from flotilla.broker.group_names import GroupNames
from flotilla.metadata.values import Topic
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import GroupId, NodeId, Offset
from flotilla.types.limits import WARNED_PARTITIONS_MAX
from flotilla.types.operations.cluster import RETENTION_HELD, NodeWarning

#: A group that holds retention back for this long is worth a warning: one that is merely slow catches up.
LASTING_MS: Final = 60_000
#: A sentence names at most this many groups.
_NAMED_MAX: Final = 5


class Holds(NamedTuple):
    """What must stay in a partition."""

    #: By group, the first message that must stay for it.
    groups: dict[str, Offset]
    #: The first message on its way to the dead letters.
    dying: Offset | None = None

    @property
    def first(self) -> Offset | None:
        """Everything from here on must stay; None: nothing must."""
        dying = [] if self.dying is None else [self.dying]
        return min([*self.groups.values(), *dying], default=None)


def holds_of(topic: Topic, machine: PartitionMachine, rules_of: Callable[[str], GroupRules]) -> Holds:
    """A chosen holder that has never come to this partition will begin with the oldest message: it holds them all."""
    groups, positions = machine.groups, machine.positions
    held = {name: group.floor for name, group in groups.items() if rules_of(name).holds_retention}
    for name in chosen_holders(topic):
        if name not in groups:
            held[name] = positions[name].offset if name in positions else machine.log_start
    return Holds(held, lowest_dying(machine))


def chosen_holders(topic: Topic) -> list[str]:
    """Groups for which the hold was chosen: they hold also before they have come, and when they commit offsets."""
    return [name for name, chosen in topic.groups if dict(chosen).get("holds_retention")]


def lowest_dying(machine: PartitionMachine) -> Offset | None:
    dying = [group.lowest_dying() for group in machine.groups.values()]
    return min([offset for offset in dying if offset is not None], default=None)


class HeldBack:
    """What the limits of a topic do not cover and its groups hold all the same, as of the leader's last look."""

    __slots__ = ("_since_ms", "_told", "below", "messages")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        #: By group.
        self.messages: dict[str, int] = {}
        #: Messages below are beyond the limits.
        self.below: Offset = 0
        self._since_ms: dict[str, int] = {}
        self._told: list[str] = []

    def note(self, holds: Mapping[str, Offset], log_start: Offset, below: Offset, now_ms: int) -> None:
        """Everything below `below` is beyond the limits; with `log_start` nothing is held back."""
        self.below = below
        self.messages = {name: below - max(first, log_start) for name, first in holds.items() if first < below}
        self._since_ms = {name: self._since_ms.get(name, now_ms) for name in self.messages}

    def lasting(self, now_ms: int) -> dict[str, int]:
        """Messages by group, of groups that have held retention back for long."""
        since_ms = self._since_ms
        return {name: count for name, count in self.messages.items() if now_ms - since_ms[name] >= LASTING_MS}

    def news(self, now_ms: int) -> tuple[list[str], list[str]]:
        """Groups that have begun to be worth a warning since the last call, and those that have ceased."""
        lasting = self.lasting(now_ms)
        begun = [name for name in lasting if name not in self._told]
        ended = [name for name in self._told if name not in self.messages]
        self._told = [name for name in (*self._told, *begun) if name not in ended]
        return begun, ended


class Holder(Protocol):
    """A partition."""

    def held_back(self) -> dict[str, int]:
        """Messages by group, of groups that have held retention back for long. Empty unless this node leads it."""


def hold_warnings(node: NodeId, partitions: Iterable[tuple[GroupId, Holder]], names: GroupNames) -> list[NodeWarning]:
    found = sorted(
        (str(names.of(group)), name, count)
        for group, partition in partitions
        for name, count in partition.held_back().items()
    )
    if not found:
        return []
    listed = ", ".join(f"{name} of {place} ({count} messages)" for place, name, count in found[:_NAMED_MAX])
    message = f"groups keep more than the retention of their topic: {listed}{', ...' if found[_NAMED_MAX:] else ''}"
    places = list(dict.fromkeys(place for place, *_ in found))
    return [NodeWarning(RETENTION_HELD, message, node, places[:WARNED_PARTITIONS_MAX])]
