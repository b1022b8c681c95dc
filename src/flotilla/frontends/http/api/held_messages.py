"""Leased messages over HTTP, settled for their holder by an operator: released to others, or rejected."""

from typing import Any, Final

from flotilla.frontends.http.framework.operation import TEXT, Answer, Call, Operation, obj, text
from flotilla.frontends.http.framework.parameters import GROUP, OFFSET, PARTITION, TOPIC
from flotilla.gateway.gateway import Gateway
from flotilla.types.limits import REASON_BYTES_MAX
from flotilla.types.operations.queue import REJECT, RELEASE

_OF_MESSAGE: Final = {"topic": TOPIC, "group": GROUP, "partition": PARTITION, "offset": OFFSET}
_SETTLED: Final = obj(("holder",), holder={**TEXT, "description": "The member that had it leased."})
_REJECT: Final = obj(reason=text(0, REASON_BYTES_MAX, "For people; the dead letter keeps it.", default=""))


class HeldMessageApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[Operation]:
        path = "/v1/topics/{topic}/groups/{group}/partitions/{partition}/messages/{offset}"
        held = "The member that has it leased is not notified, and its settlement is refused."
        return [
            Operation("releaseMessage", "POST", f"{path}/release", "messages",
                      "Release a message for its holder: no attempt is counted.", self.release, _OF_MESSAGE,
                      answers={200: _SETTLED}, errors=(404, 409, 416), description=held),
            Operation("rejectMessage", "POST", f"{path}/reject", "messages",
                      "Reject a leased message: to the dead letters at once.", self.reject, _OF_MESSAGE,
                      body=_REJECT, answers={200: _SETTLED}, errors=(404, 409, 416), description=held),
        ]  # fmt: skip

    async def release(self, call: Call) -> Answer:
        return await self._settle(call.path, RELEASE, "")

    async def reject(self, call: Call) -> Answer:
        return await self._settle(call.path, REJECT, call.body["reason"])

    async def _settle(self, path: dict[str, Any], kind: int, reason: str) -> Answer:
        groups = self._gateway.groups(path["topic"])
        return Answer(
            {"holder": await groups.settle_held(path["group"], path["partition"], path["offset"], kind, reason)}
        )
