"""The hold of a backup: for a moment nothing is settled at this node, and no transaction is committed.

A backup takes a point of every log, one after the other. Without more, it could have the acknowledgement of a message
and not what its consumer produced first. Under a hold at all nodes it cannot: what is settled at any point was settled
before the hold, and what was produced before that is in front of every point. Messages are produced and delivered as
usual meanwhile. A hold ends by itself, because the backup may be gone.
"""

from collections.abc import Callable
from typing import Final

from flotilla.types.errors import InvalidArgumentError, UnavailableError

#: Clients of settlements wait: much shorter than their deadlines and than leases.
HOLD_MS_MAX: Final = 5_000


class BackupHold:
    def __init__(self, later: Callable[[int, Callable[[], None]], Callable[[], None]]) -> None:
        """`later` runs an action after a delay and returns its cancellation."""
        self._later = later
        self._hold_id = ""
        self._stop_timer: Callable[[], None] | None = None
        self._waiting: list[Callable[[], None]] = []

    @property
    def is_on(self) -> bool:
        return bool(self._hold_id)

    def begin(self, hold_id: str, hold_ms: int) -> None:
        """Repeating it changes nothing.

        Raises UnavailableError while another backup holds, InvalidArgumentError for a time out of bounds.
        """
        if not hold_id or not 0 < hold_ms <= HOLD_MS_MAX:
            raise InvalidArgumentError(f"a hold has an id and lasts for 1 to {HOLD_MS_MAX} ms")
        if hold_id == self._hold_id:
            return
        if self._hold_id:
            raise UnavailableError("another backup holds settlements at this node; try again")
        self._hold_id = hold_id
        self._stop_timer = self._later(hold_ms, self.release)

    def end(self, hold_id: str) -> bool:
        """False: this hold is not in force any more, or never was."""
        if not hold_id or hold_id != self._hold_id:
            return False
        self.release()
        return True

    def run(self, action: Callable[[], None]) -> None:
        """Now, or when the hold ends."""
        if self._hold_id:
            self._waiting.append(action)
        else:
            action()

    def release(self) -> None:
        """Ends whatever hold there is: its time is over, or the node stops."""
        if self._stop_timer is not None:
            self._stop_timer()
            self._stop_timer = None
        self._hold_id = ""
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()
