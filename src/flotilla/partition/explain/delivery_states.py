"""The delivery states of a message for one queue group, and all transitions between them.

One table: the documentation and its diagram are generated from it, and the tests compare each change that they see with
it. A message has exactly one state for each group. A transition is decided either in the log, where every replica sees
it and no failure takes it back, or in the leader's memory, where a new leader starts again: for it every message is
ready that is neither settled nor waiting for a time.

A reset is not in the table: it starts the group again, and with it the state of every message.
"""

from typing import Final, NamedTuple


class State(NamedTuple):
    name: str
    is_final: bool
    help: str


class Transition(NamedTuple):
    before: str
    event: str
    after: str
    #: LEADER or LOG.
    decided: str


#: Where a transition is decided: in the leader's memory, or by a committed entry on every replica.
LEADER: Final = "leader"
LOG: Final = "log"

DELAYED: Final = "delayed"
READY: Final = "ready"
BLOCKED: Final = "blocked"
LEASED: Final = "leased"
SETTLING: Final = "settling"
STAGED: Final = "staged"
RETRYING: Final = "retrying"
DYING: Final = "dying"
ACKED: Final = "acked"
EXPIRED: Final = "expired"
DROPPED: Final = "dropped"
CANCELLED: Final = "cancelled"
DEAD: Final = "dead"
TRIMMED: Final = "trimmed"
SETTLED: Final = "settled"

STATES: Final[tuple[State, ...]] = (
    State(DELAYED, False, "Its time of delivery has not come."),
    State(READY, False, "The next poll may have it."),
    State(BLOCKED, False, "Another message of its key has to be settled first."),
    State(LEASED, False, "A member has it until the lease ends."),
    State(SETTLING, False, "Its lease has ended, and the outcome is being committed."),
    State(STAGED, False, "A transaction acks it when it commits; before the decision it is not delivered."),
    State(RETRYING, False, "It failed or was released, and waits for its next attempt."),
    State(DYING, False, "It had its last attempt, and is being copied to the dead-letter topic."),
    State(ACKED, True, "Done."),
    State(EXPIRED, True, "Found older than its time to live at delivery."),
    State(DROPPED, True, "Failed for the last time in a group that has no dead letters."),
    State(CANCELLED, True, "Cancelled before it was done."),
    State(DEAD, True, "In the dead-letter topic."),
    State(TRIMMED, True, "Removed by retention, a trim or a purge before it was done."),
    State(SETTLED, True, "One of the final states; it is not remembered which."),
)
STATE_BY_NAME: Final[dict[str, State]] = {state.name: state for state in STATES}

#: Events, as people read them.
DUE: Final = "its time comes"
POLLED: Final = "polled"
KEY_BUSY: Final = "polled while its key is busy"
KEY_FREE: Final = "its key is free"
RELEASED: Final = "released"
ENDED: Final = "settled by its member"
RAN_OUT: Final = "the lease expires"
LOST: Final = "the connection of its consumer is lost"
LOST_OFTEN: Final = "the connection of its consumer is lost once too often"
TOO_OLD: Final = "found too old at delivery"
LATE: Final = "settled late, while it is not leased"
PRESENTED: Final = "presented by the member of an earlier lease"
REFUSED: Final = "the log refuses it"
ACKED_WITHIN: Final = "acked within a transaction"
COMMITTED_TRANSACTION: Final = "the transaction commits"
ABORTED_TRANSACTION: Final = "the transaction is aborted"
COMMITTED_ACK: Final = "the ack commits"
COMMITTED_FAILURE: Final = "the failure commits"
COMMITTED_LAST: Final = "the last failure or a rejection commits"
COMMITTED_EXPIRY: Final = "the expiry commits"
BURIED: Final = "the dead letter is stored"
CANCEL: Final = "cancelled"
TRIM: Final = "trimmed"
NEW_LEADER: Final = "another leader takes over"

_OPEN: Final = (DELAYED, READY, BLOCKED, LEASED, SETTLING, STAGED, RETRYING)
_NOT_LEASED: Final = (READY, BLOCKED, RETRYING)

TRANSITIONS: Final[tuple[Transition, ...]] = (
    Transition(DELAYED, DUE, READY, LEADER),
    Transition(READY, POLLED, LEASED, LEADER),
    Transition(READY, KEY_BUSY, BLOCKED, LEADER),
    Transition(BLOCKED, KEY_FREE, READY, LEADER),
    Transition(LEASED, ENDED, SETTLING, LEADER),
    Transition(LEASED, RAN_OUT, SETTLING, LEADER),
    Transition(LEASED, LOST, READY, LEADER),
    Transition(LEASED, LOST, RETRYING, LEADER),
    Transition(LEASED, LOST_OFTEN, SETTLING, LEADER),
    Transition(LEASED, TOO_OLD, SETTLING, LEADER),
    Transition(LEASED, RELEASED, READY, LEADER),
    Transition(LEASED, RELEASED, RETRYING, LEADER),
    Transition(RETRYING, DUE, READY, LEADER),
    *(Transition(state, ACKED_WITHIN, STAGED, LOG) for state in (LEASED, *_NOT_LEASED, DELAYED)),
    Transition(STAGED, COMMITTED_TRANSACTION, ACKED, LOG),
    *(Transition(STAGED, ABORTED_TRANSACTION, state, LOG) for state in (READY, RETRYING, DELAYED)),
    *(Transition(STAGED, REFUSED, state, LEADER) for state in (LEASED, READY, RETRYING)),
    *(Transition(state, LATE, SETTLING, LEADER) for state in (*_NOT_LEASED, DELAYED)),
    *(Transition(state, PRESENTED, LEASED, LEADER) for state in (*_NOT_LEASED, DELAYED)),
    Transition(READY, RELEASED, RETRYING, LEADER),
    Transition(SETTLING, REFUSED, LEASED, LEADER),
    Transition(SETTLING, REFUSED, READY, LEADER),
    Transition(SETTLING, REFUSED, RETRYING, LEADER),
    Transition(SETTLING, COMMITTED_ACK, ACKED, LOG),
    Transition(SETTLING, COMMITTED_FAILURE, RETRYING, LOG),
    Transition(SETTLING, COMMITTED_LAST, DYING, LOG),
    Transition(SETTLING, COMMITTED_LAST, DROPPED, LOG),
    Transition(SETTLING, COMMITTED_EXPIRY, EXPIRED, LOG),
    Transition(DYING, BURIED, DEAD, LOG),
    *(Transition(state, CANCEL, CANCELLED, LOG) for state in _OPEN),
    *(Transition(state, TRIM, TRIMMED, LOG) for state in _OPEN),
    *(Transition(state, NEW_LEADER, READY, LEADER) for state in (BLOCKED, LEASED, SETTLING, RETRYING)),
    *(Transition(state, NEW_LEADER, RETRYING, LEADER) for state in (READY, LEASED, SETTLING)),
)


def reachable(state: str, events: tuple[str, ...]) -> tuple[str, ...]:
    """The states after any number of these events, from `state` on and with it; in the order of STATES."""
    found = {state: None}
    grew = True
    while grew:
        size = len(found)
        for transition in TRANSITIONS:
            if transition.before in found and transition.event in events:
                found[transition.after] = None
        grew = len(found) > size
    return tuple(each.name for each in STATES if each.name in found)
