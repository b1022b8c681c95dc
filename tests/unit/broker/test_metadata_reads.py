"""Requests that need metadata which their node does not have yet: it asks the leader, waits a moment, or says so."""

from collections.abc import Callable

import pytest

from flotilla.broker.metadata_reads import REACH_MS_MAX, RETRY_MS, WaitingRequest
from flotilla.types.ids import Index
from flotilla.types.operations import (
    AlterGroup,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    GetMetadata,
    ListOffsets,
    Metadata,
    Produce,
    Request,
)
from flotilla.types.operations.cluster import METADATA_CONFIRM_MS_MAX
from tests.unit.broker.fleet import Answer, Fleet, Node, batch


def followers(fleet: Fleet) -> list[Node]:
    """Nodes that know a change of the metadata only a tick later."""
    return [box for box in fleet.nodes.values() if box is not fleet.controller()]


def change(fleet: Fleet, request: Request) -> Index:
    """Makes a change, and returns the index that its client has seen. No follower has applied it."""
    controller = fleet.controller()
    others = [box for box in fleet.nodes.values() if box is not controller]
    answer = controller.ask(request)
    while answer.is_waiting:
        for box in (*others, controller):
            fleet.turn(box)
    assert answer.code in ("TopicReply", "GroupReply"), answer.result
    index = controller.broker.metadata_index
    assert all(box.broker.metadata_index < index for box in others)
    return index


def topics_in(answer: Answer) -> list[str]:
    metadata = answer.result
    assert isinstance(metadata, Metadata)
    assert not metadata.is_stale
    return [topic.name for topic in metadata.topics]


def test_a_node_that_is_behind_asks_its_leader_and_answers_without_waiting_for_time():
    fleet = Fleet(3).form()
    for request, expected in (
        (CreateTopic("orders", 1, 3), ["orders"]),
        (AlterTopic("orders", settings={"retention_ms": "60000"}), ["orders"]),
        (AlterGroup("orders", "workers", {"visibility_ms": "500"}), ["orders"]),
        (DeleteTopic("orders"), []),
    ):
        others = followers(fleet)
        index = change(fleet, request)
        for box in others:
            assert topics_in(box.call(GetMetadata(), index)) == expected
            assert box.broker.metadata_index >= index
    fleet.check_answers()


def test_the_leader_of_a_partition_is_asked_before_it_has_applied_the_topic():
    fleet = Fleet(3).form()
    others = followers(fleet)
    index = change(fleet, CreateTopic("orders", 3, 3))
    for box in others:
        # Not NOT_FOUND: the node has waited for the topic, and hosts it or says which node leads.
        answer = box.ask(ListOffsets("orders", 0, -2), index)
        fleet.wait(lambda answer=answer: not answer.is_waiting)
        assert answer.code in ("OffsetFound", "NOT_LEADER", "UNAVAILABLE")


