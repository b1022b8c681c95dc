"""The I/O that the driver asks of its owner: the runtime of a node, or the simulator."""

from typing import Final, Protocol

from flotilla.raft.messages import Message
from flotilla.replica.ports import Block, Job, Load, Remains
from flotilla.types.ids import GroupId, NodeId

#: Where the simulator may cut the power: one point after each step of the pump. `saved` is before the sync, `synced`
#: after it.
CRASH_POINTS: Final = (
    "saved",
    "syncing",
    "synced",
    "sent",
    "applied",
    "replied",
    "installing",
    "installed",
    "snapshot",
    "maintained",
)


class DriverPorts(Protocol):
    """The I/O of the driver. No call may re-enter the driver."""

    def send(self, to: NodeId, messages: list[tuple[GroupId, Message]]) -> None: ...

    def tell_room(self, room: int) -> None:
        """Tells all peers how much room the disk has; `Driver.peer_room` takes it there. It may be lost."""

    def write(self, block: Block) -> None:
        """Starts `store.write_block(block)`; `block_written` reports its end."""

    def run(self, job: Job) -> None:
        """Starts `job.run()`; `job_done` reports its end."""

    def load(self, load: Load) -> None:
        """Starts `load.run()`, which may take any time; `load_done` reports its end."""

    def discard(self, remains: Remains) -> None:
        """Frees a state that was replaced, step by step."""

    def reply(self, token: object, result: object) -> None: ...

    def crash_point(self, name: str) -> None:
        """One of CRASH_POINTS was reached."""

    def group_failed(self, group: GroupId, failure: Exception) -> None:
        """The group was cut off. It may raise instead of going on."""
