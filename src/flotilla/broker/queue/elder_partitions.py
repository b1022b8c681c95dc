"""Whether a queue group is older than a partition of its topic: asked at the partitions that were there before it.

A group is opened partition by partition, when it is polled there first, where its consumer wishes. In a partition that
its topic has got later that would lose what was stored before the poll: there an older group begins at the start. Each
partition remembers how many there were when a group was opened in it.
"""

from collections.abc import Callable
from functools import partial

from flotilla.broker.ports import Elsewhere
from flotilla.types.errors import FlotillaError, NotFoundError
from flotilla.types.operations import Reply
from flotilla.types.operations.queue import QUEUE_KIND, DescribeGroup, GroupDescription


class ElderPartitions:
    """One question about one group, at the partitions below `number`."""

    def __init__(
        self, elsewhere: Elsewhere, topic: str, number: int, group: str, found: Callable[[bool | FlotillaError], None]
    ) -> None:
        """`found` is called once: whether the group is older, or why that is not known."""
        self._number = number
        self._found = found
        self._left = number
        self._error: FlotillaError | None = None
        self._is_over = False
        for elder in range(number):
            elsewhere.ask(DescribeGroup(topic, elder, group), partial(self._answered))

    def _answered(self, result: Reply | FlotillaError) -> None:
        self._left -= 1
        if self._is_over:
            return
        if isinstance(result, GroupDescription):
            if result.kind == QUEUE_KIND and result.partition_count <= self._number:
                self._end(True)
                return
        elif isinstance(result, FlotillaError) and not isinstance(result, NotFoundError):
            self._error = result
        if not self._left:
            self._end(self._error or False)

    def _end(self, answer: bool | FlotillaError) -> None:
        self._is_over = True
        self._found(answer)
