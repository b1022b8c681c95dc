"""The routes of a node's or a proxy's HTTP endpoint: its status, and the table of operations with their description.

GET /health          200 while the node works, 503 while its disk fails; of a proxy: 200
GET /ready           200 when the node can take requests, else 503 with the reasons
GET /metrics         Prometheus' text format, of a node
GET /openapi.json    the description of all operations
GET /docs            the same as a page, which loads nothing from other sites
GET /                redirects to /docs

The answers come from the node's status, or from the cluster through a gateway.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from flotilla.broker.observability.status import METRICS_TYPE, NodeStatus, Reason
from flotilla.frontends.caller import Callers
from flotilla.frontends.http.api.cluster import ClusterApi
from flotilla.frontends.http.api.dead_letters import DeadLetterApi
from flotilla.frontends.http.api.events import EventApi
from flotilla.frontends.http.api.groups import GroupApi
from flotilla.frontends.http.api.messages import MessageApi
from flotilla.frontends.http.api.proxy_status import ProxyStatus
from flotilla.frontends.http.api.records import RecordApi
from flotilla.frontends.http.api.schedules import ScheduleApi
from flotilla.frontends.http.api.stream_credit import Unsettled
from flotilla.frontends.http.api.tasks import TaskApi
from flotilla.frontends.http.api.topics import TopicApi
from flotilla.frontends.http.authentication import AuthenticationLayer
from flotilla.frontends.http.framework.limits import Guard
from flotilla.frontends.http.framework.openapi import make_document
from flotilla.frontends.http.framework.operation import ANYTHING, Answer, Call, Handler, Operation
from flotilla.frontends.http.framework.response import Response
from flotilla.frontends.http.framework.router import Router
from flotilla.frontends.http.framework.site_guard import SiteGuard
from flotilla.frontends.http.http1.asgi import App
from flotilla.frontends.http.log_in_pages import no_session
from flotilla.frontends.http.metadata_index import MetadataIndexHeader
from flotilla.frontends.http.pages import file_page
from flotilla.gateway.gateway import Gateway
from flotilla.gateway.guarded import GuardedGateway
from flotilla.types.operations.cluster import NodeWarning


def make_app(
    status: NodeStatus | None,
    gateway: Gateway | None = None,
    hosts: Iterable[str] = (),
    callers: Callers | None = None,
) -> Guard:
    """`status` is None for a proxy; without a `gateway` only the status pages are served. `hosts` are own names.

    `callers` asks clients who they are; then `gateway` is a guarded one.
    """
    rows: list[Operation] = []
    if status is not None:
        rows += _status_pages(status)
    elif gateway is not None:
        rows += _proxy_pages(ProxyStatus(gateway))
    if gateway is not None:
        table = operations(gateway)
        rows += [*table, *_description_pages(table)]
    router = Router(rows)
    app: App = router if gateway is None else MetadataIndexHeader(router, gateway)
    if callers is not None:
        app = AuthenticationLayer(app, callers, gateway.reconsider if isinstance(gateway, GuardedGateway) else None)
    return Guard(SiteGuard(app, hosts))


def operations(gateway: Gateway) -> list[Operation]:
    """The table: one row for each operation on the cluster."""
    unsettled = Unsettled()
    return [
        *TaskApi(gateway).operations(),
        *TopicApi(gateway).operations(),
        *RecordApi(gateway).operations(),
        *MessageApi(gateway, unsettled).operations(),
        *EventApi(gateway, unsettled).operations(),
        *GroupApi(gateway).operations(),
        *DeadLetterApi(gateway).operations(),
        *ScheduleApi(gateway).operations(),
        *ClusterApi(gateway).operations(),
    ]


def _page(path: str, handler: Handler) -> Operation:
    """A page that is in no table and in no description."""
    return Operation(path, "GET", path, "", "", handler, answers={200: ANYTHING})


def _status_pages(status: NodeStatus) -> list[Operation]:
    async def health(_: Call) -> Answer:
        found = status.health()
        return Answer(found.facts, 200 if found.is_ok else 503)

    async def ready(_: Call) -> Answer:
        return _readiness(status.reasons(), status.warnings())

    async def metrics(_: Call) -> Response:
        return Response(await status.metrics(), METRICS_TYPE)

    return [_page("/health", health), _page("/ready", ready), _page("/metrics", metrics)]


def _proxy_pages(status: ProxyStatus) -> list[Operation]:
    async def health(_: Call) -> Answer:
        return Answer(status.facts())

    async def ready(_: Call) -> Answer:
        return _readiness(await status.reasons())

    return [_page("/health", health), _page("/ready", ready)]


def _readiness(reasons: Sequence[Reason], warnings: Sequence[NodeWarning] = ()) -> Answer:
    body = {
        "ready": not reasons,
        "reasons": [asdict(reason) for reason in reasons],
        "warnings": [asdict(warning) for warning in warnings],
    }
    return Answer(body, 503 if reasons else 200)


def _description_pages(table: Sequence[Operation]) -> list[Operation]:
    document = make_document(table)

    async def openapi(_: Call) -> Answer:
        return Answer(document)

    async def index(_: Call) -> Response:
        return Response(b"", "text/plain", 302, headers={"Location": "/docs"})

    files = [file_page("/docs", "docs.html"), file_page("/docs.js", "docs.js"), file_page("/pages.css", "pages.css")]
    return [_page("/openapi.json", openapi), *files, _page("/session", no_session), _page("/", index)]
