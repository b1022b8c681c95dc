"""The routes of a node's or a proxy's HTTP endpoint: its status, and the table of operations with their description.

GET /health          200 while the node works, 503 while its disk fails; of a proxy: 200
GET /ready           200 when the node can take requests, else 503 with the reasons
GET /metrics         Prometheus' text format
GET /openapi.json    the description of all operations
GET /docs            the same as a page, which loads nothing from other sites
GET /console         the web console, whose files are below it
GET /                redirects browsers to the console, and other programs to /docs

The answers come from the node's status, or from the cluster through a gateway.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict
from functools import cache

from flotilla.broker.observability.proxy_meter import ProxyMeter
from flotilla.broker.observability.status import METRICS_TYPE, NodeStatus, Reason
from flotilla.frontends.caller import Callers
from flotilla.frontends.forwarded_callers import ForwardedCallers
from flotilla.frontends.http.api.access import AccessApi
from flotilla.frontends.http.api.cluster import ClusterApi
from flotilla.frontends.http.api.dead_letters import DeadLetterApi
from flotilla.frontends.http.api.events import EventApi
from flotilla.frontends.http.api.groups import GroupApi
from flotilla.frontends.http.api.held_messages import HeldMessageApi
from flotilla.frontends.http.api.messages import MessageApi
from flotilla.frontends.http.api.partitions import PartitionApi
from flotilla.frontends.http.api.proxy_status import ProxyStatus
from flotilla.frontends.http.api.records import RecordApi
from flotilla.frontends.http.api.schedules import ScheduleApi
from flotilla.frontends.http.api.settings import SettingsApi
from flotilla.frontends.http.api.stream_credit import Unsettled
from flotilla.frontends.http.api.tasks.api import TaskApi
from flotilla.frontends.http.api.topics import TopicApi
from flotilla.frontends.http.api.waiting import WaitingApi
from flotilla.frontends.http.authentication import AuthenticationLayer
from flotilla.frontends.http.console_files import console_pages
from flotilla.frontends.http.forwarding_layer import ForwardingLayer
from flotilla.frontends.http.framework.limits import Guard
from flotilla.frontends.http.framework.openapi import make_document
from flotilla.frontends.http.framework.operation import Answer, Call, Operation, page
from flotilla.frontends.http.framework.response import JSON_TYPE, Response, json_response
from flotilla.frontends.http.framework.router import Router
from flotilla.frontends.http.framework.site_guard import SiteGuard
from flotilla.frontends.http.http1.asgi import App
from flotilla.frontends.http.log_in_pages import no_session
from flotilla.frontends.http.metadata_index import MetadataIndexHeader
from flotilla.frontends.http.metering_layer import MeteringLayer
from flotilla.frontends.http.pages import file_page
from flotilla.frontends.large_answers import LargeAnswers
from flotilla.frontends.tcp.budget import Budgets
from flotilla.gateway.gateway import Gateway
from flotilla.gateway.guarded import GuardedGateway
from flotilla.types.operations.cluster import NodeWarning


def make_app(
    status: NodeStatus | None,
    gateway: Gateway | None = None,
    hosts: Iterable[str] = (),
    callers: Callers | ForwardedCallers | None = None,
    budgets: Budgets | None = None,
) -> Guard:
    """`status` is None for a proxy; without a `gateway` only the status pages are served. `hosts` are own names.

    `callers` asks clients who they are; then `gateway` is a guarded one. `budgets` are those of the node for all
    endpoints; None: of its own.
    """
    meter = callers.meter if isinstance(callers, ForwardedCallers) else ProxyMeter()
    rows: list[Operation] = []
    if status is not None:
        rows += _status_pages(status)
    elif gateway is not None:
        rows += _proxy_pages(ProxyStatus(gateway), meter)
    if gateway is not None:
        table = operations(gateway, None if budgets is None else budgets.large_answers)
        rows += [*table, *_description_pages(table), *console_pages()]
    router = Router(rows)
    app: App = router if gateway is None else MetadataIndexHeader(router, gateway)
    if isinstance(callers, ForwardedCallers):
        app = ForwardingLayer(app, callers)
    elif callers is not None:
        app = AuthenticationLayer(app, callers, gateway.reconsider if isinstance(gateway, GuardedGateway) else None)
    if status is None:
        app = MeteringLayer(app, meter)
    return Guard(SiteGuard(app, hosts), budgets=budgets)


def operations(gateway: Gateway, large: LargeAnswers | None = None) -> list[Operation]:
    """The table: one row for each operation on the cluster. `large` makes large answers; None: of its own."""
    unsettled = Unsettled()
    large = large or LargeAnswers()
    return [
        *TaskApi(gateway, large).operations(),
        *TopicApi(gateway).operations(),
        *PartitionApi(gateway).operations(),
        *SettingsApi(gateway).operations(),
        *RecordApi(gateway, large).operations(),
        *MessageApi(gateway, unsettled, large).operations(),
        *HeldMessageApi(gateway).operations(),
        *EventApi(gateway, unsettled, large).operations(),
        *GroupApi(gateway).operations(),
        *WaitingApi(gateway).operations(),
        *DeadLetterApi(gateway).operations(),
        *ScheduleApi(gateway).operations(),
        *ClusterApi(gateway).operations(),
        *AccessApi(gateway).operations(),
    ]


def _status_pages(status: NodeStatus) -> list[Operation]:
    async def health(_: Call) -> Answer:
        found = status.health()
        return Answer(found.facts, 200 if found.is_ok else 503)

    async def ready(_: Call) -> Answer:
        return _readiness(status.reasons(), status.warnings())

    async def metrics(_: Call) -> Response:
        return Response(await status.metrics(), METRICS_TYPE)

    return [page("/health", health), page("/ready", ready), page("/metrics", metrics)]


def _proxy_pages(status: ProxyStatus, meter: ProxyMeter) -> list[Operation]:
    async def health(_: Call) -> Answer:
        return Answer(status.facts())

    async def ready(_: Call) -> Answer:
        return _readiness(await status.reasons())

    async def metrics(_: Call) -> Response:
        return Response(meter.render(), METRICS_TYPE)

    return [page("/health", health), page("/ready", ready), page("/metrics", metrics)]


def _readiness(reasons: Sequence[Reason], warnings: Sequence[NodeWarning] = ()) -> Answer:
    body = {
        "ready": not reasons,
        "reasons": [asdict(reason) for reason in reasons],
        "warnings": [asdict(warning) for warning in warnings],
    }
    return Answer(body, 503 if reasons else 200)


def _description_pages(table: Sequence[Operation]) -> list[Operation]:
    # Made when it is first asked for, and once: it takes milliseconds, which neither the start of a broker nor
    # whoever asks often may cost the others.
    @cache
    def described() -> bytes | AsyncIterator[bytes]:
        return json_response(make_document(table)).body

    async def openapi(_: Call) -> Response:
        return Response(described(), JSON_TYPE)

    async def index(call: Call) -> Response:
        is_browser = "text/html" in call.headers.get("accept", "")
        return Response(b"", "text/plain", 302, headers={"Location": "/console" if is_browser else "/docs"})

    files = [file_page("/docs", "docs.html"), file_page("/docs.js", "docs.js"), file_page("/pages.css", "pages.css")]
    return [page("/openapi.json", openapi), *files, page("/session", no_session), page("/", index)]
