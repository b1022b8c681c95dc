"""A layer around the routes for the header `Flotilla-Metadata-Index`.

Every answer carries it. A client that sends it back, to this node or another one, gets an answer that rests on changes
of topics and groups up to there. Clients without the header are served as they come.
"""

from typing import Final

from flotilla.frontends.http.framework.errors import refusal
from flotilla.frontends.http.http1.asgi import App, Message, Receive, Scope, Send
from flotilla.frontends.index_text import read_index
from flotilla.gateway.gateway import Gateway
from flotilla.types.errors import FlotillaError

HEADER: Final = b"flotilla-metadata-index"


class MetadataIndexHeader:
    def __init__(self, app: App, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def reported(message: Message) -> None:
            index = self._gateway.metadata_index
            if index and message["type"] == "http.response.start":
                message["headers"].append((HEADER, b"%d" % index))
            await send(message)

        text = next((value for name, value in scope["headers"] if name == HEADER), None)
        if text is not None:
            try:
                await self._gateway.reach(read_index(text))
            except FlotillaError as error:
                await refusal(error).send(reported)
                return
        await self._app(scope, receive, reported)
