"""The filter of a poll: it gets messages of some types, or with some headers, only.

The poll chooses from a branch of the group's ready messages, in the usual order. Other messages are passed over: they
stay ready, in their order, for other polls, and that does not count as an attempt. Each filter looks at a message once,
however often members poll, and again when the message comes back.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from flotilla.partition.leader.ready_messages import Chosen, ReadyMessages
from flotilla.types.errors import FlotillaError
from flotilla.types.filters import MessageFilter
from flotilla.types.ids import Offset

#: Whether the filter takes the messages [first, end), or the first ones of them, one by one in order.
#: Raises CorruptionError.
Matching: TypeAlias = Callable[[MessageFilter, Offset, Offset], list[bool]]

#: Messages that one poll looks at beyond those that it asked for. A waiting poll goes on from there at once.
LOOK_AHEAD: Final = 1_024


class PollFilter(NamedTuple):
    wanted: MessageFilter
    matching: Matching


def choose_matching(
    ready: ReadyMessages, poll_filter: PollFilter, count_max: int, poll_number: int, due_ms: int
) -> list[Chosen]:
    """Takes out up to `count_max` messages that the filter takes.

    Raises FlotillaError if the log cannot be read before anything is chosen.
    """
    wanted = poll_filter.wanted
    branch = ready.branch(wanted)
    chosen: list[Chosen] = []
    left = count_max
    looks = LOOK_AHEAD + count_max
    while left and looks > 0:
        found = branch.choose(min(left, looks), poll_number)
        if not found:
            break
        for place, (first, end, priority) in enumerate(found):
            at = first
            while at < end:
                try:
                    matching = poll_filter.matching(wanted, at, end)
                except FlotillaError:
                    for unread_first, unread_end, _ in ((at, end, priority), *found[place + 1 :]):
                        branch.put(unread_first, unread_end, due_ms)
                    if not chosen:
                        raise
                    return chosen
                for offset, is_match in enumerate(matching, at):
                    if is_match:
                        _append(chosen, offset, priority)
                        left -= 1
                at += len(matching)
            looks -= end - first
    return chosen


def _append(chosen: list[Chosen], offset: Offset, priority: int) -> None:
    if chosen and chosen[-1][1] == offset and chosen[-1][2] == priority:
        chosen[-1] = (chosen[-1][0], offset + 1, priority)
    else:
        chosen.append((offset, offset + 1, priority))
