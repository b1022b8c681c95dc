"""The reference page of delivery states: `REWRITE=1 pytest tests/tidy/test_delivery_states_docs.py` writes it."""

from flotilla.partition.explain.delivery_states import LEADER, STATES, TRANSITIONS, State, Transition

PATH = "docs/reference/delivery-states.md"

_HEAD = """\
# Delivery states

A message is in one state for each queue group, and its state in one group says nothing about its state in another. \
`flotilla why` names the state of a message and what comes next.

Changes are decided in one of two places. What the *log* decides is committed on a majority of disks before it \
counts, is the same on every replica, and survives every leader. What the *leader* decides is in its memory and costs \
no entry in the log: leases above all. A new leader begins with everything ready that is not settled and does not \
wait for a time. Members present what they hold to it within a grace, and nothing is delivered before that is over.

A message that is settled stays settled. A reset of the group is not a transition: it makes the group anew.

## The picture

Cancelling and trimming end every state that is not final, and a new leader begins with *ready*; they are left out \
here and stand in the table.

"""

_STATES_HEAD = """\
## States

| state | final | meaning |
| --- | --- | --- |
"""

_TRANSITIONS_HEAD = """\
## Transitions

| from | when | to | decided by the |
| --- | --- | --- | --- |
"""

#: Lead from everywhere to one state, and would hide the rest of the picture.
_NOT_DRAWN = ("cancelled", "trimmed", "another leader takes over")


def render() -> str:
    states = "".join(_state(state) for state in STATES)
    transitions = "".join(_transition(transition) for transition in TRANSITIONS)
    return f"{_HEAD}{_diagram()}\n{_STATES_HEAD}{states}\n{_TRANSITIONS_HEAD}{transitions}"


def _diagram() -> str:
    drawn = [transition for transition in TRANSITIONS if transition.event not in _NOT_DRAWN]
    arrows = dict.fromkeys((transition.before, transition.after) for transition in drawn)
    lines = ["    [*] --> delayed: with a time of delivery", "    [*] --> ready: without one"]
    for before, after in arrows:
        events = [each.event for each in drawn if (each.before, each.after) == (before, after)]
        lines.append(f"    {before} --> {after}: {', or '.join(events)}")
    reached = dict.fromkeys(after for _, after in arrows)
    lines += [f"    {state.name} --> [*]" for state in STATES if state.is_final and state.name in reached]
    return "```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```\n"


def _state(state: State) -> str:
    return f"| `{state.name}` | {'yes' if state.is_final else 'no'} | {state.help} |\n"


def _transition(transition: Transition) -> str:
    decided = "leader" if transition.decided == LEADER else "log"
    return f"| `{transition.before}` | {transition.event} | `{transition.after}` | {decided} |\n"
