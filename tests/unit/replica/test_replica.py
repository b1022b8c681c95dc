"""One replica driven by hand: which requests are answered, with what, and when."""

from random import Random

import pytest

from flotilla.raft.membership import ADD_LEARNER, ADD_VOTER, Change, ConfigurationChange
from flotilla.raft.messages import (
    NOOP,
    Append,
    AppendReply,
    Configuration,
    Entry,
    HardState,
    ReadReply,
    Snapshot,
    SnapshotChunk,
    SnapshotMeta,
)
from flotilla.replica.ports import Recovered
from flotilla.replica.replica import Replica, ReplicaOptions
from flotilla.sim.ledger.machine import Ledger, command
from flotilla.types.errors import (
    ConfigurationChangeError,
    CorruptionError,
    NotLeaderError,
    OutcomeUnknownError,
    UnavailableError,
)
from flotilla.types.ids import Index, Term
from tests.scenarios.store import MemoryLog

ALONE = Configuration(voters=(1,))
THREE = Configuration(voters=(1, 2, 3))


class Log(MemoryLog):
    """A group's log in memory, as far as a replica needs it."""

    is_snapshot_rotten = False

    def recovered(self) -> Recovered:
        return Recovered(HardState(), self.snapshot(), self.configuration(), self.configuration_entries())

    def read_snapshot(self) -> Snapshot | None:
        if self.is_snapshot_rotten:
            raise CorruptionError("rot")
        return self.newest_snapshot

    def compact(self, first_index: Index, term_before: Term = 0) -> None:
        super().compact(first_index)


def replica(
    configuration: Configuration = ALONE, options: ReplicaOptions | None = None, log: Log | None = None
) -> Replica:
    log = log or Log(configuration)
    return Replica(7, 1, log, Ledger(), Random(3), options or ReplicaOptions(read_ticks_max=5))  # type: ignore[arg-type]


def turn(subject: Replica) -> None:
    """Everything durable at once."""
    while subject.raft.has_ready():
        ready = subject.raft.ready()
        subject.log.save(ready)  # type: ignore[attr-defined]
        subject.take_reads(ready.reads)
        subject.apply(ready.committed)
        subject.raft.advance(ready.number)
    subject.fail_orphans()


def leading(configuration: Configuration = ALONE, options: ReplicaOptions | None = None) -> Replica:
    subject = replica(configuration, options)
    subject.raft.campaign()
    turn(subject)
    return subject


def test_a_proposal_is_answered_when_it_is_applied():
    subject = leading()
    assert subject.is_serving()
    assert subject.propose(command(5), "token")
    assert subject.replies == []
    turn(subject)
    assert [token for token, _ in subject.replies] == ["token"]


def test_a_follower_refuses_at_once():
    subject = replica(THREE)
    assert not subject.propose(command(5), "token")
    assert [(token, type(result)) for token, result in subject.replies] == [("token", NotLeaderError)]
    assert not subject.is_serving()


def test_proposals_of_a_lost_leadership_are_of_unknown_outcome():
    subject = leading()
    subject.propose(command(5), "token")
    subject.raft.step_down()
    turn(subject)
    assert [(token, type(result)) for token, result in subject.replies] == [("token", OutcomeUnknownError)]


def test_a_membership_change_is_answered_with_the_configuration():
    subject = leading()
    subject.change_members(ConfigurationChange((Change(ADD_LEARNER, 4),)), "token")
    turn(subject)
    assert subject.replies == [("token", Configuration(voters=(1,), learners=(4,)))]
    subject.change_members(ConfigurationChange(), "nothing to leave")
    assert isinstance(subject.replies[-1][1], ConfigurationChangeError)


def test_a_node_without_the_log_does_not_become_a_voter():
    subject = leading()
    subject.change_members(ConfigurationChange((Change(ADD_VOTER, 4),)), "stranger")
    subject.change_members(ConfigurationChange((Change(ADD_LEARNER, 4),)), "learner")
    turn(subject)
    subject.change_members(ConfigurationChange((Change(ADD_VOTER, 4),)), "too early")
    assert [token for token, result in subject.replies if isinstance(result, ConfigurationChangeError)] == [
        "stranger",
        "too early",
    ]
    subject.raft.step(AppendReply(4, 1, subject.raft.term, index=subject.raft.log.last_index, accepted=True))
    subject.change_members(ConfigurationChange((Change(ADD_VOTER, 4),)), "caught up")
    turn(subject)
    assert subject.raft.configuration.voters == (1, 4)


def test_a_read_sees_what_was_acknowledged_before_it():
    subject = leading()
    subject.propose(command(5), "write")
    turn(subject)
    subject.read(None, "read")
    turn(subject)
    token, result = subject.replies[-1]
    assert token == "read"
    assert result == subject.machine.read(None)


def test_a_read_that_no_quorum_confirms_expires():
    subject = replica(THREE)
    subject.raft.step(Append(2, 1, 1, 0, 0, 0, [Entry(1, 1, NOOP, b"")]))
    turn(subject)
    subject.read(None, "token")
    for _ in range(5):
        assert subject.replies == []
        subject.tick()
    assert [(token, type(result)) for token, result in subject.replies] == [("token", UnavailableError)]


def test_a_confirmed_read_that_this_replica_never_reaches_expires():
    subject = replica(THREE)
    subject.raft.step(Append(2, 1, 1, 0, 0, 0, [Entry(1, 1, NOOP, b"")]))
    turn(subject)
    subject.read(None, "token")
    (read_id,) = subject.raft.reads.forwarded
    turn(subject)
    subject.raft.step(ReadReply(2, 1, 1, read_id=read_id, index=50))
    turn(subject)
    for _ in range(5):
        assert subject.replies == []
        subject.tick()
    assert [(token, type(result)) for token, result in subject.replies] == [("token", UnavailableError)]


