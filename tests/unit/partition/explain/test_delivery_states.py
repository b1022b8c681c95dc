"""The table of delivery states: complete, and without ways out of the end."""

import pytest

from flotilla.partition.explain import delivery_states as states
from flotilla.partition.explain import explanation
from flotilla.partition.explain.delivery_states import STATE_BY_NAME, STATES, TRANSITIONS, reachable

#: Final states of an explanation without a transition that leads there.
UMBRELLA = states.SETTLED


def test_names_are_unique_and_transitions_are_between_them() -> None:
    assert len(STATE_BY_NAME) == len(STATES)
    assert len(set(TRANSITIONS)) == len(TRANSITIONS)
    for transition in TRANSITIONS:
        assert transition.before in STATE_BY_NAME
        assert transition.after in STATE_BY_NAME
        assert transition.decided in (states.LEADER, states.LOG)


def test_nothing_leads_out_of_a_final_state_and_something_out_of_every_other() -> None:
    left = {transition.before for transition in TRANSITIONS}
    assert {state.name for state in STATES if not state.is_final} == left


def test_every_state_can_be_reached() -> None:
    events = tuple(transition.event for transition in TRANSITIONS)
    found = {*reachable(states.READY, events), *reachable(states.DELAYED, events), UMBRELLA}
    assert found == set(STATE_BY_NAME)


def test_ends_are_decided_by_the_log() -> None:
    for transition in TRANSITIONS:
        if STATE_BY_NAME[transition.after].is_final or transition.after == states.DYING:
            assert transition.decided == states.LOG


@pytest.mark.parametrize(
    ("state", "events", "expected"),
    [
        (states.READY, (), [states.READY]),
        (states.READY, (states.POLLED,), [states.READY, states.LEASED]),
        (states.READY, (states.POLLED, states.ENDED), [states.READY, states.LEASED, states.SETTLING]),
        (states.ACKED, (states.POLLED, states.NEW_LEADER), [states.ACKED]),
        (states.DYING, (states.TRIM, states.CANCEL), [states.DYING]),
    ],
)
def test_reachable(state: str, events: tuple[str, ...], expected: list[str]) -> None:
    assert list(reachable(state, events)) == expected


def test_every_end_that_is_remembered_is_a_final_state() -> None:
    assert all(STATE_BY_NAME[name].is_final for name in explanation._ENDED.values())
