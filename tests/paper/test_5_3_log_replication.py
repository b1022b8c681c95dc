"""Section 5.3: one log, everywhere the same."""

import pytest

from flotilla.raft.messages import Append, AppendReply, CommitNews, Heartbeat, HeartbeatReply
from flotilla.types.errors import NotLeaderError
from flotilla.types.ids import Index, Term
from tests.paper.group import append, elect, flush, group, inject, only, propose, terms, tick


def test_5_3_a_leader_appends_a_command_and_sends_it_to_all() -> None:
    cluster = group()
    elect(cluster, 1)
    propose(cluster, 1, b"x")
    sent = only(flush(cluster, 1), Append)
    assert [(message.to, message.prev_index, len(message.entries)) for message in sent] == [(2, 1, 1), (3, 1, 1)]


def test_5_3_only_a_leader_takes_commands() -> None:
    cluster = group()
    elect(cluster, 1)
    with pytest.raises(NotLeaderError) as refusal:
        propose(cluster, 2, b"x")
    assert refusal.value.leader == 1


@pytest.mark.parametrize(("voters", "copies", "committed"), [(3, 0, 1), (3, 1, 2), (5, 1, 1), (5, 2, 2)])
def test_5_3_an_entry_commits_when_a_majority_stored_it(voters: int, copies: int, committed: Index) -> None:
    cluster = group(voters=voters)
    elect(cluster, 1)
    propose(cluster, 1, b"x")
    flush(cluster, 1)
    for follower in range(2, 2 + copies):
        inject(cluster, AppendReply(follower, 1, 1, index=2, accepted=True))
    assert cluster.node(1).log.committed == committed


def test_5_3_followers_learn_what_is_committed_and_apply_it_in_order() -> None:
    cluster = group()
    elect(cluster, 1)
    propose(cluster, 1, b"a", b"b", b"c")
    cluster.settle()
    assert all(member.state == [b"a", b"b", b"c"] for member in cluster.members.values())


def test_5_3_a_leader_retries_until_all_followers_stored_all() -> None:
    cluster = group()
    elect(cluster, 1)
    for body in (b"a", b"b", b"c"):
        propose(cluster, 1, body)
        cluster.process_ready(1)
        cluster.deliver(lambda message: True, drop=True)
    tick(cluster, 1)
    cluster.settle()
    assert all(member.state == [b"a", b"b", b"c"] for member in cluster.members.values())


@pytest.mark.parametrize(
    ("previous", "accepted"),
    [
        ((0, 0), True),
        ((1, 1), True),
        ((2, 2), True),
        ((1, 2), False),
        ((3, 2), False),
        ((2, 3), False),
        ((3, 9), False),
    ],
)
def test_5_3_an_append_fits_only_after_a_matching_entry(previous: tuple[Term, Index], accepted: bool) -> None:
    cluster = group([1, 2], [], [])
    (reply,) = only(inject(cluster, append(2, 1, 3, previous, 3)), AppendReply)
    assert reply.accepted == accepted


@pytest.mark.parametrize(
    ("before", "previous", "sent", "after"),
    [
        ([1, 2], (2, 2), [3], [1, 2, 3]),
        ([1, 2], (1, 1), [3, 4], [1, 3, 4]),
        ([1, 2], (0, 0), [3, 4], [3, 4]),
        ([1, 2], (0, 0), [1], [1, 2]),
        ([1, 2, 2], (1, 1), [2], [1, 2, 2]),
    ],
    ids=[
        "after the end",
        "replaces a suffix",
        "replaces all",
        "keeps what agrees",
        "an older append takes nothing away",
    ],
)
def test_5_3_conflicting_entries_go_and_agreeing_ones_stay(
    before: list[Term], previous: tuple[Term, Index], sent: list[Term], after: list[Term]
) -> None:
    cluster = group(before, [], [])
    inject(cluster, append(2, 1, 4, previous, *sent))
    assert terms(cluster, 1) == after


