"""Reads scenarios and plays them at an endpoint; the meaning of every word stands in conformance/README.md."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from flotilla.codec.batch.view import BatchView
from flotilla.types.access import Grant, Verifier
from flotilla.types.errors import FlotillaError, NotLeaderError, OverloadedError, UnavailableError
from flotilla.types.operations import Fetched, Reply, Request
from flotilla.types.operations.queue import (
    Explanation,
    LeaseRange,
    MessageResult,
    Polled,
    Pushed,
    Start,
    Subscribe,
)
from flotilla.types.operations.quotas import Quota
from flotilla.types.operations.schedules import ScheduleDefinition
from flotilla.types.operations.stream import GroupAssignment
from tests.conformance.arrivals import Arrivals
from tests.conformance.matching import Mismatch, match, substitute
from tests.conformance.values import OPERATIONS, encode, plain_record, to_bytes

FOLDER = Path(__file__).parents[2] / "conformance"
STEP_SECONDS_MAX = 30
_PAUSE_SECONDS = 0.01
#: A leader may still be on its way, and certainly nothing was done.
_PASSING = (NotLeaderError, UnavailableError, OverloadedError)
_numbers = count(1)


class Pushes(Protocol):
    """The answers of a subscription."""

    correlation_id: int

    async def get(self) -> Reply | FlotillaError: ...


class Endpoint(Protocol):
    """One way to reach a broker."""

    async def call(self, request: Request) -> Reply | FlotillaError: ...

    def subscribe(self, request: Subscribe) -> Pushes: ...


@dataclass(frozen=True)
class Scenario:
    file: str
    name: str
    steps: list[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"


def scenarios() -> Iterator[Scenario]:
    for path in sorted(FOLDER.glob("*.json")):
        for scenario in json.loads(path.read_text("utf-8"))["scenarios"]:
            yield Scenario(path.stem, scenario["name"], scenario["steps"])


class Play:
    """One scenario at one endpoint."""

    def __init__(self, endpoint: Endpoint, arrivals: Arrivals) -> None:
        number = next(_numbers)
        self._endpoint = endpoint
        self._arrivals = arrivals
        self._variables: dict[str, Any] = {
            "topic": f"topic-{number}",
            "other": f"other-{number}",
            "group": f"group-{number}",
        }
        self._batches: dict[str, bytes] = {}
        self._started: dict[str, asyncio.Task[Reply | FlotillaError]] = {}
        self._pushes: dict[str, Pushes] = {}

    async def run(self, scenario: Scenario) -> None:
        try:
            for number, step in enumerate(scenario.steps, 1):
                try:
                    async with asyncio.timeout(STEP_SECONDS_MAX):
                        await self._step(step)
                except (Mismatch, TimeoutError) as failure:
                    raise AssertionError(f"{scenario}, step {number}: {failure!r}\n{json.dumps(step)}") from failure
        finally:
            for task in self._started.values():
                task.cancel()

    async def _step(self, step: dict[str, Any]) -> None:
        if step.get("await") in self._pushes:
            self._check(step, await self._pushes[step["await"]].get())
            return
        if "await" in step:
            self._check(step, await self._started.pop(step["await"]))
            return
        if "as" in step:
            request = self._request(step)
            if isinstance(request, Subscribe):
                # Only a connection has subscriptions, and begins with its requests in order.
                self._pushes[step["as"]] = self._endpoint.subscribe(request)
                return
            arrived = self._arrivals.next_of(type(request))
            started = self._started[step["as"]] = asyncio.ensure_future(self._endpoint.call(request))
            # It may also be refused before it gets anywhere.
            await asyncio.wait((arrived, started), return_when=asyncio.FIRST_COMPLETED)
            return
        while True:
            answer = await self._endpoint.call(self._request(step))
            try:
                self._check(step, answer)
                return
            except Mismatch:
                if not step.get("eventually") and not isinstance(answer, _PASSING):
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    def _request(self, step: dict[str, Any]) -> Request:
        kind = OPERATIONS[step["do"]]
        given = substitute(step["with"], self._variables)
        assert given.keys() <= {field.name for field in fields(kind)}, f"{step['do']} has other fields"
        if "batch" in given:
            name = given["batch"].get("name")
            given["batch"] = encode(given["batch"])
            if name is not None:
                self._batches[name] = given["batch"]
        if "subscription" in given:
            given["subscription"] = self._pushes[given["subscription"]].correlation_id
        if "nodes" in given:
            given["nodes"] = {int(node): peer for node, peer in given["nodes"].items()}
        if "leases" in given:
            given["leases"] = [LeaseRange(*run) for run in given["leases"]]
        if "headers" in given:
            given["headers"] = [(name, to_bytes(value)) for name, value in given["headers"]]
        if "results" in given:
            given["results"] = [MessageResult(offset, to_bytes(payload)) for offset, payload in given["results"]]
        if "start" in given:
            given["start"] = Start(*given["start"])
        if "definition" in given:
            definition = given["definition"]
            data = {name: to_bytes(definition[name]) for name in ("payload", "key") if name in definition}
            given["definition"] = ScheduleDefinition(**{**definition, **data})
        if "verifier" in given:
            given["verifier"] = Verifier(
                **{
                    name: value if name == "iterations" else to_bytes(value)
                    for name, value in given["verifier"].items()
                }
            )
        if "grant" in given:
            given["grant"] = Grant(**given["grant"])
        if "quota" in given:
            given["quota"] = Quota(**given["quota"])
        if "digest" in given:
            given["digest"] = to_bytes(given["digest"])
        if "keys" in given:
            given["keys"] = [to_bytes(key) for key in given["keys"]]
        if isinstance(given.get("topic"), dict):
            given["topic"] = to_bytes(given["topic"]).decode()
        if isinstance(given.get("group"), dict):
            given["group"] = to_bytes(given["group"]).decode()
        return kind(**given)

    def _check(self, step: dict[str, Any], answer: Reply | FlotillaError) -> None:
        expected_error = step.get("expect_error")
        if isinstance(answer, FlotillaError):
            if answer.code != expected_error:
                raise Mismatch(f"{answer.code}: {answer}")
            return
        if expected_error is not None:
            raise Mismatch(f"{expected_error} was expected, not {answer}")
        found = self._plain(answer)
        match(substitute(step.get("expect", {}), self._variables), found)
        for name, path in step.get("bind", {}).items():
            value: Any = found
            for key in path.split("."):
                value = value[int(key) if isinstance(value, list) else key]
            self._variables[name] = value

    def _plain(self, reply: Reply) -> dict[str, Any]:
        """A reply as a file could hold it."""
        if isinstance(reply, Fetched):
            batches = [self._plain_batch(batch) for batch in reply.batches]
            return asdict(replace(reply, batches=[])) | {"batches": batches}
        if isinstance(reply, Polled | Pushed):
            deliveries = [asdict(replace(each, batch=b"")) | self._plain_batch(each.batch) for each in reply.deliveries]
            return asdict(replace(reply, deliveries=[])) | {"deliveries": deliveries}
        if isinstance(reply, Explanation):
            reply = replace(reply, batch=bytes(reply.batch))
        found = asdict(reply)
        if isinstance(reply, GroupAssignment):
            found["partitions"] = [list(owned) for owned in reply.partitions]
        if "expired" in found:
            found["expired"] = [list(run) for run in found["expired"]]
        if "peers" in found:
            found["peers"] = {str(node): peer for node, peer in found["peers"].items()}
        return found

    def _plain_batch(self, data: bytes | memoryview) -> dict[str, Any]:
        view = BatchView(data)
        sent = [name for name, batch in self._batches.items() if batch[12:] == bytes(data[12:])]
        return {
            "base_offset": view.header.base_offset,
            "count": view.count,
            "records": [plain_record(record) for record in view],
            "same_as": sent[0] if sent else None,
        }
