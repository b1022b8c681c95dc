"""What clients did and saw, in the order in which they did: all that the judges from the outside know.

Every call of a client is an event with its begin, its end and its outcome. `write` makes one JSON object a line of it,
for other checkers; docs/simulation.md explains the fields.
"""

import json
from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from flotilla.sim.devices.world import World
from flotilla.types.errors import FlotillaError, OutcomeUnknownError

#: Outcomes of a call. One that is not done certainly has not happened.
DONE: Final = "done"
NOT_DONE: Final = "not done"
UNKNOWN: Final = "unknown"
#: In place of an error: the client was killed.
KILLED: Final = "killed"
#: It has not returned.
OPEN: Final = "open"


@dataclass(slots=True)
class Call:
    """One call of one client."""

    client: str
    operation: str
    #: What it was called with, and what it returned.
    arguments: dict[str, Any]
    began_us: int
    ended_us: int = -1
    outcome: str = OPEN
    error: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    #: What the caller may wait for it at most; 0: without a bound.
    timeout_ms: int = 0


class History:
    def __init__(self, world: World) -> None:
        self._world = world
        self.calls: list[Call] = []
        #: When hosts of clients were paused, by name: (from, until).
        self._pauses: dict[str, list[tuple[int, int]]] = {}

    def begin(self, client: str, operation: str, timeout_ms: int = 0, **arguments: Any) -> Call:
        call = Call(client, operation, arguments, self._world.now_us, timeout_ms=timeout_ms)
        self.calls.append(call)
        return call

    def done(self, call: Call, **result: Any) -> None:
        call.ended_us, call.outcome, call.result = self._world.now_us, DONE, result

    def failed(self, call: Call, error: BaseException) -> None:
        """An error says that nothing has happened, unless it says that it does not know."""
        is_known = isinstance(error, FlotillaError) and not isinstance(error, OutcomeUnknownError)
        call.ended_us = self._world.now_us
        call.outcome = NOT_DONE if is_known else UNKNOWN
        call.error = f"{type(error).__name__}: {error}"

    @contextmanager
    def timed(self, client: str, operation: str, timeout_ms: int, **arguments: Any) -> Iterator[Call]:
        """A call whose result is of no interest, only its end. Errors pass through."""
        call = self.begin(client, operation, timeout_ms, **arguments)
        try:
            yield call
        except (Exception, CancelledError) as error:
            self.failed(call, error)
            raise
        else:
            self.done(call)

    def cut(self, client: str) -> None:
        """The client was killed: nobody learns how its open calls ended."""
        for call in self.calls:
            if call.client == client and call.outcome == OPEN:
                call.ended_us, call.outcome, call.error = self._world.now_us, UNKNOWN, KILLED

    def frozen(self, host: str, length_us: int) -> None:
        """The process on a host of clients is paused from now on."""
        now_us = self._world.now_us
        self._pauses.setdefault(host, []).append((now_us, now_us + length_us))

    def frozen_us(self, call: Call, until_us: int) -> int:
        """How much of a call's time its client was paused."""
        # A client is named as its host, or as a life of it.
        pauses = self._pauses.get(call.client.partition(".")[0], ())
        return sum(max(min(until_us, end_us) - max(call.began_us, begin_us), 0) for begin_us, end_us in pauses)

    def of(self, operation: str) -> list[Call]:
        return [call for call in self.calls if call.operation == operation]

    def write(self, file: TextIO) -> None:
        for call in self.calls:
            fields = {
                "client": call.client,
                "operation": call.operation,
                "arguments": call.arguments,
                "began_us": call.began_us,
                "ended_us": call.ended_us,
                "timeout_ms": call.timeout_ms,
                "outcome": call.outcome,
                "error": call.error,
                "result": call.result,
            }
            file.write(json.dumps(fields, default=_text) + "\n")


def _text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
