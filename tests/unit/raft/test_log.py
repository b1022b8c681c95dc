"""The log as consensus sees it: what is pending, durable, committed and handed out."""

import pytest

from flotilla.raft.configuration import encode_configuration
from flotilla.raft.log import RaftLog
from flotilla.raft.messages import CONFIG, DATA, Configuration, Entry, Ready, SnapshotMeta
from tests.scenarios.store import MemoryLog

FOUNDERS = Configuration(voters=(1, 2, 3))
PLENTY = 1 << 30


def entries(*terms: int, first: int = 1, kind: int = DATA) -> list[Entry]:
    return [Entry(first + place, term, kind, b"%d" % term) for place, term in enumerate(terms)]


def log_of(*terms: int, committed: int = 0, applied: int = 0) -> tuple[RaftLog, MemoryLog]:
    stored = MemoryLog(FOUNDERS)
    stored.stored = entries(*terms)
    return RaftLog(stored, FOUNDERS, committed=committed, applied=applied), stored


def store(log: RaftLog, stored: MemoryLog, number: int) -> None:
    """What a caller does with a Ready, up to but without the sync."""
    stored.save(Ready(number, None, log.take_pending(number), [], 0, None, [], [], [], []))


def test_recovered_entries_are_durable():
    log, _ = log_of(1, 1, 2)
    assert (log.last_index, log.last_term(), log.durable) == (3, 2, 3)


def test_an_appended_entry_is_durable_only_once_its_write_is():
    log, stored = log_of(1)
    log.append(entries(1, first=2))
    assert (log.last_index, log.durable) == (2, 1)
    store(log, stored, number=1)
    assert log.durable == 1
    log.written(1)
    assert log.durable == 2


def test_entries_come_from_store_and_pending_as_one():
    log, stored = log_of(1, 1)
    log.append(entries(2, 2, first=3))
    assert [e.index for e in log.entries(1, 5, PLENTY)] == [1, 2, 3, 4]
    assert [e.index for e in log.entries(2, 4, PLENTY)] == [2, 3]
    assert [e.index for e in log.entries(1, 2, PLENTY)] == [1]
    store(log, stored, number=1)
    assert [e.term for e in log.entries(1, 5, PLENTY)] == [1, 1, 2, 2]


@pytest.mark.parametrize("max_bytes", [0, 1, 33, 34])
def test_at_least_one_entry_is_returned_and_the_bound_holds_for_the_rest(max_bytes: int):
    log, _ = log_of(1)
    log.append(entries(1, 1, first=2))
    assert [e.index for e in log.entries(1, 4, max_bytes)] == [1]
    assert [e.index for e in log.entries(2, 4, max_bytes)] == [2]


def test_a_conflict_overwrites_stored_and_pending_entries_alike():
    log, stored = log_of(1, 1, 1)
    log.append(entries(1, 1, first=4))
    log.append(entries(2, first=3))
    assert [log.term(index) for index in (1, 2, 3)] == [1, 1, 2]
    assert (log.last_index, log.durable) == (3, 2)
    store(log, stored, number=1)
    log.written(1)
    assert log.durable == 3


def test_committed_entries_are_never_overwritten():
    log, _ = log_of(1, 1, committed=2)
    with pytest.raises(AssertionError, match="committed"):
        log.append(entries(2, first=2))


def test_an_overwritten_entry_that_comes_back_is_not_durable_by_its_first_write():
    """Term 1's entry is being written, term 2 overwrites it, term 3 brings it back: three writes, one claim each."""
    log, stored = log_of()
    log.append(entries(1))
    store(log, stored, number=1)
    log.append(entries(2))
    store(log, stored, number=2)
    log.append(entries(1))
    store(log, stored, number=3)
    log.written(1)
    assert log.durable == 0
    log.written(2)
    assert log.durable == 0
    log.written(3)
    assert log.durable == 1


def test_only_committed_and_durable_entries_are_handed_out_and_only_once():
    log, stored = log_of(1, 1)
    log.append(entries(1, first=3))
    store(log, stored, number=1)
    log.commit_to(3)
    assert [e.index for e in log.take_committed(PLENTY)] == [1, 2]
    assert not log.has_committed()
    log.written(1)
    assert log.has_committed()
    assert [e.index for e in log.take_committed(PLENTY)] == [3]
    assert log.take_committed(PLENTY) == []


def test_handing_out_is_bounded_by_bytes():
    log, _ = log_of(1, 1, 1, committed=3)
    assert [len(log.take_committed(40)) for _ in range(4)] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("terms", "index", "term", "found"),
    [
        ((1, 1, 4, 4, 5, 5, 6), 7, 6, 7),
        ((1, 1, 4, 4, 5, 5, 6), 7, 4, 4),
        ((1, 1, 4, 4, 5, 5, 6), 6, 3, 2),
        ((2, 2, 2), 3, 1, 0),
        ((1, 1), 9, 1, 2),
    ],
)
def test_the_last_index_at_which_logs_may_agree(terms: tuple[int, ...], index: int, term: int, found: int):
    log, _ = log_of(*terms)
    assert log.find_not_newer(index, term) == found


def test_the_newest_configuration_of_the_log_is_in_force_and_truncation_takes_it_back():
    log, _ = log_of(1)
    grown = Configuration(voters=(1, 2, 3, 4))
    log.append([Entry(2, 1, CONFIG, encode_configuration(grown))])
    assert log.configurations == [(0, FOUNDERS), (2, grown)]
    log.append(entries(2, first=2))
    assert log.configurations == [(0, FOUNDERS)]


def test_the_configuration_as_of_the_applied_state_is_kept_at_the_front():
    log, stored = log_of(1)
    grown = Configuration(voters=(1, 2, 3, 4))
    log.append([Entry(2, 1, CONFIG, encode_configuration(grown))])
    store(log, stored, number=1)
    log.written(1)
    log.commit_to(1)
    log.take_committed(PLENTY)
    assert log.configurations[0][1] == FOUNDERS
    log.commit_to(2)
    log.take_committed(PLENTY)
    assert log.configurations == [(2, grown)]


def test_a_damaged_read_is_reported_and_yields_nothing():
    log, stored = log_of(1, 1, 1)
    stored.damaged = {2}
    assert log.entries(2, 4, PLENTY) == []
    assert log.found_damage == [(2, 3)]


def test_a_snapshot_whose_log_begins_before_it_is_not_applied_again():
    log, stored = log_of(1)
    meta = SnapshotMeta(index=8, term=2, log_index=5, log_term=2, configuration=FOUNDERS)
    stored.stored, stored.base, stored.base_term = [], 5, 2
    log.restore(meta, [])
    assert (log.base, log.last_index, log.committed, log.handed) == (5, 5, 5, 8)
    log.append(entries(2, 2, 2, 2, first=6))
    store(log, stored, number=1)
    log.written(1)
    log.commit_to(9)
    assert [e.index for e in log.take_committed(PLENTY)] == [9]


@pytest.mark.parametrize(("own_term", "committed"), [(2, 8), (1, 5)])
def test_a_snapshot_commits_a_kept_suffix_only_where_it_agrees(own_term: int, committed: int):
    """A repair keeps intact entries after the snapshot's log; they may never have been committed."""
    log, _ = log_of(1)
    suffix = entries(1, 1, own_term, own_term, first=6)
    log.restore(SnapshotMeta(index=8, term=2, log_index=5, log_term=1, configuration=FOUNDERS), suffix)
    assert (log.committed, log.last_index, log.handed) == (committed, 9, 8)
