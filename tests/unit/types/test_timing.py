"""The derived times are safe together, for every election timeout and heartbeat that the settings allow."""

from dataclasses import replace

import pytest

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.settings import SETTINGS, NodeSettings
from flotilla.types.timing import PAUSE_TICKS_MIN, TICK_MS, Timing

ELECTION = SETTINGS["election_timeout_ms"].kind
HEARTBEAT = SETTINGS["heartbeat_ms"].kind
#: Every value up to some seconds, which cover every rounding to ticks, and the ends of each tick beyond.
TIMEOUTS_MS = (
    *range(ELECTION.minimum, 3_000),
    *(edge + off for edge in range(3_000, ELECTION.maximum, TICK_MS) for off in (0, 1, TICK_MS - 1)),
    ELECTION.maximum,
)


def longest_heartbeat_ms(election_timeout_ms: int) -> int:
    """The longest that the settings accept. Where they accept it, they accept every shorter one."""
    limit_ms = min(HEARTBEAT.maximum, election_timeout_ms // 2)
    return next(ms for ms in range(limit_ms, 0, -1) if accepted(election_timeout_ms, ms))


def accepted(election_timeout_ms: int, heartbeat_ms: int) -> bool:
    settings = replace(
        NodeSettings(), election_timeout_ms=election_timeout_ms, heartbeat_ms=heartbeat_ms, quiesce_ms=3_600_000
    )
    return not settings._broken_time_rules()


@pytest.mark.parametrize("heartbeat_of", [lambda _: HEARTBEAT.minimum, longest_heartbeat_ms], ids=["short", "long"])
def test_every_allowed_value_is_safe(heartbeat_of) -> None:
    for election_timeout_ms in TIMEOUTS_MS:
        heartbeat_ms = heartbeat_of(election_timeout_ms)
        assert accepted(election_timeout_ms, heartbeat_ms), (election_timeout_ms, heartbeat_ms)
        # The rules are asserted when it is made.
        timing = Timing(election_timeout_ms, heartbeat_ms)
        assert timing.pause_ms >= PAUSE_TICKS_MIN * TICK_MS, "a tick that is late must not count as a pause"
        # The rules in other words: what a follower, a link and the next leader wait for, against what a leader knows.
        elected_ms = (timing.election_ticks - 1) * TICK_MS - (timing.heartbeat_ticks - 1) * TICK_MS
        assert timing.pause_ms < elected_ms
        assert timing.link_silence_max_ms + timing.pause_ms <= timing.grace_ms


def test_the_times_grow_with_the_election_timeout() -> None:
    short, long = Timing(1_000, 300), Timing(5_000, 300)
    assert (short.pause_ms, short.link_check_ms, short.grace_ms) == (500, 300, 2_000)
    assert (long.pause_ms, long.link_check_ms, long.grace_ms) == (2_500, 1_500, 10_000)


@pytest.mark.parametrize(("election_timeout_ms", "heartbeat_ms"), [(200, 100), (300, 100), (400, 101), (500, 250)])
def test_times_too_short_to_notice_a_pause_are_refused(election_timeout_ms: int, heartbeat_ms: int) -> None:
    with pytest.raises(AssertionError):
        Timing(election_timeout_ms, heartbeat_ms)
    with pytest.raises(InvalidArgumentError):
        replace(NodeSettings(), election_timeout_ms=election_timeout_ms, heartbeat_ms=heartbeat_ms).validate()
