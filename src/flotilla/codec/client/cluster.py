"""Rows of nodes, moves and pipelines, as in `messages`."""

from flotilla.codec.client.rows import Row, derived
from flotilla.types.operations.cluster import (
    CancelMoves,
    ClientList,
    ClusterUpgraded,
    CountPartitions,
    CreateJoinToken,
    DescribeNode,
    DescribeReplicas,
    DrainNode,
    EnterCluster,
    HistoryRead,
    ListClients,
    MovesPlanned,
    NodeDescribed,
    PartitionCounts,
    ReadHistory,
    Rebalance,
    ReplicasDescribed,
    UpgradeCluster,
)
from flotilla.types.operations.pipelines import ListPipelines, PipelineList, ReportPipeline

REQUEST_ROWS: tuple[Row, ...] = (
    derived(EnterCluster),
    derived(CreateJoinToken),
    derived(DrainNode),
    derived(Rebalance),
    derived(CancelMoves),
    derived(DescribeReplicas),
    derived(DescribeNode),
    derived(ListClients),
    derived(ReadHistory),
    derived(CountPartitions),
    derived(ReportPipeline),
    derived(ListPipelines),
    derived(UpgradeCluster),
)

REPLY_ROWS: tuple[Row, ...] = (
    derived(MovesPlanned),
    derived(ReplicasDescribed),
    derived(NodeDescribed),
    derived(ClientList),
    derived(HistoryRead),
    derived(PartitionCounts),
    derived(PipelineList),
    derived(ClusterUpgraded),
)
