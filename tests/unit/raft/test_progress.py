"""A leader's view of a follower: when it may send, and what a reply changes."""

from flotilla.raft.messages import Configuration, SnapshotMeta
from flotilla.raft.progress import PROBE, REPLICATE, SNAPSHOT, Progress

BYTES_MAX = 100
COUNT_MAX = 3


def replicating(match: int) -> Progress:
    progress = Progress(match + 1)
    progress.accepted(match)
    progress.become_replicate()
    return progress


def test_a_probe_sends_one_append_and_waits():
    progress = Progress(5)
    assert progress.state == PROBE
    assert not progress.is_paused(BYTES_MAX, COUNT_MAX)
    progress.sent(7, 10)
    assert progress.is_paused(BYTES_MAX, COUNT_MAX)
    assert progress.next == 5


def test_replication_is_pipelined_up_to_a_count():
    progress = replicating(4)
    for last in (5, 6, 7):
        assert not progress.is_paused(BYTES_MAX, COUNT_MAX)
        progress.sent(last, 1)
    assert progress.is_paused(BYTES_MAX, COUNT_MAX)
    assert progress.next == 8


def test_replication_is_bounded_by_bytes():
    progress = replicating(4)
    progress.sent(5, BYTES_MAX)
    assert progress.is_paused(BYTES_MAX, COUNT_MAX)
    progress.accepted(5)
    assert progress.inflight_bytes == 0
    assert not progress.is_paused(BYTES_MAX, COUNT_MAX)


def test_a_reply_frees_everything_up_to_it():
    progress = replicating(4)
    for last in (5, 6, 7):
        progress.sent(last, 10)
    assert progress.accepted(6)
    assert (progress.match, list(progress.inflight), progress.inflight_bytes) == (6, [(7, 10)], 10)
    assert not progress.accepted(5), "an older answer is no news"
    assert progress.match == 6


def test_a_refusal_while_replicating_goes_back_to_match():
    progress = replicating(4)
    progress.sent(9, 10)
    assert progress.refused(9, hint=6)
    assert (progress.state, progress.next, progress.inflight_bytes) == (PROBE, 5, 0)


def test_a_stale_refusal_changes_nothing():
    progress = replicating(4)
    assert not progress.refused(3, hint=1)
    assert progress.state == REPLICATE
    probing = Progress(9)
    assert not probing.refused(3, hint=1)
    assert probing.next == 9


def test_a_probe_jumps_to_the_hint_but_never_below_match():
    progress = Progress(90)
    progress.accepted(20)
    progress.next = 90
    assert progress.refused(89, hint=40)
    assert progress.next == 41
    assert progress.refused(40, hint=2)
    assert progress.next == 21


def test_a_snapshot_pauses_appends_and_ends_after_its_log():
    progress = Progress(1)
    progress.needs_snapshot = True
    progress.become_snapshot(SnapshotMeta(30, 2, 25, 2, Configuration(voters=(1,)), 100))
    assert progress.state == SNAPSHOT
    assert progress.is_paused(BYTES_MAX, COUNT_MAX)
    assert not progress.needs_snapshot
    progress.become_probe()
    assert (progress.next, progress.snapshot) == (26, None)


def test_a_replica_that_lost_entries_is_not_probed_again_at_once():
    progress = replicating(86)
    progress.become_probe()
    progress.sent(87, 1)
    assert progress.refused(86, hint=0)
    assert progress.next == 87
    assert progress.is_paused(BYTES_MAX, COUNT_MAX), "until the next heartbeat"
    # Where there is somewhere to go back to, that is tried at once.
    searching = Progress(50)
    searching.sent(50, 1)
    assert searching.refused(49, hint=7)
    assert not searching.is_paused(BYTES_MAX, COUNT_MAX)
