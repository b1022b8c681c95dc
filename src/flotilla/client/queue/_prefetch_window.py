"""How many messages an iterating consumer keeps here, those in handlers included: as many as it handles in a moment.

What lies here ahead of its handler is out of reach for everybody else, so a slow handler shall keep few; but asking
for few at a time costs a quick one most of its time. So the window begins small, doubles whenever all of it was
handled within a span, and falls at the end of a span to twice of what was handled in it: whatever is here will have
been handled two spans later, at the pace of the last one.

A window that somebody has chosen stays as it is. Nothing here asks for messages, and time is what the caller says.
"""

from flotilla.client.queue.options import POLL_MESSAGES_MAX

WINDOW_MIN = 16
WINDOW_MAX = POLL_MESSAGES_MAX
SPAN_MS = 100


class PrefetchWindow:
    __slots__ = ("_handled", "_is_fixed", "_since_ms", "size")

    def __init__(self, chosen: int | None, now_ms: int) -> None:
        """`chosen`: None lets it follow the handler."""
        self.size = WINDOW_MIN if chosen is None else chosen
        self._is_fixed = chosen is not None
        #: When this span began, and how many had been handled until then.
        self._since_ms = now_ms
        self._handled = 0

    def follow(self, handled: int, now_ms: int) -> bool:
        """So many messages have been handled since the consumer began. Whether the window has become smaller."""
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
