"""Requests and replies of transactions into and out of their protobuf messages: rows like those of client_messages."""

from collections.abc import Sequence
from typing import Any

from flotilla.codec.client.queue import read_held, write_held
from flotilla.codec.client.rows import Buffer, Row, plain
from flotilla.codec.generated import client_pb2
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.operations.transactions import (
    AbortTransaction,
    CommitTransaction,
    Stage,
    Staged,
    StagedBatch,
    StageSettlement,
    TransactionDecided,
    TransactionOutcome,
    TransactionShown,
)


def _write_stage(body: client_pb2.Stage, value: Stage) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    body.transaction_id = value.transaction_id
    return (value.batch,)


def _read_stage(body: client_pb2.Stage, attachment: memoryview) -> Stage:
    return Stage(body.topic, body.partition, body.transaction_id, attachment)


def _write_stage_settlement(body: client_pb2.StageSettlement, value: StageSettlement) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    body.group = value.group
    body.transaction_id = value.transaction_id
    write_held(body.held, value.held)
    return ()


def _read_stage_settlement(body: client_pb2.StageSettlement, attachment: memoryview) -> StageSettlement:
    return StageSettlement(body.topic, body.partition, body.group, body.transaction_id, read_held(body.held))


def _write_partitions(body: Any, partitions: list[tuple[str, int]]) -> None:
    for topic, number in partitions:
        body.partitions.add(topic=topic, number=number)


def _read_partitions(body: Any) -> list[tuple[str, int]]:
    return [(partition.topic, partition.number) for partition in body.partitions]


def _write_commit(body: client_pb2.CommitTransaction, value: CommitTransaction) -> Sequence[Buffer]:
    body.transaction_id = value.transaction_id
    body.application_id = value.application_id
    body.version = value.version
    _write_partitions(body, value.partitions)
    for transaction_id, places in value.members:
        body.members.add(transaction_id=transaction_id, partitions=places)
    return ()


def _read_commit(body: client_pb2.CommitTransaction, attachment: memoryview) -> CommitTransaction:
    members = [(member.transaction_id, list(member.partitions)) for member in body.members]
    return CommitTransaction(body.transaction_id, _read_partitions(body), body.application_id, body.version, members)


def _write_abort(body: client_pb2.AbortTransaction, value: AbortTransaction) -> Sequence[Buffer]:
    body.transaction_id = value.transaction_id
    _write_partitions(body, value.partitions)
    return ()


def _read_abort(body: client_pb2.AbortTransaction, attachment: memoryview) -> AbortTransaction:
    return AbortTransaction(body.transaction_id, _read_partitions(body))


def _write_shown(body: client_pb2.TransactionShown, value: TransactionShown) -> Sequence[Buffer]:
    body.is_shown = value.is_shown
    body.producer_ids.extend([batch.producer_id for batch in value.batches])
    body.producer_sequences.extend([batch.producer_sequence for batch in value.batches])
    body.base_offsets.extend([batch.base_offset for batch in value.batches])
    return ()


def _read_shown(body: client_pb2.TransactionShown, attachment: memoryview) -> TransactionShown:
    columns = (body.producer_ids[:], body.producer_sequences[:], body.base_offsets[:])
    if len({len(column) for column in columns}) != 1:
        raise InvalidArgumentError("producers, sequences and offsets are not equally many")
    return TransactionShown(body.is_shown, [StagedBatch(*row) for row in zip(*columns, strict=True)])


REQUEST_ROWS: tuple[Row, ...] = (
    Row(Stage, "stage", _write_stage, _read_stage, has_attachment=True),
    Row(StageSettlement, "stage_settlement", _write_stage_settlement, _read_stage_settlement),
    Row(CommitTransaction, "commit_transaction", _write_commit, _read_commit),
    Row(AbortTransaction, "abort_transaction", _write_abort, _read_abort),
    plain(TransactionOutcome, "transaction_outcome", "topic", "partition", "transaction_id", "wait_ms"),
)

REPLY_ROWS: tuple[Row, ...] = (
    plain(Staged, "staged", "count"),
    plain(TransactionDecided, "transaction_decided", "is_repeated"),
    Row(TransactionShown, "transaction_shown", _write_shown, _read_shown),
)
