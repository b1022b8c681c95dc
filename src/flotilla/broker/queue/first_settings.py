"""Settings that a queue group gets with its first member: they are stored before it is given a message.

ordered            1 if the member asks for order by key, so that no two members of the group disagree. A group that
                   was set not to order by key stays as it is, and the member is refused.
expires_after_ms   of a group with an ephemeral name: its members never come back under that name
"""

from collections.abc import Callable, Mapping

from flotilla.broker.ports import Elsewhere
from flotilla.metadata.values import Topic
from flotilla.types.errors import FlotillaError, GroupModeError
from flotilla.types.group_settings import EPHEMERAL_EXPIRES_MS, is_ephemeral
from flotilla.types.operations import Reply
from flotilla.types.operations.queue import AlterGroup

ORDERED = "ordered"
EXPIRES = "expires_after_ms"


def is_unset(topic: Topic, group: str, setting: str = ORDERED) -> bool:
    return setting not in dict(topic.chosen_for(group))


def check_order(topic: Topic, group: str) -> None:
    """Raises GroupModeError if the group is set not to order by key."""
    if dict(topic.chosen_for(group)).get(ORDERED, 1) == 0:
        raise GroupModeError(f"group {group!r} is set not to order by key (ordered=0), and a member asks for it")


def missing_settings(topic: Topic, group: str, *, is_ordered: bool) -> dict[str, str]:
    """What a member that comes now has to have set."""
    missing = {}
    if is_ordered and is_unset(topic, group):
        missing[ORDERED] = "1"
    if is_ephemeral(group) and is_unset(topic, group, EXPIRES):
        missing[EXPIRES] = f"{EPHEMERAL_EXPIRES_MS}ms"
    return missing


class FirstSettings:
    """Groups that are being set, each with the polls that wait for it."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self._elsewhere = elsewhere
        self._waiting: dict[tuple[int, str, tuple[str, ...]], list[Callable[[FlotillaError | None], None]]] = {}

    def set(
        self, topic: Topic, group: str, settings: Mapping[str, str], done: Callable[[FlotillaError | None], None]
    ) -> None:
        place = (topic.topic_id, group, tuple(settings))
        waiting = self._waiting.get(place)
        if waiting is not None:
            waiting.append(done)
            return
        self._waiting[place] = [done]

        def answered(result: Reply | FlotillaError) -> None:
            error = result if isinstance(result, FlotillaError) else None
            for each in self._waiting.pop(place):
                each(error)

        self._elsewhere.ask(AlterGroup(topic.name, group, dict(settings)), answered)
