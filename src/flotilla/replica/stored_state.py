"""The state that a replica starts from: the newest snapshot of its log, read and decoded.

That may take seconds for a large one, so any thread may do it. Until the replica exists, nothing changes its log.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flotilla.raft.messages import Snapshot
from flotilla.replica.ports import GroupLog, StateMachine
from flotilla.types.errors import CorruptionError, FlotillaError
from flotilla.types.ids import GroupId


@dataclass(slots=True)
class StoredState:
    #: None: the log begins without one, or it is lost.
    snapshot: Snapshot | None
    #: For the machine's `restore`.
    decoded: Any = None
    #: It is damaged: the leader's must replace it.
    is_lost: bool = False


def read_state(log: GroupLog, machine: StateMachine) -> StoredState:
    """Raises CorruptionError for intact bytes that are no snapshot."""
    try:
        snapshot = log.read_snapshot()
    except CorruptionError:
        return StoredState(None, is_lost=True)
    return StoredState(snapshot, None if snapshot is None else machine.decode(snapshot.data))


class StateLoad:
    """Reads and decodes the state of a group that begins. Implements replica.ports.Load."""

    __slots__ = ("_done", "_log", "_machine", "_state", "group", "is_background", "path")

    def __init__(
        self,
        group: GroupId,
        log: GroupLog,
        machine: StateMachine,
        done: Callable[[StoredState | FlotillaError], None],
    ) -> None:
        self.group = group
        self.path = f"the snapshot of group {group}"
        self.is_background = False
        self._log = log
        self._machine = machine
        self._done = done
        self._state: StoredState | None = None

    def run(self) -> None:
        self._state = read_state(self._log, self._machine)

    def finish(self, error: FlotillaError | None) -> None:
        """On the loop."""
        result = error or self._state
        assert result is not None, "it did not run"
        self._state = None
        self._done(result)
