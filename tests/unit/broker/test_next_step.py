"""The next step towards the members that are wanted, case by case."""

import pytest

from flotilla.broker.cluster.moves import HandOver, Surroundings, is_settled, next_step
from flotilla.metadata.values import Move, Partition
from flotilla.raft.membership import ADD_LEARNER, ADD_VOTER, IMPLICIT, REMOVE, Change, ConfigurationChange
from flotilla.raft.messages import Configuration


def place(replicas: tuple[int, ...], target: tuple[int, ...] = (), lost: tuple[int, ...] = ()) -> Partition:
    return Partition(0, 16, replicas, founders=replicas, lost=lost, move=Move(1, target) if target else None)


def around(
    node: int = 1,
    down: tuple[int, ...] = (),
    behind: tuple[int, ...] = (),
    busy: tuple[int, ...] = (),
    forgetful: tuple[int, ...] = (),
) -> Surroundings:
    return Surroundings(
        node,
        lambda other: other not in down,
        lambda other: other not in behind,
        lambda other: other not in busy,
        forgetful,
    )


def change(*changes: tuple[int, int]) -> ConfigurationChange:
    return ConfigurationChange(tuple(Change(kind, node) for kind, node in changes))


def joint(*changes: tuple[int, int]) -> ConfigurationChange:
    return ConfigurationChange(tuple(Change(kind, node) for kind, node in changes), IMPLICIT)


V3 = Configuration(voters=(1, 2, 3))
V5 = Configuration(voters=(1, 2, 3, 4, 5))
V3L4 = Configuration(voters=(1, 2, 3), learners=(4,))
LOST3 = place((1, 2, 3), lost=(3,))
TO4 = place((1, 2, 3), (1, 2, 4))


@pytest.mark.parametrize(
    ("configuration", "wanted", "surroundings", "expected"),
    [
        # Nothing to do.
        (V3, place((1, 2, 3)), around(), None),
        (V3, place((1, 2, 3), (3, 2, 1)), around(), None),
        # A newcomer learns, when it is there and when it is its turn.
        (V3, TO4, around(), change((ADD_LEARNER, 4))),
        (V3, TO4, around(down=(4,)), None),
        (V3, TO4, around(busy=(4,)), None),
        (Configuration(voters=(1,)), place((1,), (1, 2, 3)), around(), change((ADD_LEARNER, 2))),
        (Configuration(voters=(1,)), place((1,), (1, 2, 3)), around(busy=(2,)), change((ADD_LEARNER, 3))),
        (Configuration(voters=(1,), learners=(3,)), place((1,), (1, 2, 3)), around(busy=(2,)), None),
        # It votes when it has caught up, and in the same step the other goes.
        (V3L4, TO4, around(behind=(4,)), None),
        (V3L4, TO4, around(down=(4,)), None),
        (V3L4, TO4, around(), joint((ADD_VOTER, 4), (REMOVE, 3))),
        # A dead one is replaced without being asked.
        (V3L4, TO4, around(down=(3,), behind=(3,)), joint((ADD_VOTER, 4), (REMOVE, 3))),
        # A leader that must leave hands over first, if there is an heir.
        (V3L4, place((1, 2, 3), (2, 3, 4)), around(), HandOver(2)),
        (V3L4, place((1, 2, 3), (2, 3, 4)), around(down=(2,)), HandOver(3)),
        (V3L4, place((1, 2, 3), (2, 3, 4)), around(behind=(2, 3)), joint((ADD_VOTER, 4), (REMOVE, 1))),
        (Configuration(voters=(1,), learners=(2,)), place((1,), (2,)), around(), joint((ADD_VOTER, 2), (REMOVE, 1))),
        # Members that could not agree are not made the only ones.
        (V3, place((1, 2, 3), (1, 2)), around(down=(2,)), None),
        (V5, place((1, 2, 3, 4, 5), (3, 4, 5)), around(down=(4, 5)), None),
        (V5, place((1, 2, 3, 4, 5), (3, 4, 5)), around(down=(5,)), HandOver(3)),
        # More and fewer replicas.
        (V3, place((1, 2, 3), (1, 2)), around(), change((REMOVE, 3))),
        (V3, place((1, 2, 3), (1,)), around(down=(2, 3)), joint((REMOVE, 2), (REMOVE, 3))),
        (V3L4, place((1, 2, 3), (1, 2, 3, 4)), around(), change((ADD_VOTER, 4))),
        # A plan that was given up takes its learner back.
        (V3L4, place((1, 2, 3), (1, 2, 3)), around(), change((REMOVE, 4))),
        # A lost disk comes before everything else.
        (V3, LOST3, around(), change((REMOVE, 3))),
        (V3L4, place((1, 2, 3), (1, 2, 4), lost=(3, 4)), around(), change((REMOVE, 3), (REMOVE, 4))),
        # A voter that forgot becomes a learner, also if it has caught up meanwhile, and votes again after that.
        (V3, place((1, 2, 3)), around(forgetful=(3,), behind=(3,)), change((ADD_LEARNER, 3))),
        (V3, place((1, 2, 3)), around(forgetful=(3,)), change((ADD_LEARNER, 3))),
        (V5, place((1, 2, 3, 4, 5)), around(forgetful=(4, 5), behind=(2,)), change((ADD_LEARNER, 4))),
        # The others could not go on without it: it stays until they can.
        (V3, place((1, 2, 3)), around(forgetful=(3,), down=(2,)), None),
        (V3, place((1, 2, 3)), around(forgetful=(3,), behind=(2,)), None),
        (V5, place((1, 2, 3, 4, 5)), around(forgetful=(5,), down=(3,), behind=(4,)), None),
        # Of two voters nobody misses anything, and one would acknowledge alone.
        (Configuration(voters=(1, 2)), place((1, 2)), around(forgetful=(2,)), None),
        # A replica that leaves anyway is replaced as planned.
        (V3L4, TO4, around(forgetful=(3,)), joint((ADD_VOTER, 4), (REMOVE, 3))),
        # Its node is not taken back before that has been confirmed.
        (Configuration(voters=(1, 2)), LOST3, around(), None),
        (Configuration(voters=(1, 2)), place((1, 2, 3)), around(), change((ADD_LEARNER, 3))),
        (Configuration(voters=(1, 2), learners=(3,)), place((1, 2, 3)), around(behind=(3,)), None),
        (Configuration(voters=(1, 2), learners=(3,)), place((1, 2, 3)), around(), change((ADD_VOTER, 3))),
    ],
)
def test_steps(configuration, wanted, surroundings, expected):
    assert next_step(configuration, wanted, surroundings) == expected


@pytest.mark.parametrize(
    ("configuration", "wanted", "is_done"),
    [
        (V3, place((3, 1, 2)), True),
        (V3, place((1, 2, 4), (2, 1, 3)), True),
        (V3L4, place((1, 2, 3)), False),
        (V3, TO4, False),
        (Configuration(voters=(1, 2, 4), outgoing=(1, 2, 3)), TO4, False),
    ],
)
def test_being_there(configuration, wanted, is_done):
    assert is_settled(configuration, wanted) is is_done
