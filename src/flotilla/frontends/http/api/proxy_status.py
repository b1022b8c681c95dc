"""How a proxy is: a process without data works as long as it answers, and is ready while the cluster answers it.

Asked of the cluster each time, in less time than whoever asks us waits by habit. Brokers come and go without our
being told, so anything remembered could be wrong.
"""

from time import monotonic
from typing import Final

from flotilla.broker.observability.status import Reason
from flotilla.gateway.gateway import Gateway
from flotilla.types.errors import FlotillaError
from flotilla.types.version import __version__

#: Probes wait for a second unless they are told otherwise.
_ANSWER_MS_MAX: Final = 800


class ProxyStatus:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._started_s = monotonic()

    def facts(self) -> dict[str, object]:
        return {
            "status": "ok",
            "version": __version__,
            "uptime_seconds": round(monotonic() - self._started_s, 3),
        }

    async def reasons(self) -> list[Reason]:
        """Why requests should not be sent here; empty when the proxy is ready."""
        try:
            await self._gateway.cluster(timeout_ms=_ANSWER_MS_MAX)
        except FlotillaError as error:
            return [Reason("NO_BROKER", f"no broker that is part of a cluster answers: {error}")]
        return []
