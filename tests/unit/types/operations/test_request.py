"""An operation states its reply, route and effect, and derives the rest."""

import sys
from dataclasses import dataclass

import pytest

from flotilla.codec.batch.records import encode_batch
from flotilla.types import operations as ops
from flotilla.types.access import ANYBODY, CONSUME, DESCRIBE, MANAGE, NODES, OPERATE, PRODUCE, TAKE_PART
from flotilla.types.operations import ANY, CONTROLLER, ONCE, PARTITION_LEADER, READ, REPEATABLE, Route
from flotilla.types.records import Record


def _shipped(base: type) -> list[type]:
    """Without the classes of other tests, and without those that `dataclass(slots=True)` has replaced."""
    kinds = [kind for kind in base.__subclasses__() if kind.__module__.startswith("flotilla.types.")]
    return [kind for kind in kinds if getattr(sys.modules[kind.__module__], kind.__name__) is kind]


def test_every_operation_is_listed_by_its_name_and_every_reply_is_used():
    assert set(ops.OPERATIONS.values()) == set(_shipped(ops.Request))
    assert {kind.reply for kind in ops.OPERATIONS.values()} == set(_shipped(ops.Reply))
    assert ops.OPERATIONS["create_topic"] is ops.CreateTopic
    assert ops.OPERATIONS["produce"] is ops.Produce


@pytest.mark.parametrize(
    ("request_", "route", "effect"),
    [
        (ops.DrainNode(1), CONTROLLER, REPEATABLE),
        (ops.GetMetadata(), ANY, READ),
        (ops.Fetch("t", 3, 0, 1), Route("t", 3), READ),
        (ops.TakeTokens("t", "g", 1), Route("t", 0), REPEATABLE),
        (ops.Poll("t", "g", "m", [4, 5]), Route("t", 4), READ),
        (ops.Poll("t", "g", "m"), Route("t", 0), READ),
        (ops.CommitOffset("g", "t", 1, 7), Route("t", 1), REPEATABLE),
        (ops.CommitOffset("g", "t", 1, 7, reset=True), Route("t", 1), ONCE),
        (ops.ResetGroup("t", 1, "g", ops.FROM_EARLIEST), Route("t", 1), ONCE),
        (ops.ResetGroup("t", 1, "g", ops.FROM_EARLIEST, is_dry_run=True), Route("t", 1), READ),
        (ops.Produce("t", 1, encode_batch([Record(b"x")])), Route("t", 1), ONCE),
        (ops.Produce("t", 1, encode_batch([Record(b"x")], producer_id=7)), Route("t", 1), REPEATABLE),
        (ops.Produce("t", 1, b"no batch"), Route("t", 1), ONCE),
    ],
)
def test_route_and_effect(request_, route, effect):
    assert (request_.route, request_.effect) == (route, effect)


def test_requests_have_slots():
    assert not hasattr(ops.DrainNode(1), "__dict__")
    assert not hasattr(ops.Produce("t", 0, b""), "__dict__")


def test_an_operation_without_its_facts_cannot_be_defined():
    with pytest.raises(TypeError, match="reply"):

        @dataclass(slots=True)
        class NoReply(ops.Request, to=ANY, effect=READ):
            pass

    with pytest.raises(TypeError, match="effect"):

        @dataclass(slots=True)
        class NoEffect(ops.Request[ops.Done], to=ANY, needs=ANYBODY):
            pass

    with pytest.raises(TypeError, match="route"):

        @dataclass(slots=True)
        class NoRoute(ops.Request[ops.Done], effect=READ, needs=ANYBODY):
            pass

    with pytest.raises(TypeError, match="names none"):

        @dataclass(slots=True)
        class NoPartition(ops.Request[ops.Done], to=PARTITION_LEADER, effect=READ, needs=DESCRIBE):
            topic: str

    with pytest.raises(TypeError, match="right"):

        @dataclass(slots=True)
        class NoRight(ops.Request[ops.Done], to=ANY, effect=READ):
            topic: str

    with pytest.raises(TypeError, match="on what"):

        @dataclass(slots=True)
        class NoResource(ops.Request[ops.Done], to=ANY, effect=READ, needs=MANAGE):
            name: str


