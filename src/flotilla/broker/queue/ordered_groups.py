"""Order by key is a setting of the group, so that no two members of it disagree. A member that asks for it sets it.

The setting is stored before the first message is delivered to a member that has asked. A group that was set not to
order by key stays as it is, and the member is refused.
"""

from collections.abc import Callable

from flotilla.broker.ports import Elsewhere
from flotilla.metadata.values import Topic
from flotilla.types.errors import FlotillaError, GroupModeError
from flotilla.types.operations import Reply
from flotilla.types.operations.queue import AlterGroup

SETTING = "ordered"


def is_unset(topic: Topic, group: str) -> bool:
    return SETTING not in dict(topic.chosen_for(group))


def check_order(topic: Topic, group: str) -> None:
    """Raises GroupModeError if the group is set not to order by key."""
    if dict(topic.chosen_for(group)).get(SETTING, 1) == 0:
        raise GroupModeError(f"group {group!r} is set not to order by key (ordered=0), and a member asks for it")


class OrderedGroups:
    """Groups that are being set to order by key, each with the polls that wait for it."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self._elsewhere = elsewhere
        self._waiting: dict[tuple[int, str], list[Callable[[FlotillaError | None], None]]] = {}

    def set(self, topic: Topic, group: str, done: Callable[[FlotillaError | None], None]) -> None:
        place = (topic.topic_id, group)
        waiting = self._waiting.get(place)
        if waiting is not None:
            waiting.append(done)
            return
        self._waiting[place] = [done]

        def answered(result: Reply | FlotillaError) -> None:
            error = result if isinstance(result, FlotillaError) else None
            for each in self._waiting.pop(place):
                each(error)

        self._elsewhere.ask(AlterGroup(topic.name, group, {SETTING: "1"}), answered)
