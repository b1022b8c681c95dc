"""Administration of the cluster: its nodes, and where replicas and leaders live."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, Protocol

from flotilla.client._blocking import BlockingShell, blocking
from flotilla.client._core.asyncio_network import R
from flotilla.client._duration import Duration, milliseconds
from flotilla.client.admin.users import AsyncGrants, AsyncQuotas, AsyncRoles, AsyncUsers, Grants, Quotas, Roles, Users
from flotilla.machine import here
from flotilla.types.ids import NO_NODE, NodeId
from flotilla.types.operations import (
    ClusterReply,
    GetMetadata,
    InitCluster,
    JoinCluster,
    Metadata,
    RemoveNode,
    Request,
    TransferLeadership,
)
from flotilla.types.operations.cluster import (
    CLIENTS_SHOWN_MAX,
    CancelMoves,
    ClientList,
    ClusterUpgraded,
    CreateJoinToken,
    DescribeNode,
    DescribeReplicas,
    DrainNode,
    EnterCluster,
    ListClients,
    NodeDescribed,
    PlannedMove,
    Rebalance,
    ReplicasDescribed,
    UpgradeCluster,
)
from flotilla.types.operations.pipelines import ListPipelines, Pipeline, ReportPipeline
from flotilla.types.operations.transactions import (
    ForgetTransaction,
    ListOpenTransactions,
    ListTransactions,
    OpenTransaction,
    TransactionList,
)

#: Of randomness in a join token.
_TOKEN_BYTES: Final = 32
TOKEN_MS_DEFAULT: Final = 900_000


class _Call(Protocol):
    async def __call__(self, request: Request[R], timeout_ms: Duration | None, /) -> R: ...


class AsyncAdmin:
    """The attribute `admin` of an AsyncClient: administration of the cluster."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    async def metadata(self, topics: Sequence[str] = (), *, timeout_ms: Duration | None = None) -> Metadata:
        """The brokers, and the named topics (all if none is named) with the leader of each partition.

        It shows every change that was acknowledged before, to any client. Without a quorum of the metadata it shows
        what a node knows, and `is_stale` is True.
        """
        return await self._call(GetMetadata(list(topics), is_linearizable=True), timeout_ms)

    async def init_cluster(self, nodes: Mapping[NodeId, str], *, timeout_ms: Duration | None = None) -> ClusterReply:
        """Forms a cluster of waiting nodes, given by id and peer address. Repeating it with the same nodes is fine."""
        return await self._call(InitCluster(dict(nodes)), timeout_ms)

    async def join_cluster(
        self,
        node: NodeId,
        *,
        peer: str,
        client: str,
        http: str = "",
        incarnation: int = 0,
        token: bytes = b"",
        machine: str = "",
        zone: str = "",
        timeout_ms: Duration | None = None,
    ) -> ClusterReply:
        """Makes a node a broker of this cluster, with its addresses, incarnation of its data directory and labels.

        It runs this version of the program, and supports the same cluster versions.
        """
        request = JoinCluster(node, peer, client, http, incarnation, token, machine=machine, zone=zone)
        return await self._call(request, timeout_ms)

    async def upgrade_cluster(
        self, version: int = 0, *, dry_run: bool = False, timeout_ms: Duration | None = None
    ) -> ClusterUpgraded:
        """Raises the cluster version, by default to the highest that all nodes support. It never goes down.

        With `dry_run` nothing changes. Raises ConfigurationChangeError while a node is away or does not support it.
        """
        return await self._call(UpgradeCluster(version, dry_run), timeout_ms)

    async def create_join_token(
        self, ttl_ms: Duration = TOKEN_MS_DEFAULT, *, timeout_ms: Duration | None = None
    ) -> str:
        """A token by which one node may join, once and within `ttl_ms`. The cluster keeps only its digest."""
        token = here().secret(_TOKEN_BYTES).hex()
        digest = sha256(token.encode()).digest()
        await self._call(CreateJoinToken(digest, milliseconds(ttl_ms)), timeout_ms)
        return token

    async def enter_cluster(
        self, servers: Sequence[str], *, token: str = "", timeout_ms: Duration | None = None
    ) -> ClusterReply:
        """Has the waiting node that this client is connected to join the running cluster at these addresses.

        A cluster with TLS wants a token (`create_join_token`).
        """
        return await self._call(EnterCluster(list(servers), token.encode()), timeout_ms)

    async def remove_node(self, node: NodeId, *, timeout_ms: Duration | None = None) -> ClusterReply:
        """Removes a node for good: at once if it holds nothing, else when its replicas have moved elsewhere.

        Raises ConfigurationChangeError when the other brokers cannot take its replicas.
        """
        return await self._call(RemoveNode(node), timeout_ms)

    async def drain_node(self, node: NodeId, *, is_draining: bool = True, timeout_ms: Duration | None = None) -> None:
        """Moves the replicas of a broker elsewhere and gives it no new ones; `is_draining=False` ends that."""
        await self._call(DrainNode(node, is_draining), timeout_ms)

    async def rebalance(
        self, topics: Sequence[str] = (), *, dry_run: bool = False, timeout_ms: Duration | None = None
    ) -> list[PlannedMove]:
        """Spreads replicas and leaders evenly by the fewest moves, in the background. Returns the planned moves.

        With `dry_run` nothing moves.
        """
        return (await self._call(Rebalance(list(topics), dry_run), timeout_ms)).moves

    async def cancel_moves(
        self, topics: Sequence[str] = (), *, timeout_ms: Duration | None = None
    ) -> list[PlannedMove]:
        """Has moving partitions stay where they are. Returns the moves that are cancelled."""
        return (await self._call(CancelMoves(list(topics)), timeout_ms)).moves

    async def pipelines(self, *, timeout_ms: Duration | None = None) -> list[Pipeline]:
        """Streaming queries that report their progress, by name, and how far behind they are."""
        return (await self._call(ListPipelines(), timeout_ms)).pipelines

    async def report_pipeline(
        self, pipeline: Pipeline, *, is_over: bool = False, timeout_ms: Duration | None = None
    ) -> None:
        """The progress of a program that reads topics, for `pipelines`, metrics and the console; `is_over` ends it."""
        await self._call(ReportPipeline(pipeline, is_over), timeout_ms)

    async def describe_node(self, *, timeout_ms: Duration | None = None) -> NodeDescribed:
        """The node that this client is connected to: what it warns of, above all in partitions that it leads."""
        return await self._call(DescribeNode(), timeout_ms)

    async def connected_clients(
        self, limit: int = CLIENTS_SHOWN_MAX, *, timeout_ms: Duration | None = None
    ) -> ClientList:
        """The clients connected to the node of this client; of gRPC clients those with a call in flight."""
        return await self._call(ListClients(limit), timeout_ms)

    async def describe_replicas(
        self, topic: str, partition: int, *, timeout_ms: Duration | None = None
    ) -> ReplicasDescribed:
        """The replicas of a partition and the progress of each, as the leader sees them."""
        return await self._call(DescribeReplicas(topic, partition), timeout_ms)

    async def transfer_leadership(
        self, topic: str, partition: int, to: NodeId = NO_NODE, *, timeout_ms: Duration | None = None
    ) -> None:
        """Has another replica lead a partition: the named one, or any."""
        await self._call(TransferLeadership(topic, partition, to), timeout_ms)

    async def transactions(self, *, timeout_ms: Duration | None = None) -> TransactionList:
        """What the cluster remembers of decided transactions, and which of them wait for partitions."""
        return await self._call(ListTransactions(), timeout_ms)

    async def open_transactions(
        self, topic: str, partition: int, *, timeout_ms: Duration | None = None
    ) -> list[OpenTransaction]:
        """The transactions that have something staged in a partition, the oldest first."""
        return (await self._call(ListOpenTransactions(topic, partition), timeout_ms)).transactions

    async def forget_transaction(self, transaction_id: str, *, timeout_ms: Duration | None = None) -> None:
        """Waits no more for the partitions of a committed transaction; if they come back, they drop their parts.

        For partitions that never come back. Raises NotFoundError when the transaction waits for none.
        """
        await self._call(ForgetTransaction(transaction_id=transaction_id), timeout_ms)

    async def forget_application(self, application_id: str, *, timeout_ms: Duration | None = None) -> None:
        """Forgets which versions an application has committed: each can be committed again. Raises NotFoundError."""
        await self._call(ForgetTransaction(application_id=application_id), timeout_ms)

    @property
    def users(self) -> AsyncUsers:
        """Users with passwords."""
        return AsyncUsers(self._call)

    @property
    def grants(self) -> AsyncGrants:
        """What users may do."""
        return AsyncGrants(self._call)

    @property
    def roles(self) -> AsyncRoles:
        """Named sets of grants that users have."""
        return AsyncRoles(self._call)

    @property
    def quotas(self) -> AsyncQuotas:
        """How much users and namespaces may use."""
        return AsyncQuotas(self._call)


