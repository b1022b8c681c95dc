"""A layer around the routes of a proxy that counts requests by the status of their answers."""

from flotilla.broker.observability.proxy_meter import HTTP, ProxyMeter
from flotilla.frontends.http.http1.asgi import App, Message, Receive, Scope, Send


class MeteringLayer:
    def __init__(self, app: App, meter: ProxyMeter) -> None:
        self._app = app
        self._meter = meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._meter.passing(HTTP) as request:

            async def noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    request.status = str(message["status"])
                await send(message)

            await self._app(scope, receive, noted)
