"""The cluster over HTTP: its nodes, what they warn of and have counted, where replicas move, and its pipelines."""

import asyncio
from dataclasses import asdict
from typing import Any, Final

from flotilla.frontends.http.framework.operation import (
    FLAG,
    INTEGER,
    TEXT,
    Answer,
    Call,
    Operation,
    Parameter,
    array,
    flag,
    integer,
    obj,
)
from flotilla.frontends.http.framework.parameters import IS_STALE, TOPIC
from flotilla.gateway.gateway import Gateway
from flotilla.types.access import DESCRIBE, EVERYTHING
from flotilla.types.errors import FlotillaError, NotFoundError, PermissionDeniedError, UnavailableError
from flotilla.types.ids import NO_NODE
from flotilla.types.operations import Metadata, Reply
from flotilla.types.operations.cluster import (
    CLIENTS_SHOWN_MAX,
    MOVES_SHOWN_MAX,
    CancelMoves,
    CountPartitions,
    DescribeNode,
    DrainNode,
    HistoryRead,
    ListClients,
    PartitionCounts,
    ReadHistory,
    Rebalance,
    UpgradeCluster,
)
from flotilla.types.operations.pipelines import ListPipelines

#: A node that does not answer in time is left out.
_ANSWER_MS_MAX: Final = 2_000
_NODE = obj(
    ("node", "client", "http", "is_alive"),
    node=INTEGER,
    client=TEXT,
    http=TEXT,
    is_alive=FLAG,
    state={"type": "string", "description": "active; draining; or leaving, when it is removed after that."},
    leads={"type": "integer", "description": "Partitions that it leads."},
    replicas=INTEGER,
    version={"type": "string", "description": "Of its program."},
    cluster_version_min={
        "type": "integer",
        "description": "The cluster versions that it supports; 0: the node that answers is not connected to it.",
    },
    cluster_version_max=INTEGER,
    machine={"type": "string", "description": "Its labels; empty: it has none."},
    zone=TEXT,
)
_MOVE = obj(
    ("topic", "partition", "replicas", "target"),
    topic=TEXT,
    partition=INTEGER,
    replicas={"type": "array", "items": INTEGER},
    target={"type": "array", "items": INTEGER, "description": "The preferred leader first, as in `replicas`."},
)
_MOVES = obj(("moves",), moves={"type": "array", "items": _MOVE})
_CLUSTER = obj(
    ("cluster_id", "cluster_name", "controller", "nodes", "topics", "is_stale"),
    cluster_id={"type": "string", "description": "Drawn when the cluster was founded."},
    cluster_name=TEXT,
    cluster_version={"type": "integer", "description": "What all nodes can read; 0: not known."},
    controller={
        "type": "integer",
        "description": "The leader of the metadata group; 0 while none is known.",
    },
    nodes={"type": "array", "items": _NODE},
    topics={"type": "integer", "description": "The number of topics."},
    partitions=INTEGER,
    without_leader={"type": "integer", "description": "Partitions of which no leader is known."},
    moving={"type": "integer", "description": "Partitions on their way to other nodes."},
    moves={"type": "array", "items": _MOVE, "description": f"The first {MOVES_SHOWN_MAX} of them."},
    is_stale=IS_STALE,
)
_WARNING = obj(
    ("code", "message", "node", "partitions"),
    code=TEXT,
    message=TEXT,
    node={"type": "integer", "description": "The node that has the trouble; 0: no particular one."},
    partitions={"type": "array", "items": TEXT, "description": "The first ones, as topic/number."},
)
_DESCRIBED = obj(
    ("node", "warnings", "version", "uptime_ms", "disk_free_bytes", "disk_total_bytes"),
    node=INTEGER,
    warnings={"type": "array", "items": _WARNING},
    version=TEXT,
    uptime_ms=INTEGER,
    disk_free_bytes={"type": "integer", "description": "Of the file system with its data; 0: not known."},
    disk_total_bytes=INTEGER,
)
_SILENT = {"type": "array", "items": INTEGER, "description": "Nodes that did not answer in time."}
_NODES = obj(("nodes", "silent"), nodes={"type": "array", "items": _DESCRIBED}, silent=_SILENT)
_CLIENT = obj(
    ("node", "endpoint", "name", "address", "principal", "connected_ms", "in_flight"),
    node=INTEGER,
    endpoint={"type": "string", "description": "tcp, http or grpc."},
    name={"type": "string", "description": "What it calls itself: the name of a client, or its `User-Agent`."},
    address=TEXT,
    principal={"type": "string", "description": "Empty without authentication."},
    connected_ms={"type": "integer", "description": "For so long; over gRPC, its first call in flight."},
    in_flight={"type": "integer", "description": "Its requests that are not answered."},
)
_CLIENTS = obj(
    ("clients", "total", "silent"),
    clients={"type": "array", "items": _CLIENT, "description": "Those of each node that were connected first."},
    total={"type": "integer", "description": "With those that were left out."},
    silent=_SILENT,
)
_HISTORY = obj(
    ("step_ms", "end_ms", "nodes", "silent", "series"),
    step_ms=INTEGER,
    end_ms={"type": "integer", "description": "The end of the newest step."},
    nodes={"type": "array", "items": INTEGER, "description": "The nodes whose counts are added up."},
    silent=_SILENT,
    series={
        "type": "object",
        "additionalProperties": {"type": "array", "items": INTEGER},
        "description": "Of each step, the oldest first: what was counted in it (produced, delivered, redelivered, "
        "acked, dead, errors, received_bytes, sent_bytes), or what there was at its end (connected clients, lag, "
        "ready, leased, delayed).",
    },
)
_PIPELINE = obj(
    ("id", "name", "topics", "group", "records_behind", "bytes_behind", "records_per_second", "batch",
     "batch_records", "batch_ms", "reported_ms", "lake", "lake_bytes", "lake_rows", "lake_files", "lake_verified_ms"),
    id={"type": "string", "description": "Of a query, the same after it is restarted."},
    name=TEXT,
    topics={"type": "array", "items": TEXT},
    group={"type": "string", "description": "Where its progress is committed; empty: nowhere."},
    records_behind={"type": "integer", "description": "Behind the latest offsets when its last batch was planned."},
    bytes_behind={"type": "integer", "description": "The same in bytes, estimated."},
    records_per_second=INTEGER,
    batch={"type": "integer", "description": "The number of its last batch."},
    batch_records=INTEGER,
    batch_ms={"type": "integer", "description": "How long the last batch took."},
    reported_ms={"type": "integer", "description": "When it reported this."},
    lake={"type": "string", "description": "The address of the lake that it writes; empty: it writes none."},
    lake_bytes={"type": "integer", "description": "Stored in the tables of its topics."},
    lake_rows=INTEGER,
    lake_files=INTEGER,
    lake_verified_ms={
        "type": "integer",
        "description": "When the one of these tables that was verified longest ago was found intact; 0: one is not.",
    },
)  # fmt: skip
_TOPICS: Final = array(TOPIC, 0, 1_000, "By default all of them.")
_UPGRADED = obj(
    ("version", "before"),
    version={"type": "integer", "description": "The version of the cluster."},
    before={"type": "integer", "description": "The one that it had."},
)
_STATE = obj(("node", "state"), node=INTEGER, state=TEXT)


class ClusterApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[Operation]:
        tag = "cluster"
        node = {"node": integer(1, 2**53 - 1, "Id of a node.")}
        upgraded = obj(
            version=integer(0, 2**16 - 1, "By default the highest that all nodes support.", default=0),
            dry_run=flag("Changes nothing, and answers the same."),
        )
        rebalanced = obj(topics=_TOPICS, dry_run=flag("Moves nothing, and answers the same."))
        one = Parameter("node", integer(0, 2**53 - 1, "Of this node; by default the sum of all.", default=NO_NODE))
        return [
            Operation("getCluster", "GET", "/v1/cluster", tag, "The nodes of the cluster.", self.get,
                      answers={200: _CLUSTER}),
            Operation("describeNodes", "GET", "/v1/cluster/nodes", tag, "What each node warns of, and its disk.",
                      self.describe, answers={200: _NODES}),
            Operation("listClients", "GET", "/v1/cluster/clients", tag, "Who is connected.", self.clients,
                      query=(one, Parameter("limit", integer(1, CLIENTS_SHOWN_MAX, "Of each node.", default=100))),
                      answers={200: _CLIENTS}, errors=(404,),
                      description="Over gRPC a client is known while it has a call in flight. Connections of nodes to "
                      "each other's endpoints for clients are among them; that of a node to itself is not."),
            Operation("drainNode", "POST", "/v1/cluster/nodes/{node}/drain", tag,
                      "Move all replicas off a node, and place no new ones on it.", self.drain, node,
                      answers={200: _STATE}, errors=(404, 409)),
            Operation("undrainNode", "POST", "/v1/cluster/nodes/{node}/undrain", tag,
                      "Cancel the draining or removal of a node.", self.undrain, node,
                      answers={200: _STATE}, errors=(404, 409)),
            Operation("rebalance", "POST", "/v1/cluster/rebalance", tag,
                      "Spread replicas and leaders evenly, with the fewest moves.", self.rebalance,
                      body=rebalanced, answers={200: _MOVES}, errors=(404, 409)),
            Operation("cancelMoves", "POST", "/v1/cluster/cancel-moves", tag, "Moving partitions stay where they are.",
                      self.cancel_moves, body=obj(topics=_TOPICS), answers={200: _MOVES}, errors=(404, 409)),
            Operation("upgradeCluster", "POST", "/v1/cluster/upgrade", tag,
                      "Raise the cluster version, which never goes down. All nodes must be up and support it.",
                      self.upgrade, body=upgraded, answers={200: _UPGRADED}, errors=(409,)),
            Operation("readHistory", "GET", "/v1/metrics/history", tag, "Rates of the last hour, in steps.",
                      self.history, query=(one,), answers={200: _HISTORY}, errors=(404,)),
            Operation("listPipelines", "GET", "/v1/pipelines", tag,
                      "Archives and streaming queries that report their progress, and how far behind they are.",
                      self.pipelines,
                      answers={200: obj(("pipelines",), pipelines={"type": "array", "items": _PIPELINE})}),
        ]  # fmt: skip

    async def get(self, call: Call) -> Answer:
        metadata, counts = await self._counted()
        nodes = [
            {
                "node": broker.node,
                "client": broker.client,
                "http": broker.http,
                "is_alive": broker.is_alive,
                "state": broker.state,
                "leads": counts.leads.get(broker.node, 0),
                "replicas": counts.replicas.get(broker.node, 0),
                "version": broker.version,
                "cluster_version_min": broker.cluster_version_min,
                "cluster_version_max": broker.cluster_version_max,
                "machine": broker.machine,
                "zone": broker.zone,
            }
            for broker in sorted(metadata.brokers, key=lambda each: each.node)
        ]
        return Answer(
            {
                "cluster_id": metadata.cluster_id,
                "cluster_name": metadata.cluster_name,
                "cluster_version": metadata.cluster_version,
                "controller": metadata.controller,
                "nodes": nodes,
                "topics": counts.topics,
                "partitions": counts.partitions,
                "without_leader": counts.without_leader,
                "moving": counts.moving,
                "moves": [asdict(move) for move in counts.moves],
                "is_stale": metadata.is_stale,
            }
        )

    async def _counted(self) -> tuple[Metadata, PartitionCounts]:
        """The nodes, and sums over the partitions that the caller may describe."""
        if self._gateway.may(DESCRIBE, EVERYTHING):
            try:
                # No topic has an empty name: it stands for none of them.
                return await self._gateway.metadata([""]), await self._gateway.ask(CountPartitions())
            except PermissionDeniedError:
                # Everybody may ask a proxy for everything, but its own user may not see everything.
                pass
        metadata = await self._gateway.metadata()
        counts = PartitionCounts(len(metadata.topics))
        for topic in metadata.topics:
            for part in topic.partitions:
                counts.add(topic.name, part.number, part.leader, part.replicas, part.target)
        return metadata, counts

    async def describe(self, call: Call) -> Answer:
        found, silent = await self._ask_each(await self._nodes(), DescribeNode())
        return Answer({"nodes": [asdict(each) for each in found], "silent": silent})

    async def pipelines(self, _: Call) -> Answer:
        found = await self._gateway.ask(ListPipelines())
        return Answer({"pipelines": [asdict(each) for each in found.pipelines]})

    async def drain(self, call: Call) -> Answer:
        await self._gateway.ask(DrainNode(call.path["node"]))
        return Answer({"node": call.path["node"], "state": "draining"})

    async def undrain(self, call: Call) -> Answer:
        await self._gateway.ask(DrainNode(call.path["node"], is_draining=False))
        return Answer({"node": call.path["node"], "state": "active"})

    async def rebalance(self, call: Call) -> Answer:
        planned = await self._gateway.ask(Rebalance(call.body.get("topics", []), call.body["dry_run"]))
        return Answer({"moves": [asdict(move) for move in planned.moves]})

    async def cancel_moves(self, call: Call) -> Answer:
        planned = await self._gateway.ask(CancelMoves(call.body.get("topics", [])))
        return Answer({"moves": [asdict(move) for move in planned.moves]})

    async def upgrade(self, call: Call) -> Answer:
        return Answer(asdict(await self._gateway.ask(UpgradeCluster(call.body["version"], call.body["dry_run"]))))

    async def clients(self, call: Call) -> Answer:
        found, silent = await self._ask_each(await self._nodes(call.query["node"]), ListClients(call.query["limit"]))
        shown = [{"node": each.node, **asdict(client)} for each in found for client in each.clients]
        return Answer({"clients": shown, "total": sum(each.total for each in found), "silent": silent})

    async def history(self, call: Call) -> Answer:
        found, silent = await self._ask_each(await self._nodes(call.query["node"]), ReadHistory())
        if not found:
            raise UnavailableError("no node answers with its history")
        return Answer({**_added(found), "nodes": [each.node for each in found], "silent": silent})

    async def _nodes(self, one: int = NO_NODE) -> dict[int, bool]:
        """All nodes, or this one, and whether the cluster takes each for alive. Raises NotFoundError."""
        brokers = sorted((await self._gateway.cluster()).brokers, key=lambda each: each.node)
        found = {broker.node: broker.is_alive for broker in brokers if one in (NO_NODE, broker.node)}
        if one != NO_NODE and not found:
            raise NotFoundError(f"there is no node {one}")
        return found

    async def _ask_each(self, nodes: dict[int, bool], request: Any) -> tuple[list[Any], list[int]]:
        """The answers, and the nodes without one. Raises the error of a caller who may not ask."""
        asked = [node for node, is_alive in nodes.items() if is_alive]
        work = [self._gateway.ask_node(node, request, timeout_ms=_ANSWER_MS_MAX) for node in asked]
        answers = dict(zip(asked, await asyncio.gather(*work, return_exceptions=True), strict=True))
        for answer in answers.values():
            if isinstance(answer, BaseException) and not (isinstance(answer, FlotillaError) and answer.retryable):
                raise answer
        found = [answer for answer in answers.values() if isinstance(answer, Reply)]
        return found, [node for node in nodes if not isinstance(answers.get(node), Reply)]


def _added(found: list[HistoryRead]) -> dict[str, Any]:
    """The series of several nodes as one. A node that is younger, or a step behind, counts nothing there."""
    step_ms = found[0].step_ms
    end_ms = max(each.end_ms for each in found)
    length = max(len(series.values) for each in found for series in each.series)
    sums: dict[str, list[int]] = {}
    for each in found:
        behind = (end_ms - each.end_ms) // step_ms
        for series in each.series:
            total = sums.setdefault(series.name, [0] * length)
            first = length - behind - len(series.values)
            for place, value in enumerate(series.values):
                if 0 <= first + place < length:
                    total[first + place] += value
    return {"step_ms": step_ms, "end_ms": end_ms, "series": sums}
