"""The contract of RaftNode with its caller (raft/node.py), by its numbers: a broken rule is stopped at once.

Asserts stay on in brokers: a caller that goes on after a broken rule would lose what others rely on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from flotilla.raft.messages import (
    DATA,
    Append,
    AppendReply,
    CommitNews,
    Configuration,
    Entry,
    HardState,
    Heartbeat,
    HeartbeatReply,
    Message,
    Ready,
    SnapshotChunk,
    SnapshotMeta,
    VoteReply,
    VoteRequest,
)
from flotilla.raft.node import RaftNode
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE
from flotilla.types.ids import NO_NODE, Index, Term
from tests.scenarios.store import MemoryLog

THREE = Configuration(voters=(1, 2, 3))
ALONE = Configuration(voters=(1,))
TERM = 1
#: The leader of the other nodes unless a test says otherwise.
LEADING = 2
#: More than any of these tests needs.
READIES_MAX = 20


class Caller:
    """Node 1 and a caller that does each part of the contract only on request."""

    def __init__(
        self, configuration: Configuration = THREE, log: int = 0, options: RaftOptions | None = None, node_id: int = 1
    ) -> None:
        self.store = MemoryLog(configuration)
        self.store.stored = entries(1, log)
        self.store.hard_state = HardState(TERM)
        self.node = RaftNode(
            node_id,
            self.store,
            random=Random(1),
            options=options,
            hard_state=self.store.hard_state,
            configuration=configuration,
        )

    def take(self) -> Ready:
        """A Ready, saved as it must be; not durable yet."""
        ready = self.node.ready()
        self.store.save(ready)
        return ready

    def finish(self) -> list[Message]:
        """Does everything there is to do; answers all that may be sent by then."""
        sent: list[Message] = []
        while self.node.has_ready():
            ready = self.take()
            assert ready.number < READIES_MAX, "there is always something to do"
            self.node.advance(ready.number)
            sent += ready.messages + ready.messages_after_sync
        return sent


def entries(first: Index, count: int, term: Term = TERM) -> list[Entry]:
    return [Entry(index, term, DATA, b"%d" % index) for index in range(first, first + count)]


def append(previous: Index, count: int, commit: Index = 0) -> Append:
    previous_term = TERM if previous else 0
    return Append(LEADING, 1, TERM, previous, previous_term, commit, entries(previous + 1, count))


def snapshot_of(index: Index) -> SnapshotChunk:
    """All of a snapshot in one piece."""
    meta = SnapshotMeta(index, TERM, index, TERM, THREE, size_bytes=5)
    return SnapshotChunk(LEADING, 1, TERM, meta, offset=0, data=b"state")


def leader() -> Caller:
    """Alone in its group, and leader of term 2."""
    caller = Caller(ALONE)
    caller.node.campaign()
    caller.finish()
    assert caller.node.role == LEADER
    return caller


def installing() -> Caller:
    """A snapshot is complete, and no Ready has taken it yet."""
    caller = Caller()
    caller.node.step(snapshot_of(7))
    return caller


def commit(node: RaftNode, index: int) -> None:
    """The leader has confirmed the log up to there, and commits it."""
    node.agreed = index
    node.step(CommitNews(LEADING, 1, TERM, commit=index))


@contextmanager
def stopped_in(function: str, message: str | None = None) -> Iterator[None]:
    """An assert of that very function stops the caller."""
    with pytest.raises(AssertionError, match=message) as caught:
        yield
    assert caught.traceback[-1].name == function


# 1. Inputs in any order, then `ready()` when `has_ready()`.


@pytest.mark.parametrize(
    "give",
    [
        lambda node: node.campaign(),
        lambda node: node.step(append(2, 1)),
        lambda node: node.step(append(5, 1)),
        lambda node: node.step(Heartbeat(LEADING, 1, TERM, commit=0)),
        lambda node: commit(node, 2),
        lambda node: node.step(VoteRequest(3, 1, TERM + 1, last_index=2, last_term=TERM)),
        lambda node: node.step(VoteReply(3, 1, TERM + 1, granted=False)),
        lambda node: node.step(snapshot_of(7)),
        lambda node: [node.tick() for _ in range(node.election_timeout)],
    ],
    ids=["campaign", "append", "gap", "heartbeat", "commit", "vote", "term", "snapshot", "ticks"],
)
def test_1_there_is_a_ready_exactly_while_work_is_pending(give: Callable[[RaftNode], object]) -> None:
    caller = Caller(log=2)
    assert not caller.node.has_ready()
    give(caller.node)
    assert caller.node.has_ready()
    caller.take()
    assert not caller.node.has_ready(), "a Ready takes everything"
    caller.node.advance(1)
    caller.finish()
    assert not caller.node.has_ready()


def test_1_a_ready_takes_everything_except_more_than_is_applied_at_once() -> None:
    caller = Caller(log=3, options=RaftOptions(apply_bytes_max=1))
    caller.node.step(append(3, 1, commit=3))
    assert [entry.index for entry in caller.take().committed] == [1]
    for index in (2, 3):
        assert caller.node.has_ready()
        assert [entry.index for entry in caller.take().committed] == [index]
    assert not caller.node.has_ready()


def test_1_no_node_has_id_zero() -> None:
    with stopped_in("__init__"):
        Caller(node_id=NO_NODE)


def test_1_a_message_to_another_node_is_refused() -> None:
    with stopped_in("step"):
        Caller().node.step(Heartbeat(LEADING, 3, TERM, commit=0))


@pytest.mark.parametrize(
    "options",
    [
        RaftOptions(heartbeat_ticks=0, quiesce_ticks=0),
        RaftOptions(election_ticks=3, heartbeat_ticks=3),
        RaftOptions(quiesce_ticks=2, heartbeat_ticks=3),
        RaftOptions(append_bytes_max=0),
        RaftOptions(inflight_count_max=0),
        RaftOptions(inflight_bytes_max=0),
        RaftOptions(snapshot_chunk_bytes_max=0),
    ],
    ids=["heartbeat", "election", "quiesce", "append", "inflight count", "inflight bytes", "chunk"],
)
def test_1_options_that_cannot_work_are_refused_at_the_start(options: RaftOptions) -> None:
    with stopped_in("validate"):
        Caller(options=options)


# 2. What a Ready stores is in the store before any further call.


def test_2_from_its_ready_on_the_store_serves_an_entry() -> None:
    caller = Caller()
    caller.node.step(append(0, 2))
    ready = caller.node.ready()
    # Not saved: the next message that rests on it finds that out.
    with stopped_in("term"):
        caller.node.step(append(2, 1))
    caller.store.save(ready)
    caller.node.step(append(2, 1))
    assert caller.node.log.last_index == 3


def test_2_a_store_that_skips_an_entry_is_found_out_before_it_is_applied() -> None:
    caller = Caller(log=3)
    commit(caller.node, 3)
    caller.store.entries = lambda low, high, max_bytes: entries(low + 1, 1)  # type: ignore[method-assign]
    with stopped_in("take_committed"):
        caller.node.ready()


def test_2_a_store_never_forgets_what_was_not_applied() -> None:
    caller = Caller(log=3)
    commit(caller.node, 2)
    caller.finish()
    caller.store.compact(3)
    caller.node.log_compacted()
    caller.store.compact(4)
    with stopped_in("compacted", "compacted what was not applied"):
        caller.node.log_compacted()


# 3. `messages` may leave at once.


def test_3_a_leader_replicates_entries_that_its_own_disk_still_writes() -> None:
    caller = Caller()
    caller.node.campaign()
    caller.node.step(VoteReply(LEADING, 1, TERM + 1, granted=True, pre=True))
    caller.finish()
    caller.node.step(VoteReply(LEADING, 1, TERM + 1, granted=True))
    caller.finish()
    assert caller.node.role == LEADER
    # One follower's log is known, so entries go to it without asking first.
    caller.node.step(AppendReply(LEADING, 1, TERM + 1, index=caller.node.log.last_index, accepted=True))
    caller.finish()
    index = caller.node.propose(b"news")
    ready = caller.take()
    sent = [message for message in ready.messages if isinstance(message, Append)]
    assert [(message.to, [entry.index for entry in message.entries]) for message in sent] == [(LEADING, [index])]
    assert [entry.index for entry in ready.entries] == [index]
    assert caller.node.log.durable < index


def test_3_a_heartbeat_reply_waits_only_for_its_term() -> None:
    caller = Caller()
    caller.node.step(append(0, 1))
    caller.node.step(Heartbeat(LEADING, 1, TERM, commit=0))
    ready = caller.take()
    assert [type(message) for message in ready.messages] == [HeartbeatReply]
    caller.node.step(Heartbeat(3, 1, TERM + 1, commit=0))
    ready = caller.take()
    assert ready.messages == []
    assert HeartbeatReply in map(type, ready.messages_after_sync)


# 4. `messages_after_sync` wait until all that they rest on is durable.


def test_4_an_append_is_acknowledged_after_its_sync() -> None:
    caller = Caller()
    caller.node.step(append(0, 2))
    ready = caller.take()
    assert ready.messages == []
    (reply,) = ready.messages_after_sync
    assert isinstance(reply, AppendReply)
    assert (reply.index, reply.accepted) == (2, True)


def test_4_a_vote_is_sent_after_its_sync() -> None:
    caller = Caller()
    caller.node.step(VoteRequest(3, 1, TERM + 1, last_index=0, last_term=0))
    ready = caller.take()
    assert ready.messages == []
    assert ready.hard_state == HardState(TERM + 1, 3)
    (reply,) = ready.messages_after_sync
    assert isinstance(reply, VoteReply)
    assert reply.granted


def test_4_the_own_vote_counts_when_it_is_durable() -> None:
    caller = Caller(ALONE)
    caller.node.campaign()
    ready = caller.take()
    assert ready.hard_state == HardState(TERM + 1, 1)
    assert caller.node.role == CANDIDATE
    caller.node.advance(ready.number)
    assert caller.node.role == LEADER


def test_4_the_own_copy_counts_when_it_is_durable() -> None:
    caller = leader()
    first = caller.node.propose(b"first")
    assert caller.node.has_ready()
    number = caller.take().number
    second = caller.node.propose(b"second")
    caller.take()
    assert caller.node.log.committed < first
    caller.node.advance(number)
    assert caller.node.log.committed == first
    caller.node.advance(number + 1)
    assert caller.node.log.committed == second


# 5. `advance` once for each Ready, in order; a Ready with a snapshot is alone.


def two_taken() -> Caller:
    caller = Caller()
    for previous in (0, 1):
        caller.node.step(append(previous, 1))
        caller.take()
    return caller


def test_5_no_ready_is_skipped() -> None:
    with stopped_in("advance", "Ready 2 advanced after 0"):
        two_taken().node.advance(2)


def test_5_no_ready_is_advanced_twice() -> None:
    caller = two_taken()
    caller.node.advance(1)
    with stopped_in("advance", "Ready 1 advanced after 1"):
        caller.node.advance(1)
    caller.node.advance(2)


def test_5_no_ready_is_advanced_before_it_was_taken() -> None:
    caller = Caller()
    caller.node.step(append(0, 1))
    with stopped_in("advance"):
        caller.node.advance(1)
    caller.take()
    caller.node.advance(1)


def test_5_a_ready_that_stores_nothing_is_advanced_too() -> None:
    caller = Caller()
    caller.node.step(Heartbeat(LEADING, 1, TERM, commit=0))
    assert not caller.take().must_save
    caller.node.step(append(0, 1))
    caller.take()
    with stopped_in("advance", "Ready 2 advanced after 0"):
        caller.node.advance(2)


def test_5_each_advance_makes_the_entries_of_its_own_ready_durable() -> None:
    caller = two_taken()
    assert caller.node.log.durable == 0
    caller.node.advance(1)
    assert caller.node.log.durable == 1
    caller.node.advance(2)
    assert caller.node.log.durable == 2


def test_5_a_snapshot_is_taken_once() -> None:
    caller = installing()
    ready = caller.take()
    assert ready.snapshot is not None
    assert not caller.node.has_ready()
    with stopped_in("_ready_to_install", "a snapshot is being installed"):
        caller.node.ready()


def test_5_nothing_happens_until_the_snapshot_is_installed() -> None:
    caller = installing()
    ready = caller.take()
    caller.node.step(append(0, 3))
    caller.node.step(VoteRequest(3, 1, TERM + 5, last_index=9, last_term=TERM))
    caller.node.campaign()
    for _ in range(2 * caller.node.election_timeout):
        caller.node.tick()
    assert not caller.node.has_ready()
    assert (caller.node.role, caller.node.term, caller.node.log.last_index) == (FOLLOWER, TERM, 0)
    caller.node.advance(ready.number)
    (reply,) = caller.finish()
    assert reply == AppendReply(1, LEADING, TERM, index=7, accepted=True)


def test_5_a_snapshot_must_not_be_cleared_while_it_is_installed() -> None:
    caller = installing()
    ready = caller.take()
    caller.node.installing = None
    with stopped_in("_installed"):
        caller.node.advance(ready.number)


def test_5_a_snapshot_is_advanced_in_order_like_every_ready() -> None:
    caller = Caller()
    caller.node.step(append(0, 1))
    caller.take()
    caller.node.step(snapshot_of(7))
    ready = caller.take()
    assert ready.snapshot is not None
    with stopped_in("advance", "Ready 2 advanced after 0"):
        caller.node.advance(ready.number)
    assert caller.node.installing is not None
    caller.node.advance(1)
    caller.node.advance(2)
    assert caller.node.log.last_index == 7


# 6. `committed` is applied in order, each entry once.


def test_6_a_committed_entry_comes_out_once_and_not_before_it_is_durable_here() -> None:
    caller = two_taken()
    caller.node.step(CommitNews(LEADING, 1, TERM, commit=2))
    assert caller.node.log.committed == 2
    assert not caller.node.has_ready()
    for index in (1, 2):
        caller.node.advance(index)
        assert caller.node.has_ready()
        assert [entry.index for entry in caller.take().committed] == [index]
        assert not caller.node.has_ready()


def test_6_entries_that_a_snapshot_covers_are_not_applied_again() -> None:
    caller = installing()
    ready = caller.take()
    assert ready.committed == []
    caller.node.advance(ready.number)
    caller.finish()
    caller.node.step(append(7, 2, commit=9))
    caller.node.advance(caller.take().number)
    assert [entry.index for entry in caller.take().committed] == [8, 9]


# Roles and terms: what no input can bring about.


def test_terms_never_go_back() -> None:
    with stopped_in("become_follower", "terms never go back"):
        Caller().node.become_follower(TERM - 1, NO_NODE)


@pytest.mark.parametrize("change", [RaftNode.become_pre_candidate, RaftNode.become_candidate])
def test_a_leader_does_not_stand_for_election(change: Callable[[RaftNode], None]) -> None:
    caller = leader()
    caller.node.campaign()
    assert caller.node.role == LEADER
    with stopped_in(change.__name__):
        change(caller.node)


@pytest.mark.parametrize("role", [FOLLOWER, PRE_CANDIDATE, LEADER])
def test_only_a_candidate_wins(role: int) -> None:
    caller = Caller()
    caller.node.vote = caller.node.id
    caller.node.role = role
    with stopped_in("become_leader"):
        caller.node.become_leader()


def test_only_a_candidate_that_voted_for_itself_wins() -> None:
    caller = Caller()
    caller.node.become_candidate()
    caller.node.vote = LEADING
    with stopped_in("become_leader"):
        caller.node.become_leader()
