"""The routes of a node's HTTP door. Translation only: what is said comes from the node's status.

GET /health    200 while the node works, 503 while its disk fails
GET /ready     200 when requests should come here, else 503 with the reasons
GET /metrics   Prometheus' text format
"""

from dataclasses import asdict

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from flotilla.frontends.http.errors import on_fault, on_flotilla_error, on_http_error
from flotilla.frontends.http.guard import Guard
from flotilla.service.status import METRICS_TYPE, NodeStatus
from flotilla.types.errors import FlotillaError


def make_app(status: NodeStatus) -> ASGIApp:
    async def health(_: Request) -> Response:
        found = status.health()
        return JSONResponse(found.facts, 200 if found.is_ok else 503)

    async def ready(_: Request) -> Response:
        reasons = status.reasons()
        body = {"ready": not reasons, "reasons": [asdict(reason) for reason in reasons]}
        return JSONResponse(body, 503 if reasons else 200)

    async def metrics(_: Request) -> Response:
        return Response(await status.metrics(), headers={"Content-Type": METRICS_TYPE})

    routes = [
        Route("/health", health, methods=["GET"]),
        Route("/ready", ready, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
    ]
    handlers = {HTTPException: on_http_error, FlotillaError: on_flotilla_error, Exception: on_fault}
    app = Starlette(routes=routes, exception_handlers=handlers)
    # A path with a slash too many is another path, not a redirect.
    app.router.redirect_slashes = False
    return Guard(app)
