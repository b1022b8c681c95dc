"""A cluster is founded only when every named peer has said that it knows none."""

import pytest

from flotilla.broker.cluster.founding import AWAITS_PEERS, CLUSTER_EXISTS, Found, PeerAnswer, Wait, judge_founding

EMPTY = PeerAnswer(is_accepted=True, is_in_cluster=False, founded_with_us=False, data=7)
FOUNDED = PeerAnswer(is_accepted=True, is_in_cluster=True, founded_with_us=True, data=8)
MEMBER = PeerAnswer(is_accepted=True, is_in_cluster=True, founded_with_us=False, data=9, cluster_id="ab12")
REPLACED = PeerAnswer(False, True, False, data=9, cluster_id="ab12", reason="another data directory")
UNAWARE = PeerAnswer(False, False, False, data=9, reason="the node is not a member")


def test_a_node_alone_asks_nobody() -> None:
    assert judge_founding({}) == Found({})


def test_empty_peers_found_together_and_remember_each_other() -> None:
    assert judge_founding({2: EMPTY, 3: EMPTY}) == Found({2: 7, 3: 7})


def test_a_peer_that_founded_with_this_very_directory_is_followed() -> None:
    assert judge_founding({2: FOUNDED, 3: EMPTY}) == Found({2: 8, 3: 7})


@pytest.mark.parametrize("knowing", [MEMBER, REPLACED])
@pytest.mark.parametrize("other", [EMPTY, FOUNDED, None, UNAWARE, MEMBER])
def test_one_peer_that_knows_the_cluster_forbids_another_one(knowing: PeerAnswer, other: PeerAnswer | None) -> None:
    verdict = judge_founding({1: knowing, 3: other})
    assert isinstance(verdict, Wait)
    assert verdict.code == CLUSTER_EXISTS
    assert "node 1 is part of cluster ab12" in verdict.message
    assert "--join" in verdict.message


def test_a_silent_peer_may_hold_the_data() -> None:
    verdict = judge_founding({2: EMPTY, 3: None, 4: None})
    assert isinstance(verdict, Wait)
    assert verdict.code == AWAITS_PEERS
    assert "cannot reach nodes 3, 4;" in verdict.message
    assert "--found-without" in verdict.message


def test_a_peer_that_does_not_know_this_node_yet_is_waited_for() -> None:
    verdict = judge_founding({2: EMPTY, 3: UNAWARE})
    assert isinstance(verdict, Wait)
    assert verdict.code == AWAITS_PEERS
    assert "refused by node 3: the node is not a member" in verdict.message