@pytest.mark.parametrize(
    ("request_", "right", "resources"),
    [
        (ops.Produce("t", 1, b""), PRODUCE, [("t", "")]),
        (ops.Poll("t", "g", "m"), CONSUME, [("t", "g")]),
        (ops.GetMetadata(["t"]), ANYBODY, [("", "")]),
        (ops.DrainNode(1), OPERATE, [("", "")]),
        (ops.TakeTokens("t", "g", 1), NODES, [("t", "g")]),
        (ops.PauseSchedule("nightly"), MANAGE, [("*", "")]),
        (ops.ExplainMessage("t", 0, 1, "g"), DESCRIBE, [("t", "g")]),
        (ops.ExplainMessage("t", 0, 1, "g", has_record=True), CONSUME, [("t", "g")]),
        (ops.CommitTransaction("x", [("t", 0), ("t", 1), ("u", 0)]), TAKE_PART, [("t", ""), ("u", "")]),
        (ops.AbortTransaction("x"), TAKE_PART, [("*", "")]),
        (ops.AlterGroup("t", "g", {"paused": "1"}), MANAGE, [("t", "g")]),
        (ops.AlterGroup("t", "g", {"dead_letter_topic": "u"}), MANAGE, [("t", "g"), ("u", "")]),
    ],
)
def test_rights_and_resources(request_, right, resources):
    assert (request_.needs, list(request_.resources)) == (right, resources)


def test_metadata_are_narrowed_to_what_may_be_described():
    def may(right, resource):
        return (right, resource.topic) in {(DESCRIBE, "a"), (DESCRIBE, "b"), (MANAGE, "b")}

    assert ops.GetMetadata().narrowed(may) == ops.GetMetadata()
    assert ops.GetMetadata(["a", "x"]).narrowed(may) == ops.GetMetadata(["a"])
    assert ops.GetMetadata(["x"], create=True).narrowed(may) == ops.GetMetadata([""])
    assert ops.GetMetadata(["a"], create=True).narrowed(may) == ops.GetMetadata(["a"])
    assert ops.GetMetadata(["b"], create=True).narrowed(may) == ops.GetMetadata(["b"], create=True)
    topics = [ops.TopicInfo(name, number, [], {}) for number, name in enumerate("axb")]
    shown = ops.GetMetadata().visible(ops.Metadata("", 1, [], topics), may)
    assert [topic.name for topic in shown.topics] == ["a", "b"]


def test_a_page_of_topics_is_cut_out_of_those_that_may_be_described():
    topics = [ops.TopicInfo(name, 0, [], {}) for name in ("b1", "a2", "a1", "a3", "hidden-a")]
    request = ops.GetMetadata(search="a", after="a1", limit=1)
    assert [[topic.name for topic in page] for page in request.page_of(topics)[:1]] == [["a2"]]
    assert request.page_of(topics)[1] == 4
    assert ops.GetMetadata().page_of(topics) == (topics, 5)

    def may(right, resource):
        return (right, resource.topic[:1]) in {(DESCRIBE, "a"), (DESCRIBE, "b")}

    asked = request.narrowed(may)
    assert asked == ops.GetMetadata(search="a")
    shown = request.visible(ops.Metadata("", 1, [], asked.page_of(topics)[0]), may)
    assert ([topic.name for topic in shown.topics], shown.total) == (["a2"], 3)
    assert request.narrowed(lambda right, resource: True) == request


def test_lists_of_groups_show_what_may_be_described():
    def may(right, resource):
        return (right, *resource) == (DESCRIBE, "t", "mine")

    groups = ops.GroupList({"mine": "queue", "other": "queue"})
    assert ops.ListGroups("t", 0).visible(groups, may) == ops.GroupList({"mine": "queue"})
    streams = ops.StreamGroupList(["mine", "other"])
    assert ops.ListStreamGroups("t").visible(streams, may) == ops.StreamGroupList(["mine"])
