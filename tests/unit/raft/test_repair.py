"""Which repair replies a damaged replica acts on."""

from dataclasses import replace
from random import Random

import pytest

from flotilla.raft.messages import (
    NOOP,
    Append,
    AppendReply,
    Configuration,
    Entry,
    HardState,
    RepairReply,
    RepairRequest,
    VoteReply,
    VoteRequest,
)
from flotilla.raft.node import RaftNode
from flotilla.raft.options import RaftOptions
from flotilla.raft.repair import repair
from flotilla.types.errors import NotLoadedError
from flotilla.types.limits import REPAIR_BYTES_MAX
from tests.scenarios.store import MemoryLog

FOUNDERS = Configuration(voters=(1, 2, 3))


def damaged_node(damaged: list[tuple[int, int]], last: int) -> RaftNode:
    stored = MemoryLog(FOUNDERS)
    stored.stored = [Entry(index, 1, NOOP, b"") for index in range(1, last + 1)]
    return RaftNode(
        3,
        stored,
        random=Random(1),
        options=RaftOptions(),
        hard_state=HardState(term=3, vote=0, commit=1),
        configuration=FOUNDERS,
        configuration_entries=[],
        applied=0,
        damaged=damaged,
        is_state_lost=False,
    )


def requests(node: RaftNode) -> list[tuple[int, int, int]]:
    """Takes out those that wait to be sent: to whom, and for what."""
    found = [(sent.to, sent.low, sent.high) for sent in node.messages if isinstance(sent, RepairRequest)]
    node.messages.clear()
    return found


def intact(sender: int, low: int, high: int) -> RepairReply:
    return RepairReply(sender, 3, 0, low, [Entry(index, 1, NOOP, b"") for index in range(low, high)])


def test_several_requests_are_on_their_way_to_each_member_and_none_twice() -> None:
    node = damaged_node([(1, 1001)], last=1000)
    node.messages.clear()
    node.step(intact(1, 1, 11))
    asked = requests(node)
    assert asked[:2] == [(1, 11, 21), (1, 21, 31)], "of as many entries as the last reply held"
    assert len(asked) > 4
    node.step(intact(2, 1, 11))
    asked += requests(node)
    assert {peer for peer, _, _ in asked} == {1, 2}
    covered = sorted((low, high) for _, low, high in asked)
    assert covered[0][0] == 11
    assert [high for _, high in covered[:-1]] == [low for low, _ in covered[1:]], "no gap, and nothing twice"
    while asked:
        peer, low, high = asked.pop(0)
        node.step(intact(peer, low, high))
        asked += requests(node)
    assert node.damaged == []


def test_a_reply_with_less_than_was_asked_for_leaves_the_rest_to_be_asked_for_again() -> None:
    node = damaged_node([(1, 101)], last=100)
    node.messages.clear()
    node.step(intact(1, 1, 51))
    assert requests(node) == [(1, 51, 101)]
    node.step(intact(1, 51, 61))
    assert [(low, high) for _, low, high in requests(node)] == [(61, 71), (71, 81), (81, 91), (91, 101)]


def test_damage_that_was_found_in_entries_cut_off_since_is_none() -> None:
    """The search reads beside the loop, and the log goes on meanwhile."""
    node = damaged_node([], last=9)
    node.messages.clear()
    node.log.truncate(6)
    node.log.found_damage = [(7, 9)]
    repair.begin(node)
    assert (node.damaged, requests(node)) == ([], [])
    node.log.found_damage = [(4, 9)]
    repair.begin(node)
    assert node.damaged == [(4, 6)]
    # An entry of another node beyond the end of the log.
    repair.step(node, intact(1, 4, 9))
    assert node.damaged == []


def test_damage_that_touches_is_asked_for_together() -> None:
    node = damaged_node([(2, 3)], last=9)
    node.messages.clear()
    node.log.found_damage = [(3, 4), (4, 6), (7, 8)]
    repair.begin(node)
    assert [(low, high) for peer, low, high in requests(node) if peer == 1] == [(2, 6), (7, 8)]


@pytest.mark.parametrize(("term", "is_dropped"), [(2, True), (3, False)])
def test_an_old_reply_does_not_drop_an_entry_that_the_leader_has_sent_since(term: int, is_dropped: bool):
    stored = MemoryLog(FOUNDERS)
    stored.stored = [Entry(1, 1, NOOP, b""), Entry(2, term, NOOP, b"")]
    node = RaftNode(
        3,
        stored,
        random=Random(1),
        options=RaftOptions(),
        hard_state=HardState(term=3, vote=0, commit=1),
        configuration=FOUNDERS,
        configuration_entries=[],
        applied=0,
        damaged=[(2, 3)],
        is_state_lost=False,
    )
    node.step(RepairReply(1, 3, 3, 2, absent=True))
    assert node.log.last_index == (1 if is_dropped else 2)
    assert bool(node.damaged) is not is_dropped


