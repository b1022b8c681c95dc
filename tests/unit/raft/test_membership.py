"""The configuration after each change, and that every accepted change keeps the group safe."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.raft.membership import (
    ADD_LEARNER,
    ADD_VOTER,
    AUTO,
    CHANGES_MAX,
    EXPLICIT,
    IMPLICIT,
    REMOVE,
    Change,
    ConfigurationChange,
    apply_change,
    enter_joint,
    leave_joint,
    simple,
)
from flotilla.raft.messages import Configuration
from flotilla.raft.quorum import has_quorum
from flotilla.types.errors import ConfigurationChangeError
from flotilla.types.ids import NodeId

NODES = range(1, 6)
THREE = Configuration(voters=(1, 2, 3))
JOINT = Configuration(voters=(1, 2, 4), outgoing=(1, 2, 3), learners_next=(3,), auto_leave=True)

one_change = st.builds(Change, st.sampled_from([ADD_VOTER, ADD_LEARNER, REMOVE]), st.sampled_from(NODES))
change_tuples = st.lists(one_change, max_size=5).map(tuple)
whole_changes = st.builds(ConfigurationChange, change_tuples, st.sampled_from([AUTO, IMPLICIT, EXPLICIT]))


def adding(*nodes: NodeId) -> tuple[Change, ...]:
    return tuple(Change(ADD_VOTER, node) for node in nodes)


def removing(*nodes: NodeId) -> tuple[Change, ...]:
    return tuple(Change(REMOVE, node) for node in nodes)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (ConfigurationChange(adding(4)), Configuration(voters=(1, 2, 3, 4))),
        (ConfigurationChange(removing(2)), Configuration(voters=(1, 3))),
        (ConfigurationChange((Change(ADD_LEARNER, 9),)), Configuration(voters=(1, 2, 3), learners=(9,))),
        (ConfigurationChange((Change(ADD_LEARNER, 3),)), Configuration(voters=(1, 2), learners=(3,))),
        (ConfigurationChange(adding(1)), THREE),
        (ConfigurationChange(removing(9)), THREE),
        (
            ConfigurationChange(adding(4), IMPLICIT),
            Configuration(voters=(1, 2, 3, 4), outgoing=(1, 2, 3), auto_leave=True),
        ),
        (ConfigurationChange(adding(4), EXPLICIT), Configuration(voters=(1, 2, 3, 4), outgoing=(1, 2, 3))),
        (
            ConfigurationChange((*adding(4), Change(ADD_LEARNER, 3))),
            Configuration(voters=(1, 2, 4), outgoing=(1, 2, 3), learners_next=(3,), auto_leave=True),
        ),
    ],
)
def test_a_change_goes_the_way_its_transition_says(change: ConfigurationChange, expected: Configuration) -> None:
    assert apply_change(THREE, change) == expected


@pytest.mark.parametrize(
    ("before", "change", "message"),
    [
        (THREE, ConfigurationChange(), "can't leave a non-joint config"),
        (JOINT, ConfigurationChange(adding(5)), "can't apply simple config change in joint config"),
        (JOINT, ConfigurationChange(adding(5, 6)), "config is already joint"),
        (THREE, ConfigurationChange(removing(1, 2, 3)), "removed all voters"),
        (Configuration(voters=(1,)), ConfigurationChange(removing(1)), "removed all voters"),
        (Configuration(), ConfigurationChange(adding(1, 2)), "can't make a zero-voter config joint"),
        (THREE, ConfigurationChange((Change(7, 1),)), "unknown kind of change 7"),
        (THREE, ConfigurationChange(adding(-1)), "node id -1 is out of range"),
        (THREE, ConfigurationChange(adding(1 << 64)), f"node id {1 << 64} is out of range"),
        (THREE, ConfigurationChange(adding(4), 9), "unknown transition 9"),
        (THREE, ConfigurationChange(adding(*range(1, CHANGES_MAX + 2))), f"more than {CHANGES_MAX} changes at once"),
    ],
)
def test_an_impossible_change_is_refused_by_name(
    before: Configuration, change: ConfigurationChange, message: str
) -> None:
    with pytest.raises(ConfigurationChangeError, match=message.replace("(", r"\(")):
        apply_change(before, change)


def test_leaving_turns_demoted_voters_into_learners_and_drops_the_rest() -> None:
    joint = enter_joint(THREE, (*adding(4, 5), Change(ADD_LEARNER, 3), *removing(2)), auto_leave=False)
    assert joint.members() == (1, 2, 3, 4, 5)
    assert leave_joint(joint) == Configuration(voters=(1, 4, 5), learners=(3,))


def test_simple_refuses_two_voters_at_once() -> None:
    with pytest.raises(ConfigurationChangeError, match="more than one voter changed"):
        simple(THREE, adding(4, 5))


def reference(before: Configuration, changes: tuple[Change, ...]) -> Configuration:
    """The role that the last change of each node gives it, whatever the way there."""
    voters, learners = dict.fromkeys(before.voters), dict.fromkeys(before.learners)
    for change in changes:
        voters.pop(change.node, None)
        learners.pop(change.node, None)
        if change.kind != REMOVE:
            (voters if change.kind == ADD_VOTER else learners)[change.node] = None
    return Configuration(voters=tuple(sorted(voters)), learners=tuple(sorted(learners)))


@given(change_tuples, change_tuples)
def test_joint_then_leave_equals_the_set_of_changes(first: tuple[Change, ...], second: tuple[Change, ...]) -> None:
    configuration = THREE
    for changes in (first, second):
        expected = reference(configuration, changes)
        if not expected.voters:
            with pytest.raises(ConfigurationChangeError, match="removed all voters"):
                enter_joint(configuration, changes, auto_leave=True)
            return
        configuration = leave_joint(enter_joint(configuration, changes, auto_leave=True))
        assert configuration == expected


@given(change_tuples)
def test_simple_equals_the_set_of_changes_when_it_is_accepted(changes: tuple[Change, ...]) -> None:
    expected = reference(THREE, changes)
    changed = {*expected.voters} ^ {*THREE.voters}
    try:
        assert simple(THREE, changes) == expected
        assert len(changed) <= 1
    except ConfigurationChangeError:
        assert len(changed) > 1 or not expected.voters


def quorums(configuration: Configuration) -> list[set[NodeId]]:
    members = configuration.members()
    subsets = (set(chosen) for size in range(len(members) + 1) for chosen in combinations(members, size))
    return [subset for subset in subsets if has_quorum(configuration, subset)]


def check_invariants(configuration: Configuration) -> None:
    voters, outgoing = {*configuration.voters}, {*configuration.outgoing}
    learners, learners_next = {*configuration.learners}, {*configuration.learners_next}
    assert voters
    assert not learners & (voters | outgoing)
    assert learners_next <= outgoing - voters - learners
    assert outgoing or not configuration.auto_leave
    for half in (configuration.voters, configuration.outgoing, configuration.learners, configuration.learners_next):
        assert list(half) == sorted(set(half))


@given(st.lists(whole_changes, max_size=6))
def test_any_accepted_sequence_is_safe(changes: list[ConfigurationChange]) -> None:
    configuration = THREE
    for change in changes:
        try:
            after = apply_change(configuration, change)
        except ConfigurationChangeError:
            continue
        check_invariants(after)
        assert after == apply_change(configuration, change)
        before_quorums = quorums(configuration)
        assert all(quorum & other for quorum in quorums(after) for other in before_quorums)
        configuration = after
