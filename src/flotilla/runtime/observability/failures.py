"""Failures that stay where they are: each is logged and counted here, and the rest of the node goes on.

An exception that nobody expected ends the part of the node that raised it: a group, a link, a connection, a request, a
check. Whoever cuts that part off reports it by `report`. Code that may not import this module, and the event loop
itself, report to the loop's exception handler, which `watch` makes end here as well.
"""

import asyncio
from typing import Any, Final

from flotilla.runtime.observability.logs import get_logger

log = get_logger("failures")

#: The part of failures that only the event loop caught.
OTHER: Final = "other"
PARTS: Final = ("group", "leadership", "link", "connection", "request", "check", OTHER)


class FailureCounter:
    """Counts failures by the part that they ended. There is one for the process."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = dict.fromkeys(PARTS, 0)

    def note(self, part: str) -> None:
        self.counts[part if part in self.counts else OTHER] += 1


FAILURES: Final = FailureCounter()


def report(what: str, failure: BaseException | None, part: str) -> None:
    """`what` says in a sentence what happened; `part` is one of PARTS, for the metric."""
    FAILURES.note(part)
    log.error(what, part=part, error=failure)


def watch(loop: asyncio.AbstractEventLoop) -> None:
    """Reports everything that reaches the loop's exception handler."""
    loop.set_exception_handler(_handle)


def _handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    report(str(context.get("message", "")), context.get("exception"), str(context.get("part", OTHER)))
