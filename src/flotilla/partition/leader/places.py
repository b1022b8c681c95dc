"""The places of a taken message in the leader's memory: the values of one map of offsets (`GroupDelivery.taken`).

A message that is not in the map is settled, ready or delayed. Numbers, not an enum: the per-message path compares them.
"""

from typing import Final

#: A member holds it until a deadline.
LEASED: Final = 1
#: Settling: the outcome is in the outbox or in flight to the log.
ACKING: Final = 2
FAILING: Final = 3
KILLING: Final = 4
EXPIRING: Final = 5
DROPPING: Final = 6
#: Another message of its key has to be settled first.
BLOCKED: Final = 7
#: A transaction acks it or gives it back.
STAGED: Final = 8
#: Waits for its next attempt, until the time that is added to this number.
RETRYING: Final = 16