def test_a_partition_follows_settings_that_its_client_has_seen(monkeypatch: pytest.MonkeyPatch):
    """Also at the moment when the node has applied them, and its partitions have not."""
    fleet = Fleet(3).form()
    fleet.create("orders", 3)
    leader = next(box for number in range(3) if (box := fleet.leader("orders", number)) is not fleet.controller())
    number = next(number for number in range(3) if fleet.leader("orders", number) is leader)
    index = change(fleet, AlterTopic("orders", settings={"payload_bytes_max": "10"}))
    held: list[Callable[[], None]] = []
    later = leader.later

    def hold(delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        if delay_ms:
            return later(delay_ms, action)
        held.append(action)
        return lambda: None

    with monkeypatch.context() as patch:
        # What follows a change in the same turn of the loop waits.
        patch.setattr(leader, "later", hold)
        fleet.wait(lambda: leader.machine.applied >= index)
        answer = leader.call(Produce("orders", number, batch(b"x" * 100)), index)
        assert answer.is_waiting
    for action in held:
        action()
    fleet.settle()
    assert answer.code == "INVALID_ARGUMENT"


def test_changes_that_concern_no_topic_and_no_group_move_no_index():
    fleet = Fleet(3).form()
    before = [box.broker.metadata_index for box in fleet.nodes.values()]
    fleet.restart(2)
    fleet.wait(lambda: fleet.nodes[2].broker.catalog.is_complete)
    assert [box.broker.metadata_index for box in fleet.nodes.values()] == before


def test_a_node_that_cannot_catch_up_says_so_and_describes_what_it_knows_as_stale():
    fleet = Fleet(3).form()
    fleet.create("old", 1)
    fleet.advance(500)
    behind = followers(fleet)[0]
    fleet.isolate(behind.node)
    index = change(fleet, CreateTopic("new", 1))
    offsets, described = behind.ask(ListOffsets("old", 0, -1), index), behind.ask(GetMetadata(), index)
    named = behind.ask(GetMetadata(["new"]), index)
    fleet.advance(REACH_MS_MAX - 100)
    assert offsets.is_waiting
    assert described.is_waiting
    fleet.advance(200)
    assert offsets.code == "REPLICA_BEHIND"
    assert str(index) in str(offsets.result)
    assert isinstance(described.result, Metadata)
    assert described.result.is_stale
    assert [topic.name for topic in described.result.topics] == ["old"]
    # That there is no such topic would be a lie.
    assert named.code == "UNAVAILABLE"


def test_a_node_that_comes_back_in_time_answers():
    fleet = Fleet(3).form()
    behind = followers(fleet)[0]
    fleet.isolate(behind.node)
    index = change(fleet, CreateTopic("new", 1))
    answer = behind.call(GetMetadata(), index)
    assert answer.is_waiting
    fleet.heal(behind.node)
    fleet.wait(lambda: not answer.is_waiting, REACH_MS_MAX)
    assert topics_in(answer) == ["new"]


def test_a_linearizable_read_shows_all_that_was_acknowledged_to_others():
    fleet = Fleet(3).form()
    for number in range(5):
        change(fleet, CreateTopic(f"topic-{number}", 1))
        for box in fleet.nodes.values():
            assert len(topics_in(box.call(GetMetadata(is_linearizable=True)))) == number + 1
    fleet.check_answers()


def test_a_linearizable_read_without_a_quorum_is_answered_as_stale():
    fleet = Fleet(3).form()
    fleet.create("orders", 1)
    fleet.advance(500)
    left, *others = fleet.nodes.values()
    for box in others:
        fleet.kill(box.node)
    answer = left.ask(GetMetadata(is_linearizable=True))
    fleet.advance(METADATA_CONFIRM_MS_MAX - 100)
    assert answer.is_waiting
    fleet.advance(200)
    assert isinstance(answer.result, Metadata)
    assert answer.result.is_stale
    assert [topic.name for topic in answer.result.topics] == ["orders"]


def test_a_node_that_is_not_part_of_a_cluster_refuses_at_once():
    waiting = Fleet(3).form().add(4)
    for request, index in ((GetMetadata(is_linearizable=True), 0), (GetMetadata(["orders"]), 7)):
        answer = waiting.call(request, index)
        assert answer.code == "UNAVAILABLE"
        assert "not part of a cluster yet" in str(answer.result)


def test_an_index_that_the_cluster_does_not_have_is_refused_at_once():
    fleet = Fleet(3).form()
    for box in fleet.nodes.values():
        answer = box.call(GetMetadata(), 10_000)
        assert answer.code == "INVALID_ARGUMENT"
        assert "10000" in str(answer.result)


def test_a_waiting_request_that_is_cancelled_is_not_answered():
    fleet = Fleet(3).form()
    behind = followers(fleet)[0]
    fleet.isolate(behind.node)
    index = change(fleet, CreateTopic("new", 1))
    answer = behind.ask(ListOffsets("new", 0, -1), index)
    assert answer.cancel is not None
    answer.cancel()
    fleet.advance(REACH_MS_MAX + RETRY_MS)
    assert answer.is_waiting


class Stream:
    def __init__(self) -> None:
        self.credit = 0
        self.cancels = 0
        self.ended: list[object] = []

    def end(self, ended: object) -> None:
        self.ended.append(ended)

    def add_credit(self, messages: int) -> None:
        self.credit += messages

    def __call__(self) -> None:
        self.cancels += 1


def test_credit_that_comes_while_a_subscription_waits_for_metadata_is_kept():
    waiting, stream, stopped = WaitingRequest(), Stream(), []
    waiting.waits(lambda: stopped.append(True))
    waiting.add_credit(3)
    waiting.started(stream)
    waiting.add_credit(4)
    assert stream.credit == 7
    waiting()
    assert (stream.cancels, stopped) == (1, [])


def test_a_subscription_that_waits_for_metadata_is_ended_at_once_and_then_by_itself():
    waiting, stream, said = WaitingRequest(), Stream(), []
    waiting.waits(lambda: said.append("stopped"))
    waiting.end(lambda: said.append("ended"))
    assert said == ["stopped", "ended"]
    waiting.started(stream)
    waiting.end(said.clear)
    assert (len(stream.ended), said) == (1, ["stopped", "ended"])
