"""Bounds on attempts of messages that have one of their own, as far as they were delivered; others have the group's."""

from flotilla.partition.leader.outcome import Outcome
from flotilla.partition.offset_runs import RunMap, filled
from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import Offset


class DeliveryLimits(RunMap[int]):
    """Offsets to the attempt after which the message is dead."""

    __slots__ = ()

    def last_attempt_of(self, offset: Offset, rules: GroupRules) -> int:
        """0: the group retries for ever."""
        return rules.max_deliveries and (self.get(offset) or rules.max_deliveries)

    def split(self, first: Offset, end: Offset, attempt: int, outcome: Outcome) -> list[tuple[Offset, Offset, bool]]:
        """[first, end) in runs, each with whether this attempt was the last of its messages."""
        if not outcome.rules.max_deliveries:
            return [(first, end, False)]
        if outcome.last_attempt_of is not None:
            bounds = [(each, each + 1, outcome.last_attempt_of(each)) for each in range(first, end)]
        else:
            bounds = filled(self, first, end, outcome.rules.max_deliveries)
        parts: list[tuple[Offset, Offset, bool]] = []
        for low, high, bound in bounds:
            is_last = attempt >= bound
            if parts and parts[-1][2] == is_last:
                parts[-1] = (parts[-1][0], high, is_last)
            else:
                parts.append((low, high, is_last))
        return parts
