"""Requests and replies about nodes and moves into and out of their protobuf messages: rows like client_messages'."""

from collections.abc import Sequence

from flotilla.codec.client.rows import Buffer, Row, plain
from flotilla.codec.generated import client_pb2
from flotilla.types.operations.cluster import (
    CancelMoves,
    DescribeReplicas,
    DrainNode,
    EnterCluster,
    MovesPlanned,
    PlannedMove,
    Rebalance,
    ReplicaInfo,
    ReplicasDescribed,
)


def _write_enter(body: client_pb2.EnterCluster, value: EnterCluster) -> Sequence[Buffer]:
    body.servers.extend(value.servers)
    return ()


def _read_enter(body: client_pb2.EnterCluster, attachment: memoryview) -> EnterCluster:
    return EnterCluster(body.servers[:])


def _write_rebalance(body: client_pb2.Rebalance, value: Rebalance) -> Sequence[Buffer]:
    body.topics.extend(value.topics)
    body.is_dry_run = value.is_dry_run
    return ()


def _read_rebalance(body: client_pb2.Rebalance, attachment: memoryview) -> Rebalance:
    return Rebalance(body.topics[:], body.is_dry_run)


def _write_cancel(body: client_pb2.CancelMoves, value: CancelMoves) -> Sequence[Buffer]:
    body.topics.extend(value.topics)
    return ()


def _read_cancel(body: client_pb2.CancelMoves, attachment: memoryview) -> CancelMoves:
    return CancelMoves(body.topics[:])


def _write_moves(body: client_pb2.MovesPlanned, value: MovesPlanned) -> Sequence[Buffer]:
    for move in value.moves:
        body.moves.add(topic=move.topic, partition=move.partition, replicas=move.replicas, target=move.target)
    return ()


def _read_moves(body: client_pb2.MovesPlanned, attachment: memoryview) -> MovesPlanned:
    return MovesPlanned(
        [PlannedMove(move.topic, move.partition, move.replicas[:], move.target[:]) for move in body.moves]
    )


def _write_replicas(body: client_pb2.ReplicasDescribed, value: ReplicasDescribed) -> Sequence[Buffer]:
    body.size_bytes = value.size_bytes
    for replica in value.replicas:
        body.replicas.add(
            node=replica.node,
            role=replica.role,
            is_alive=replica.is_alive,
            behind_entries=replica.behind_entries,
            behind_bytes=replica.behind_bytes,
        )
    return ()


def _read_replicas(body: client_pb2.ReplicasDescribed, attachment: memoryview) -> ReplicasDescribed:
    replicas = [
        ReplicaInfo(replica.node, replica.role, replica.is_alive, replica.behind_entries, replica.behind_bytes)
        for replica in body.replicas
    ]
    return ReplicasDescribed(replicas, body.size_bytes)


REQUEST_ROWS: tuple[Row, ...] = (
    Row(EnterCluster, "enter_cluster", _write_enter, _read_enter),
    plain(DrainNode, "drain_node", "node", "is_draining"),
    Row(Rebalance, "rebalance", _write_rebalance, _read_rebalance),
    Row(CancelMoves, "cancel_moves", _write_cancel, _read_cancel),
    plain(DescribeReplicas, "describe_replicas", "topic", "partition"),
)

REPLY_ROWS: tuple[Row, ...] = (
    Row(MovesPlanned, "moves_planned", _write_moves, _read_moves),
    Row(ReplicasDescribed, "replicas_described", _write_replicas, _read_replicas),
)
