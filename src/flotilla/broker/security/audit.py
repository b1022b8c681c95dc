"""The audit log: who logged in, who was refused, and every change that somebody made to topics or the cluster.

A logger of its own, `flotilla.audit`, which an operator may send elsewhere. Never payloads, keys, passwords or tokens.
Refusals and failed log-ins are bounded for each caller: whoever is refused a thousand times a second does not fill a
disk, and the next line says how many were left out.
"""

from collections.abc import Callable
from typing import Final, Protocol

from flotilla.broker.ports import Done
from flotilla.machine import here
from flotilla.runtime.observability.logs import get_logger
from flotilla.types.access import Principal
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Index
from flotilla.types.operations import Reply, Request

log = get_logger("audit")

#: Lines about what was refused to one caller in one second, and callers that are told apart.
LINES_PER_SECOND_MAX: Final = 5
_CALLER_COUNT_MAX: Final = 1_000


class Caller(Protocol):
    """Who asked, and where."""

    @property
    def principal(self) -> Principal: ...

    @property
    def endpoint(self) -> str: ...

    @property
    def address(self) -> str: ...


class Audit:
    def __init__(self, metadata_index: Callable[[], Index]) -> None:
        self._metadata_index = metadata_index
        self._second = 0
        #: Lines of this second, and what was left out of them, by caller.
        self._lines: dict[str, int] = {}
        self._left_out = 0

    def logged_in(self, principal: Principal, mechanism: str, endpoint: str, address: str) -> None:
        log.info("log-in", principal=str(principal), mechanism=mechanism, endpoint=endpoint, address=address)

    def not_logged_in(self, name: str, mechanism: str, endpoint: str, address: str, reason: str) -> None:
        if self._has_room(address.rpartition(":")[0]):
            log.warning(
                "log-in refused",
                name=name[:128],
                mechanism=mechanism[:32],
                endpoint=endpoint,
                address=address,
                reason=reason,
                **self._omitted(),
            )

    def denied(self, caller: Caller, request: Request, error: FlotillaError) -> None:
        if self._has_room(str(caller.principal)):
            log.warning("denied", **_about(caller, request), outcome=error.code, **self._omitted())

    def outcome(self, caller: Caller, request: Request, done: Done) -> Done:
        """`done`, and a line about how it ended."""
        facts = _about(caller, request)

        def answered(result: Reply | FlotillaError) -> None:
            outcome = result.code if isinstance(result, FlotillaError) else "done"
            log.info("change", **facts, outcome=outcome, metadata_index=self._metadata_index())
            done(result)

        return answered

    def _has_room(self, caller: str) -> bool:
        second = here().steady_ms() // 1_000
        if second != self._second or len(self._lines) >= _CALLER_COUNT_MAX:
            self._second = second
            self._lines.clear()
        count = self._lines[caller] = self._lines.get(caller, 0) + 1
        if count > LINES_PER_SECOND_MAX:
            self._left_out += 1
        return count <= LINES_PER_SECOND_MAX

    def _omitted(self) -> dict[str, object]:
        left_out, self._left_out = self._left_out, 0
        return {"left_out": left_out} if left_out else {}


def _about(caller: Caller, request: Request) -> dict[str, object]:
    facts: dict[str, object] = {
        "principal": str(caller.principal),
        "operation": request.operation,
        "endpoint": caller.endpoint,
        "address": caller.address,
    }
    for name in ("topic", "group", "node", "name", "grant", "quota", "user", "namespace", "role"):
        value = getattr(request, name, None)
        if value is not None:
            facts[name] = str(value)
    return facts
