"""The room on the disk of this node: above both watermarks, low, or so little that the node refuses new messages.

A node that refuses them keeps the rest for what frees room or ends work: acknowledgements, trims, deletions, membership
changes and decided transactions. It still stores what other leaders replicate to it, and hands its own leadership over
to nodes with room (`runtime/leadership`). It accepts messages again by itself as soon as there is room.
"""

from typing import Final, NamedTuple

from flotilla.runtime.observability.logs import get_logger
from flotilla.types.errors import DiskFullError
from flotilla.types.ids import NodeId
from flotilla.types.notation import SIZE_UNITS, Watermark
from flotilla.types.operations.cluster import DISK_LOW, DISK_REFUSES, NodeWarning

log = get_logger("disk")

#: A refused producer tries again after about this time.
_RETRY_MS: Final = 1_000


class Room(NamedTuple):
    """Of the file system with the data of a node. Zeros: not known."""

    free_bytes: int
    total_bytes: int


class DiskRoom:
    def __init__(self, node: NodeId, place: str, warn: Watermark, refuse: Watermark) -> None:
        """`place` names the disk for people: the data directory."""
        self._node = node
        self._place = place
        self._warn = warn
        self._refuse = refuse
        #: As of the last look.
        self.now = Room(0, 0)
        self.is_low = False
        self.is_refusing = False

    @property
    def warn_bytes(self) -> int:
        return self._warn.of_disk(self.now.total_bytes)

    @property
    def refuse_bytes(self) -> int:
        return self._refuse.of_disk(self.now.total_bytes)

    def saw(self, room: Room) -> None:
        """The result of a look."""
        was_low, was_refusing = self.is_low, self.is_refusing
        self.now = room
        # A disk that does not say how large it is has no watermarks.
        self.is_refusing = bool(room.total_bytes) and room.free_bytes < self.refuse_bytes
        self.is_low = self.is_refusing or (bool(room.total_bytes) and room.free_bytes < self.warn_bytes)
        facts = {"node": self._node, "data_dir": self._place, "free": readable(room.free_bytes)}
        if self.is_refusing and not was_refusing:
            log.error("the disk is nearly full: new messages are refused", **facts, disk_refuse_free=str(self._refuse))
        elif was_refusing and not self.is_refusing:
            log.info("the disk has room again: new messages are accepted", **facts)
        elif self.is_low and not was_low:
            log.warning("the disk is low on room", **facts, disk_warn_free=str(self._warn))
        elif was_low and not self.is_low:
            log.info("the disk has room again", **facts)

    def check(self) -> None:
        """Raises DiskFullError while new messages are refused."""
        if self.is_refusing:
            error = DiskFullError(f"{self._sentence(f'disk_refuse_free = {self._refuse}')}: it takes no new messages")
            error.retry_after_ms = _RETRY_MS
            raise error

    def warnings(self) -> list[NodeWarning]:
        if self.is_refusing:
            message = f"{self._sentence(f'disk_refuse_free = {self._refuse}')}: it refuses new messages"
            return [NodeWarning(DISK_REFUSES, message, self._node)]
        if self.is_low:
            return [NodeWarning(DISK_LOW, self._sentence(f"disk_warn_free = {self._warn}"), self._node)]
        return []

    def _sentence(self, watermark: str) -> str:
        free, total = map(readable, self.now)
        return f"the disk of node {self._node} ({self._place}) has {free} of {total} free, less than {watermark}"


def readable(size_bytes: int) -> str:
    """A size for people, in the largest unit of which there is one."""
    name, factor = [unit for unit in SIZE_UNITS.items() if unit[1] <= max(size_bytes, 1)][-1]
    return f"{size_bytes // factor}{name}" if factor == 1 else f"{size_bytes / factor:.1f}{name}"