class Admin(BlockingShell[AsyncAdmin]):
    """The attribute `admin` of a Client: administration of the cluster."""

    metadata = blocking(AsyncAdmin.metadata)
    init_cluster = blocking(AsyncAdmin.init_cluster)
    join_cluster = blocking(AsyncAdmin.join_cluster)
    enter_cluster = blocking(AsyncAdmin.enter_cluster)
    upgrade_cluster = blocking(AsyncAdmin.upgrade_cluster)
    create_join_token = blocking(AsyncAdmin.create_join_token)
    remove_node = blocking(AsyncAdmin.remove_node)
    drain_node = blocking(AsyncAdmin.drain_node)
    rebalance = blocking(AsyncAdmin.rebalance)
    cancel_moves = blocking(AsyncAdmin.cancel_moves)
    describe_replicas = blocking(AsyncAdmin.describe_replicas)
    describe_node = blocking(AsyncAdmin.describe_node)
    connected_clients = blocking(AsyncAdmin.connected_clients)
    pipelines = blocking(AsyncAdmin.pipelines)
    report_pipeline = blocking(AsyncAdmin.report_pipeline)
    transfer_leadership = blocking(AsyncAdmin.transfer_leadership)
    transactions = blocking(AsyncAdmin.transactions)
    open_transactions = blocking(AsyncAdmin.open_transactions)
    forget_transaction = blocking(AsyncAdmin.forget_transaction)
    forget_application = blocking(AsyncAdmin.forget_application)

    @property
    def users(self) -> Users:
        """Users with passwords."""
        return Users(self._inner.users, self._run)

    @property
    def grants(self) -> Grants:
        """What users may do."""
        return Grants(self._inner.grants, self._run)

    @property
    def roles(self) -> Roles:
        """Named sets of grants that users have."""
        return Roles(self._inner.roles, self._run)

    @property
    def quotas(self) -> Quotas:
        """How much users and namespaces may use."""
        return Quotas(self._inner.quotas, self._run)
