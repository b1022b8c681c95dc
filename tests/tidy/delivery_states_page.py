"""The reference page of delivery states: `REWRITE=1 pytest tests/tidy/test_delivery_states_docs.py` writes it."""

from flotilla.partition.explain.delivery_states import LEADER, STATES, TRANSITIONS, State, Transition

PATH = "docs/reference/delivery-states.md"

_HEAD = """\
# Delivery states

A message has one state in each queue group, independent of its state in other groups. `flotilla why` prints the \
state of a message and what comes next.

Transitions are decided in one of two places. Those decided by the *log* are committed on a majority of disks before \
they count, are the same on every replica, and survive every leader. Those decided by the *leader*, above all leases, \
are in its memory and cost no log entry. For a new leader every unsettled message that waits for no time is ready. \
Members present the leases they hold to it; before all have, or a grace period is over, it delivers only what was \
stored in its own term.

A settled message stays settled. A reset of the group is not a transition: it creates the group again.

## The picture

Cancelling and trimming end every state that is not final, and a new leader begins with *ready*; the picture omits \
them, the table has them.

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