def test_5_3_a_repeated_append_changes_nothing() -> None:
    cluster = group()
    message = append(2, 1, 1, (0, 0), 1, 1)
    first = inject(cluster, message)
    assert inject(cluster, message) == first
    assert terms(cluster, 1) == [1, 1]


@pytest.mark.parametrize(("commit", "known"), [(0, 0), (1, 1), (2, 2), (9, 2)])
def test_5_3_a_follower_commits_no_more_than_it_was_sent(commit: Index, known: Index) -> None:
    cluster = group([1, 1, 1], [], [])
    inject(cluster, append(2, 1, 2, (1, 1), 1, commit=commit))
    assert cluster.node(1).log.committed == known


@pytest.mark.parametrize(
    "log",
    [
        [1, 1, 1, 4, 4, 5, 5, 6, 6],
        [1, 1, 1, 4],
        [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6],
        [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7],
        [1, 1, 1, 4, 4, 4, 4],
        [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
    ],
    ids=["a", "b", "c", "d", "e", "f"],
)
def test_5_3_figure_7_a_leader_makes_every_log_like_its_own(log: list[Term]) -> None:
    leading = [1, 1, 1, 4, 4, 5, 5, 6, 6, 6]
    cluster = group(leading, log, leading[:3])
    for member in cluster.members.values():
        member.node.become_follower(7, 0)
    elect(cluster, 1)
    assert cluster.node(1).term == 8
    assert terms(cluster, 2) == [*leading, 8]
    assert terms(cluster, 3) == [*leading, 8]


def test_5_3_a_leader_never_changes_its_own_log() -> None:
    leading = [1, 1, 4, 4]
    cluster = group(leading, [1, 1, 2, 2, 3], [1])
    before = list(cluster.members[1].disk.stored)
    elect(cluster, 1)
    propose(cluster, 1, b"more")
    cluster.settle()
    assert cluster.members[1].disk.stored[: len(before)] == before


def test_5_3_a_conflict_is_found_in_one_step_per_term() -> None:
    cluster = group([1] + [5] * 50, [1] + [2] * 20 + [3] * 20, [1])
    cluster.node(1).campaign()
    refusals = 0
    for _ in range(100):
        for node_id in cluster.members:
            if cluster.has_work(node_id):
                cluster.process_ready(node_id)
        delivered = cluster.deliver(lambda message: True)
        refusals += sum(not reply.accepted for reply in only(delivered, AppendReply) if reply.sender == 2)
    assert 1 <= refusals <= 3
    assert terms(cluster, 2) == terms(cluster, 1)


def test_5_3_a_heartbeat_carries_no_more_commit_than_the_follower_holds() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.cuts = {(1, 3)}
    propose(cluster, 1, b"x")
    cluster.settle()
    cluster.cuts.clear()
    tick(cluster, 1)
    assert {message.to: message.commit for message in only(flush(cluster, 1), Heartbeat)} == {2: 2, 3: 1}


def test_5_3_a_leader_that_hears_a_lagging_follower_brings_it_up() -> None:
    cluster = group()
    elect(cluster, 1)
    propose(cluster, 1, b"x")
    flush(cluster, 1)
    (probe,) = only(inject(cluster, HeartbeatReply(3, 1, 1)), Append)
    (again,) = only(inject(cluster, AppendReply(3, 1, 1, index=probe.prev_index, accepted=False, hint_index=1)), Append)
    assert [entry.index for entry in again.entries] == [2]


def test_5_3_news_of_a_commit_needs_no_entry() -> None:
    cluster = group()
    elect(cluster, 1)
    propose(cluster, 1, b"x")
    flush(cluster, 1)
    sent = inject(cluster, AppendReply(2, 1, 1, index=2, accepted=True))
    assert [(message.to, message.commit) for message in only(sent, CommitNews)] == [(2, 2)]
