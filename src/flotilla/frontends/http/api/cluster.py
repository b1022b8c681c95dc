"""The cluster over HTTP: its nodes, and where each of them listens."""

from flotilla.frontends.http.framework.operation import FLAG, INTEGER, TEXT, Answer, Call, Operation, obj
from flotilla.frontends.http.framework.parameters import IS_STALE
from flotilla.gateway.gateway import Gateway

_NODE = obj(("node", "client", "http", "is_alive"), node=INTEGER, client=TEXT, http=TEXT, is_alive=FLAG)
_CLUSTER = obj(
    ("cluster_id", "cluster_name", "controller", "nodes", "topics", "is_stale"),
    cluster_id={"type": "string", "description": "Drawn when the cluster was founded."},
    cluster_name=TEXT,
    controller={
        "type": "integer",
        "description": "The leader of the metadata group; 0 while none is known.",
    },
    nodes={"type": "array", "items": _NODE},
    topics={"type": "integer", "description": "The number of topics."},
    is_stale=IS_STALE,
)


class ClusterApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[Operation]:
        return [
            Operation("getCluster", "GET", "/v1/cluster", "cluster", "The nodes of the cluster.", self.get,
                      answers={200: _CLUSTER}),
        ]  # fmt: skip

    async def get(self, call: Call) -> Answer:
        metadata = await self._gateway.metadata()
        nodes = [
            {"node": broker.node, "client": broker.client, "http": broker.http, "is_alive": broker.is_alive}
            for broker in metadata.brokers
        ]
        return Answer(
            {
                "cluster_id": metadata.cluster_id,
                "cluster_name": metadata.cluster_name,
                "controller": metadata.controller,
                "nodes": nodes,
                "topics": len(metadata.topics),
                "is_stale": metadata.is_stale,
            }
        )
