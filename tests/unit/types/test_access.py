"""Grants: what each covers, and a second evaluator that agrees on random cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.types.access import (
    ACTIONS,
    ALL,
    ANONYMOUS,
    ANYBODY,
    CONSUME,
    DESCRIBE,
    EVERYTHING,
    MANAGE,
    NODES,
    OPERATE,
    PRODUCE,
    TAKE_PART,
    Grant,
    Principal,
    Resource,
    allows,
    check_grant,
    check_user_name,
    deciding,
)
from flotilla.types.dead_letters import dead_letter_topic
from flotilla.types.errors import InvalidArgumentError

ANNA = Principal("user", "anna")
NODE_3 = Principal("node", "3")


def may(grants: list[Grant], right: str, topic: str = "", group: str = "") -> bool:
    return allows(grants, ANNA, right, [Resource(topic, group)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("grant", "right", "resource", "is_allowed"),
    [
        (Grant("anna", PRODUCE, "orders"), PRODUCE, ("orders",), True),
        (Grant("anna", PRODUCE, "orders"), PRODUCE, ("orders2",), False),
        (Grant("anna", PRODUCE, "orders*"), PRODUCE, ("orders2",), True),
        (Grant("anna", PRODUCE, "orders"), CONSUME, ("orders",), False),
        (Grant("anna", PRODUCE, "orders"), DESCRIBE, ("orders",), True),
        (Grant("anna", PRODUCE, "orders"), DESCRIBE, ("orders", "billing"), False),
        (Grant("anna", PRODUCE, "orders"), MANAGE, ("orders",), False),
        (Grant("anna", CONSUME, "orders", "billing"), CONSUME, ("orders", "billing"), True),
        (Grant("anna", CONSUME, "orders", "billing"), CONSUME, ("orders", "mail"), False),
        (Grant("anna", CONSUME, "orders", "billing"), CONSUME, ("orders",), True),
        (Grant("anna", CONSUME, "orders", "b*"), DESCRIBE, ("orders", "billing"), True),
        (Grant("anna", CONSUME, "orders"), TAKE_PART, ("orders",), True),
        (Grant("anna", DESCRIBE, "orders"), TAKE_PART, ("orders",), False),
        (Grant("anna", MANAGE, "orders", "billing"), MANAGE, ("orders", "billing"), True),
        (Grant("anna", MANAGE, "orders", "billing"), MANAGE, ("orders",), False),
        (Grant("anna", MANAGE, "orders"), CONSUME, ("orders",), False),
        (Grant("anna", MANAGE, "a*"), MANAGE, EVERYTHING, False),
        (Grant("anna", MANAGE), MANAGE, EVERYTHING, True),
        (Grant("anna", OPERATE), OPERATE, (), True),
        (Grant("anna", OPERATE), DESCRIBE, ("orders", "billing"), True),
        (Grant("anna", OPERATE), PRODUCE, ("orders",), False),
        (Grant("anna", MANAGE), OPERATE, (), False),
        (Grant("anna", OPERATE), NODES, (), False),
    ],
)
def test_what_a_grant_allows(grant, right, resource, is_allowed):
    assert may([grant], right, *resource) is is_allowed


def test_who_asks_decides_too():
    everything = [Grant("anna", action) for action in ACTIONS]
    assert allows([], NODE_3, NODES, [Resource()])
    assert allows([], NODE_3, MANAGE, [Resource("orders")])
    assert not allows(everything, ANONYMOUS, ANYBODY, [])
    assert not allows(everything, ANONYMOUS, PRODUCE, [Resource("orders")])
    assert allows([], ANNA, ANYBODY, [])
    assert not allows(everything, ANNA, NODES, [])


def test_every_resource_needs_the_right():
    grants = [Grant("anna", PRODUCE, "a"), Grant("anna", CONSUME, "b")]
    assert allows(grants, ANNA, TAKE_PART, [Resource("a"), Resource("b")])
    assert not allows(grants, ANNA, TAKE_PART, [Resource("a"), Resource("c")])


@pytest.mark.parametrize("group", ["billing", "eu.billing", "a..b"])
@pytest.mark.parametrize("topic", ["orders", "eu.orders"])
def test_dead_letters_follow_their_topic_and_group(topic, group):
    letters = dead_letter_topic(group, topic)
    manager = [Grant("anna", MANAGE, topic, group)]
    for right in (PRODUCE, CONSUME, DESCRIBE, MANAGE):
        assert may(manager, right, letters)
    assert not may([Grant("anna", MANAGE, topic, "other")], CONSUME, letters)
    assert not may([Grant("anna", MANAGE, "other", group)], CONSUME, letters)
    assert not may([Grant("anna", CONSUME, topic, group)], CONSUME, letters)
    assert may([Grant("anna", CONSUME, letters)], CONSUME, letters)


def test_a_group_with_dots_gives_no_way_to_the_letters_of_another_topic():
    assert not may([Grant("anna", MANAGE, "orders")], CONSUME, dead_letter_topic("x", "eu.orders"))


@pytest.mark.parametrize("name", ["", ".anna", "an na", "a" * 129, "änna", "a\n", "a=b,c"])
def test_bad_names_of_users(name):
    with pytest.raises(InvalidArgumentError):
        check_user_name(name)


@pytest.mark.parametrize(
    "grant",
    [
        Grant("anna", "eat"),
        Grant("anna", PRODUCE, ""),
        Grant("anna", PRODUCE, "a*b"),
        Grant("anna", PRODUCE, "a b"),
        Grant("anna", PRODUCE, "orders", "billing"),
        Grant("anna", CONSUME, "orders", ""),
        Grant("anna", OPERATE, "orders"),
        Grant("", PRODUCE, "orders"),
    ],
)
def test_bad_grants(grant):
    with pytest.raises(InvalidArgumentError):
        check_grant(grant)


# The second evaluator: by the words of docs/security.md, over strings, without the tables of the first.


def _matches(pattern: str, name: str) -> bool:
    return name[: len(pattern) - 1] + "*" == pattern if pattern[-1] == "*" else pattern == name


def says(action: str, topic: str, group: str, right: str, on_topic: str, on_group: str) -> bool:
    if not _matches(topic, on_topic):
        return False
    if right == "describe":
        if action == "produce":
            return on_group == ""
        return on_group == "" or _matches(group, on_group)
    if right == "produce or consume":
        return action in ("produce", "consume") and (
            on_group == "" or (action == "consume" and _matches(group, on_group))
        )
    if action != right:
        return False
    if right == "consume" and on_group == "":
        return True
    if on_group == "":
        return group == "*"
    return right != "produce" and _matches(group, on_group)


NAMES = ("", "a", "ab", "abc", "b", "b.c")
PATTERNS = ("*", "a", "ab", "a*", "ab*", "b*", "b.c")
GRANTS = st.builds(
    Grant, st.just("anna"), st.sampled_from(ACTIONS), st.sampled_from(PATTERNS), st.sampled_from(PATTERNS)
)


@given(
    st.lists(GRANTS, max_size=4),
    st.sampled_from((*ACTIONS, TAKE_PART)),
    st.sampled_from((*NAMES, ALL)),
    st.sampled_from((*NAMES, ALL)),
)
def test_a_second_evaluator_agrees(grants, right, topic, group):
    expected = [grant for grant in grants if says(grant.action, grant.topic, grant.group, right, topic, group)]
    assert deciding(grants, right, Resource(topic, group)) == (expected[0] if expected else None)
