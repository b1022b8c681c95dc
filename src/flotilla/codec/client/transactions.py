"""Rows of transactions, as in `messages`."""

from collections.abc import Sequence

from flotilla.codec.client.queue import LEASES
from flotilla.codec.client.rows import Buffer, Row, by_hand, derived
from flotilla.codec.fields import columns
from flotilla.codec.generated import client_pb2
from flotilla.types.operations.transactions import (
    AbortTransaction,
    CommitTransaction,
    ForgetTransaction,
    ListOpenTransactions,
    ListTransactions,
    OpenTransactionList,
    Stage,
    Staged,
    StagedBatch,
    StageSettlement,
    TransactionDecided,
    TransactionList,
    TransactionOutcome,
    TransactionShown,
)


def _write_stage(body: client_pb2.Stage, value: Stage) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    body.transaction_id = value.transaction_id
    body.topic_id = value.topic_id
    body.timeout_ms = value.timeout_ms
    body.member = value.member
    return (value.batch,)


def _read_stage(body: client_pb2.Stage, attachment: memoryview) -> Stage:
    return Stage(
        body.topic, body.partition, body.transaction_id, attachment, body.topic_id, body.timeout_ms, body.member
    )


_SHOWN = columns(StagedBatch, "producers, sequences and offsets", "producer_ids", "producer_sequences", "base_offsets")

REQUEST_ROWS: tuple[Row, ...] = (
    by_hand(Stage, _write_stage, _read_stage, has_attachment=True),
    derived(StageSettlement, leases=LEASES),
    derived(CommitTransaction),
    derived(AbortTransaction),
    derived(TransactionOutcome),
    derived(ListTransactions),
    derived(ListOpenTransactions),
    derived(ForgetTransaction),
)

REPLY_ROWS: tuple[Row, ...] = (
    derived(Staged),
    derived(TransactionDecided),
    derived(TransactionShown, batches=_SHOWN),
    derived(TransactionList),
    derived(OpenTransactionList),
)
