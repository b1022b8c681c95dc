"""The prefetch window: how many messages an iterating consumer holds, those in handlers included.

A prefetched message is out of reach for other consumers, so a slow handler should hold few; but small polls cost a
quick handler most of its time. So the window begins small, doubles when all of it was handled within a span, and
shrinks at the end of a span to twice the messages handled in it: at that pace all of them are handled two spans later.

A window that the application has chosen is fixed. Nothing here polls or reads a clock.
"""

from flotilla.client.queue.options import POLL_MESSAGES_MAX

WINDOW_MIN = 16
WINDOW_MAX = POLL_MESSAGES_MAX
SPAN_MS = 100


class PrefetchWindow:
    __slots__ = ("_handled", "_is_fixed", "_since_ms", "size")

    def __init__(self, chosen: int | None, now_ms: int) -> None:
        """`chosen`: None follows the handler."""
        self.size = WINDOW_MIN if chosen is None else chosen
        self._is_fixed = chosen is not None
        #: The start of this span, and the messages handled before it.
        self._since_ms = now_ms
        self._handled = 0

    def follow(self, handled: int, now_ms: int) -> bool:
        """Adapts to the count of messages handled since the consumer began. True: the window has shrunk."""
        if self._is_fixed:
            return False
        count = handled - self._handled
        passed_ms = now_ms - self._since_ms
        before = self.size
        if passed_ms >= SPAN_MS:
            self.size = max(WINDOW_MIN, min(before, 2 * count * SPAN_MS // passed_ms))
        elif count >= before:
            self.size = min(2 * before, WINDOW_MAX)
        else:
            return False
        self._since_ms = now_ms
        self._handled = handled
        return self.size < before
