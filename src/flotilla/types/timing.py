"""The times by which nodes judge each other, all derived from the election timeout.

    election timeout  a follower that heard no leader for this long may vote for another one
    link silence      a peer from which no byte came for this long counts as down, and voters replace such a leader
    pause             a leader that did not tick for this long asks a quorum before it answers
    grace             a new leader of a partition leases nothing that an earlier one can have leased for this long,
                      unless all members have presented their leases before

Two rules make them safe together. They hold for every value that `Timing` accepts:

    1. A leader notices that it was paused before its followers can have elected another one: neither the election
       timeout since its last heartbeat nor the link silence since its last byte has passed by then.
    2. A leader that was cut off notices it by the silence of its links, a pause that is too short to be noticed
       included, before the grace of the next leader has passed. So no two leaders lease one message: members that
       have presented their leases take none of an earlier leader. Where nodes differ in their election timeouts,
       as while the setting is changed node by node, the grace is that of the longest one that the new leader has heard
       of. The first rule needs the same setting everywhere.
"""

from dataclasses import dataclass
from typing import Final

#: Consensus counts time in ticks.
TICK_MS: Final = 100
#: A shorter pause cannot be told from a late tick.
PAUSE_TICKS_MIN: Final = 2
#: A link without a byte for this many checks in a row is cut. The byte may have come just after a check.
SILENT_CHECKS_MAX: Final = 4
#: A connection is pinged at a check if nothing was written since the one before: so it is quiet for two intervals.
QUIET_CHECKS_MAX: Final = 2


@dataclass(frozen=True, slots=True)
class Timing:
    #: Both count in whole ticks, rounded up.
    election_timeout_ms: int = 1_000
    heartbeat_ms: int = 300
    tick_ms: int = TICK_MS

    def __post_init__(self) -> None:
        assert is_safe(self.election_timeout_ms, self.heartbeat_ms, self.tick_ms), self
        patience_ms = (self.election_ticks - 1) * self.tick_ms
        assert (self.heartbeat_ticks - 1) * self.tick_ms + self.pause_ms < patience_ms, "rule 1: elected unnoticed"
        quiet_ms = QUIET_CHECKS_MAX * self.link_check_ms
        assert quiet_ms + self.pause_ms < self.link_silence_min_ms, "rule 1: replaced unnoticed"
        assert self.link_silence_max_ms + self.pause_ms <= self.grace_ms, "rule 2: two leaders lease"

    @property
    def election_ticks(self) -> int:
        return _ticks(self.election_timeout_ms, self.tick_ms)

    @property
    def heartbeat_ticks(self) -> int:
        return _ticks(self.heartbeat_ms, self.tick_ms)

    @property
    def pause_ms(self) -> int:
        """Half an election timeout, or less if the heartbeat interval does not fit into the other half."""
        return min(self.election_ticks // 2, self.election_ticks - self.heartbeat_ticks - 1) * self.tick_ms

    @property
    def link_check_ms(self) -> int:
        """The interval of a link's liveness checks."""
        return 3 * self.election_ticks * self.tick_ms // 10

    @property
    def link_silence_min_ms(self) -> int:
        """From a peer's last byte, which came just before a check, to the end of the link."""
        return SILENT_CHECKS_MAX * self.link_check_ms

    @property
    def link_silence_max_ms(self) -> int:
        """The same if the byte came just after a check."""
        return (SILENT_CHECKS_MAX + 1) * self.link_check_ms

    @property
    def grace_ms(self) -> int:
        """After a change of leaders, members have this long to present their leases."""
        return grace_of(self.election_ticks * self.tick_ms)


def grace_of(election_timeout_ms: int) -> int:
    """The grace after a leader with this election timeout, in whole ticks."""
    return 2 * election_timeout_ms


def is_safe(election_timeout_ms: int, heartbeat_ms: int, tick_ms: int = TICK_MS) -> bool:
    """Whether a pause can be noticed in time: two heartbeats fit into an election timeout, and one with a pause."""
    election_ticks, heartbeat_ticks = _ticks(election_timeout_ms, tick_ms), _ticks(heartbeat_ms, tick_ms)
    return election_timeout_ms >= 2 * heartbeat_ms and election_ticks - heartbeat_ticks - 1 >= PAUSE_TICKS_MIN


def _ticks(duration_ms: int, tick_ms: int) -> int:
    return -(-duration_ms // tick_ms)