def test_a_failed_snapshot_is_not_retried_at_once():
    subject = leading(options=ReplicaOptions(snapshot_entries=2, snapshot_retry_ticks=7))
    for number in range(4):
        subject.propose(command(number), number)
    turn(subject)
    assert subject.take_snapshot() is not None
    subject.snapshot_failed()
    for _ in range(7):
        assert not subject.wants_snapshot()
        subject.tick()
    assert subject.wants_snapshot()


@pytest.mark.parametrize(
    ("terms", "readable"),
    [
        # The entries after the log's start are our own, and never committed; so are the last ones.
        ((1, 1), 6),
        ((1, 1, 1, 1, 1), 6),
        # The snapshot's own entry is there.
        ((1, 1, 2, 2, 2), 10),
    ],
)
def test_with_a_state_ahead_of_its_log_only_committed_entries_can_be_read(terms: tuple[int, ...], readable: int):
    log = Log(THREE)
    log.install(Snapshot(SnapshotMeta(9, 2, 5, 1, THREE, 0), Ledger().snapshot()))
    log.stored = [Entry(6 + place, term, NOOP, b"") for place, term in enumerate(terms)]
    subject = replica(THREE, log=log)
    assert subject.applied == 9
    assert subject.readable_end == readable


@pytest.mark.parametrize(("keeps_log", "first"), [(False, 9), (True, 1)])
def test_a_snapshot_shortens_the_log_unless_the_log_is_the_data(keeps_log: bool, first: int):
    subject = leading(options=ReplicaOptions(snapshot_entries=4, trail_entries=3, keeps_log=keeps_log))
    for number in range(10):
        subject.propose(command(number), number)
    turn(subject)
    assert subject.wants_snapshot()
    snapshot = subject.take_snapshot()
    assert snapshot is not None
    assert snapshot.meta.index == 11
    assert not subject.wants_snapshot()
    assert subject.take_snapshot() is None, "one at a time"
    subject.snapshot_taken(snapshot.meta)
    assert subject.log.first_index() == first
    assert not subject.wants_snapshot()


def test_a_snapshot_is_due_by_the_bytes_that_a_start_would_read_again():
    size_bytes = len(command(0))
    subject = leading(options=ReplicaOptions(snapshot_bytes=4 * size_bytes))
    for number in range(3):
        subject.propose(command(number), number)
    turn(subject)
    assert not subject.wants_snapshot()
    subject.propose(command(3), 3)
    turn(subject)
    assert subject.wants_snapshot()
    snapshot = subject.take_snapshot()
    assert snapshot is not None
    # What comes while it is written is not in it.
    subject.propose(command(4), 4)
    turn(subject)
    subject.snapshot_taken(snapshot.meta)
    assert not subject.wants_snapshot()
    for number in range(5, 8):
        subject.propose(command(number), number)
    turn(subject)
    assert subject.wants_snapshot()
    assert subject.take_snapshot() is not None
    subject.snapshot_failed()
    for _ in range(ReplicaOptions().snapshot_retry_ticks):
        subject.tick()
    assert subject.wants_snapshot(), "what was not written is still to be read"


def test_a_log_that_is_the_data_shrinks_to_what_is_needed_once_a_snapshot_covers_it():
    subject = leading(options=ReplicaOptions(snapshot_entries=0, trail_entries=3, keeps_log=True))
    for number in range(10):
        subject.propose(command(number), number)
    turn(subject)
    subject.release_below(6)
    assert subject.log.first_index() == 1
    assert subject.has_slack()
    snapshot = subject.take_snapshot()
    assert snapshot is not None
    subject.snapshot_taken(snapshot.meta)
    assert subject.log.first_index() == 6
    assert not subject.has_slack()
    # The snapshot is there: released entries go at once, and no trail is kept.
    subject.release_below(7)
    assert subject.log.first_index() == 7
    subject.release_below(12)
    assert subject.log.first_index() == 12
    for number in range(10, 12):
        subject.propose(command(number), number)
    turn(subject)
    subject.release_below(14)
    assert subject.log.first_index() == 12
    assert subject.has_slack()


def test_a_replica_with_a_rotten_snapshot_takes_no_part_until_the_leader_sends_one():
    log = Log(THREE)
    log.install(Snapshot(SnapshotMeta(9, 2, 9, 2, THREE, 0), b""))
    log.is_snapshot_rotten = True
    subject = replica(THREE, log=log)
    assert subject.raft.damaged == [(0, 10)]
    for _ in range(40):
        subject.tick()
    assert subject.raft.term == 0
    subject.read(None, "token")
    assert isinstance(subject.replies[-1][1], UnavailableError)


def test_a_log_that_is_being_replaced_by_a_snapshot_is_left_alone():
    """The replica has the leader's state already, and raft does not have its log yet."""
    state = Ledger()
    snapshot = Snapshot(SnapshotMeta(9, 2, 5, 1, THREE, len(state.snapshot())), state.snapshot())
    subject = replica(THREE, ReplicaOptions(trail_entries=1, keeps_log=True))
    subject.raft.step(SnapshotChunk(2, 1, 2, meta=snapshot.meta, offset=0, data=snapshot.data))
    ready = subject.raft.ready()
    while ready.snapshot is None:
        subject.raft.advance(ready.number)
        ready = subject.raft.ready()
    subject.restore(ready.snapshot)
    subject.release_below(8)
    assert subject.log.first_index() == 1
    assert subject.has_slack()
