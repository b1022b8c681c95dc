"""Settings over HTTP as they are in force: the value of each, where it comes from, and what it means."""

from typing import Any

from flotilla.frontends.http.framework.operation import TEXT, Answer, Call, Operation, obj
from flotilla.frontends.http.framework.parameters import OF_GROUP, OF_TOPIC
from flotilla.gateway.gateway import Gateway
from flotilla.types.group_settings import GROUP_SETTINGS
from flotilla.types.topics import SETTINGS, resolve_settings, show_settings

_SETTING = obj(
    ("name", "value", "origin", "default", "meaning"),
    name=TEXT,
    value=TEXT,
    origin={"type": "string", "enum": ["default", "topic", "group"], "description": "Where the value was set."},
    default={"type": "string", "description": "The value if nothing is set here."},
    meaning=TEXT,
)
_SETTINGS = obj(("settings",), settings={"type": "array", "items": _SETTING})


class SettingsApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[Operation]:
        return [
            Operation("getTopicSettings", "GET", "/v1/topics/{topic}/settings", "topics",
                      "Every setting of a topic that is in force.", self.of_topic, OF_TOPIC,
                      answers={200: _SETTINGS}, errors=(404,)),
            Operation("getGroupSettings", "GET", "/v1/topics/{topic}/groups/{group}/settings", "groups",
                      "Every setting of a queue group that is in force.", self.of_group, OF_GROUP,
                      answers={200: _SETTINGS}, errors=(404, 409)),
        ]  # fmt: skip

    async def of_topic(self, call: Call) -> Answer:
        topic = await self._gateway.topic(call.path["topic"])
        values, defaults = show_settings(topic.settings_in_force), show_settings(resolve_settings(()))
        rows = [
            _row(name, value, "topic" if name in topic.settings else "default", defaults[name], SETTINGS[name].help)
            for name, value in values.items()
        ]
        return Answer({"settings": rows})

    async def of_group(self, call: Call) -> Answer:
        topic = await self._gateway.topic(call.path["topic"])
        # Altering nothing returns what is set.
        kept = await self._gateway.groups(topic.name).alter(call.path["group"], {})
        inherited = show_settings(topic.settings_in_force)
        own = GROUP_SETTINGS.show((name, row.default) for name, row in GROUP_SETTINGS.items() if name not in inherited)
        rows: list[dict[str, Any]] = []
        for name, setting in GROUP_SETTINGS.items():
            default = inherited.get(name, own.get(name, ""))
            origin = "group" if name in kept else "topic" if name in topic.settings else "default"
            rows.append(_row(name, kept.get(name, default), origin, default, setting.help))
        return Answer({"settings": rows})


def _row(name: str, value: str, origin: str, default: str, meaning: str) -> dict[str, Any]:
    return {"name": name, "value": value, "origin": origin, "default": default, "meaning": meaning}
