"""Section 6 and thesis chapter 4: changing the members of a group while it runs."""

import pytest

from flotilla.raft.membership import ADD_LEARNER, ADD_VOTER, AUTO, EXPLICIT, REMOVE, Change, ConfigurationChange
from flotilla.raft.messages import Append, AppendReply, Configuration, VoteReply
from flotilla.raft.roles import CANDIDATE, FOLLOWER, LEADER
from flotilla.types.errors import ConfigurationChangeError
from flotilla.types.ids import NodeId
from tests.paper.group import ELECTION_TICKS, elect, flush, group, inject, only, propose, tick, vote_request
from tests.scenarios.cluster import Cluster


def change(cluster: Cluster, *changes: tuple[int, NodeId], transition: int = EXPLICIT) -> None:
    """Asks the leader, node 1, and lets everything settle."""
    whole = ConfigurationChange(tuple(Change(kind, node) for kind, node in changes), transition)
    cluster.node(1).propose_change(whole)
    cluster.settle()


def newcomers(cluster: Cluster, *nodes: NodeId) -> None:
    for node in nodes:
        cluster.add(node, Configuration(), options=cluster.members[1].options)


def joint() -> Cluster:
    """Led by 1, on the way from 1,2,3 to 1,4,5."""
    cluster = group()
    elect(cluster, 1)
    newcomers(cluster, 4, 5)
    change(cluster, (ADD_VOTER, 4), (ADD_VOTER, 5), (REMOVE, 2), (REMOVE, 3))
    assert cluster.node(1).configuration == Configuration(voters=(1, 4, 5), outgoing=(1, 2, 3))
    return cluster


def test_6_in_the_joint_phase_entries_go_to_all_of_both_halves() -> None:
    cluster = joint()
    propose(cluster, 1, b"x")
    assert [message.to for message in only(flush(cluster, 1), Append)] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("copies", "commits"),
    [((4, 5), False), ((2, 3), False), ((2,), False), ((2, 4), True), ((3, 5), True)],
)
def test_6_in_the_joint_phase_agreement_needs_both_majorities(copies: tuple[NodeId, ...], commits: bool) -> None:
    cluster = joint()
    before = cluster.node(1).log.last_index
    propose(cluster, 1, b"x")
    flush(cluster, 1)
    for node in copies:
        inject(cluster, AppendReply(node, 1, 1, index=before + 1, accepted=True))
    assert (cluster.node(1).log.committed == before + 1) == commits


@pytest.mark.parametrize(("voters", "role"), [((4, 5), CANDIDATE), ((2, 3), CANDIDATE), ((2, 4), LEADER)])
def test_6_in_the_joint_phase_an_election_needs_both_majorities(voters: tuple[NodeId, ...], role: int) -> None:
    cluster = joint()
    cluster.node(1).step_down()
    cluster.node(1).campaign()
    flush(cluster, 1)
    for voter in voters:
        inject(cluster, VoteReply(voter, 1, 2, granted=True))
    assert cluster.node(1).role == role


def test_6_the_joint_phase_ends_with_the_new_configuration() -> None:
    cluster = joint()
    cluster.node(1).propose_change(ConfigurationChange())
    cluster.settle()
    for node in (1, 4, 5):
        assert cluster.node(node).configuration == Configuration(voters=(1, 4, 5))


def test_6_a_server_uses_the_newest_configuration_in_its_log() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.node(1).propose_change(ConfigurationChange((Change(ADD_VOTER, 4),)))
    assert cluster.node(1).configuration.voters == (1, 2, 3, 4)
    cluster.process_ready(1)
    cluster.deliver(lambda message: message.to == 2)
    assert cluster.node(2).configuration.voters == (1, 2, 3, 4)
    assert cluster.node(2).log.committed == 1


def test_6_an_overwritten_configuration_is_not_used_any_more() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.cuts = {(1, 2), (1, 3)}
    change(cluster, (ADD_VOTER, 4), transition=AUTO)
    elect(cluster, 2)
    cluster.cuts.clear()
    tick(cluster, 2)
    cluster.settle()
    assert cluster.node(1).configuration.voters == (1, 2, 3)


def test_6_a_new_server_can_catch_up_without_a_vote() -> None:
    cluster = group()
    elect(cluster, 1)
    propose(cluster, 1, b"a", b"b")
    cluster.settle()
    newcomers(cluster, 4)
    change(cluster, (ADD_LEARNER, 4), transition=AUTO)
    assert cluster.members[4].state == [b"a", b"b"]
    tick(cluster, 4, 10 * ELECTION_TICKS)
    assert cluster.node(4).role == FOLLOWER
    cluster.cuts = {(1, 2), (1, 3)}
    propose(cluster, 1, b"c")
    cluster.settle()
    assert cluster.node(1).log.committed < cluster.node(1).log.last_index


def test_6_a_leader_outside_the_new_configuration_does_not_count_itself_and_steps_down_when_it_commits() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.node(1).propose_change(ConfigurationChange((Change(REMOVE, 1),)))
    flush(cluster, 1)
    assert cluster.node(1).role == LEADER
    inject(cluster, AppendReply(2, 1, 1, index=2, accepted=True))
    assert cluster.node(1).role == LEADER
    inject(cluster, AppendReply(3, 1, 1, index=2, accepted=True))
    assert cluster.node(1).role == FOLLOWER
    cluster.node(1).campaign()
    assert cluster.node(1).role == FOLLOWER


def test_thesis_4_1_one_change_at_a_time() -> None:
    cluster = group()
    elect(cluster, 1)
    cluster.node(1).propose_change(ConfigurationChange((Change(ADD_VOTER, 4),)))
    with pytest.raises(ConfigurationChangeError):
        cluster.node(1).propose_change(ConfigurationChange((Change(ADD_VOTER, 5),)))


def test_thesis_4_1_no_change_before_an_entry_of_the_own_term_is_committed() -> None:
    cluster = group()
    cluster.node(1).campaign()
    flush(cluster, 1)
    inject(cluster, VoteReply(2, 1, 1, granted=True))
    with pytest.raises(ConfigurationChangeError):
        cluster.node(1).propose_change(ConfigurationChange((Change(ADD_VOTER, 4),)))


def test_thesis_4_2_2_a_server_votes_also_when_its_own_configuration_leaves_it_out() -> None:
    cluster = group()
    outsiders = Configuration(voters=(1, 2, 3))
    cluster.add(4, outsiders)
    elect(cluster, 1)
    (reply,) = only(inject(cluster, vote_request(1, 4, 9, last=(1, 1))), VoteReply)
    assert reply.granted


def test_thesis_4_2_2_but_not_before_it_knows_any_configuration() -> None:
    """It may be a member that lost its disk, and with it its votes and acknowledgements."""
    cluster = group()
    newcomers(cluster, 4)
    elect(cluster, 1)
    (reply,) = only(inject(cluster, vote_request(1, 4, 9, last=(1, 1))), VoteReply)
    assert not reply.granted