def test_a_request_for_entries_that_must_be_loaded_is_served_when_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    node = damaged_node([], last=9)
    read = node.log.stored.entries
    monkeypatch.setattr(node.log.stored, "entries", not_loaded)
    node.step(RepairRequest(1, 3, 0, 2, 5))
    assert [sent for sent in node.messages if isinstance(sent, RepairReply)] == []
    monkeypatch.setattr(node.log.stored, "entries", read)
    node.log_loaded()
    (reply,) = [sent for sent in node.messages if isinstance(sent, RepairReply)]
    assert (reply.to, [entry.index for entry in reply.entries]) == (1, [2, 3, 4])
    node.messages.clear()
    node.log_loaded()
    assert node.messages == [], "once"


def not_loaded(low: int, high: int, max_bytes: int) -> list[Entry]:
    raise NotLoadedError(1)


def test_all_members_are_asked_again_later_while_one_works_on_requests() -> None:
    node = damaged_node([(1, 1001)], last=1000)
    node.step(intact(1, 1, 11))
    requests(node)
    ticks = 0
    while not any(peer == 2 for peer, _, _ in requests(node)):
        node.tick()
        ticks += 1
    assert 3 < ticks <= 10


def test_a_replica_promises_nothing_before_its_repair_survives_a_crash() -> None:
    node = damaged_node([(1, 11)], last=10)
    stored = node.log.stored
    assert isinstance(stored, MemoryLog)
    node.step(intact(1, 1, 11))
    stored.unsaved_bytes = 100
    node.advance(node.ready().number)
    assert not node.damaged
    append = Append(1, 3, 3, 10, 1, 10, [])
    node.step(append)
    node.campaign()
    for _ in range(100):
        node.tick()
    ready = node.ready()
    assert not any(isinstance(sent, AppendReply | VoteRequest) for sent in ready.messages + ready.messages_after_sync)
    assert not node.is_promotable()
    node.advance(ready.number)
    node.step(VoteRequest(1, 3, 4, 10, 3, False, True))
    ready = node.ready()
    assert any(isinstance(sent, VoteReply) and sent.granted for sent in ready.messages_after_sync), "it votes"
    node.advance(ready.number)
    stored.unsaved_bytes = 0
    node.step(replace(append, term=4))
    ready = node.ready()
    assert any(isinstance(sent, AppendReply) and sent.accepted for sent in ready.messages_after_sync)
    assert node.is_promotable()


def test_a_slow_disk_is_not_sent_more_than_it_can_write() -> None:
    node = damaged_node([(1, 1001)], last=1000)
    stored = node.log.stored
    assert isinstance(stored, MemoryLog)
    node.messages.clear()
    stored.unsaved_bytes = REPAIR_BYTES_MAX
    node.step(intact(1, 1, 11))
    assert requests(node) == []
    stored.unsaved_bytes = 0
    for _ in range(10):
        node.tick()
    assert (1, 11, 1001) in requests(node)


def test_damage_found_during_a_repair_is_asked_for_after_the_rest() -> None:
    node = damaged_node([(1, 101)], last=1000)
    node.messages.clear()
    node.step(intact(1, 1, 11))
    requests(node)
    node.log.found_damage = [(500, 600)]
    repair.begin(node)
    assert requests(node) == [], "what was asked for is on its way"
    node.step(intact(1, 11, 21))
    assert (1, 500, 520) in requests(node)


def test_a_replica_asks_for_more_as_soon_as_its_disk_has_taken_the_last() -> None:
    node = damaged_node([(1, 1001)], last=1000)
    stored = node.log.stored
    assert isinstance(stored, MemoryLog)
    node.messages.clear()
    stored.unsaved_bytes = REPAIR_BYTES_MAX
    node.step(intact(1, 1, 11))
    node.step(intact(2, 1, 11))
    stored.unsaved_bytes = 0
    node.repairs_saved()
    asked = requests(node)
    assert {peer for peer, _, _ in asked} == {1, 2}
    assert len({low for _, low, _ in asked}) == len(asked), "nothing is asked for twice"


def test_entries_before_the_damage_are_applied_and_none_before_the_store_has_it() -> None:
    node = damaged_node([(5, 8), (20, 30)], last=40)
    node.log.committed = 40
    first = node.ready()
    assert [entry.index for entry in first.committed] == [1, 2, 3, 4]
    node.advance(first.number)
    node.step(intact(1, 5, 8))
    repairing = node.ready()
    assert [entry.index for entry in repairing.repaired] == [5, 6, 7]
    assert repairing.committed == [], "the store gets the repaired entries with this Ready"
    node.advance(repairing.number)
    assert [entry.index for entry in node.ready().committed] == list(range(5, 20))


def test_without_its_state_a_replica_applies_nothing() -> None:
    node = damaged_node([(0, 1)], last=10)
    node.log.committed = 10
    assert node.ready().committed == []
