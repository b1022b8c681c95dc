"""Health and readiness of a proxy: it is healthy while it answers, and ready while the cluster answers it.

The cluster is asked each time, within less time than probes usually wait. Nothing is cached: brokers come and go
without notice.
"""

from typing import Final

from flotilla.broker.observability.status import Reason
from flotilla.gateway.gateway import Gateway
from flotilla.machine import steady_ms
from flotilla.types.errors import FlotillaError
from flotilla.types.version import __version__

#: Probes wait one second by default.
_ANSWER_MS_MAX: Final = 800


class ProxyStatus:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._started_ms = steady_ms()

    def facts(self) -> dict[str, object]:
        return {
            "status": "ok",
            "version": __version__,
            "uptime_seconds": (steady_ms() - self._started_ms) / 1000,
        }

    async def reasons(self) -> list[Reason]:
        """Why requests should not be sent here; empty when the proxy is ready."""
        try:
            await self._gateway.cluster(timeout_ms=_ANSWER_MS_MAX)
        except FlotillaError as error:
            return [Reason("NO_BROKER", f"no broker that is part of a cluster answers: {error}")]
        return []
