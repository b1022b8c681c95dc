"""The queue of frames for a slow socket, bounded by bytes.

Raft repeats lost messages, so a link that cannot keep up drops its oldest frames instead of growing:
new messages (heartbeats, votes) are worth more than old ones. A frame is dropped whole, and never
after its first byte has left.
"""

from collections import deque

from flotilla.codec.frames import Buffer


class SendQueue:
    __slots__ = ("_bytes_max", "_frames", "dropped_bytes", "dropped_count", "size_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        #: (buffers, size) of each frame.
        self._frames: deque[tuple[list[Buffer], int]] = deque()
        self.size_bytes = 0
        self.dropped_count = 0
        self.dropped_bytes = 0

    def __len__(self) -> int:
        return len(self._frames)

    def push(self, buffers: list[Buffer], size_bytes: int) -> None:
        """Adds a frame, and drops the oldest ones above the bound. A frame above the bound is itself dropped."""
        self._frames.append((buffers, size_bytes))
        self.size_bytes += size_bytes
        while self.size_bytes > self._bytes_max:
            _, dropped_bytes = self._frames.popleft()
            self.size_bytes -= dropped_bytes
            self.dropped_count += 1
            self.dropped_bytes += dropped_bytes

    def pop(self, bytes_max: int) -> list[Buffer]:
        """The buffers of the oldest frames that fit into `bytes_max` together, but at least of one."""
        frames = self._frames
        if not frames:
            return []
        buffers, taken_bytes = frames.popleft()
        while frames and taken_bytes + frames[0][1] <= bytes_max:
            more, more_bytes = frames.popleft()
            buffers += more
            taken_bytes += more_bytes
        self.size_bytes -= taken_bytes
        return buffers

    def clear(self) -> None:
        """Drops everything: the connection is gone."""
        self.dropped_count += len(self._frames)
        self.dropped_bytes += self.size_bytes
        self._frames.clear()
        self.size_bytes = 0
