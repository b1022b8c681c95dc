"""Values that scenarios describe: bytes, records and batches, also invalid ones."""

import re
from struct import Struct
from typing import Any

from crc32c import crc32c

from flotilla.codec.batch.compression import LZ4, NONE, ZSTD
from flotilla.codec.batch.records import encode_batch
from flotilla.types import operations
from flotilla.types.operations import Request
from flotilla.types.operations import cluster as cluster_operations
from flotilla.types.operations import queue as queue_operations
from flotilla.types.operations import stream as stream_operations
from flotilla.types.operations import transactions as transaction_operations
from flotilla.types.operations import waiting as waiting_operations
from flotilla.types.records import Record

#: Every kind of request by its name in scenarios.
OPERATIONS: dict[str, type[Request]] = {
    re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower(): kind
    for module in (
        operations,
        cluster_operations,
        queue_operations,
        transaction_operations,
        stream_operations,
        waiting_operations,
    )
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Request) and kind is not Request
}

_COMPRESSION = {None: NONE, "zstd": ZSTD, "lz4": LZ4}
_CRC = Struct("<I")
_CRC_AT = 16
_CHECKED_FROM = 20


def is_bytes(value: Any) -> bool:
    return isinstance(value, dict) and (value.keys() == {"hex"} or value.keys() == {"repeat", "count"})


def to_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    assert is_bytes(value), f"{value!r} are no bytes"
    if "hex" in value:
        return bytes.fromhex(value["hex"])
    return value["repeat"].encode() * int(value["count"])


def to_record(fields: dict[str, Any]) -> Record:
    made = dict(fields)
    for name in ("payload", "key", "idempotency_key"):
        if made.get(name) is not None:
            made[name] = to_bytes(made[name])
    if "headers" in made:
        made["headers"] = tuple((name, to_bytes(value)) for name, value in made["headers"])
    return Record(**made)


def plain_record(record: Record) -> dict[str, Any]:
    found = record._asdict()
    found["headers"] = [list(header) for header in record.headers]
    return found


def encode(batch: dict[str, Any]) -> bytes:
    """A batch as a client would send it, then with everything overwritten that the scenario says."""
    if "raw" in batch:
        return to_bytes(batch["raw"])
    data = bytearray(
        encode_batch(
            [to_record(fields) for fields in batch["records"]],
            compression=_COMPRESSION[batch.get("compression")],
            producer_id=batch.get("producer_id", 0),
            producer_epoch=batch.get("producer_epoch", 0),
            sequence=batch.get("sequence", 0),
        )
    )
    for position, value in batch.get("overwrite", ()):
        new = to_bytes(value)
        data[position : position + len(new)] = new
    if batch.get("reseal"):
        _CRC.pack_into(data, _CRC_AT, crc32c(data[_CHECKED_FROM:]))
    return bytes(data)
