"""The audit log: who logged in, who was refused, and every change that somebody made to topics or the cluster.

A logger of its own, `flotilla.audit`, which an operator may send elsewhere. Never payloads, keys, passwords or tokens.
Refusals and failed log-ins are bounded for each caller: whoever is refused a thousand times a second does not fill a
disk, and the next line says how many were left out. A caller of HTTP or gRPC proves who it is with every request: its
first one from an address is the log-in, and so is the first one in every `LOG_IN_MS`.
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
#: For which the requests of one caller from one address are one log-in; and log-ins that are remembered.
LOG_IN_MS: Final = 3_600_000
LOG_IN_COUNT_MAX: Final = 10_000


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
        #: When each caller of requests logged in: principal, mechanism, endpoint and host. The oldest is first.
        self._log_ins: dict[tuple[str, str, str, str], int] = {}

    def logged_in(self, principal: Principal, mechanism: str, endpoint: str, address: str) -> None:
        log.info("log-in", principal=str(principal), mechanism=mechanism, endpoint=endpoint, address=address)

    def proved(self, principal: Principal, mechanism: str, endpoint: str, address: str) -> None:
        """A request whose proof was right: a line only if the request counts as a log-in."""
        since_ms = self._log_ins.get((str(principal), mechanism, endpoint, address.rpartition(":")[0]))
        if since_ms is None or here().steady_ms() >= since_ms + LOG_IN_MS:
            self.proved_anew(principal, mechanism, endpoint, address)

    def proved_anew(self, principal: Principal, mechanism: str, endpoint: str, address: str) -> None:
        """The same, of a request that counts as a log-in in any case."""
        now_ms = here().steady_ms()
        key = (str(principal), mechanism, endpoint, address.rpartition(":")[0])
        self._log_ins.pop(key, None)
        while len(self._log_ins) >= LOG_IN_COUNT_MAX:
            del self._log_ins[next(iter(self._log_ins))]
        self._log_ins[key] = now_ms
        self.logged_in(principal, mechanism, endpoint, address)

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

    def changing(self, caller: Caller, operation: str, **facts: object) -> Callable[[str], None]:
        """What to call with the outcome of a change that is more than one request."""
        who = _who(caller, operation)

        def ended(outcome: str) -> None:
            log.info("change", **who, **facts, outcome=outcome, metadata_index=self._metadata_index())

        return ended

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
    facts = _who(caller, request.operation)
    for name in ("topic", "group", "node", "name", "grant", "quota", "user", "namespace", "role"):
        value = getattr(request, name, None)
        if value is not None:
            facts[name] = str(value)
    return facts


def _who(caller: Caller, operation: str) -> dict[str, object]:
    return {
        "principal": str(caller.principal),
        "operation": operation,
        "endpoint": caller.endpoint,
        "address": caller.address,
    }
