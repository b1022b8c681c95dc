"""Rows of nodes and moves, as in `messages`."""

from flotilla.codec.client.rows import Row, derived
from flotilla.types.operations.cluster import (
    CancelMoves,
    CreateJoinToken,
    DescribeNode,
    DescribeReplicas,
    DrainNode,
    EnterCluster,
    HistoryRead,
    MovesPlanned,
    NodeDescribed,
    ReadHistory,
    Rebalance,
    ReplicasDescribed,
)

REQUEST_ROWS: tuple[Row, ...] = (
    derived(EnterCluster),
    derived(CreateJoinToken),
    derived(DrainNode),
    derived(Rebalance),
    derived(CancelMoves),
    derived(DescribeReplicas),
    derived(DescribeNode),
    derived(ReadHistory),
)

REPLY_ROWS: tuple[Row, ...] = (
    derived(MovesPlanned),
    derived(ReplicasDescribed),
    derived(NodeDescribed),
    derived(HistoryRead),
)
