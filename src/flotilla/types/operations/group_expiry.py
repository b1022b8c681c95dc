"""The operation by which the metadata's leader deletes a group that nobody has used for long, in each partition."""

from typing import Final

from flotilla.types.access import NODES
from flotilla.types.operations.request import PARTITION_LEADER, REPEATABLE, Reply, Request
from flotilla.types.slotted import slotted

#: Steps of the deletion: only say how long the group was not used; let nobody use it for a moment; delete it; end the
#: moment.
STEP_LOOK: Final = 0
STEP_HOLD: Final = 1
STEP_DELETE: Final = 2
STEP_RELEASE: Final = 3
STEPS: Final = (STEP_LOOK, STEP_HOLD, STEP_DELETE, STEP_RELEASE)


@slotted
class GroupUse(Reply):
    """A group in one partition after the step."""

    is_known: bool = False
    #: How long nobody has used it.
    unused_ms: int = 0
    #: Nobody can use it for a moment.
    is_held: bool = False


@slotted
class ExpireGroup(Request[GroupUse], to=PARTITION_LEADER, effect=REPEATABLE, needs=NODES):
    """One step of deleting a group of either kind. A group that was used meanwhile, or that never expires, stays."""

    topic: str
    partition: int
    group: str
    step: int
    #: As in Poll.
    topic_id: int = 0
